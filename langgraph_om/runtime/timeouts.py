"""Work that is waited for no longer than it may take, and left behind when it takes longer."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any


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
