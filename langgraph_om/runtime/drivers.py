"""The two drivers of the core's flows: one waits, one awaits, and nothing else differs.

Every question to a model passes through `drive` or `adrive`, and a turn never waits beyond the
cycle's deadline.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from langchain_core.runnables import RunnableLambda, ensure_config

from langgraph_om.core.effects import (
    Answer,
    AskModel,
    CallHook,
    CycleFlow,
    JobState,
    ModelReply,
    Together,
    WaitForJob,
)
from langgraph_om.core.wire import Event
from langgraph_om.models.ask import (
    Attempt,
    Calls,
    Choose,
    Done,
    LateError,
    Pause,
    attempt_models,
    build_question,
    call_config,
    read_reply,
)
from langgraph_om.runtime.hooks import Hooks
from langgraph_om.runtime.timeouts import finished_within, in_thread

YieldT = TypeVar("YieldT")
SentT = TypeVar("SentT")
ResultT = TypeVar("ResultT")

Emit = Callable[[Event], None]
"""What a driver does with an event at the moment it happens."""


LIFECYCLE_SECONDS = 5.0
"""A lifecycle hook is waited for this long at most, or for the deadline where that is shorter."""


@dataclass(frozen=True)
class RunContext:
    """What a driver needs to run a flow."""

    calls: Calls
    wait: Callable[[str, float], JobState]
    """Waits for a background job, by its cycle id, so many seconds at most."""
    hooks: Hooks
    opening: Event | None = None
    """The event that announced the flow before it was driven."""


def drive(flow: CycleFlow, cycle: RunContext, emit: Emit) -> list[Event]:
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
        if isinstance(item, AskModel):
            answer = ask(item, cycle.calls, left)
        elif isinstance(item, CallHook):
            answer = cycle.hooks.call(item, left)
        elif isinstance(item, Together):
            answer = _ask_together(item, cycle, left)
        else:
            answer = cycle.wait(item.cycle_id, left / 2)


async def adrive(flow: CycleFlow, cycle: RunContext, emit: Emit) -> list[Event]:
    """Run a flow to its end without blocking the event loop; else like `drive`."""
    questions = _questions(flow, cycle, emit)
    answer: Answer = None
    while True:
        try:
            item, left = questions.send(answer)
        except StopIteration as done:
            return cast("list[Event]", done.value)
        if isinstance(item, AskModel):
            answer = await aask(item, cycle.calls, left)
        elif isinstance(item, CallHook):
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
    flow: CycleFlow, cycle: RunContext, emit: Emit
) -> Generator[tuple[AskModel | CallHook | WaitForJob | Together, float], Answer, list[Event]]:
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
        if isinstance(item, AskModel | CallHook | WaitForJob | Together):
            answer = yield item, _seconds_left(ends_at)
        else:
            events.append(item)
            emit(item)
            ends_at += yield from _tell(cycle, item, begun)


def _tell(
    cycle: RunContext, event: Event, begun: set[str]
) -> Generator[tuple[CallHook, float], Answer, float]:
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


def _ask_together(step: Together, cycle: RunContext, seconds: float) -> list[Any]:
    """Run flows side by side, each in a thread of its own, and return what they return."""
    futures = [
        in_thread(partial(_ask_all, flow, cycle, seconds), "om_batch") for flow in step.flows
    ]
    return [future.result() for future in futures]


def _ask_all(flow: Generator[Any, Any, Any], cycle: RunContext, seconds: float) -> Any:
    ends_at = time.monotonic() + seconds
    answer: Answer = None
    while not isinstance(item := advance(flow, answer), Ended):
        left = _seconds_left(ends_at)
        if isinstance(item, CallHook):
            answer = cycle.hooks.call(item, left)
        else:
            answer = ask(item, cycle.calls, left)
    return item.result


async def _aask_all(flow: Generator[Any, Any, Any], cycle: RunContext, seconds: float) -> Any:
    ends_at = time.monotonic() + seconds
    answer: Answer = None
    while not isinstance(item := advance(flow, answer), Ended):
        left = _seconds_left(ends_at)
        if isinstance(item, CallHook):
            answer = await cycle.hooks.acall(item, left)
        else:
            answer = await aask(item, cycle.calls, left)
    return item.result


def _seconds_left(ends_at: float) -> float:
    return max(0.0, ends_at - time.monotonic())


async def _await_job(cycle: RunContext, cycle_id: str, seconds: float) -> JobState:
    """Wait for a job without holding a thread, so that a cancelled run ends at once."""
    ends_at = time.monotonic() + seconds
    state = cycle.wait(cycle_id, 0)
    while state == "running" and time.monotonic() < ends_at:
        await asyncio.sleep(_POLL_SECONDS)
        state = cycle.wait(cycle_id, 0)
    return state


_POLL_SECONDS = 0.02


# --- Waiting -------------------------------------------------------------------------------------


def ask(call: AskModel, calls: Calls, seconds: float) -> ModelReply:
    """Ask, and wait so many seconds at most."""
    tries = attempt_models(call, calls, seconds)
    try:
        step = next(tries)
        while True:
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                step = tries.send(Done())
            else:
                step = tries.send(
                    _run_in_thread(partial(_carry_out, step, call, calls), call, step)
                )
    except StopIteration as end:
        return read_reply(end.value, calls.clock())
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return ModelReply(calls.clock(), error=error)


def _run_in_thread(work: Callable[[], Any], call: AskModel, step: Attempt | Choose) -> Done:
    future = in_thread(work, f"om_{call.role}")
    done, _ = wait({future}, timeout=step.seconds)
    return _outcome_of(future) if done else Done(error=LateError())


def _outcome_of(done: Future[Any] | asyncio.Task[Any]) -> Done:
    try:
        return Done(done.result())
    except asyncio.CancelledError:  # the model's own: when the turn is cancelled nobody is here
        return Done(error=RuntimeError("the call was cancelled"))
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return Done(error=error)


def _carry_out(step: Attempt | Choose, call: AskModel, calls: Calls) -> Any:
    if isinstance(step, Choose):
        chosen = step.function(ensure_config(calls.config))
        return asyncio.run(_await_result(chosen)) if inspect.isawaitable(chosen) else chosen
    client = calls.models.get(call.role, step.leaf)
    model, question = client.runnable, build_question(call, client, step)
    config = call_config(call, calls.config)
    if isinstance(model, RunnableLambda) and not hasattr(model, "func"):  # it can only be awaited
        return asyncio.run(cast("Any", model.ainvoke(question, config)))
    return model.invoke(question, config)


async def aask(call: AskModel, calls: Calls, seconds: float) -> ModelReply:
    """Ask without blocking the event loop; else like `ask`."""
    tries = attempt_models(call, calls, seconds)
    try:
        step = next(tries)
        while True:
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                step = tries.send(Done())
            else:
                done = await finished_within(step.seconds, _acarry_out(step, call, calls))
                late = Done(error=LateError())
                step = tries.send(_outcome_of(done) if done is not None else late)
    except StopIteration as end:
        return read_reply(end.value, calls.clock())
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return ModelReply(calls.clock(), error=error)


async def _acarry_out(step: Attempt | Choose, call: AskModel, calls: Calls) -> Any:
    if isinstance(step, Choose):
        config = ensure_config(calls.config)
        if inspect.iscoroutinefunction(step.function):
            return await step.function(config)
        name = f"om_{call.role}"
        chosen = await asyncio.wrap_future(in_thread(partial(step.function, config), name))
        return await chosen if inspect.isawaitable(chosen) else chosen
    made = in_thread(partial(calls.models.get, call.role, step.leaf), f"om_{call.role}")
    client = await asyncio.wrap_future(made)
    question = build_question(call, client, step)
    return await client.runnable.ainvoke(question, call_config(call, calls.config))


async def _await_result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
