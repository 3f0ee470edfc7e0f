"""Work that is let go for a normal reason does not look like a fault; nor does a closed memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om.testing import ExtractiveObserver
from support.agents import (
    Agent,
    Part,
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
from support.clock import Clock

BUFFERED = {"buffer_tokens": 0.2}
CONFIG = on_thread()


def until_a_job_begins(agent: Agent, numbers: Iterable[int] = range(20)) -> None:
    for number in numbers:
        if of_kind(say(agent.graph, CONFIG, turn(number)), "buffering-start"):
            return
    pytest.fail("no job began")


def failures(parts: list[Part]) -> list[Part]:
    return of_kind(parts, "buffering-failed")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_restart_is_told_as_work_let_go_and_not_as_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    saver = InMemorySaver()
    until_a_job_begins(make_agent("agent", saver, observation=BUFFERED))
    restarted = make_agent("agent", saver, observation=BUFFERED)
    (told,) = failures(say(restarted.graph, CONFIG, turn(50)))
    assert (told["discarded"], told["reason"]) == (True, "lost")
    assert told["usage"] == {"calls": 0, "inputTokens": 0, "outputTokens": 0}
    text = str(restarted.memory.view(values(restarted.graph, CONFIG)))
    assert "failure" not in text
    assert "lost" not in text
    assert warnings(caplog) == []


def test_a_result_that_does_not_fit_any_more_tells_what_it_took() -> None:
    clock = Clock()

    def observe(messages: list[BaseMessage]) -> AIMessage | str:
        clock.advance(seconds=3)
        return ExtractiveObserver().reply(messages)

    agent = make_agent(
        "agent",
        InMemorySaver(),
        model=scripted(observer=observe),
        clock=clock,
        observation=BUFFERED,
    )
    until_a_job_begins(agent)
    agent.memory.flush()
    agent.graph.update_state(CONFIG, {"messages": [HumanMessage("edited", id="h0")]})
    (told,) = failures(say(agent.graph, CONFIG, turn(90)))
    assert (told["discarded"], told["reason"]) == (True, "stale")
    assert told["durationMs"] == 3000
    assert told["usage"]["calls"] == 1
    assert told["usage"]["inputTokens"] > 0


def test_a_closed_memory_warns_once_and_goes_on_without_jobs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = make_agent("agent", InMemorySaver(), observation=BUFFERED)
    talk(agent.graph, CONFIG, turns(2))
    agent.memory.flush()
    agent.memory.close()
    parts = talk(agent.graph, CONFIG, turns(20, start=10))
    assert failures(parts) == []
    assert of_kind(parts, "buffering-start") == []
    assert of_kind(parts, "observation-end") != []
    (said,) = warnings(caplog)
    assert "closed" in said
    assert "closed" in str(agent.memory.view(values(agent.graph, CONFIG)))
