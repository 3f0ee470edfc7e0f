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

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda, ensure_config

from langgraph_om.core.content.attachments import with_attachments
from langgraph_om.core.effects import (
    Answer,
    CycleFlow,
    HookCall,
    JobState,
    ModelCall,
    ModelReply,
    Together,
    Wait,
)
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.core.wire import Event
from langgraph_om.errors import ConfigurationError, ModelTierError, ObservationalMemoryError
from langgraph_om.models.ask import Calls, call_config, read_reply
from langgraph_om.models.model_value import (
    Leaf,
    ModelByInputTokens,
    ModelValue,
    entries_of,
    has_choice,
    is_choice,
    is_leaf,
    is_list,
)
from langgraph_om.models.pool import Client, name_of, refuses_attachments, retries_of
from langgraph_om.models.providers import check_value
from langgraph_om.models.retries import backoff, is_stale, is_transient, retry_after
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


# --- What is tried -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A call of a model."""

    leaf: Leaf
    seconds: float
    is_bare: bool = False
    """Whether nothing is attached to it."""


@dataclass(frozen=True, slots=True)
class _Choose:
    """A call of a function that returns a model value."""

    function: Callable[[RunnableConfig], Any]
    seconds: float


@dataclass(frozen=True, slots=True)
class _Pause:
    """Time to let pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of a step."""

    answer: Any = None
    error: Exception | None = None


_Tries = Generator[_Attempt | _Choose | _Pause, _Done, Any]


class _LateError(TimeoutError):
    """A step did not end in its time."""


def _tries(call: ModelCall, calls: Calls, seconds: float) -> _Tries:
    """Try one model after the other until one answers.

    A model that others stand behind gets half of the time that is left.

    Returns:
        What the model returned.

    Raises:
        Exception: What the only model raised.
        ModelTierError: When no tier covers the question.
        ObservationalMemoryError: When all of several models failed.
    """
    ends_at = time.monotonic() + seconds
    ahead: list[tuple[ModelValue, int | None]] = [(calls.models.values[call.role], None)]
    failed: list[tuple[str, Exception]] = []
    while ahead:
        value, retries = ahead.pop(0)
        left = ends_at - time.monotonic()
        if left <= 0:
            failed.append(("", _LateError()))
            break
        share = left / 2 if ahead else left
        if is_leaf(value):
            done = yield from _persist(call, calls, value, retries, share)
            if done.error is None:
                return done.answer
            late = isinstance(done.error, _LateError) and ahead
            error = TimeoutError(f"no answer within {share:.3g} seconds") if late else done.error
            failed.append((name_of(value), error))
        elif isinstance(value, ModelByInputTokens):
            try:
                ahead.insert(0, (value.resolve(_size(call, calls)), retries))
            except ModelTierError as error:
                failed.append(("ModelByInputTokens", error))
        elif is_list(value):
            ahead[:0] = entries_of(value, retries)
        elif is_choice(value):
            done = yield _Choose(value, share)
            problem = done.error or _problem(value, done.answer)
            if problem is None:
                ahead.insert(0, (done.answer, retries))
            else:
                failed.append((_function_name(value), problem))
    raise _failure(failed, calls.deadline)


def _persist(
    call: ModelCall, calls: Calls, leaf: Leaf, retries: int | None, seconds: float
) -> Generator[_Attempt | _Pause, _Done, _Done]:
    """Ask one model, and again while that may help and its time allows."""
    ends_at = time.monotonic() + seconds
    most = retries_of(leaf) if retries is None else retries
    again, stale, is_bare = 0, 0, False
    while True:
        done = yield _Attempt(leaf, max(0.0, ends_at - time.monotonic()), is_bare)
        error = done.error
        if error is None or isinstance(error, _LateError):
            return done
        if calls.models.learn(call.role, leaf, error):
            continue
        if not is_bare and refuses_attachments(error) and _has_attachments(call, calls, leaf):
            is_bare = True
            continue
        if is_stale(error) and stale < _MOST_STALE:
            stale += 1
            continue
        if again >= most or not is_transient(error):
            return done
        pause = retry_after(error, calls.clock())
        if pause is None:
            pause = backoff(again, _seed(call))
        if pause >= ends_at - time.monotonic():
            return done
        yield _Pause(pause)
        again += 1


_MOST_STALE = 4
"""How many left-over connections of a client are skipped at most."""


def _has_attachments(call: ModelCall, calls: Calls, leaf: Leaf) -> bool:
    """Tell whether a model is sent any attachments."""
    if not call.attachments:
        return False
    client = calls.models.get(call.role, leaf)
    return any(client.takes(each, by_profile=call.by_profile) for each in call.attachments)


def _question(call: ModelCall, client: Client, step: _Attempt) -> list[BaseMessage]:
    """Put the question together as this model takes it."""
    return with_attachments(
        call.messages,
        () if step.is_bare else call.attachments,
        partial(client.takes, by_profile=call.by_profile),
    )


