"""`create_memory_agent` in plain channels."""

from __future__ import annotations

from typing import Any

from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import create_memory_agent
from support.agents import (
    SYSTEM,
    Graph,
    make_agent,
    on_thread,
    record_of,
    remembering,
    scripted,
    search,
    talk,
    turns,
    uncovered,
    values,
)
from support.clock import Clock


def plain_agent(clock: Clock, **options: Any) -> tuple[Any, Graph]:
    model = scripted()
    memory = remembering(model, clock, **options)
    graph = create_memory_agent(
        model,
        [search],
        memory=memory,
        system_prompt=SYSTEM,
        checkpointer=InMemorySaver(),
        delta=False,
    )
    return memory, graph


def test_without_deltas_there_is_no_delta_channel_and_the_same_memory() -> None:
    clock = Clock()
    memory, graph = plain_agent(clock)
    assert not any(isinstance(channel, DeltaChannel) for channel in graph.channels.values())
    talk(graph, on_thread(), turns(16, lookups=("", "2,1")), clock)
    usual = make_agent("agent", InMemorySaver())
    talk(usual.graph, on_thread(), turns(16, lookups=("", "2,1")), usual.clock)
    assert record_of(graph, on_thread()) == record_of(usual.graph, on_thread())
    assert uncovered(memory, values(graph, on_thread())) == []
    assert graph.invoke({"messages": turns(1, start=20)}, on_thread())["om"]["log"]


def test_without_deltas_observed_messages_are_evicted_too() -> None:
    clock = Clock()
    _, graph = plain_agent(clock, archive="sqlite:///:memory:", evict=True)
    talk(graph, on_thread(), turns(30), clock)
    assert len(values(graph, on_thread())["messages"]) < 40
