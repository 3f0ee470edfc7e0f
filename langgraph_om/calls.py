"""One question to a model: asked with a deadline, and answered whatever happens.

What a model raises, or that it does not answer in time, is an answer too; a call that hangs is left
behind.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langgraph_om.core.observer import ModelCall, ModelReply
from langgraph_om.models import AgentModels, call_config, read_reply

__all__ = ["Calls", "aask", "ask"]


@dataclass(frozen=True)
class Calls:
    """What is needed to ask."""

    models: AgentModels
    clock: Callable[[], datetime]
    deadline: float
    """Seconds for all calls of one cycle together."""
    config: RunnableConfig | None = None
    """The configuration of the run, where it is not found around the call."""


def ask(call: ModelCall, calls: Calls, seconds: float) -> ModelReply:
    """Ask in a thread of its own, so that a call that hangs can be left behind."""
    future: Future[Any] = Future()
    config = call_config(call, calls.config)

    def run() -> None:
        try:
            future.set_result(_invoke(calls.models.get(call.role), call, config))
        except BaseException as error:  # noqa: BLE001 it is raised again where it is awaited
            future.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name=f"om_{call.role}", daemon=True).start()
    try:
        return read_reply(future.result(timeout=seconds), calls.clock())
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return ModelReply(calls.clock(), error=_named(error, calls.deadline))


def _invoke(model: Runnable[Any, Any], call: ModelCall, config: RunnableConfig) -> Any:
    if isinstance(model, RunnableLambda) and not hasattr(model, "func"):  # it can only be awaited
        return asyncio.run(cast("Any", model.ainvoke(call.messages, config)))
    return model.invoke(call.messages, config)


async def aask(call: ModelCall, calls: Calls, seconds: float) -> ModelReply:
    """Ask in a task of its own, so that a call that will not be cancelled can be left behind."""
    task = asyncio.create_task(_ainvoke(call, calls))
    task.add_done_callback(_take_notice)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    try:
        if not done:
            return ModelReply(calls.clock(), error=_named(TimeoutError(), calls.deadline))
        return read_reply(task.result(), calls.clock())
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return ModelReply(calls.clock(), error=_named(error, calls.deadline))


async def _ainvoke(call: ModelCall, calls: Calls) -> Any:
    model = await asyncio.to_thread(calls.models.get, call.role)
    return await model.ainvoke(call.messages, call_config(call, calls.config))


def _take_notice(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from complaining about the end of a call that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


def _named(error: Exception, deadline: float) -> Exception:
    if isinstance(error, TimeoutError) and not str(error):
        return TimeoutError(f"no answer within the deadline of {deadline:g} seconds")
    return error
