"""What a user sees where memory's models fall behind a token budget."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    create_memory_agent,
)
from langgraph_om.tools.doctor import diagnose
from support.agents import Agent, of_kind, on_thread, say, scripted, turns, values
from support.clock import Clock
from support.inside import count_messages, runner_of

BUDGET = 1500


def build(**replies: Any) -> Agent:
    model = scripted(**replies)
    clock = Clock()
    memory = ObservationalMemory(
        model, token_budget=BUDGET, buffering=InlineBuffering(), clock=clock, retrieval=True
    )
    graph = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
    return Agent(graph, memory, model, clock)


def talk(agent: Agent, count: int, start: int = 0) -> list[dict[str, Any]]:
    """So many turns; what was told of left-out things."""
    parts = [
        part for said in turns(count, start=start) for part in say(agent.graph, on_thread(), said)
    ]
    return of_kind(parts, "view-trimmed")


def advised(agent: Agent) -> list[str]:
    runner, state = runner_of(agent.memory), agent.graph.get_state(on_thread())
    record, messages = runner.record(state), runner.conversation(state)
    return [advice.kind for advice in diagnose(runner.look(record, messages)).advice]


def test_observations_that_nobody_condenses_leave_the_prompt_and_not_the_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = build(reflector="There is nothing to change.")
    told = talk(agent, 60)
    prompt = agent.prompts()[-1]
    assert count_messages(EstimatingCounter(), prompt) < 1.2 * BUDGET + 900
    [(count, how)] = re.findall(
        r"\[(\d+) of the oldest observations are left out.*?\. (.+)]", prompt[0].text
    )
    assert int(count) == told[-1]["droppedObservations"] > 0
    assert "`recall`" in how
    record = values(agent.graph, on_thread())["om"]
    assert sum(group["tokens"] for group in record["log"]) > BUDGET
    assert json.loads(json.dumps(record)) == record
    said = [each.message for each in caplog.records if "does not fit" in each.message]
    assert len(said) == 1
    assert "left-out" in advised(agent)
