"""What came in with a request, and what of it a client sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.archive.types import ArchivedMessage
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.effects import Storage
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ArchiveError
from langgraph_om.features.archive.archiving import StepArchive, find_unarchived
from langgraph_om.features.archive.writer import ThreadMemory
from langgraph_om.features.evict import find_arrival, find_removable, take_out_resent
from support import groups
from support.driving import FlowRun, drive
from support.simulation import settings

SETTINGS = settings()
NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def said(keys: str) -> list[BaseMessage]:
    return [
        (HumanMessage if key.startswith("h") else AIMessage)(f"text of {key}", id=key)
        for key in keys.split()
    ]


def remembered(**fields: Any) -> MemoryRecord:
    """A record of h2 to a4, of which the first exchange is observed; what was before is removed."""
    counts = {key: ["digest", 1] for key in ("h3", "a3", "h4", "a4")}
    return cast(
        "MemoryRecord",
        {
            **blank_record(),
            "id": "om-1",
            "thread_id": "t",
            "cursor": ["h2", "a2"],
            "evicted": "a1",
            "archived": "a4",
            "token_cache": {"counter": "c", "counts": counts},
            **fields,
        },
    )


def dubious(record: MemoryRecord, keys: str) -> str:
    found = find_arrival(record, said(keys))
    return " ".join(key for key, _ in found[1]) if found else "nothing"


STANDS = "h2 a2 h3 a3 h4 a4"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (f"{STANDS} h5", "nothing"),
        (f"{STANDS} h0 a0 h1 a1 h5", "h0 a0 h1 a1"),
        (f"{STANDS} h0 a0 h1 a1", "h0 a0 h1 a1"),
        (f"{STANDS} h0 a0 h5 h6", "h0 a0 h5"),
        (f"{STANDS} h1", "nothing"),  # asked once more
        (f"{STANDS} a9", "nothing"),  # no turn begins
        ("h2 a2 h3 a3 h4 h0 a0 h5", "h0 a0"),  # the newest one was removed by hand
        (f"h0 a0 h1 a1 {STANDS} h5", "nothing"),  # kept by the caller
    ],
)
def test_what_may_be_sent_again_stands_behind_all_that_was_there(keys: str, expected: str) -> None:
    assert dubious(remembered(), keys) == expected
    assert dubious(remembered(evicted=None), keys) == "nothing"


def test_what_has_no_id_and_what_is_no_conversation_is_never_sent_again() -> None:
    odd = [SystemMessage("be kind", id="s"), HumanMessage("hello"), *said("h0 h5")]
    found = find_arrival(remembered(), [*said(STANDS), *odd])
    assert found is not None
    assert [key for key, _ in found[1]] == ["h0"]


def take_out(answers: list[Any], **fields: Any) -> FlowRun[Any]:
    messages = said(f"{STANDS} h0 a0 h5")
    step = Step(SETTINGS, remembered(**fields), messages, Identity("t"), NOW)
    return drive(take_out_resent(step), answers)


def test_a_copied_thread_has_removed_nothing_yet() -> None:
    assert take_out([], thread_id="another").effects == []


def test_while_the_archive_is_away_nobody_can_tell_and_the_turn_goes_on() -> None:
    away = ArchiveError("the disk is full")
    run = take_out([ThreadMemory(missed=frozenset({"a4"})), away, None, None])
    assert run.result == []
    (noted,) = (
        each for each in run.effects if isinstance(each, Storage) and each.method == "note_missed"
    )
    assert noted.arguments == ("t", frozenset({"a4"}))


@pytest.mark.parametrize(
    ("keys", "new"),
    [
        (f"a0 h1 a1 {STANDS}", STANDS),  # kept by the caller
        (f"{STANDS} a0 h1 a1 h5", f"{STANDS} a0 h1 h5"),  # came back while nobody could tell
    ],
)
def test_the_whole_conversation_is_archived_behind_what_was_removed(keys: str, new: str) -> None:
    after, found = find_unarchived(remembered(archived="gone"), said(keys))
    assert (after, [key for key, _ in found]) == ("a1", new.split())


def observed(count: int) -> tuple[MemoryRecord, list[BaseMessage]]:
    """A conversation of which all but the last exchange is observed."""
    messages = said(" ".join(f"{kind}{at}" for at in range(count) for kind in "ha"))
    keys = [str(message.id) for message in messages[:-2]]
    group = groups.group("g1", "noted", ranges=[[keys[0], keys[-1]]], tokens=1)
    last = messages[-1].id
    record = remembered(archived=last, cursor=keys[-16:], log=[group], evicted=None)
    return record, messages


def evict(
    record: MemoryRecord, messages: list[BaseMessage], answers: list[Any]
) -> FlowRun[list[Any]]:
    archive = StepArchive.of(SETTINGS, record, NOW)
    return drive(find_removable(archive, record, messages, "h19", SETTINGS.counter), answers)


def calls(run: FlowRun[Any]) -> list[str]:
    return [effect.method for effect in run.effects if isinstance(effect, Storage)]


def on_branch(messages: Sequence[BaseMessage]) -> list[ArchivedMessage]:
    """Messages as the archive has them on its current branch."""
    return [
        ArchivedMessage(
            key=str(message.id),
            thread_id="t",
            position=at,
            message=message,
            is_visible=True,
            is_current=True,
            at=None,
        )
        for at, message in enumerate(messages)
    ]


def test_what_is_observed_and_archived_may_be_removed() -> None:
    record, messages = observed(20)
    first = [str(message.id) for message in messages[:22]]
    stored = on_branch(messages[:22])
    answers = [set(first), stored[-1], stored]
    run = evict(record, messages, answers)
    events = run.result
    assert calls(run) == ["contains", "find", "messages"]
    [evicted] = events
    assert (evicted["type"], evicted["last"], evicted["ids"]) == ("evicted", first[-1], first)
    assert evicted["tokens"] > 0
    assert fold(record, [events])["evicted"] == first[-1]  # type: ignore[typeddict-item]


def test_what_the_archive_lacks_or_has_otherwise_is_archived_before_it_is_removed() -> None:
    record, messages = observed(20)
    first = [str(message.id) for message in messages[:22]]
    edited = HumanMessage("before the edit", id=first[3])
    stored = [*messages[:3], edited, *messages[4:22]]
    there = on_branch(stored)
    answers = [set(first[:5]), {}, False, None, set(first), there[-1], there, None]
    run = evict(record, messages, answers)
    asked = ["contains", "deletions", "note_loss"]
    looked = ["contains", "find", "messages"]
    assert calls(run) == [*asked, "append_messages", *looked, "append_messages"]
    assert [key for key, _ in run.effects[-1].arguments[2]] == [m.id for m in messages]
    assert run.result[0]["ids"] == first


@pytest.mark.parametrize("is_current", [True, False])
def test_what_another_branch_lacks_is_archived_whole_before_it_is_removed(
    *, is_current: bool
) -> None:
    record, messages = observed(20)
    first = [str(message.id) for message in messages[:22]]
    there = on_branch([*messages[:3], *messages[5:22]])
    last = replace(there[-1], is_current=is_current)
    looked: list[Any] = [last, there] if is_current else [last]
    answers = [set(first), *looked, None]
    run = evict(record, messages, answers)
    assert calls(run)[-1] == "append_messages"
    assert [key for key, _ in run.effects[-1].arguments[2]] == [m.id for m in messages]
    assert run.result[0]["ids"] == first
