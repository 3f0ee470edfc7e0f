"""What a step archives, told by the calls that its flows make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.effects import CallReply, EffectFlow, Storage
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.archive.archiving import archive_new, complete_thread
from langgraph_om.features.archive.writer import ThreadMemory
from support.driving import FlowRun, drive
from support.storage_calls import (
    DOWN,
    NOW,
    PLACE,
    SAID_ONCE,
    SETTINGS,
    calls,
    opened,
    said,
    warnings,
)


def archive(
    record: MemoryRecord, messages: list[BaseMessage], answers: Sequence[Any] = (), **more: Any
) -> FlowRun[Any]:
    """Archive what is new; the result is the memory then, and the events."""

    def flow() -> EffectFlow[Any]:
        _, events = yield from archive_new(SETTINGS, record, messages, NOW, **more)
        return fold(record, [events]), events

    return drive(flow(), answers)


def complete(messages: list[BaseMessage], thread_id: str) -> EffectFlow[None]:
    return complete_thread(SETTINGS, Identity(thread_id, "ana"), blank_record(), messages, NOW)


def test_nothing_is_archived_without_a_thread_id() -> None:
    record = blank_record()
    run = archive(record, said("h1"))
    assert run.result == (record, [])
    assert run.effects == []


def test_what_is_new_is_appended_and_the_record_says_so() -> None:
    record = opened()
    run = archive(record, said("h1", "a1"), [ThreadMemory(), {}, "to a1", None])
    archived, events = run.result
    assert calls(run) == ["recall_thread", "deletions", "append_messages", "note_archived"]
    assert [key for key, _ in run.effects[2].arguments[2]] == ["h1", "a1"]
    assert events == [{"type": "archived", "last": "a1", "branch": "to a1"}]
    assert (archived["archived"], archived["branch"]) == ("a1", "to a1")
    assert fold(record, [events]) == archived


def test_an_idle_step_of_a_known_thread_makes_one_call() -> None:
    record = opened(archived="a1")
    memory = ThreadMemory(is_known=True)
    run = archive(record, said("h1", "a1"), [memory])
    assert run.result == (record, [])
    assert calls(run) == ["recall_thread"]


def test_an_archive_without_what_the_record_says_is_given_everything() -> None:
    record = opened(archived="a1")
    answers = [ThreadMemory(), set(), {}, True, None, None]
    run = archive(record, said("h1", "a1", "h2"), answers)
    asked = ["recall_thread", "contains", "deletions", "note_loss"]
    assert calls(run) == [*asked, "append_messages", "note_archived"]
    [appended] = [each for each in run.effects if getattr(each, "method", "") == "append_messages"]
    assert [key for key, _ in appended.arguments[2]] == ["h1", "a1", "h2"]
    [warning] = warnings(run)
    assert "the archive lacks what it had" in warning


def test_a_failure_is_noted_and_said_and_tried_again() -> None:
    record = opened()
    run = archive(record, said("h1"), [ThreadMemory(), DOWN, None, PLACE], changed={"h1"})
    assert run.result == (record, [])
    assert calls(run)[-1] == "note_outage"
    note = [each for each in run.effects if isinstance(each, Storage)][-2]
    assert (note.method, note.arguments) == ("note_missed", ("t", {"h1"}))
    text = "thread 't': the archive failed, the next step tries again: the disk is full"
    assert warnings(run) == [f"{text} {SAID_ONCE}"]


def test_a_failure_is_not_said_again_before_the_archive_answers() -> None:
    flow = archive_new(SETTINGS, opened(), said("h1"), NOW)
    run = drive(flow, [ThreadMemory(), CallReply(error=DOWN), None, None])
    assert calls(run)[-1] == "note_outage"
    assert warnings(run) == []


def test_what_the_archive_refuses_is_raised() -> None:
    flow = archive_new(SETTINGS, opened(), said("h1"), NOW)
    with pytest.raises(ConfigurationError, match="another resource"):
        drive(flow, [ThreadMemory(), ConfigurationError("the thread is another resource's")])


def test_a_new_owner_keeps_what_the_archive_has_and_was_not_deleted() -> None:
    """What others deleted under the new owner before is no deletion of this thread."""
    former = fold(opened(), [{"type": "archived", "last": "h1", "branch": "b"}])
    ben = {"id": "om-2", "thread_id": "t", "resource_id": "ben", "scope": "thread"}
    moved: Any = fold(former, [{"type": "opened", **ben}])
    assert moved["deletion"] is None
    deletions = {("resource", "ben"): 2}
    answers = [ThreadMemory(is_known=True), {"h1"}, deletions, {"h1"}, None]
    run = archive(moved, said("h1"), answers)
    record, _ = run.result
    assert (record["deletion"], record.get("floor")) == (2, None)
    # An archive that lacks it was emptied of it.
    run = archive(moved, said("h1"), [ThreadMemory(), set(), deletions, set(), None])
    assert run.result[0]["floor"]["message"] == "h1"


def test_a_conversation_without_a_record_is_completed_from_its_end() -> None:
    messages = said("h1", "a1", "h2", "a2")
    run = drive(complete(messages, "t"), [{"h1", "a1"}, None])
    assert calls(run) == ["contains", "append_messages"]
    assert [key for key, _ in run.effects[1].arguments[2]] == ["h2", "a2"]
    assert run.effects[1].options["after"] == "a1"
    assert drive(complete(messages, "t"), [{"a2"}]).effects != []
    assert drive(complete(messages, "")).effects == []
