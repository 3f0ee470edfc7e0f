"""Memory without a graph: the same record, events and prompt, one step at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om import (
    MemoryRecord,
    ObservationalMemory,
    StepResult,
)
from support.agents import (
    Part,
    actor,
    dumped,
    of_kind,
    remembering,
    scripted,
    search,
    turn,
    turns,
)
from support.clock import Clock

LIMITS: dict[str, Any] = {"messages": 300, "log": 130}
SAID = turns(12, lookups=("", "2,1", "1"))


class Loop:
    """An agent without a graph: a list of messages, a record, and a loop."""

    def __init__(self, memory: ObservationalMemory, *, is_async: bool = False) -> None:
        self.memory = memory
        self.is_async = is_async
        self.record: MemoryRecord | None = None
        self.messages: list[BaseMessage] = []
        self.parts: list[Part] = []
        self.prompts: list[list[BaseMessage]] = []

    def step(self) -> StepResult:
        if self.is_async:
            return asyncio.run(self.memory.astep(self.record, self.messages, thread_id="t"))
        return self.memory.step(self.record, self.messages, thread_id="t")

    def say(self, message: BaseMessage) -> None:
        self.messages.append(message)
        while True:
            result = self.step()
            self.record = result.record
            self.parts += result.events
            if result.aborted:
                return
            self.prompts.append(result.messages)
            answer = actor(result.messages)
            self.messages.append(answer)
            if not answer.tool_calls:
                return
            self.messages += [search.invoke(call) for call in answer.tool_calls]


def test_what_is_given_is_left_as_it_was() -> None:
    loop = Loop(remembering(scripted(), Clock(), **LIMITS))
    for message in SAID[:6]:
        loop.say(message)
    record, messages = loop.record, [*loop.messages, turn(6)]
    before = repr((record, dumped(messages)))
    first = loop.memory.step(record, messages, thread_id="t")
    assert repr((record, dumped(messages))) == before
    assert first.record != record
    # The same step again comes to the same.
    again = loop.memory.step(record, messages, thread_id="t")
    assert again == first


# --- final=True ----------------------------------------------------------------------------------


def test_final_step_observes_nothing() -> None:
    model = scripted()
    memory = remembering(model, Clock(), **LIMITS)
    messages = [*turns(8), AIMessage("Goodbye.", id="a")]
    result = memory.step(None, messages, thread_id="t", final=True)
    assert model.calls == []
    assert result.record["log"] == []
    assert not result.aborted
    later = memory.step(result.record, [*messages, turn(9)], thread_id="t")
    assert len(of_kind(later.events, "observation-end")) > 0


# --- Switches and configuration ------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ['{"q": "broken', "[1]", '"text"'])
def test_dict_whose_call_has_unreadable_arguments_is_read(arguments: str) -> None:
    function = {"name": "search", "arguments": arguments}
    calls = [{"id": "c", "type": "function", "function": function}]
    said: list[Any] = [
        {"role": "user", "content": "look it up"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c", "content": "not understood"},
    ]
    step = remembering(scripted(), Clock()).step(None, said, thread_id="t")
    (call,) = step.messages[1].invalid_tool_calls
    assert (call["name"], call["id"], call["args"]) == ("search", "c", arguments)
