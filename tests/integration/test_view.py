"""The readable summary of a thread's memory, and the status at any time."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ConfigurationError, InlineBuffering
from support.agents import (
    make_agent,
    of_kind,
    on_thread,
    say,
    scripted,
    talk,
    turn,
    turns,
    values,
)


def test_view_of_a_thread_with_memory() -> None:
    agent = make_agent("agent", InMemorySaver())
    talk(agent.graph, on_thread(), turns(14))
    state = values(agent.graph, on_thread())
    view = agent.memory.view(state)
    text = str(view)
    active = agent.memory.status(state)["windows"]["active"]
    assert f"{active['messages']['tokens']} of 400 tokens" in text
    assert f"{active['observations']['tokens']} of 600 tokens" in text
    assert state["om"]["log"][0]["text"].split("\n")[0] in text
    assert state["om"]["current_task"] in text
    assert view.compression_ratio > 1
    assert f"generation {state['om']['generation']}" in text
    assert repr(view) == text


def test_view_shows_chunks_and_failures() -> None:
    agent = make_agent(
        "agent", InMemorySaver(), observation={"buffer_tokens": 0.2}, buffering=InlineBuffering()
    )
    talk(agent.graph, on_thread(), turns(3))
    state = values(agent.graph, on_thread())
    view = agent.memory.view(state)
    told = f"{len(state['om']['chunks'])} chunks"
    assert told in str(view)
    assert told in view.to_html()
    failing = make_agent("agent", InMemorySaver(), model=scripted(observer=OSError("no key")))
    talk(failing.graph, on_thread(), turns(8))
    assert "no key" in str(failing.memory.view(values(failing.graph, on_thread())))


def test_status_at_any_time_is_what_the_stream_said_last() -> None:
    agent = make_agent("agent", InMemorySaver())
    talk(agent.graph, on_thread(), turns(9))
    [streamed] = of_kind(say(agent.graph, on_thread(), turn(20)), "status")
    state = values(agent.graph, on_thread())
    before_the_answer = {**state, "messages": state["messages"][:-1]}
    assert agent.memory.status(before_the_answer) == streamed


@pytest.mark.parametrize("ask", ["status", "view"])
def test_snapshot_will_do_and_a_state_without_memory_is_an_error(ask: str) -> None:
    agent = make_agent("plain", InMemorySaver())
    talk(agent.graph, on_thread(), turns(9))
    snapshot: Any = agent.graph.get_state(on_thread())
    asked = getattr(agent.memory, ask)
    assert str(asked(snapshot)) == str(asked(snapshot.values))
    with pytest.raises(ConfigurationError, match="get_state"):
        asked({"messages": [HumanMessage("hi")]})


# --- Every client and every state ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "named"),
    [
        (5, "the state is 5"),
        ("t-1", "the state is 't-1'"),
        ({"om": {"log": 5}}, r"`om\.log` is 5"),
        ({"om": {"log": [{"id": "g"}]}}, r"`om\.log\[0\]\['kind'\]` is missing"),
        ({"om": {"cursor": [1]}}, r"`om\.cursor\[0\]` is 1"),
    ],
)
def test_what_is_no_state_or_no_memory_is_named(state: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        make_agent("agent", InMemorySaver()).memory.view(state)


def test_what_was_evicted_counts() -> None:
    agent = make_agent("plain", InMemorySaver(), archive="sqlite://", evict=True)
    talk(agent.graph, on_thread(), turns(20))
    state = values(agent.graph, on_thread())
    view = agent.memory.view(state)
    assert state["om"]["evicted_tokens"] > 500
    assert view.conversation_tokens > state["om"]["evicted_tokens"]
    assert view.compression_ratio > 1.5


def test_history_shows_what_each_generation_changed() -> None:
    agent = make_agent("agent", InMemorySaver(), log=150)
    talk(agent.graph, on_thread(), turns(12))
    state = agent.graph.get_state(on_thread())
    history = agent.graph.get_state_history(on_thread())
    view = agent.memory.view(state, history=history)
    assert view.to_html().count("<summary>Generation ") == len(view.history) - 1 > 0
