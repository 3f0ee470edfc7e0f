"""A closed conversation is read in one go, and nothing of it is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    Extractor,
    InlineBuffering,
    ObservationalMemory,
    create_memory_agent,
)
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.agents import on_thread, turns
from support.schemas import Profile

CALL = [
    HumanMessage("This is Ana, my heating in Cork is broken.", id="h1"),
    AIMessage("I am sorry to hear that. Since when?", id="a1"),
    HumanMessage("Since Monday.", id="h2"),
    AIMessage("Somebody comes tomorrow.", id="a2"),
]
WANTED = {"profile": Profile, "gist": "One sentence on the call."}


def answering(values: Any = None) -> ScriptedChatModel:
    def reply(messages: list[Any]) -> Any:
        if isinstance(messages[-2], AIMessage):
            return json.dumps(values)
        return ExtractiveObserver().reply(messages)

    return ScriptedChatModel("ok", observer=reply)


def questions(model: ScriptedChatModel) -> list[str]:
    calls = [call["messages"] for call in model.calls if call["role"] == "observer"]
    return ["\n".join(message.text for message in asked) for asked in calls]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_call_is_summarized_with_values(*, is_async: bool) -> None:
    model = answering({"profile": {"name": "Ana"}, "gist": "The heating is broken."})
    memory = ObservationalMemory(model)
    options: dict[str, Any] = {"extract": WANTED, "instruction": "For the owner."}
    told = (
        await memory.asummarize(CALL, **options) if is_async else memory.summarize(CALL, **options)
    )
    assert "heating in Cork" in told.observations
    assert told.extracted == {"profile": {"name": "Ana"}, "gist": "The heating is broken."}
    assert told.errors == {}
    assert told.usage["calls"] == 2
    assert "Somebody comes tomorrow." in questions(model)[0], "the newest message is read too"
    assert "For the owner." in questions(model)[0]


def test_a_thread_that_was_observed_is_read_as_a_whole_and_stays_as_it_is() -> None:
    model = answering()
    memory = ObservationalMemory(
        model,
        observation={"message_tokens": 100, "buffer_tokens": 50},
        reflection={"observation_tokens": 400, "buffer_activation": 0.7},
        buffering=InlineBuffering(),
    )
    graph = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
    for message in turns(6):
        graph.invoke({"messages": [message]}, on_thread())
    before = graph.get_state(on_thread())
    said = [message.text for message in before.values["messages"] if message.type == "human"]
    for given in (before, before.values, before.values["messages"]):
        model.calls.clear()
        told = memory.summarize(given)
        assert told.observations
        assert told.extracted == {}
        assert all(text[:40] in "".join(questions(model)) for text in said)
    assert graph.get_state(on_thread()).values == before.values


def test_an_archived_thread_is_summarized_by_its_id(tmp_path: Any) -> None:
    model = answering({"gist": "Trips."})
    memory = ObservationalMemory(model, archive=f"sqlite:///{tmp_path}/m.db")
    graph = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
    config = on_thread("t", resource_id="ann")
    for message in turns(3):
        graph.invoke({"messages": [message]}, config)
    assert memory.archive is not None
    kept = memory.archive.groups(thread_id="t", limit=10)
    told = memory.summarize(thread_id="t", extract={"gist": "What it is about."})
    assert told.extracted == {"gist": "Trips."}
    assert "trip number 2" in told.observations
    newest = memory.summarize(thread_id="t", last_messages=2)
    assert "trip number 2" in newest.observations
    assert "trip number 1" not in newest.observations
    assert memory.archive.groups(thread_id="t", limit=10) == kept


def test_hooks_and_functions_of_the_user_hold() -> None:
    def hide(messages: list[BaseMessage], _: Any) -> list[BaseMessage]:
        return [each for each in messages if "Cork" not in each.text]

    seen: list[Any] = []
    gist = Extractor(instructions="A gist.", on_extracted=lambda value, _: seen.append(value))
    model = answering({"gist": "Monday."})
    memory = ObservationalMemory(model, enabled=False, hooks={"before_observation": hide})
    told = memory.summarize(CALL, extract={"gist": gist})
    assert "Cork" not in "".join(questions(model))
    assert seen == ["Monday."]
    assert told.extracted == {"gist": "Monday."}
