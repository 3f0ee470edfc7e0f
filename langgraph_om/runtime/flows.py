"""Do what flows ask for (`core/effects.py`): one interpreter waits, the other awaits.

`supervise` knows the memory that a flow runs for. It asks models, calls hooks and the storage,
shows events and counts costs, and leaves nothing but calls and pauses. `fulfil` makes these and
waits, `afulfil` does the same without blocking an event loop, and nothing else differs.

The cycles before one call of the Actor have one deadline together, for their questions and the
hooks that change them. Outside of it are the lifecycle hooks, which have a limit of their own, and
the storage, which has none.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from langchain_core.runnables import ensure_config

from langgraph_om.core.effects import (
    AskModel,
    Call,
    CallGraph,
    CallHook,
    CallReply,
    CallWithConfig,
    EffectFlow,
    LateError,
    Pause,
    PeekJobs,
    ReadTally,
    Request,
    Requests,
    Show,
    Storage,
    Submit,
    Tally,
    Together,
    WaitForJob,
    Warn,
    Work,
)
from langgraph_om.core.events import describe_cycle, to_part
from langgraph_om.core.wire import Event
from langgraph_om.models.ask import Calls, ReadyQuestion, ask, only_blocks
from langgraph_om.runtime.executors import Executor
from langgraph_om.runtime.hooks import (
    Hooks,
    log_cycles,
    log_failures,
    read_hook_reply,
    record_cycle,
)
from langgraph_om.runtime.run import find_writer

logger = logging.getLogger("langgraph_om")

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

LIFECYCLE_SECONDS: Final = 5.0
"""A lifecycle hook is waited for this long at most, or for the deadline where that is shorter."""


@dataclass(frozen=True)
class RunContext:
    """The things a flow runs with."""

    calls: Calls
    hooks: Hooks
    jobs: Executor
    streams: bool = False
    """Whether events go to the run's custom stream; outside a graph `step` returns them instead."""


@dataclass(frozen=True, slots=True)
class FlowResult(Generic[ResultT]):
    """The outcome of a flow."""

    result: ResultT
    events: list[Event]
    """Those of its cycles, in order; those that change memory have yet to be folded."""
    tally: Tally
    """The cost of its model calls since the start of its cycle."""


def drive(flow: EffectFlow[ResultT], context: RunContext) -> FlowResult[ResultT]:
    """Run a flow to its end, waiting for each reply."""
    return fulfil(supervise(flow, context))


async def adrive(flow: EffectFlow[ResultT], context: RunContext) -> FlowResult[ResultT]:
    """Run a flow to its end without blocking the event loop."""
    return await afulfil(supervise(flow, context))


# --- What needs a memory -------------------------------------------------------------------------


@dataclass(slots=True)
class _Cycle:
    """The progress of a flow."""

    context: RunContext
    ends_at: float
    about: Mapping[str, Any] = field(default_factory=dict)
    """The subject of its model calls, since its start."""
    tally: Tally = field(default_factory=Tally)
    begun: set[str] = field(default_factory=set)
    """The cycles that it said the start of."""
    events: list[Event] = field(default_factory=list)

    def seconds_left(self) -> float:
        return max(0.0, self.ends_at - time.monotonic())

    def show(self, events: Sequence[Event]) -> None:
        if self.context.streams:
            write = find_writer()
            for part in filter(None, map(to_part, events)):
                write(part)


def supervise(
    flow: EffectFlow[ResultT], context: RunContext, beside: _Cycle | None = None
) -> Requests[FlowResult[ResultT]]:
    """Run a flow for a memory, with nothing but calls and pauses left to do.

    Args:
        beside: The cycle of which it is a part, with others side by side.
    """
    cycle = _Cycle(context, time.monotonic() + context.calls.deadline)
    if beside is not None:
        cycle.ends_at, cycle.about = beside.ends_at, beside.about
    resume: Callable[[Any], Any] = flow.send
    reply: Any = None
    with closing(flow):
        while True:
            try:
                effect = resume(reply)
            except StopIteration as done:
                log_failures(cycle.events)
                log_cycles(cycle.events)
                return FlowResult(done.value, cycle.events, cycle.tally)
            try:
                reply = yield from _reply_to(effect, cycle)
            except Exception as error:  # noqa: BLE001 it is raised where the flow asked for it
                resume, reply = flow.throw, error
            else:
                resume = flow.send


