"""The two drivers of the core's flows: one waits, one awaits, and nothing else differs.

Every question to a model passes through `drive` or `adrive`, and a turn never waits beyond the
cycle's deadline.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langgraph_om.core.collect import JobState
from langgraph_om.core.cycle import Answer, CycleFlow, Wait
from langgraph_om.core.events import Event
from langgraph_om.core.observer import ModelCall, ModelReply
from langgraph_om.models import AgentModels, call_config, read_reply

__all__ = ["Cycle", "Emit", "adrive", "drive"]

Emit = Callable[[Event], None]
"""What a driver does with an event at the moment it happens."""


@dataclass(frozen=True)
class Cycle:
    """What a driver needs to run a flow."""

    models: AgentModels
    clock: Callable[[], datetime]
    deadline: float
    """Seconds for the whole flow, all calls together."""
    wait: Callable[[str, float], JobState]
    """Waits for a background job, by its cycle id, so many seconds at most."""
    config: RunnableConfig | None = None
    """The configuration of the run, where it is not found around the call."""


def drive(flow: CycleFlow, cycle: Cycle, emit: Emit) -> list[Event]:
    """Run a flow to its end, waiting for each answer.

    A background job is waited for as long as half of what is left of the deadline; the other half
    is for asking instead.

    Returns:
        All events of the flow, in order.
    """
    questions = _questions(flow, cycle, emit)
    answer: Answer = None
    while True:
        try:
            item, left = questions.send(answer)
        except StopIteration as done:
            return cast("list[Event]", done.value)
        if isinstance(item, ModelCall):
            answer = _ask(item, cycle, left)
        else:
            answer = cycle.wait(item.cycle_id, left / 2)


async def adrive(flow: CycleFlow, cycle: Cycle, emit: Emit) -> list[Event]:
    """Run a flow to its end without blocking the event loop; else like `drive`."""
    questions = _questions(flow, cycle, emit)
    answer: Answer = None
    while True:
        try:
            item, left = questions.send(answer)
        except StopIteration as done:
            return cast("list[Event]", done.value)
        if isinstance(item, ModelCall):
            answer = await _aask(item, cycle, left)
        else:
            answer = await _await_job(cycle, item.cycle_id, left / 2)


def _questions(
    flow: CycleFlow, cycle: Cycle, emit: Emit
) -> Generator[tuple[ModelCall | Wait, float], Answer, list[Event]]:
    """Yield what a flow waits for, each with the seconds that are left for it; show its events."""
    ends_at = time.monotonic() + cycle.deadline
    events: list[Event] = []
    answer: Answer = None
    while True:
        try:
            item = flow.send(answer)
        except StopIteration:
            return events
        answer = None
        if isinstance(item, ModelCall | Wait):
            answer = yield item, max(0.0, ends_at - time.monotonic())
        else:
            events.append(item)
            emit(item)


def _ask(call: ModelCall, cycle: Cycle, seconds: float) -> ModelReply:
    """Ask in a thread of its own, so that a call that hangs can be left behind."""
    future: Future[Any] = Future()
    config = call_config(call, cycle.config)

    def run() -> None:
        try:
            future.set_result(_invoke(cycle.models.get(call.role), call, config))
        except BaseException as error:  # noqa: BLE001 it is raised again where it is awaited
            future.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name=f"om_{call.role}", daemon=True).start()
    try:
        return read_reply(future.result(timeout=seconds), cycle.clock())
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return ModelReply(cycle.clock(), error=_named(error, cycle.deadline))


def _invoke(model: Runnable[Any, Any], call: ModelCall, config: RunnableConfig) -> Any:
    if isinstance(model, RunnableLambda) and not hasattr(model, "func"):  # it can only be awaited
        return asyncio.run(cast("Any", model.ainvoke(call.messages, config)))
    return model.invoke(call.messages, config)


async def _aask(call: ModelCall, cycle: Cycle, seconds: float) -> ModelReply:
    """Ask in a task of its own, so that a call that will not be cancelled can be left behind."""
    task = asyncio.create_task(_ainvoke(call, cycle))
    task.add_done_callback(_take_notice)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    try:
        if not done:
            return ModelReply(cycle.clock(), error=_named(TimeoutError(), cycle.deadline))
        return read_reply(task.result(), cycle.clock())
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return ModelReply(cycle.clock(), error=_named(error, cycle.deadline))


async def _ainvoke(call: ModelCall, cycle: Cycle) -> Any:
    model = await asyncio.to_thread(cycle.models.get, call.role)
    return await model.ainvoke(call.messages, call_config(call, cycle.config))


def _take_notice(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from complaining about the end of a call that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


async def _await_job(cycle: Cycle, cycle_id: str, seconds: float) -> JobState:
    """Wait for a job without holding a thread, so that a cancelled run ends at once."""
    ends_at = time.monotonic() + seconds
    state = cycle.wait(cycle_id, 0)
    while state == "running" and time.monotonic() < ends_at:
        await asyncio.sleep(_POLL_SECONDS)
        state = cycle.wait(cycle_id, 0)
    return state


_POLL_SECONDS = 0.02


def _named(error: Exception, deadline: float) -> Exception:
    if isinstance(error, TimeoutError) and not str(error):
        return TimeoutError(f"no answer within the deadline of {deadline:g} seconds")
    return error
