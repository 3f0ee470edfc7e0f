"""The user's hooks, debug callback and tracers: what they see, what they change, and what not."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from support.agents import (
    atalk,
    of_kind,
    on_thread,
    outcome,
    record_of,
    remembering,
    scripted,
    turn,
    turns,
    uncovered,
    values,
)
from support.clock import Clock
from support.hooks import (
    CONFIG,
    EXECUTORS,
    LIFECYCLE,
    Told,
    agent_with,
    araises,
    cancels,
    check_pairs,
    converse,
    listeners,
    raises,
    scribbles,
    without_times,
)

# --- Lifecycle hooks: what they are told ---------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True], ids=["sync hooks", "async hooks"])
@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_lifecycle_hooks_are_told_of_each_cycle_once(executor: str, is_async: bool) -> None:  # noqa: FBT001
    told: Told = []
    agent = agent_with(listeners(told, is_async=is_async), executor, log=130)
    converse(agent, 16, on_thread("t", resource_id="ann"))
    check_pairs(told)
    assert {name for name, _ in told} == set(LIFECYCLE)
    assert {about["trigger"] for _, about in told} <= {"buffer", "turn"}
    assert (told[0][1]["trigger"] == "buffer") == bool(executor)
    record = record_of(agent.graph, CONFIG)
    for name, about in told:
        assert (about["thread_id"], about["resource_id"]) == ("t", "ann")
        assert about["record_id"] == record["id"]
        assert about["tokens"] > 0
        if name.endswith("_end"):
            assert about["error"] is None
            assert about["usage"]["calls"] >= 1
            assert about["usage"]["input_tokens"] > 0
            assert about["observations"]
            assert about["observation_tokens"] > 0
            assert about["duration_ms"] >= 0


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_lifecycle_hooks_are_told_of_a_failure(executor: str) -> None:
    told: Told = []
    model = scripted(observer=ConnectionError("the provider is away"))
    converse(agent_with(listeners(told), executor, model=model), 8)
    check_pairs(told)
    errors = [about["error"] for name, about in told if name.endswith("_end")]
    assert errors
    assert all("the provider is away" in error for error in errors)


# --- Lifecycle hooks change nothing --------------------------------------------------------------


def stops(about: dict[str, Any]) -> None:
    del about
    raise StopIteration


def is_slow(about: dict[str, Any]) -> None:
    time.sleep(0.02)
    about.clear()


NUISANCES: dict[str, Any] = {
    "raises": raises,
    "async raises": araises,
    "StopIteration": stops,
    "cancels itself": cancels,
    "slow": is_slow,
    "scribbles": scribbles,
    "answers": lambda _: [HumanMessage("observe this instead")],
}

LOGGED = ("raises", "async raises", "StopIteration", "cancels itself")


@pytest.mark.parametrize(
    ("nuisance", "executor"),
    [*((each, "") for each in NUISANCES), ("raises", "background"), ("scribbles", "background")],
)
def test_lifecycle_hook_changes_nothing(
    nuisance: str, executor: str, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = dict.fromkeys(LIFECYCLE, NUISANCES[nuisance])
    plain, agent = agent_with({}, executor), agent_with(hooks, executor)
    expected = converse(plain, 9)
    with caplog.at_level(logging.WARNING, "langgraph_om"):
        parts = converse(agent, 9)
    assert of_kind(parts, "observation-end") or of_kind(parts, "buffering-end")
    assert without_times(parts) == without_times(expected)
    assert outcome(values(agent.graph, CONFIG)) == outcome(values(plain.graph, CONFIG))
    failed = [line for line in caplog.messages if "the hook `on_observation_start` failed" in line]
    assert bool(failed) == (nuisance in LOGGED)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync hook", "async hook"])
async def test_cancelled_run_ends_at_once_and_goes_on_later(
    is_async: bool,  # noqa: FBT001
    gate: threading.Event,
) -> None:
    entered = threading.Event()

    def hang(_: dict[str, Any]) -> None:
        entered.set()
        gate.wait()

    async def ahang(_: dict[str, Any]) -> None:
        entered.set()
        if not gate.is_set():
            await asyncio.sleep(3600)

    agent = agent_with({"on_observation_start": ahang if is_async else hang}, deadline=3600)
    await atalk(agent.graph, CONFIG, turns(4))
    run = asyncio.create_task(agent.graph.ainvoke({"messages": [turn(4)]}, CONFIG))
    assert await asyncio.to_thread(entered.wait, 60)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    gate.set()
    await agent.graph.ainvoke(None, CONFIG)
    state = (await agent.graph.aget_state(CONFIG)).values
    assert state["om"]["log"]
    assert uncovered(agent.memory, state) == []


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_passes(ending: type[BaseException]) -> None:
    def end(_: dict[str, Any]) -> None:
        raise ending

    memory = remembering(scripted(), Clock(), hooks={"on_observation_start": end})
    with pytest.raises(ending):
        memory.step(None, turns(9), thread_id="t")
