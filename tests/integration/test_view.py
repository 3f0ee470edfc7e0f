"""The readable summary of a thread's memory, and the status at any time."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ConfigurationError, InlineBuffering
from support.agents import make_agent, of_kind, on_thread, say, scripted, talk, turn, turns, values


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
    assert f"{len(state['om']['chunks'])} chunks for" in str(agent.memory.view(state))
    failing = make_agent("agent", InMemorySaver(), model=scripted(observer=OSError("no key")))
    talk(failing.graph, on_thread(), turns(8))
    assert "no key" in str(failing.memory.view(values(failing.graph, on_thread())))


def test_view_of_an_empty_thread() -> None:
    agent = make_agent("agent", InMemorySaver())
    view = agent.memory.view({"messages": [], "om": {}})
    assert view.compression_ratio == 1.0
    assert "no observations yet" in str(view)
    assert "no observations yet" in view._repr_html_()


def test_html_escapes_what_users_said() -> None:
    agent = make_agent(
        "agent",
        InMemorySaver(),
        model=scripted(
            observer="<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) <script>x</script>\n"
            "</observations>\n<current-task><b>bold</b></current-task>"
        ),
    )
    talk(agent.graph, on_thread(), turns(8))
    html = agent.memory.view(values(agent.graph, on_thread()))._repr_html_()
    assert "<script>" not in html
    assert "<b>bold" not in html
    assert html.count("<progress") == 2


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
