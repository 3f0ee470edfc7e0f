"""The two drivers of the core's flows: one waits, one awaits, and nothing else differs.

Every question to a model passes through `drive` or `adrive`, and a turn never waits beyond the
cycle's deadline.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from langgraph_om.core.cycles.cycle import Answer, CycleFlow, Together, Wait
from langgraph_om.core.cycles.results import JobState
from langgraph_om.core.events import Event
from langgraph_om.core.hooks import HookCall
from langgraph_om.core.observe.observer import ModelCall
from langgraph_om.models.ask import Calls, aask, ask
from langgraph_om.runtime.hooks import Hooks
from langgraph_om.runtime.timeouts import in_thread

YieldT = TypeVar("YieldT")
SentT = TypeVar("SentT")
ResultT = TypeVar("ResultT")

Emit = Callable[[Event], None]
"""What a driver does with an event at the moment it happens."""


LIFECYCLE_SECONDS = 5.0
"""A lifecycle hook is waited for this long at most, or for the deadline where that is shorter."""


@dataclass(frozen=True)
class Cycle:
    """What a driver needs to run a flow."""

    calls: Calls
    wait: Callable[[str, float], JobState]
    """Waits for a background job, by its cycle id, so many seconds at most."""
    hooks: Hooks
    opening: Event | None = None
    """The event that announced the flow before it was driven."""


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
            answer = ask(item, cycle.calls, left)
        elif isinstance(item, HookCall):
            answer = cycle.hooks.call(item, left)
        elif isinstance(item, Together):
            answer = _ask_together(item, cycle, left)
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
            answer = await aask(item, cycle.calls, left)
        elif isinstance(item, HookCall):
            answer = await cycle.hooks.acall(item, left)
        elif isinstance(item, Together):
            tasks = (_aask_all(flow, cycle, left) for flow in item.flows)
            answer = list(await asyncio.gather(*tasks))
        else:
            answer = await _await_job(cycle, item.cycle_id, left / 2)


@dataclass(frozen=True, slots=True)
class Ended(Generic[ResultT]):
    """What a generator returned."""

    result: ResultT


def advance(steps: Generator[YieldT, SentT, ResultT], answer: SentT) -> YieldT | Ended[ResultT]:
    """Run a generator to what it yields next, or to its end.

    In this form it can be run in another thread, which an exception such as `StopIteration` can
    not leave.
    """
    try:
        return steps.send(answer)
    except StopIteration as done:
        return Ended(done.value)


def _questions(
    flow: CycleFlow, cycle: Cycle, emit: Emit
) -> Generator[tuple[ModelCall | HookCall | Wait | Together, float], Answer, list[Event]]:
    """Yield what a flow waits for, each with the seconds that are left for it; show its events."""
    ends_at = time.monotonic() + cycle.calls.deadline
    events: list[Event] = []
    answer: Answer = None
    begun: set[str] = set()
    if cycle.opening is not None:
        ends_at += yield from _tell(cycle, cycle.opening, begun)
    while True:
        try:
            item = flow.send(answer)
        except StopIteration:
            return events
        answer = None
        if isinstance(item, ModelCall | HookCall | Wait | Together):
            answer = yield item, _left(ends_at)
        else:
            events.append(item)
            emit(item)
            ends_at += yield from _tell(cycle, item, begun)


def _tell(
    cycle: Cycle, event: Event, begun: set[str]
) -> Generator[tuple[HookCall, float], Answer, float]:
    """Tell the user's callbacks of an event; their answers are not used.

    Only of cycles that began in this flow: whoever runs a background job tells of its end.

    Returns:
        The seconds it took, which are not the cycle's.
    """
    started = time.monotonic()
    if event["type"].endswith("-start"):
        begun.add(event["cycle_id"])
    elif event.get("cycle_id") not in begun:
        return 0.0
    cycle.hooks.tell(event)
    call = cycle.hooks.about(event)
    if call is not None:
        yield call, min(LIFECYCLE_SECONDS, cycle.calls.deadline)
    return time.monotonic() - started


def _ask_together(step: Together, cycle: Cycle, seconds: float) -> list[Any]:
    """Run flows side by side, each in a thread of its own, and return what they return."""
    futures = [
        in_thread(partial(_ask_all, flow, cycle, seconds), "om_batch") for flow in step.flows
    ]
    return [future.result() for future in futures]


def _ask_all(flow: Generator[Any, Any, Any], cycle: Cycle, seconds: float) -> Any:
    ends_at = time.monotonic() + seconds
    answer: Answer = None
    while not isinstance(item := advance(flow, answer), Ended):
        left = _left(ends_at)
        if isinstance(item, HookCall):
            answer = cycle.hooks.call(item, left)
        else:
            answer = ask(item, cycle.calls, left)
    return item.result


async def _aask_all(flow: Generator[Any, Any, Any], cycle: Cycle, seconds: float) -> Any:
    ends_at = time.monotonic() + seconds
    answer: Answer = None
    while not isinstance(item := advance(flow, answer), Ended):
        left = _left(ends_at)
        if isinstance(item, HookCall):
            answer = await cycle.hooks.acall(item, left)
        else:
            answer = await aask(item, cycle.calls, left)
    return item.result


def _left(ends_at: float) -> float:
    return max(0.0, ends_at - time.monotonic())


async def _await_job(cycle: Cycle, cycle_id: str, seconds: float) -> JobState:
    """Wait for a job without holding a thread, so that a cancelled run ends at once."""
    ends_at = time.monotonic() + seconds
    state = cycle.wait(cycle_id, 0)
    while state == "running" and time.monotonic() < ends_at:
        await asyncio.sleep(_POLL_SECONDS)
        state = cycle.wait(cycle_id, 0)
    return state


_POLL_SECONDS = 0.02
