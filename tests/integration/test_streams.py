"""What a client sees of a run: the Actor's words and memory's parts, nothing of the Observer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from syrupy.assertion import SnapshotAssertion

from support.agents import (
    Agent,
    Graph,
    make_agent,
    on_thread,
    scripted,
    talk,
    turn,
    turns,
    values,
)

CONFIG = on_thread()
LIMITS: dict[str, Any] = {"messages": 300, "log": 130}
REQUEST = turn(5, "2,1")
"""After `turns(5)`: a turn with tool calls, an observation and a reflection."""
SECRETS = ("🔴", "🟢", "<observations>", "Date: ")
"""What only the Observer and the Reflector write."""

ACTORS = {"plain": "agent", "agent": "agent", "agent-plain": "agent", "middleware": "model"}
"""Per door: the node that calls the Actor's model."""
every_door = pytest.mark.parametrize("door", ACTORS)


def ready(door: str, **options: Any) -> Agent:
    """An agent at whose next turn memory has work to do."""
    agent = make_agent(door, InMemorySaver(), **{**LIMITS, **options})
    talk(agent.graph, CONFIG, turns(5))
    return agent


Run = Callable[[Graph, Any], AsyncIterator[Any]]


async def run_sync(graph: Graph, mode: Any) -> AsyncIterator[Any]:
    for item in graph.stream({"messages": [REQUEST]}, CONFIG, stream_mode=mode):
        yield item


async def run_async(graph: Graph, mode: Any) -> AsyncIterator[Any]:
    async for item in graph.astream({"messages": [REQUEST]}, CONFIG, stream_mode=mode):
        yield item


both_ways = pytest.mark.parametrize("run", [run_sync, run_async], ids=["sync", "async"])


def worked(agent: Agent) -> bool:
    return agent.asked("observer") > 0 and agent.asked("reflector") > 0


# --- Stream modes --------------------------------------------------------------------------------


@every_door
@both_ways
async def test_messages_are_the_actors_alone(door: str, run: Run) -> None:
    agent = ready(door)
    items = [item async for item in run(agent.graph, "messages")]
    assert worked(agent)
    assert {meta["langgraph_node"] for _, meta in items} == {ACTORS[door], "tools"}
    words = [m.text for m, _ in items if isinstance(m, AIMessageChunk) and m.id == "h5-answer"]
    assert len([word for word in words if word]) > 10
    assert "".join(words) == values(agent.graph, CONFIG)["messages"][-1].text
    assert not [m.text for m, _ in items if any(secret in m.text for secret in SECRETS)]


# --- astream_events ------------------------------------------------------------------------------


@every_door
async def test_event_stream_shows_nothing_of_observer_and_reflector(door: str) -> None:
    agent = ready(door)
    events = [
        event
        async for event in agent.graph.astream_events({"messages": [REQUEST]}, CONFIG, version="v2")
    ]
    assert worked(agent)
    models = [event for event in events if "_chat_model_" in event["event"]]
    assert {event["metadata"]["langgraph_node"] for event in models} == {ACTORS[door]}
    assert len([e for e in models if e["event"] == "on_chat_model_end"]) == 3
    assert not [event for event in events if event["name"] in {"om_observer", "om_reflector"}]
    assert not [tag for event in events for tag in event["tags"] if "om_observer" in tag]
    tokens = [e["data"]["chunk"].text for e in models if e["event"] == "on_chat_model_stream"]
    assert not [text for text in tokens if any(secret in text for secret in SECRETS)]


# --- The parts, field by field -------------------------------------------------------------------


def test_whole_conversation_part_by_part(snapshot: SnapshotAssertion) -> None:
    item = "* 🔴 (09:00) User plans trips with Ana: museums, long walks, hotels near the river.\n"
    observed = f"<observations>\nDate: Mar 2, 2026\n{item * 4}</observations>"
    hints = "<current-task>Plan</current-task>\n<suggested-response>Ask when</suggested-response>"
    model = scripted(observer=f"{observed}\n{hints}", reflector="drop 1-3")
    agent = make_agent("plain", InMemorySaver(), model=model, **LIMITS)
    assert talk(agent.graph, CONFIG, turns(6, lookups=("", "1")), agent.clock) == snapshot
