"""The drivers of flows: one waits, the other awaits, and nothing else differs.

For a flow, only this file awaits, sleeps, starts threads or gives up; `flows.supervise` says what
for.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from functools import partial
from typing import Any, TypeVar

from langgraph_om.core.effects import (
    Call,
    CallReply,
    LateError,
    Pause,
    Request,
    Requests,
    SideBySide,
)
from langgraph_om.models.ask import ReadyQuestion, only_blocks
from langgraph_om.runtime.flows import FlowResult, RunContext, RunFlow, supervise

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


# --- Waiting -------------------------------------------------------------------------------------


def drive(flow: RunFlow[ResultT], context: RunContext) -> FlowResult[ResultT]:
    """Run a flow to its end, waiting for each reply."""
    return fulfil(supervise(flow, context))


def fulfil(requests: Requests[ResultT]) -> ResultT:
    """Fulfil requests one after the other, and return the result."""
    reply: Any = None
    with closing(requests):
        while True:
            try:
                request = requests.send(reply)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            reply = perform(request)


def perform(request: Request) -> Any:
    """Fulfil a request: a call without a limit in place, one with a limit in a thread."""
    if isinstance(request, Pause):
        return time.sleep(request.seconds)
    if isinstance(request, SideBySide):
        futures = [in_thread(partial(fulfil, flow), "om_batch") for flow in request.flows]
        return [future.result() for future in futures]
    if request.seconds is None:
        return _read_outcome(request.function)
    future = in_thread(partial(_call, request), request.name)
    done, _ = wait({future}, timeout=request.seconds)
    return _read_outcome(future.result) if done else CallReply(error=LateError())


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


async def adrive(flow: RunFlow[ResultT], context: RunContext) -> FlowResult[ResultT]:
    """Run a flow to its end without blocking the event loop."""
    return await afulfil(supervise(flow, context))


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
            reply = await aperform(request)


async def aperform(request: Request) -> Any:
    """Fulfil a request: what may block in a thread, what can be awaited in a task."""
    if isinstance(request, Pause):
        return await asyncio.sleep(request.seconds)
    if isinstance(request, SideBySide):
        return list(await asyncio.gather(*(afulfil(flow) for flow in request.flows)))
    if request.seconds is None:
        try:
            return CallReply(await _acall(request))
        except Exception as error:  # noqa: BLE001 a failure is a reply
            return CallReply(error=error)
    task = await finished_within(request.seconds, _acall(request), request.name)
    return _read_outcome(task.result) if task is not None else CallReply(error=LateError())


async def _acall(call: Call) -> Any:
    if call.awaited is not None:
        with suppress(NotImplementedError):  # a checkpointer may have methods that block alone
            return await call.awaited()
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
        return CallReply(error=RuntimeError("the call was cancelled"))
    except Exception as error:  # noqa: BLE001 whatever is raised is a reply
        return CallReply(error=error)