def _size(call: ModelCall, calls: Calls) -> int:
    """Return the size of the question with all that any model may be sent."""
    whole = with_attachments(call.messages, call.attachments, lambda _: True)
    return count_messages(calls.counter, whole)


def _seed(call: ModelCall) -> str:
    return "".join(str(message.content) for message in call.messages)


def _problem(function: Callable[..., Any], value: object) -> Exception | None:
    """Tell what is wrong with the value that a function returned."""
    option = f"{_function_name(function)}()"
    try:
        check_value(option, value)
    except ConfigurationError as error:
        return error
    if has_choice(value):  # it might never end
        msg = f"`{option}` is {value!r}, which holds a function; return models, tiers or lists"
        return ConfigurationError(msg)
    return None


def _function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _failure(failed: list[tuple[str, Exception]], deadline: float) -> Exception:
    """Return the one error that says why there is no answer."""
    errors = [(name, _named(error, deadline)) for name, error in failed]
    tiers = [error for _, error in errors if isinstance(error, ModelTierError)]
    if len(errors) == 1 or len(tiers) == len(errors):
        return errors[-1][1]
    each = "; ".join(
        f"{name}: {type(error).__name__}: {error}" if name else str(error) for name, error in errors
    )
    failure = ObservationalMemoryError(f"no model answered: {each}")
    failure.__cause__ = errors[-1][1]
    return failure


def _named(error: Exception, deadline: float) -> Exception:
    if isinstance(error, TimeoutError) and not str(error):
        return TimeoutError(f"no answer within the deadline of {deadline:g} seconds")
    return error


# --- Waiting -------------------------------------------------------------------------------------


def ask(call: ModelCall, calls: Calls, seconds: float) -> ModelReply:
    """Ask, and wait so many seconds at most."""
    tries = _tries(call, calls, seconds)
    try:
        step = next(tries)
        while True:
            if isinstance(step, _Pause):
                time.sleep(step.seconds)
                step = tries.send(_Done())
            else:
                step = tries.send(_threaded(partial(_carry_out, step, call, calls), call, step))
    except StopIteration as end:
        return read_reply(end.value, calls.clock())
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return ModelReply(calls.clock(), error=error)


def _threaded(work: Callable[[], Any], call: ModelCall, step: _Attempt | _Choose) -> _Done:
    future = in_thread(work, f"om_{call.role}")
    done, _ = wait({future}, timeout=step.seconds)
    return _outcome(future) if done else _Done(error=_LateError())


def _outcome(done: Future[Any] | asyncio.Task[Any]) -> _Done:
    try:
        return _Done(done.result())
    except asyncio.CancelledError:  # the model's own: when the turn is cancelled nobody is here
        return _Done(error=RuntimeError("the call was cancelled"))
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return _Done(error=error)


def _carry_out(step: _Attempt | _Choose, call: ModelCall, calls: Calls) -> Any:
    if isinstance(step, _Choose):
        chosen = step.function(ensure_config(calls.config))
        return asyncio.run(_result(chosen)) if inspect.isawaitable(chosen) else chosen
    client = calls.models.get(call.role, step.leaf)
    model, question = client.runnable, _question(call, client, step)
    config = call_config(call, calls.config)
    if isinstance(model, RunnableLambda) and not hasattr(model, "func"):  # it can only be awaited
        return asyncio.run(cast("Any", model.ainvoke(question, config)))
    return model.invoke(question, config)


async def aask(call: ModelCall, calls: Calls, seconds: float) -> ModelReply:
    """Ask without blocking the event loop; else like `ask`."""
    tries = _tries(call, calls, seconds)
    try:
        step = next(tries)
        while True:
            if isinstance(step, _Pause):
                await asyncio.sleep(step.seconds)
                step = tries.send(_Done())
            else:
                done = await finished_within(step.seconds, _acarry_out(step, call, calls))
                late = _Done(error=_LateError())
                step = tries.send(_outcome(done) if done is not None else late)
    except StopIteration as end:
        return read_reply(end.value, calls.clock())
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return ModelReply(calls.clock(), error=error)


async def _acarry_out(step: _Attempt | _Choose, call: ModelCall, calls: Calls) -> Any:
    if isinstance(step, _Choose):
        config = ensure_config(calls.config)
        if inspect.iscoroutinefunction(step.function):
            return await step.function(config)
        name = f"om_{call.role}"
        chosen = await asyncio.wrap_future(in_thread(partial(step.function, config), name))
        return await chosen if inspect.isawaitable(chosen) else chosen
    made = in_thread(partial(calls.models.get, call.role, step.leaf), f"om_{call.role}")
    client = await asyncio.wrap_future(made)
    question = _question(call, client, step)
    return await client.runnable.ainvoke(question, call_config(call, calls.config))


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
