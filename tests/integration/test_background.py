"""Buffering in real graphs: nothing blocks, results come with the next step, all stays right."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    BackgroundBuffering,
    InlineBuffering,
)
from support.agents import (
    Agent,
    make_agent,
    of_kind,
    on_thread,
    record_of,
    refusals,
    say,
    scripted,
    talk,
    turn,
    turns,
    uncovered,
    values,
)
from support.inside import Executor, count_messages, runner_of

EXECUTORS = {
    "background": BackgroundBuffering,
    "inline": InlineBuffering,
}
BUFFERED = {"buffer_tokens": 0.2}


def buffered(door: str = "agent", buffering: Executor | None = None, **options: Any) -> Agent:
    options.setdefault("observation", BUFFERED)
    return make_agent(door, InMemorySaver(), buffering=buffering, **options)


@pytest.mark.parametrize(
    ("executor", "door"),
    [
        *((executor, "plain") for executor in EXECUTORS),
        *(("background", "agent"), ("background", "middleware"), ("inline", "middleware-node")),
    ],
)
def test_conversation_with_each_executor_waits_for_nothing_and_loses_nothing(
    executor: str, door: str
) -> None:
    # However slow the machine: a job that takes longer than a step is not waited for.
    patient = {
        "observation": {**BUFFERED, "block_after": 4000},
        "reflection": {"block_after": 4000},
    }
    agent = buffered(door, EXECUTORS[executor](), **patient)
    config, parts = on_thread(), []
    for message in turns(36, lookups=("", "2,1")):
        parts += say(agent.graph, config, message)
        agent.memory.flush()
        assert uncovered(agent.memory, values(agent.graph, config)) == []
    assert of_kind(parts, "observation-start") == []
    assert of_kind(parts, "buffering-failed") == []
    assert len(of_kind(parts, "activation")) > 3
    assert record_of(agent.graph, config)["generation"] > 0
    assert refusals(agent.prompts()) == []
    assert len(of_kind(parts, "status")) == len(agent.prompts())


@pytest.mark.parametrize("door", ["plain", "agent", "agent-plain", "middleware"])
def test_after_a_pause_a_turn_begins_with_all_that_is_ready(door: str) -> None:
    observation = {"buffer_tokens": 80, "activate_after_idle": "auto"}
    agent = buffered(door, InlineBuffering(), observation=observation, messages=4000)
    parts = talk(agent.graph, on_thread(), turns(2))
    assert of_kind(parts, "activation") == []
    agent.clock.advance(seconds=301)
    parts = say(agent.graph, on_thread(), turn(3))
    assert {own["triggeredBy"] for own in of_kind(parts, "activation")} == {"idle"}
    state = values(agent.graph, on_thread())
    assert state["om"]["log"]
    assert uncovered(agent.memory, state) == []
    assert of_kind(say(agent.graph, on_thread(), turn(4)), "activation") == []


def test_observer_that_never_answers_holds_no_turn() -> None:
    let_go = threading.Event()

    def never(messages: list[BaseMessage]) -> str:
        let_go.wait()  # a turn that waited for it would outlast the test
        return ""

    agent = buffered(
        model=scripted(observer=never),
        deadline=0.02,
        max_input_tokens=1500,
        buffering=BackgroundBuffering(exit_timeout=0),
    )
    config = on_thread()
    parts = talk(agent.graph, config, turns(40))
    let_go.set()
    state = values(agent.graph, config)
    assert len(state["messages"]) == 80
    assert state["om"]["log"] == []
    assert of_kind(parts, "buffering-failed")
    assert of_kind(parts, "view-trimmed")[-1]["limit"] == 1500
    counter = runner_of(agent.memory).settings.counter
    assert max(count_messages(counter, prompt[1:]) for prompt in agent.prompts()) <= 1500
    assert refusals(agent.prompts()) == []


def test_fork_before_a_job_collects_the_same_result() -> None:
    agent = buffered(messages=2000)
    config = on_thread()
    for number in range(20):
        before = agent.graph.get_state(config).config
        if of_kind(say(agent.graph, config, turn(number)), "buffering-start"):
            break
    point = agent.graph.get_state(config).config
    agent.memory.flush()
    say(agent.graph, config, turn(100))
    on_main = record_of(agent.graph, config)["chunks"]
    agent.graph.invoke({"messages": [turn(200)]}, point)
    on_fork = record_of(agent.graph, config)["chunks"]
    assert on_main == on_fork
    assert agent.asked("observer") == 1
    assert uncovered(agent.memory, values(agent.graph, config)) == []
    # Nor does a replay from before the job ask again.
    agent.graph.invoke({"messages": [turn(number)]}, before)
    agent.memory.flush()
    assert agent.asked("observer") == 1


@pytest.mark.parametrize("executor", [*EXECUTORS, "blocking"])
def test_request_that_is_shown_as_a_preview_is_not_read_before_its_first_answer(
    executor: str,
) -> None:
    options: dict[str, Any] = {"retrieval": True, "messages": 1000}
    if executor == "blocking":
        agent = make_agent("plain", InMemorySaver(), **options)
    else:
        agent = buffered("plain", EXECUTORS[executor](), **options)
    config = on_thread()
    talk(agent.graph, config, turns(11))
    begun = len(agent.model.calls)
    say(agent.graph, config, HumanMessage("zebra " * 60_000, id="paste"))
    agent.memory.flush()
    calls = agent.model.calls[begun:]
    first = next(at for at, call in enumerate(calls) if call["role"] == "actor")
    assert "zebra" not in str(calls[:first])
    talk(agent.graph, config, turns(8, start=12))
    assert uncovered(agent.memory, values(agent.graph, config)) == []
