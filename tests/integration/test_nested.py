"""Agents with memory as nodes of other graphs: when they keep it, and what is said when not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_om import ObservationalMemoryMiddleware, create_memory_agent
from support.agents import (
    SCHEMAS,
    Graph,
    on_thread,
    remembering,
    scripted,
    talk,
    turns,
    wire,
)
from support.clock import Clock

ADVICE = "Compile the agent with `checkpointer=True`, or put memory on the graph around it"


def said(messages: list[Any]) -> AIMessage:
    return AIMessage(f"Noted: {messages[-1].text[:20]}")


def with_middleware(checkpointer: Any, model: Any) -> Graph:
    middleware = [ObservationalMemoryMiddleware(remembering(model, Clock(), messages=200))]
    return create_agent(model, middleware=middleware, checkpointer=checkpointer)


def ready(checkpointer: Any, model: Any) -> Graph:
    memory = remembering(model, Clock(), messages=200)
    return create_memory_agent(model, memory=memory, checkpointer=checkpointer)


def hand_made(checkpointer: Any, model: Any) -> Graph:
    memory = remembering(model, Clock(), messages=200)
    builder = wire(SCHEMAS["plain"], memory, model, with_tools=False)
    return builder.compile(checkpointer=checkpointer)


Build = Callable[[Any, Any], Graph]
each_door = pytest.mark.parametrize("build", [with_middleware, ready, hand_made])


def around(agent: Graph, saver: Any) -> Graph:
    """A graph with the agent as its only node."""
    builder = StateGraph(MessagesState)
    builder.add_node("planner", agent)
    builder.add_edge(START, "planner")
    return builder.compile(checkpointer=saver)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.getMessage() for line in caplog.records if line.name == "langgraph_om"]


@pytest.mark.slow
def test_agent_that_observes_its_history_anew_in_each_run_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = scripted(actor=said)
    graph = around(with_middleware(None, model), InMemorySaver())
    for number in range(40):
        message = HumanMessage(f"{turns(1)[0].text} That was turn {number}.")  # LangGraph's own ids
        graph.invoke({"messages": [message]}, on_thread())
    [warning] = warnings_of(caplog)
    assert ADVICE in warning
    assert "'planner'" in warning
    assert "thread 't'" in warning


@each_door
def test_agent_with_a_checkpointer_of_its_own_space_observes_once(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    model = scripted(actor=said)
    graph = around(build(True, model), InMemorySaver())  # noqa: FBT003 LangGraph's own form
    talk(graph, on_thread(), turns(20))
    assert warnings_of(caplog) == []
    assert 0 < sum(call["role"] == "observer" for call in model.calls) < 20