def _reply_to(effect: Any, cycle: _Cycle) -> Requests[Any]:  # noqa: C901, PLR0911, PLR0912 a case each
    """Do what an effect says; anything unknown is an event."""
    context = cycle.context
    match effect:
        case AskModel():
            question = replace(effect, about=cycle.about or effect.about)
            answer = yield from ask(question, context.calls, cycle.seconds_left())
            cycle.tally.note(answer)
            return answer
        case ReadTally():
            return cycle.tally
        case CallHook(name, arguments):
            call = partial(context.hooks.functions[name], *arguments)
            return (yield from _call_hook(name, call, cycle.seconds_left()))
        case CallWithConfig(name, function):
            call = partial(function, ensure_config(context.calls.config))
            return (yield from _call_hook(name, call, cycle.seconds_left()))
        case Storage(method, arguments, options):
            began = time.monotonic()
            done: CallReply = yield Call(partial(method, *arguments, **options), "om_archive")
            cycle.ends_at += time.monotonic() - began
            return done
        case PeekJobs(cycle_ids):
            peek = partial(_peek, context.jobs, cycle_ids)
            return (yield from _ask_executor("peek", peek, dict.fromkeys(cycle_ids, "running")))
        case WaitForJob(cycle_id):  # half of what is left; the other half is for asking instead
            wait_for = partial(context.jobs.wait, cycle_id, cycle.seconds_left() / 2)
            return (yield from _ask_executor("wait", wait_for, "running"))
        case Submit(function):
            return (yield from _ask_executor("submit", function, otherwise=False))
        case Together(flows):
            parts = yield Together([supervise(flow, context, cycle) for flow in flows])
            for part in parts:
                cycle.tally.add(part.tally)
            return [part.result for part in parts]
        case Work(flow, waited):
            calls = replace(context.calls, deadline=max(0.0, context.calls.deadline - waited))
            return (yield from supervise(flow, replace(context, calls=calls))).events
        case Show(events):
            cycle.show(events)
        case Warn(text, arguments, error):
            level = logging.WARNING if error is None else logging.ERROR
            logger.log(level, text, *arguments, exc_info=error)
        case Call() | CallGraph() | Pause():
            return (yield effect)
        case event:
            cycle.events.append(event)
            cycle.show([event])
            yield from _tell(event, cycle)
    return None


def _call_hook(name: str, function: Callable[[], Any], seconds: float) -> Requests[CallReply]:
    done: CallReply = yield Call(function, name, seconds)
    return read_hook_reply(name, done, seconds)


def _peek(jobs: Executor, cycle_ids: Mapping[Any, str]) -> dict[Any, Any]:
    return {name: jobs.peek(cycle_id) for name, cycle_id in cycle_ids.items()}


def _ask_executor(method: str, function: Callable[[], Any], otherwise: Any) -> Requests[Any]:
    """Call an executor, which may wait for an archive or a network; a failure costs no turn."""
    done: CallReply = yield Call(function, f"om_{method}")
    if done.error is None:
        return done.value
    logger.warning("the executor's `%s` failed; the turn continues: %r", method, done.error)
    return otherwise


def _tell(event: Event, cycle: _Cycle) -> Requests[None]:
    """Report an event to the user's callbacks; the time they take doesn't count for the cycle.

    Reports only cycles that began in this flow: the runner of a background job reports its end.
    """
    began, context = time.monotonic(), cycle.context
    if event["type"] in ("observation-start", "buffering-start"):
        cycle.begun.add(event["cycle_id"])
        cycle.about, cycle.tally = describe_cycle(event), Tally()
    elif event.get("cycle_id") not in cycle.begun:
        return
    record_cycle(event)
    context.hooks.tell(event)
    call = context.hooks.about(event)
    if call is not None:
        limit = min(LIFECYCLE_SECONDS, context.calls.deadline)
        function = partial(context.hooks.functions[call.name], *call.arguments)
        yield from _call_hook(call.name, function, limit)
    cycle.ends_at += time.monotonic() - began


# --- Waiting -------------------------------------------------------------------------------------


def fulfil(requests: Requests[ResultT]) -> ResultT:
    """Make the calls of a flow one after the other, and return its result."""
    reply: Any = None
    with closing(requests):
        while True:
            try:
                request = requests.send(reply)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            reply = _perform(request)


def _perform(request: Request) -> Any:
    """Make a call without a limit in place, one with a limit in a thread."""
    if isinstance(request, Pause):
        return time.sleep(request.seconds)
    if isinstance(request, Together):
        futures = [in_thread(partial(fulfil, flow), "om_batch") for flow in request.flows]
        return [future.result() for future in futures]
    if isinstance(request, CallGraph):
        return _read_outcome(partial(_call_graph, request))
    if request.seconds is None:
        return _read_outcome(request.function)
    future = in_thread(partial(_call, request), request.name)
    done, _ = wait({future}, timeout=request.seconds)
    return _read_outcome(future.result) if done else CallReply(error=LateError())


