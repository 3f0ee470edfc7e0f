"""A long thread is adopted before its first turn with memory."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import AdoptProgress, ConfigurationError
from support.agents import (
    Agent,
    bare_agent,
    make_agent,
    on_thread,
    say,
    talk,
    turn,
    turns,
    values,
)

DOORS = ("plain", "agent", "middleware")


def old_thread(door: str, count: int = 16, **options: Any) -> Agent:
    """An agent with memory, over a thread that went on for long without it."""
    saver = InMemorySaver()
    if door == "plain":
        talk(bare_agent(saver), on_thread(), turns(count))
        return make_agent(door, saver, **options)
    agent = make_agent(door, saver, **options)
    messages = [m for at in range(count) for m in (turn(at), AIMessage("ok " * 40, id=f"a{at}"))]
    node = "__start__" if door == "agent" else "model"
    agent.graph.update_state(on_thread(), {"messages": messages}, as_node=node)
    if door == "agent":  # one that is idle has answered
        agent.graph.update_state(on_thread(), None, as_node="__end__")
    return agent


@pytest.mark.parametrize("door", DOORS)
def test_what_a_thread_has_is_observed_before_its_first_turn(door: str) -> None:
    agent = old_thread(door)
    seen: list[AdoptProgress] = []
    before = values(agent.graph, on_thread())["messages"]
    report = agent.memory.of(agent.graph, on_thread()).adopt(progress=seen.append)
    state = values(agent.graph, on_thread())
    assert state["messages"] == before
    assert state["om"] == report.record
    assert report.error is None
    assert report.remaining_tokens < 480
    assert report.observed_tokens + report.remaining_tokens == seen[-1].total_tokens
    assert len(seen) > 2
    assert [own.observed_tokens for own in seen] == sorted({own.observed_tokens for own in seen})
    assert report.calls == agent.asked("observer") + agent.asked("reflector")
    asked = report.calls
    say(agent.graph, on_thread(), turn(99))
    assert agent.asked("observer") + agent.asked("reflector") <= asked + 1
    assert len(agent.prompts()[-1]) < 20
    again = agent.memory.of(agent.graph, on_thread()).adopt()
    assert again.calls == 0


def test_a_thread_in_the_middle_of_a_run_is_refused() -> None:
    agent = old_thread("plain")
    agent.graph.update_state(on_thread(), {"messages": [turn(50)]}, as_node="__start__")
    with pytest.raises(ConfigurationError, match="in the middle of a run"):
        agent.memory.of(agent.graph, on_thread()).adopt()


@pytest.mark.parametrize("method", ["adopt", "observe"])
def test_a_graph_without_memory_is_refused_before_a_model_is_asked(method: str) -> None:
    saver = InMemorySaver()
    agent = make_agent("plain", saver)
    bare = bare_agent(saver)
    talk(bare, on_thread(), turns(16))
    with pytest.raises(ConfigurationError, match="whose state has no 'om'"):
        getattr(agent.memory.of(bare, on_thread()), method)()
    assert agent.asked("observer") == 0
