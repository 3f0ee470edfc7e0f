"""Pauses, turns that stay verbatim, and hints that are left out: the same through every door."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om.core.content.message_keys import GAP_ID
from support.agents import DOORS, Agent, make_agent, on_thread, turns
from support.clock import Clock


def talk(door: str, count: int, hours: float, **options: Any) -> tuple[Agent, str]:
    """A conversation with pauses, and the state's key of its messages."""
    key = "chat" if door == "other-key" else "messages"
    agent = make_agent(door, InMemorySaver(), clock=Clock(), **options)
    for message in turns(count):
        agent.graph.invoke({key: [message]}, on_thread())
        agent.clock.advance(hours=hours)
    return agent, key


def pauses(prompt: list[BaseMessage]) -> dict[str, str]:
    """By the id of a message, the line before it."""
    pairs = pairwise(prompt)
    return {str(after.id): line.text for line, after in pairs if line.id == GAP_ID}


@pytest.mark.parametrize("door", DOORS)
def test_pauses_are_told_before_the_user_messages_that_follow_them(door: str) -> None:
    agent, key = talk(door, 4, 50, messages=10_000, gap_markers=True)
    seen = [pauses(prompt) for prompt in agent.prompts()]
    assert list(seen[-1]) == ["h1", "h2", "h3"]
    assert all(line.startswith("[2 days later: ") for line in seen[-1].values())
    for earlier, later in pairwise(seen):
        assert earlier.items() <= later.items(), "a line stays as it is"
    kept = agent.graph.get_state(on_thread()).values[key]
    assert not any(message.id == GAP_ID for message in kept), "only in the view"
    plain, _ = talk(door, 2, 50, messages=10_000)
    assert pauses(plain.prompts()[-1]) == {}


@pytest.mark.parametrize("door", DOORS)
def test_hints_are_neither_asked_for_nor_shown_where_they_are_off(door: str) -> None:
    agent, _ = talk(door, 6, 0, messages=200, continuation_hints=False)
    asked = [call["messages"] for call in agent.model.calls if call["role"] == "observer"]
    assert asked
    for question in asked:
        text = "\n".join(message.text for message in question)
        assert "current-task" not in text
        assert "suggested-response" not in text
    record = agent.graph.get_state(on_thread()).values["om"]
    assert (record["current_task"], record["suggested_response"]) == (None, None)
    assert "<current-task>\n" not in agent.prompts()[-1][0].text
    usual, _ = talk(door, 6, 0, messages=200)
    assert "<current-task>\n" in usual.prompts()[-1][0].text


@pytest.mark.parametrize("door", DOORS)
def test_the_observer_is_told_of_pauses_too(door: str) -> None:
    def read(**options: Any) -> str:
        agent, _ = talk(door, 6, 0.5, messages=200, **options)
        asked = [call["messages"] for call in agent.model.calls if call["role"] == "observer"]
        return "\n".join(message.text for question in asked for message in question)

    assert "[30 minutes later: " in read(gap_markers=True)
    assert "[30 minutes later: " not in read(gap_markers=3600)
    assert "[30 minutes later: " not in read()
