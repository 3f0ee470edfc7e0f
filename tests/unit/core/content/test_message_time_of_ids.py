from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.core.content.dates import message_time
from langgraph_om.core.content.message_keys import key_of, keyed_messages
from support.real_ids import (
    anthropic_ids,
    call_ids,
    chat_completion_ids,
    digests,
    item_ids,
    real_conversations,
    response_ids,
    run_ids,
    times,
    uuid4s,
    write_ulid,
    write_uuid7,
)

BITS = st.integers(0, (1 << 80) - 1)
TIMELESS = st.one_of(
    uuid4s,
    digests,
    run_ids,
    response_ids,
    item_ids,
    chat_completion_ids,
    anthropic_ids,
    call_ids,
)


def read_time(message: BaseMessage, stamps: dict[str, str] | None = None) -> datetime | None:
    return message_time(message, key_of(message), stamps or {}, timezone=UTC)


@given(times, BITS, st.sampled_from(["{}", "lc_run--{}-0", "lc_run--{}", "run-{}-0"]))
def test_time_ordered_ids_tell_the_time(at: datetime, bits: int, form: str) -> None:
    assert read_time(AIMessage("x", id=form.format(write_uuid7(at, bits)))) == at
    assert read_time(HumanMessage("x", id=write_ulid(at, bits))) == at


@given(TIMELESS)
def test_other_ids_of_providers_tell_no_time(key: str) -> None:
    assert read_time(AIMessage("x", id=key)) is None
    seen = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    assert read_time(AIMessage("x", id=key), {key: seen.isoformat()}) == seen


@given(times, BITS)
def test_what_the_metadata_says_goes_before_the_id(at: datetime, bits: int) -> None:
    told = at + timedelta(hours=1)
    for metadata, expected in (({"created_at": told.isoformat()}, told), ({"created_at": "?"}, at)):
        message = AIMessage("x", id=write_uuid7(at, bits), response_metadata=metadata)
        assert read_time(message) == expected


@given(real_conversations())
def test_the_times_of_a_conversation_stand_in_its_order(messages: list[BaseMessage]) -> None:
    keys = [key for key, _ in keyed_messages(messages)]
    assert len(set(keys)) == len(messages)
    known = [at for message in messages if (at := read_time(message)) is not None]
    assert known == sorted(known)
