"""The drivers of flows: one waits, one awaits, and nothing else differs.

For a flow, only this file awaits, sleeps, starts threads or gives up; `flows.supervise` says what
for. A flow around a graph calls the graph's methods, and has other flows run, through the same
drivers.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from langgraph_om.models.ask import Done, LateError, ReadyQuestion
from langgraph_om.runtime.context import Driven, RunContext, RunFlow
from langgraph_om.runtime.flows import Call, Leased, Pause, Request, SideBySide, supervise
from langgraph_om.runtime.leases import KeptLease

# Work that is waited for no longer than it may take, and left behind when it takes longer.


def in_thread(work: Callable[[], Any], name: str) -> Future[Any]:
    """Work in a thread of its own that keeps no process from ending.

    Not `asyncio.to_thread`: the loop's threads are few, and are waited for when the loop ends.
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


async def finished_within(
    seconds: float, work: Coroutine[Any, Any, Any], name: str | None = None
) -> asyncio.Task[Any] | None:
    """Work in a task of its own, so that one that will not be cancelled can be left behind.

    Returns:
        The task when it is done, `None` when its time is over.
    """
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_take_notice)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    return task if done else None


def _take_notice(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from complaining about the end of work that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


ResultT = TypeVar("ResultT")

POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class GraphCall:
    """A call of a compiled graph's method by its sync name; what it raises ends the flow."""

    method: str
    arguments: tuple[Any, ...]
    as_node: str | None = None
    """For updates."""


@dataclass(frozen=True, slots=True)
class Drive:
    """A flow to run to its end. The reply is `Driven`."""

    flow: RunFlow[Any]
    context: RunContext


GraphFlow = Generator[GraphCall | Drive, Any, ResultT]
"""A flow around a graph, for what happens to a thread outside of its runs."""

# --- Waiting -------------------------------------------------------------------------------------


def drive(flow: RunFlow[ResultT], context: RunContext) -> Driven[ResultT]:
    """Run a flow to its end, waiting for each reply."""
    return _run(supervise(flow, context))


def drive_on_graph(flow: GraphFlow[ResultT], graph: Any) -> ResultT:
    """Run a flow around a graph to its end."""

    def perform_on(request: GraphCall | Drive) -> Any:
        if isinstance(request, Drive):
            return drive(request.flow, request.context)
        return _call_graph(graph, request.method, request)

    return _run(flow, perform_on)


def _call_graph(graph: Any, method: str, call: GraphCall) -> Any:
    options = {} if call.as_node is None else {"as_node": call.as_node}
    return getattr(graph, method)(*call.arguments, **options)


def _run(
    requests: Generator[Any, Any, ResultT], fulfil: Callable[[Any], Any] | None = None
) -> ResultT:
    fulfil = fulfil or perform
    reply: Any = None
    with closing(requests):
        while True:
            try:
                request = requests.send(reply)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            reply = fulfil(request)


def perform(request: Request) -> Any:
    """Fulfil a request: a call without a limit in place, one with a limit in a thread."""
    if isinstance(request, Pause):
        return (request.wait or time.sleep)(request.seconds)
    if isinstance(request, SideBySide):
        futures = [in_thread(partial(_run, flow), "om_batch") for flow in request.flows]
        return [future.result() for future in futures]
    if isinstance(request, Leased):
        with _kept(request.lease):
            return _run(request.requests)
    if request.seconds is None:
        return _read_outcome(request.function)
    future = in_thread(partial(_call, request), request.name)
    done, _ = wait({future}, timeout=request.seconds)
    return _read_outcome(future.result) if done else Done(error=LateError())


@contextmanager
def _kept(lease: KeptLease) -> Iterator[None]:
    """Attend to a lease in a thread of its own."""
    over = threading.Event()

    def attend() -> None:
        while not over.wait(lease.seconds_left()):
            lease.attend()

    in_thread(attend, "om_lease")
    try:
        yield
    finally:
        over.set()


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


async def adrive(flow: RunFlow[ResultT], context: RunContext) -> Driven[ResultT]:
    """Run a flow to its end without blocking the event loop."""
    return await _arun(supervise(flow, context))


async def adrive_on_graph(flow: GraphFlow[ResultT], graph: Any) -> ResultT:
    """Run a flow around a graph to its end without blocking the event loop."""

    async def perform_on(request: GraphCall | Drive) -> Any:
        if isinstance(request, Drive):
            return await adrive(request.flow, request.context)
        return await _call_graph(graph, f"a{request.method}", request)

    return await _arun(flow, perform_on)


async def _arun(
    requests: Generator[Any, Any, ResultT],
    fulfil: Callable[[Any], Awaitable[Any]] | None = None,
) -> ResultT:
    fulfil = fulfil or aperform
    reply: Any = None
    with closing(requests):
        while True:
            try:
                request = requests.send(reply)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            reply = await fulfil(request)


async def aperform(request: Request) -> Any:
    """Fulfil a request: what may block in a thread, what can be awaited in a task."""
    if isinstance(request, Pause):
        return await _apause(request)
    if isinstance(request, SideBySide):
        return list(await asyncio.gather(*(_arun(flow) for flow in request.flows)))
    if isinstance(request, Leased):
        return await _arun_leased(request)
    if request.seconds is None:
        try:
            return Done(await _acall(request))
        except Exception as error:  # noqa: BLE001 a failure is a reply
            return Done(error=error)
    task = await finished_within(request.seconds, _acall(request), request.name)
    return _read_outcome(task.result) if task is not None else Done(error=LateError())


async def _arun_leased(leased: Leased) -> Any:
    async def attend() -> None:
        while True:
            await asyncio.sleep(leased.lease.seconds_left())
            await asyncio.wrap_future(in_thread(leased.lease.attend, "om_lease"))

    task = asyncio.create_task(attend(), name="om_lease")
    try:
        return await _arun(leased.requests)
    finally:
        task.cancel()


async def _apause(pause: Pause) -> Any:
    """Wait without holding a thread, so that a cancelled run ends at once."""
    if pause.wait is None:
        return await asyncio.sleep(pause.seconds)
    ends_at = time.monotonic() + pause.seconds
    while True:
        state = pause.wait(0)
        if state != "running" or time.monotonic() >= ends_at:
            return state
        await asyncio.sleep(POLL_SECONDS)


async def _acall(call: Call) -> Any:
    if inspect.iscoroutinefunction(call.function):
        return await call.function()
    result = await asyncio.wrap_future(in_thread(call.function, call.name))
    if isinstance(result, ReadyQuestion):
        result = _invoke_in_thread(result, call) if result.only_blocks else result.ainvoke()
    return await result if inspect.isawaitable(result) else result


def _invoke_in_thread(question: ReadyQuestion, call: Call) -> asyncio.Future[Any]:
    """Ask in a thread of our own, which nobody else needs when the call is given up on."""
    return asyncio.wrap_future(in_thread(question.invoke, call.name))


def _read_outcome(get: Callable[[], Any]) -> Done:
    """Return what came of a call; whatever it raises is an answer too."""
    try:
        return Done(get())
    except asyncio.CancelledError:  # its own: when the turn is cancelled nobody is here
        return Done(error=RuntimeError("the call was cancelled"))
    except Exception as error:  # noqa: BLE001 whatever is raised is a reply
        return Done(error=error)
