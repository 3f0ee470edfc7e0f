"""What is unobserved is observed while a conversation pauses, and known when it goes on."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ConfigurationError, InlineBuffering, ObservationalMemory
from langgraph_om.features.pauses import Pauses
from langgraph_om.testing import ExtractiveReflector
from support.agents import (
    Agent,
    make_agent,
    of_kind,
    on_thread,
    remembering,
    say,
    scripted,
    turn,
    uncovered,
    values,
)
from support.clock import Clock
from support.programs import run_program
from support.waiting import eventually

SOON = {"buffer_tokens": 300, "buffer_on_idle": 0.05}
DOORS = ("agent", "middleware")


def wait_for(agent: Agent, questions: int) -> None:
    eventually(lambda: agent.asked("observer") >= questions)
    agent.memory.flush(30)


def pass_time(agent: Agent) -> None:
    """Let all pauses that have begun be over."""
    for pause in list(agent.memory._runner.settings.features.find("pauses")._pauses._due.values()):
        pause.act()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("archived", ["", "archived"])
def test_a_pause_is_used_and_the_next_turn_has_what_came_of_it(
    door: str, archived: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"archive": f"sqlite:///{tmp_path}/m.db"} if archived else {}
    # The next pause does not end while the test looks, however busy the machine is.
    observation = {**SOON, "buffer_on_idle": 3600, "activate_after_idle": "auto"}
    agent = make_agent(
        door, InMemorySaver(), observation=observation, messages=4000, log=5000, **options
    )
    say(agent.graph, on_thread(), turn(1))
    pass_time(agent)
    wait_for(agent, 1)
    agent.clock.advance(hours=1)
    parts = say(agent.graph, on_thread(), turn(2))
    assert agent.asked("observer") == 1
    (told,) = of_kind(parts, "activation")
    assert told["triggeredBy"] == "idle"
    assert datetime.fromisoformat(told["lastActivityAt"]) < agent.clock() - timedelta(minutes=59)
    assert 3_290_000 < told["ttlExpiredMs"] <= 3_300_000  # an hour without the cache's 5 minutes
    assert of_kind(parts, "buffering-failed") == []
    state = values(agent.graph, on_thread())
    assert state["om"]["log"][0]["ranges"] == [["h1", "h1-answer"]]
    assert uncovered(agent.memory, state) == []
    agent.memory.close()


async def test_asynchronous_turns_do_the_same() -> None:
    agent = make_agent("agent", InMemorySaver(), observation=SOON, messages=4000)
    await agent.graph.ainvoke({"messages": [turn(1)]}, on_thread())
    wait_for(agent, 1)
    agent.clock.advance(hours=1)
    await agent.graph.ainvoke({"messages": [turn(2)]}, on_thread())
    assert len(values(agent.graph, on_thread())["om"]["chunks"]) == 1
    agent.memory.close()


def test_without_a_graph_the_final_step_begins_the_pause() -> None:
    model, clock = scripted(), Clock()
    with remembering(model, clock, observation=SOON, messages=4000) as memory:
        said: list[Any] = [turn(1)]
        record = memory.step(None, said, thread_id="t").record
        said.append(AIMessage("Noted.", id="a1"))
        record = memory.step(record, said, thread_id="t", final=True).record
        eventually(lambda: model.calls)
        memory.flush(30)
        clock.advance(hours=1)
        record = memory.step(record, [*said, turn(2), turn(3)], thread_id="t").record
        assert [chunk["message_count"] for chunk in record["chunks"]] == [2]
        assert record["pending"] == {}


def test_the_job_of_a_pause_leaves_another_one_at_work() -> None:
    answered = threading.Event()

    def reflect(messages: list[BaseMessage]) -> str:
        assert answered.wait(120)
        return ExtractiveReflector().reply(messages)

    def observed() -> int:
        return sum(call["role"] == "observer" for call in model.calls)

    model, clock = scripted(reflector=reflect), Clock()
    observation = {**SOON, "message_tokens": 400, "buffer_tokens": False, "buffer_on_idle": None}
    with remembering(model, clock, observation=observation, log=2000) as early:
        said: list[Any] = [turn(1), AIMessage("Noted.", id="a1")]
        record = early.step(None, said, thread_id="t").record
        while len(record["log"]) < 4:
            said += [turn(len(said)), AIMessage("Noted.", id=f"a{len(said)}")]
            record = early.step(record, said, thread_id="t").record
    tokens = sum(group["tokens"] for group in record["log"])
    with remembering(model, clock, observation=SOON, messages=4000, log=tokens + 50) as memory:
        said.append(turn(90))
        record = memory.step(record, said, thread_id="t").record
        assert list(record["pending"]) == ["reflection"]
        said.append(AIMessage("Noted.", id="a90"))
        asked = observed()
        record = memory.step(record, said, thread_id="t", final=True).record
        eventually(lambda: observed() > asked)
        clock.advance(hours=1)
        said.append(turn(91))
        eventually(lambda: memory.step(record, said, thread_id="t").record["chunks"])
        done = memory.step(record, said, thread_id="t")
        assert list(done.record["pending"]) == ["reflection"]
        assert of_kind(done.events, "buffering-failed") == []
        answered.set()


def test_a_conversation_that_goes_on_begins_its_pause_anew() -> None:
    agent = make_agent("agent", observation={**SOON, "buffer_on_idle": 3600}, messages=4000)
    pauses = agent.memory._runner.settings.features.find("pauses")._pauses
    for number in range(3):
        say(agent.graph, on_thread(), turn(number))
        assert len(pauses._due) == 1
    agent.memory.close()
    assert pauses._due == {}
    assert agent.asked("observer") == 0


def test_pauses_act_once_and_in_order_and_a_failure_costs_only_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pauses, done, ended = Pauses(), list[str](), threading.Event()

    def fail() -> None:
        msg = "broken"
        raise RuntimeError(msg)

    def last() -> None:
        done.append("c")
        ended.set()

    pauses.begin("c", 1.0, last)
    pauses.begin("a", 0.01, fail)
    pauses.begin("b", 0.5, lambda: done.append("early"))
    pauses.begin("b", 0.6, lambda: done.append("b"))
    pauses.begin("d", 0.6, lambda: done.append("d"))
    pauses.end("d")
    assert ended.wait(30)
    assert done == ["b", "c"]
    assert "broken" in caplog.text


def test_what_does_nothing_between_turns_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"buffer_on_idle` is 0\.05 and `buffering` is"):
        ObservationalMemory(scripted(), observation=SOON, buffering=InlineBuffering())
    with pytest.raises(ConfigurationError, match="buffer_on_idle` is 5 while"):
        ObservationalMemory(scripted(), observation={"buffer_tokens": False, "buffer_on_idle": 5})


@pytest.mark.slow
def test_a_timer_does_not_keep_a_process_alive() -> None:
    program = (
        "from langgraph_om.features.pauses import Pauses\n"
        "pauses = Pauses(); pauses.begin('a', 600, lambda: None); print('end')"
    )
    assert run_program("-c", program).stdout == "end\n"


@pytest.mark.parametrize("deletes", ["here", "elsewhere", "the resource"])
def test_a_thread_that_is_deleted_is_not_observed_in_its_pause(
    deletes: str, tmp_path: Path
) -> None:
    files = f"sqlite:///{tmp_path}/memory.db"
    waits = {**SOON, "buffer_on_idle": 3600}
    agent = make_agent("agent", InMemorySaver(), observation=waits, messages=4000, archive=files)
    say(agent.graph, on_thread("t", resource_id="ana"), turn(1))
    say(agent.graph, on_thread("u", resource_id="ben"), turn(2))
    elsewhere = remembering(scripted(), Clock(), archive=files)
    if deletes == "here":
        agent.memory.delete_thread("t")
    elif deletes == "elsewhere":
        elsewhere.delete_thread("t")
    else:
        elsewhere.delete_resource("ana")
    pass_time(agent)
    wait_for(agent, 1)
    assert agent.asked("observer") == 1  # about the other thread
    for memory in (agent.memory, elsewhere):
        memory.archive.close()  # type: ignore[union-attr]


def test_a_deletion_that_reaches_a_pause_alone_ends_that() -> None:
    """The application deletes the checkpoints itself, and there is no archive."""
    waits = {**SOON, "buffer_on_idle": 3600}
    agent = make_agent("agent", InMemorySaver(), observation=waits, messages=4000)
    say(agent.graph, on_thread("t"), turn(1))
    say(agent.graph, on_thread("u"), turn(2))
    agent.graph.checkpointer.delete_thread("t")
    assert agent.memory.delete_thread("t") == ["t"]
    pass_time(agent)
    wait_for(agent, 1)
    assert agent.asked("observer") == 1  # about the other thread