def _call_graph(call: CallGraph) -> Any:
    found = call.method(*call.arguments, **call.options)
    return list(found) if isinstance(found, Iterator) else found


def _call(call: Call) -> Any:
    result = call.function()
    if isinstance(result, ReadyQuestion):
        result = result.invoke()
    return (
        asyncio.run(_await_within(call.seconds, result)) if inspect.isawaitable(result) else result
    )


async def _await_within(seconds: float | None, awaitable: Any) -> Any:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await awaitable
    except TimeoutError as error:
        if limit.expired():
            raise LateError from error
        raise


# --- Awaiting ------------------------------------------------------------------------------------


async def afulfil(requests: Requests[ResultT]) -> ResultT:
    """Do the same as `fulfil` without blocking the event loop."""
    reply: Any = None
    with closing(requests):
        while True:
            try:
                request = requests.send(reply)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            reply = await _aperform(request)


async def _aperform(request: Request) -> Any:
    """Make a call in a task where it can be awaited, else in a thread."""
    if isinstance(request, Pause):
        return await asyncio.sleep(request.seconds)
    if isinstance(request, Together):
        return list(await asyncio.gather(*(afulfil(flow) for flow in request.flows)))
    if isinstance(request, CallGraph):
        return await _await_outcome(_acall_graph(request))
    if request.seconds is None:
        return await _await_outcome(_acall(request))
    # In a task of its own, so that one that will not be cancelled can be left behind.
    task = asyncio.create_task(_acall(request), name=request.name)
    task.add_done_callback(_take_notice)
    try:
        done, _ = await asyncio.wait({task}, timeout=request.seconds)
    finally:
        task.cancel()
    return _read_outcome(task.result) if done else CallReply(error=LateError())


async def _await_outcome(work: Awaitable[Any]) -> CallReply:
    """Return what came of a call without a limit; whatever it raises is an answer too."""
    try:
        return CallReply(await work)
    except Exception as error:  # noqa: BLE001 a failure is a reply
        return CallReply(error=error)


def _take_notice(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from complaining about the end of work that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


async def _acall_graph(call: CallGraph) -> Any:
    try:
        found = call.amethod(*call.arguments, **call.options)
        return [each async for each in found] if isinstance(found, AsyncIterator) else await found
    except NotImplementedError:  # a checkpointer may have methods that block alone
        return await run_in_thread(_call_graph, call)


async def _acall(call: Call) -> Any:
    if inspect.iscoroutinefunction(call.function):
        return await call.function()
    result = await asyncio.wrap_future(in_thread(call.function, call.name))
    if isinstance(result, ReadyQuestion):
        # In a thread of our own, which nobody else needs when the call is given up on.
        asked = in_thread(result.invoke, call.name) if only_blocks(result.model) else None
        result = result.ainvoke() if asked is None else asyncio.wrap_future(asked)
    return await result if inspect.isawaitable(result) else result


def _read_outcome(get: Callable[[], Any]) -> CallReply:
    """Return what came of a call; whatever it raises is an answer too."""
    try:
        return CallReply(get())
    except asyncio.CancelledError:  # its own: when the turn is cancelled nobody is here
        return CallReply(error=RuntimeError("the call was canceled"))
    except Exception as error:  # noqa: BLE001 whatever is raised is a reply
        return CallReply(error=error)


async def run_in_thread(
    work: Callable[P, ResultT], /, *args: P.args, **kwargs: P.kwargs
) -> ResultT:
    """Return what blocking work returns, without blocking the event loop."""
    done = in_thread(partial(work, *args, **kwargs), "om_thread")
    return cast("ResultT", await asyncio.wrap_future(done))


def in_thread(work: Callable[[], Any], name: str) -> Future[Any]:
    """Work in a thread of its own that keeps no process from ending.

    Not `asyncio.to_thread`: the loop's threads are few, and are waited for when the loop ends. An
    asynchronous checkpointer that is called from each of them waits forever for one more.
    """
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()  # from here on nobody can cancel it

    def run() -> None:
        try:
            future.set_result(work())
        except StopIteration as error:  # an awaited future cannot raise it
            future.set_exception(RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # noqa: BLE001 it is raised again where it is awaited
            future.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name=name, daemon=True).start()
    return future
