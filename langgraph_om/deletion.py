"""Delete what is known of a thread or a user, wherever memory, or LangGraph for it, keeps that.

Where something would be left that a call cannot reach, it raises, and says what; the order is such
that the same call can be made again: checkpoints go first, as the archive knows the threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from langgraph_om.archive import IN_STORE, StoreUse
from langgraph_om.core.effects import Requests, call_function
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.meaning import Meaning
from langgraph_om.features.working.storage import delete_stored
from langgraph_om.runtime.acting import GraphThread
from langgraph_om.runtime.drivers import aperform
from langgraph_om.runtime.executors import BackgroundBuffering, ForgettingExecutor
from langgraph_om.runtime.flows import call_graph
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.telemetry import record_deletion

PAGE: Final = 200
"""How many threads, or checkpoints, are asked for at once."""


async def afulfil_in_thread(flow: Requests[list[str]]) -> list[str]:
    """Fulfil what a flow asks of the checkpointer; the flow itself blocks, so it has a thread."""

    def go_on(reply: Any) -> tuple[Any, list[str]]:
        """Return what the flow asks for next, or its end."""
        try:
            return flow.send(reply), []
        except StopIteration as end:
            return None, end.value

    reply: Any = None
    while True:
        request, left = await asyncio.to_thread(go_on, reply)
        if request is None:
            return left
        reply = await aperform(request)


def delete_thread(
    runner: StepRunner, thread_id: str, resource_id: str | None, store: Any, checkpointer: Any
) -> Requests[list[str]]:
    """Delete a thread; return the threads whose checkpoints are left."""
    owner, began = resource_id, time.time_ns()
    _check_reach(runner, ["index"], store, checkpointer)
    if checkpointer is not None:
        yield from call_graph(checkpointer, "delete_thread", thread_id)
    archiving = runner.settings.parts.archive
    if archiving is not None:
        owner = archiving.erase_thread(thread_id, resource_id, runner.clock)
    if store is not None:
        (runner.settings.parts.meaning or Meaning()).delete_thread(thread_id, owner, store)
    runner.forget([thread_id])
    record_deletion(thread_id, owner, began)
    others = _list_archived(runner, owner) if owner and _is_shown_in_others(runner, owner) else []
    return others if checkpointer is not None else [thread_id, *others]


def delete_from_graph(thread: GraphThread) -> Requests[list[str]]:
    """Delete a thread, with its checkpoints where its graph has a checkpointer."""
    saver, owner = (
        getattr(thread.graph, "checkpointer", None),
        thread.runner.runs.find_resource(thread.config),
    )
    checkpointer = saver if hasattr(saver, "delete_thread") else None
    return delete_thread(thread.runner, thread.id, owner, thread.store, checkpointer)


def delete_resource(
    runner: StepRunner, resource_id: str, store: Any, checkpointer: Any
) -> Requests[list[str]]:
    """Delete all threads of a resource; return the threads whose checkpoints are left."""
    began = time.time_ns()
    _check_reach(runner, ["index", "working"], store, checkpointer)
    threads, left = _list_archived(runner, resource_id), list[str]()
    if checkpointer is not None:
        for thread_id in threads:
            yield from call_graph(checkpointer, "delete_thread", thread_id)
        found, left = yield from _delete_unarchived(runner, resource_id, checkpointer)
        threads += found
    else:
        left = [*threads]
    if runner.settings.parts.archive is not None:
        runner.settings.parts.archive.erase_resource(resource_id)
    if store is not None:
        meaning = runner.settings.parts.meaning or Meaning()
        meaning.delete_resource(resource_id, threads, store)
        delete_stored(store, resource_id)
    runner.forget(threads, resource_id)
    record_deletion(None, resource_id, began)
    return left


def _delete_unarchived(
    runner: StepRunner, resource_id: str, checkpointer: Any
) -> Requests[tuple[list[str], list[str]]]:
    """Delete threads that only the checkpointer knows; return these, and those that stay."""
    done, left, limit = list[str](), list[str](), PAGE
    while True:
        listed = yield from _list_threads(checkpointer, resource_id, limit)
        new = [key for key in dict.fromkeys(listed) if key not in done and key not in left]
        if not new and len(listed) < limit:
            return done, left
        limit *= 1 if new else 2  # those that stay are listed again
        for thread_id in new:
            known = runner.archive.thread(thread_id) if runner.archive is not None else None
            if known is not None and known.resource_id not in {None, resource_id}:
                left.append(thread_id)
                continue
            yield from call_graph(checkpointer, "delete_thread", thread_id)
            done.append(thread_id)
            archiving = runner.settings.parts.archive
            if known is not None and archiving is not None:  # it is nobody's there
                archiving.erase_thread(thread_id, None, runner.clock)


def _is_shown_in_others(runner: StepRunner, resource_id: str) -> bool:
    """Return whether what is known of a thread is shown in others of its resource, too."""
    has_log = runner.archive is not None and runner.archive.record_revision(resource_id) > 0
    return has_log or runner.settings.parts.inject is not None


def _list_archived(runner: StepRunner, resource_id: str) -> list[str]:
    found: list[str] = []
    page, has_more = 0, runner.archive is not None
    while runner.archive is not None and has_more:
        threads, has_more = runner.archive.threads(resource_id, page=page, limit=PAGE)
        found += [thread.id for thread in threads]
        page += 1
    return found


def _check_reach(
    runner: StepRunner, uses: Sequence[StoreUse], store: Any, checkpointer: Any
) -> None:
    """Check that a deletion reaches all that there is.

    Args:
        uses: What it deletes in the graph's store, where other processes may have put it.

    Raises:
        ConfigurationError: When something would be left.
    """
    archive = runner.archive
    used: set[StoreUse] = set(runner.store_uses)
    if archive is not None:
        used |= archive.noted_stores()
    kept = [IN_STORE[use] for use in uses if use in used]
    if store is None and kept:
        msg = (
            f"`store` is missing, and {' and '.join(kept)} would be left; nothing is deleted "
            f"yet: pass the graph's store, `store=...`"
        )
        raise ConfigurationError(msg)
    # The results of `BackgroundBuffering` end with the process, and so do its jobs.
    is_kept_here = isinstance(runner.buffering, ForgettingExecutor) and not isinstance(
        runner.buffering, BackgroundBuffering
    )
    if archive is None and store is None and checkpointer is None and not is_kept_here:
        msg = (
            "there is nothing that this call can reach: without an `archive`, all that memory "
            "knows is in the threads' checkpoints; pass the graph's checkpointer, "
            "`checkpointer=...`"
        )
        raise ConfigurationError(msg)


def _list_threads(checkpointer: Any, resource_id: str, limit: int) -> Requests[list[str]]:
    """Return the threads of a resource's newest checkpoints."""
    wanted = {"filter": {"resource_id": resource_id}, "limit": limit}

    def read() -> list[str]:
        return [_thread_of(each) for each in checkpointer.list(None, **wanted)]

    async def aread() -> list[str]:
        return [_thread_of(each) async for each in checkpointer.alist(None, **wanted)]

    return call_function(read, "om_graph", aread)


def _thread_of(checkpoint: Any) -> str:
    return str(checkpoint.config["configurable"]["thread_id"])
