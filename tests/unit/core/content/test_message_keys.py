"""Digests of messages, when they were written, and who wrote them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from support.counters import FUNCTION_CALL, ai, call
from support.inside import content_digest, keyed_messages, message_time, times_of
from support.real_ids import (
    write_uuid7,
)
from support.windows import human

# --- Digests -----------------------------------------------------------------------------------


DISTINCT: list[BaseMessage] = [
    HumanMessage("hello"),
    HumanMessage("hello "),
    HumanMessage(""),
    HumanMessage([]),
    HumanMessage(["hello"]),
    HumanMessage([{"type": "text", "text": "hello"}]),
    HumanMessage('["hello"]'),
    HumanMessage("\ud800"),
    HumanMessage("\udc00"),
    AIMessage("hello"),
    SystemMessage("hello"),
    ChatMessage(content="hello", role="critic"),
    ChatMessage(content="hello", role="author"),
    ai("hello", calls=(call(),)),
    AIMessage("hello", tool_calls=[call()]),
    AIMessage("hello", tool_calls=[call(name="find")]),
    AIMessage("hello", tool_calls=[call(args={"q": "dogs"})]),
    AIMessage("hello", tool_calls=[call(call_id="c2")]),
    AIMessage("hello", tool_calls=[call(), call(call_id="c2")]),
    AIMessage("hello", tool_calls=[call(call_id="c2"), call()]),
    AIMessage("hello", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c", "error": ""}]),
    AIMessage("hello", additional_kwargs={"function_call": FUNCTION_CALL}),
    AIMessage("hello", additional_kwargs={"reasoning_content": "hm"}),
    ToolMessage("hello", tool_call_id="c1"),
    ToolMessage("hello", tool_call_id="c2"),
    ToolMessage("hello", tool_call_id="c1", status="error"),
]


def test_messages_that_read_differently_have_other_digests() -> None:
    digests = [content_digest(message) for message in DISTINCT]
    assert len(set(digests)) == len(DISTINCT)
    assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in digests)


# --- When a message was written ------------------------------------------------------------------


BERLIN = timezone(timedelta(hours=1))
MOMENT = datetime(2025, 12, 4, 12, 0, tzinfo=UTC)
MILLISECONDS = int(MOMENT.timestamp() * 1000)
ISO = "2025-12-04T12:00:00+00:00"
STAMP = "2026-03-02T09:00:00+00:00"
STAMPED = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def uuid7(milliseconds: int) -> str:
    return str(UUID(int=milliseconds << 80 | 0x7 << 76 | 0x123 << 64 | 0x2 << 62 | 99))


TIMES: dict[str, tuple[BaseMessage, dict[str, str], datetime | None]] = {
    "nothing known": (human("m0"), {}, None),
    "a stamp": (human("m0"), {"m0": STAMP}, STAMPED),
    "another's stamp": (human("m0"), {"m1": STAMP}, None),
    "created_at": (human("m0", additional_kwargs={"created_at": ISO}), {"m0": STAMP}, MOMENT),
    "created_at of the response": (
        AIMessage("hi", id="m0", response_metadata={"created_at": "2025-12-04T12:00:00Z"}),
        {"m0": STAMP},
        MOMENT,
    ),
    "created_at without a zone": (
        human(additional_kwargs={"created_at": "2025-12-04T13:00:00"}),
        {},
        MOMENT,
    ),
    "created_at of another zone": (
        human(additional_kwargs={"created_at": "2025-12-04T07:00:00-05:00"}),
        {},
        MOMENT,
    ),
    "created_at that is none": (
        human("m0", additional_kwargs={"created_at": "yesterday"}),
        {"m0": STAMP},
        STAMPED,
    ),
    "created_at as a number": (
        human("m0", additional_kwargs={"created_at": 1764849600}),
        {"m0": STAMP},
        MOMENT,
    ),
    "UUIDv7": (human(uuid7(MILLISECONDS)), {}, MOMENT),
    "UUIDv7 of a run with a number": (
        AIMessage("hi", id=f"lc_run--{uuid7(MILLISECONDS)}-0"),
        {},
        MOMENT,
    ),
    "UUIDv7 of no likely time": (human(uuid7(5)), {}, None),
    "UUIDv4": (human("0b9c0c9e-1f7a-4d0b-9f3e-1a2b3c4d5e6f"), {}, None),
    "UUIDv4 of a run": (human("lc_run--7b9c0c9e-7f7a-4d0b-9f3e-1a2b3c4d5e6f-0"), {}, None),
}


@pytest.mark.parametrize(("message", "stamps", "expected"), TIMES.values(), ids=TIMES.keys())
def test_when_a_message_was_written(
    message: BaseMessage, stamps: dict[str, str], expected: datetime | None
) -> None:
    told = message_time(message, message.id or "", stamps, timezone=BERLIN)
    assert told == expected
    assert told is None or told.tzinfo is not None


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (datetime(2025, 12, 4, 12, 0, tzinfo=UTC), MOMENT),
        (datetime(2025, 12, 4, 13, 0), MOMENT),  # noqa: DTZ001
        (None, STAMPED),
    ],
)
def test_the_applications_own_function_is_asked_first(
    told: datetime | None, expected: datetime
) -> None:
    message = human("m0", additional_kwargs={"created_at": STAMP})
    found = message_time(message, "m0", {}, timezone=BERLIN, custom=lambda asked: told)
    assert found == expected


# --- The rule, with ids as LangChain and providers give them -------------------------------------


NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def day(number: int) -> datetime:
    return NINE + timedelta(days=number)


def user(number: int) -> HumanMessage:
    """What a person says: an id without a time."""
    return HumanMessage("hello", id=str(UUID(int=number, version=4)))


def answer(at: datetime) -> AIMessage:
    """An answer in LangChain 1: an id with a time."""
    return AIMessage("hi", id=f"lc_run--{write_uuid7(at, 7)}-0")


def tell(messages: list[BaseMessage], **seen: datetime) -> list[datetime | None]:
    """The times of messages; `seen` names those with a stamp by their place, as `m2`."""
    keyed = keyed_messages(messages)
    stamps = {keyed[int(name[1:])][0]: at.isoformat() for name, at in seen.items()}
    return times_of(keyed, stamps, timezone=UTC)


def test_a_person_speaks_when_the_answer_is_given() -> None:
    messages = [user(1), answer(day(0)), user(2), answer(day(3)), user(3)]
    assert tell(messages) == [day(0), day(0), day(3), day(3), day(3)]
