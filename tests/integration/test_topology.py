"""What a graph looks like from outside once it has memory, and what may come in."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from syrupy.assertion import SnapshotAssertion

from langgraph_om import (
    ConfigurationError,
    add_observational_memory,
)
from support.agents import (
    SCHEMAS,
    OtherKeyState,
    make_agent,
    on_thread,
    record_of,
    remembering,
    scripted,
    turn,
    uncovered,
    values,
    wire,
)
from support.clock import Clock


def empty_memory(**options: Any) -> Any:
    return remembering(scripted(), Clock(), **options)


# --- The drawing ---------------------------------------------------------------------------------


def test_ready_agent_shows_every_node(snapshot: SnapshotAssertion) -> None:
    assert make_agent("agent").graph.get_graph().draw_mermaid() == snapshot


def test_hand_made_agent_shows_every_node(snapshot: SnapshotAssertion) -> None:
    assert make_agent("plain").graph.get_graph().draw_mermaid() == snapshot


def test_memory_ends_where_the_caller_says() -> None:
    builder = StateGraph(SCHEMAS["plain"])
    builder.add_node("agent", lambda _: {})
    builder.add_node("goodbye", lambda _: {})
    builder.add_edge(START, add_observational_memory(builder, empty_memory(), end="goodbye"))
    drawing = builder.compile().get_graph()
    after_gate = {edge.target for edge in drawing.edges if edge.source == "om_status"}
    assert after_gate >= {"agent", "om_observe", "om_reflect", "goodbye"}
    assert "__end__" not in after_gate


# --- The schemas ---------------------------------------------------------------------------------


def test_conversation_under_another_key() -> None:
    clock, model = Clock(), scripted()
    memory = remembering(model, clock, messages_key="chat")
    graph = wire(OtherKeyState, memory, model).compile(checkpointer=InMemorySaver())
    for number in range(12):
        graph.invoke({"chat": [turn(number, "2")]}, on_thread())
    assert len(record_of(graph, on_thread())["log"]) > 0
    assert uncovered(memory, values(graph, on_thread())) == []


# --- What can not be meant -----------------------------------------------------------------------


def test_memory_twice_is_refused() -> None:
    builder = wire(SCHEMAS["plain"], empty_memory(), scripted())
    with pytest.raises(ConfigurationError, match="already has a node `om_status`"):
        add_observational_memory(builder, empty_memory())


def test_schema_without_messages_is_refused() -> None:
    builder = StateGraph(OtherKeyState)
    with pytest.raises(ConfigurationError, match=r"no `messages`; its keys are chat, note"):
        add_observational_memory(builder, empty_memory())
    assert set(builder.nodes) == set()
    assert set(builder.channels) == {"chat", "note"}
