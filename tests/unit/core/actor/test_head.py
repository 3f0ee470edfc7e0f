"""Since when the head of the Actor's view is what it is."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.wire import Head, MemoryRecord
from support.simulation import look, settings

NIGHT = datetime(2026, 3, 2, 23, 58, tzinfo=UTC)
SETTINGS = settings(message_tokens=100_000, observation_tokens=100_000, buffer_tokens=False)


def answer_id() -> str:
    """An id as LangChain gives answers."""
    return f"lc_run--{uuid.uuid4()}"


def person_id() -> str:
    return str(uuid.uuid4())


def thinking(text: str, *calls: str) -> AIMessage:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    made = [{"name": "f", "args": {}, "id": call} for call in calls]
    return AIMessage([thought, {"type": "text", "text": text}], tool_calls=made, id=answer_id())


def asked(text: str = "Go on.") -> HumanMessage:
    return HumanMessage(text, id=person_id())


def group(key: str, text: str = "* 🔴 Rex") -> dict[str, Any]:
    return {
        "id": key,
        "kind": "observation",
        "ranges": [],
        "thread_id": "t",
        "observed_at": NIGHT.isoformat(),
        "text": text,
        "tokens": 3,
    }


class Talk:
    """A conversation that is looked at before each call of the Actor."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.settings = settings
        self.record: MemoryRecord = blank_record()
        self.messages: list[BaseMessage] = []
        self.now = NIGHT

    def say(self, *messages: BaseMessage, after: timedelta = timedelta()) -> Head:
        self.now += after
        self.messages += messages
        self.record = look(self.settings, self.record, self.messages, self.now).record
        return self.record["head"]

    def edit(self, **values: Any) -> None:
        self.record = fold(self.record, [values])


def test_head_that_never_changed_binds_nothing() -> None:
    talk = Talk()
    assert talk.say(asked())["after"] is None
    assert talk.say(thinking("Yes.", "c"), ToolMessage("r", tool_call_id="c"))["after"] is None
    assert talk.say(thinking("Done."), asked())["after"] is None


def test_change_of_the_log_binds_all_reasoning_so_far() -> None:
    talk = Talk()
    talk.say(asked())
    answer, request = thinking("Yes."), asked()
    talk.edit(log=[group("g")])
    assert talk.say(answer, request)["after"] == request.id
    assert talk.say(thinking("More."), asked())["after"] == request.id


def test_edited_message_binds_all_reasoning_so_far() -> None:
    talk = Talk()
    talk.say(asked("One"))
    talk.say(thinking("Yes."), asked("Two"))
    talk.messages[0] = HumanMessage("Another", id=talk.messages[0].id)
    request = asked("Three")
    assert talk.say(thinking("And."), request)["after"] == request.id


def test_answers_of_runs_without_memory_are_bound_where_memory_adds_something() -> None:
    talk = Talk()
    talk.edit(log=[group("g")])
    talk.say(asked())
    request = asked()
    head = talk.say(thinking("With."), asked(), thinking("Without."), request)
    assert head["after"] == request.id


def test_days_hold_still_while_the_conversation_goes_on() -> None:
    talk = Talk()
    talk.edit(log=[group("g")])
    minute = timedelta(minutes=1)
    days = [talk.say(AIMessage("Yes.", id=answer_id()), asked(), after=minute) for _ in range(9)]
    assert {head["as_of"] for head in days} == {"2026-03-02"}
    assert talk.now.day == 3
    talk.edit(log=[group("g"), group("h")])
    assert talk.say(asked())["as_of"] == "2026-03-03"


def test_days_are_those_on_which_a_conversation_goes_on_after_a_pause() -> None:
    talk, patient = Talk(), Talk(replace(SETTINGS, cache_seconds=90_000))
    for each in (talk, patient):
        each.edit(log=[group("g")])
        each.say(asked())
        each.say(AIMessage("Yes.", id=answer_id()), asked(), after=timedelta(hours=8))
    assert talk.record["head"]["as_of"] == "2026-03-03"
    assert patient.record["head"]["as_of"] == "2026-03-02"


def test_slow_tool_does_not_take_the_reasoning_that_called_it() -> None:
    talk = Talk()
    talk.edit(log=[group("g")])
    first = talk.say(asked())
    result = ToolMessage("r", tool_call_id="c", id="r")
    late = talk.say(thinking("Wait.", "c"), result, after=timedelta(hours=8))
    assert (late["as_of"], late["after"]) == (first["as_of"], first["after"])
