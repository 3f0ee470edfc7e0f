"""The two drivers: what they wait for, where, and for how long."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from langgraph_om import InlineBuffering
from langgraph_om.testing import ScriptedChatModel
from support.agents import remembering, scripted
from support.clock import Clock
from support.inside import (
    AskModel,
    CallHook,
    LateError,
    RunContext,
    Storage,
    adrive,
    drive,
    runner_of,
)


def context(
    model: ScriptedChatModel | None = None,
    hooks: dict[str, Callable[..., Any]] | None = None,
    deadline: float = 20.0,
    **fields: Any,
) -> RunContext:
    memory = remembering(
        model or scripted(), Clock(), hooks=hooks, deadline=deadline, buffering=InlineBuffering()
    )
    return replace(runner_of(memory).context(), **fields)


def question(role: Any = "observer") -> AskModel:
    return AskModel(role, [])


@pytest.mark.parametrize("is_async", [False, True])
def test_the_storage_is_called_in_place_or_off_the_loop_and_without_a_limit(
    *, is_async: bool
) -> None:
    threads: list[threading.Thread] = []

    def keep(value: int) -> float:
        threads.append(threading.current_thread())
        time.sleep(0.6)
        return 7 / value

    def flow() -> Any:
        kept = yield Storage(keep, (1,))
        failed = yield Storage(keep, (0,))
        return kept, failed, (yield question())

    given = context(scripted(observer="noted"), deadline=1.0)
    run = asyncio.run(adrive(flow(), given)) if is_async else drive(flow(), given)
    kept, failed, reply = run.result
    assert (kept.value, kept.error, failed.value) == (7, None, None)
    assert isinstance(failed.error, ZeroDivisionError)
    assert reply.text == "noted", "what the storage takes is not taken from the cycle's time"
    assert (threading.current_thread() in threads) is not is_async


def test_what_hangs_is_left_behind_at_the_deadline() -> None:
    let_go = threading.Event()

    def hang(*_: Any) -> None:
        let_go.wait(90)

    def flow() -> Any:
        late = yield CallHook("before_observation", ([], {}))
        reply = yield question()
        return late, reply

    def given() -> RunContext:
        return context(scripted(observer="noted"), {"before_observation": hang}, deadline=0.2)

    began = time.monotonic()
    try:
        for run in (drive(flow(), given()), asyncio.run(adrive(flow(), given()))):
            late, reply = run.result
            assert isinstance(late.error, LateError)
            # A hook has the rest of the deadline, which is less by what the run took until then.
            given_up = re.fullmatch(r"it did not return within (\S+) seconds", str(late.error))
            assert given_up is not None
            assert 0 < float(given_up[1]) <= 0.2
            assert "no answer within the deadline of 0.2 seconds" in str(reply.error)
    finally:
        let_go.set()
    assert time.monotonic() - began < 60


async def test_a_cancelled_flow_ends_at_once_and_leaves_what_hangs_behind() -> None:
    entered, let_go = threading.Event(), threading.Event()

    def keep() -> None:
        entered.set()
        let_go.wait(120)

    ended: list[str] = []

    def flow() -> Any:
        try:
            yield Storage(keep)
        finally:
            ended.append("flow")

    running = asyncio.create_task(adrive(flow(), context()))
    assert await asyncio.to_thread(entered.wait, 60)
    left = [thread for thread in threading.enumerate() if thread.name == "om_archive"]
    running.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < 60
    assert ended == ["flow"]
    assert [thread.daemon for thread in left] == [True], "it keeps no process from ending"
    let_go.set()
