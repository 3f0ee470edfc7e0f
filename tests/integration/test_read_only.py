"""A read-only run is shown the memory, and leaves no trace in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.agents import DOORS, make_agent, on_thread, say, talk, turn, turns, values
from support.inside import complete_record

LIMITS: dict[str, Any] = {"messages": 300, "log": 200}
READING = on_thread(om_read_only=True)


def calls_of_memory(model: ScriptedChatModel) -> int:
    return sum(call["role"] != "actor" for call in model.calls)


def last_view(model: ScriptedChatModel) -> list[BaseMessage]:
    return [call["messages"] for call in model.calls if call["role"] == "actor"][-1]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("said_before", [0, 6])
def test_memory_is_shown_and_nothing_of_it_changes(door: str, said_before: int) -> None:
    agent = make_agent(door, InMemorySaver(), **LIMITS)
    talk(agent.graph, on_thread(), turns(said_before))
    before = complete_record(values(agent.graph, on_thread()).get("om"))
    asked = calls_of_memory(agent.model)
    for number in range(6, 10):
        assert say(agent.graph, READING, turn(number, "1")) == []
    assert complete_record(values(agent.graph, on_thread()).get("om")) == before
    assert calls_of_memory(agent.model) == asked
    view = last_view(agent.model)
    assert ("<observations>" in view[0].text) == bool(before["log"])
    assert turn(9, "1").text in [message.text for message in view]
    # What was said meanwhile is observed by the next run that may.
    say(agent.graph, on_thread(), turn(10))
    assert calls_of_memory(agent.model) > asked


def test_a_step_without_a_graph_returns_the_record_as_it_was() -> None:
    model = ScriptedChatModel(observer=ExtractiveObserver().reply)
    limits = {"message_tokens": 60, "buffer_tokens": False}
    memory = ObservationalMemory(model, observation=limits)
    said = [turn(0), AIMessage("ok", id="a0"), turn(1)]
    record = memory.step(None, said).record
    assert record["log"]
    config = {"configurable": {"om_read_only": True, "thread_id": "t"}}
    more = [*said, AIMessage("ok", id="a1"), turn(2)]
    seen = memory.step(record, more, config=config)
    assert (seen.record, seen.events) == (record, [])
    assert "<observations>" in seen.messages[0].text
    assert seen.messages[-1].text == turn(2).text


def test_nothing_is_archived_not_even_by_recall(tmp_path: Path) -> None:
    call = {"name": "recall", "args": {}, "id": "r1"}
    model = ScriptedChatModel([AIMessage("", tool_calls=[call]), "Done."])
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    with ObservationalMemory(model, archive=archive, retrieval=True) as memory:
        graph = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
        state = graph.invoke({"messages": [HumanMessage("hello")]}, READING)
        assert [type(message) for message in state["messages"]].count(ToolMessage) == 1
        assert archive.last_position("t") is None
        graph.invoke({"messages": [HumanMessage("again")]}, on_thread())
        assert archive.last_position("t") is not None
