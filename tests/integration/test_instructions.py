"""Custom instructions reach every question, and no question to the agent's own model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import InlineBuffering
from langgraph_om.testing import ExtractiveObserver
from support.agents import Agent, make_agent, on_thread, scripted, talk, turns

CONFIG = on_thread()
OBSERVING = "Note every medicine by its full name."
REFLECTING = "Keep every medicine."
OPTIONS: dict[str, Any] = {"messages": 300, "log": 150, "reflection": {"instruction": REFLECTING}}


def stumbling() -> Any:
    """An Observer that answers in the wrong form every other time."""
    asked: Iterator[int] = iter(range(10_000))

    def answer(messages: list[BaseMessage]) -> str:
        return "No idea." if next(asked) % 2 == 0 else ExtractiveObserver().reply(messages)

    return answer


def asked(agent: Agent, role: str) -> list[str]:
    """All that a role was ever told, call by call."""
    calls = [call["messages"] for call in agent.model.calls if call["role"] == role]
    return ["\n".join(message.text for message in messages) for messages in calls]


@pytest.mark.parametrize("observer", ["plain", "stumbling"])
@pytest.mark.parametrize("buffers", [False, True])
def test_instructions_reach_every_question(observer: str, *, buffers: bool) -> None:
    reply = stumbling() if observer == "stumbling" else ExtractiveObserver().reply
    observation: dict[str, Any] = {"instruction": OBSERVING}
    if buffers:
        observation["buffer_tokens"] = 0.2
    agent = make_agent(
        "agent",
        InMemorySaver(),
        model=scripted(observer=reply),
        observation=observation,
        buffering=InlineBuffering(),
        **OPTIONS,
    )
    talk(agent.graph, CONFIG, turns(14))
    observed, reflected = asked(agent, "observer"), asked(agent, "reflector")
    assert min(len(observed), len(reflected)) > 1
    assert all(OBSERVING in question for question in observed)
    assert all(REFLECTING in question for question in reflected)
    assert not [text for text in asked(agent, "actor") if OBSERVING in text or REFLECTING in text]
