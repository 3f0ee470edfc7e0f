"""Delete what is known of a thread or a user, wherever memory, or LangGraph for it, keeps that.

Where something would be left that a call cannot reach, it raises, and says what; the order is such
that the same call can be made again: checkpoints go first, as the archive knows the threads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from langgraph_om.archive import IN_STORE, StoreUse
from langgraph_om.core.effects import Requests, call_function, call_graph
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.meaning import Meaning
from langgraph_om.features.working.storage import delete_stored
from langgraph_om.runtime.acting import GraphThread
from langgraph_om.runtime.executors import BackgroundBuffering, ForgettingExecutor
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.telemetry import record_deletion

PAGE: Final = 200
"""How many threads, or checkpoints, are asked for at once."""


def delete_thread(
    runner: StepRunner, thread_id: str, resource_id: str | None, store: Any, checkpointer: Any
) -> Requests[list[str]]:
    """Delete a thread; return the threads whose checkpoints are left."""
    check = partial(_check_reach, runner, ["index"], store, checkpointer)
    yield from call_function(check, "om_delete")
    if checkpointer is not None:
        yield from call_graph(checkpointer, "delete_thread", thread_id)
    erase = partial(_erase_thread, runner, thread_id, resource_id, store)
    others: list[str] = yield from call_function(erase, "om_delete")
    return others if checkpointer is not None else [thread_id, *others]


def _erase_thread(
    runner: StepRunner, thread_id: str, resource_id: str | None, store: Any
) -> list[str]:
    """Delete a thread but for its checkpoints; return the threads that may hold words of it."""
    owner, began, parts = resource_id, time.time_ns(), runner.settings.parts
    if parts.archive is not None:
        owner = parts.archive.erase_thread(thread_id, resource_id, runner.clock)
    if store is not None:
        (parts.meaning or Meaning()).delete_thread(thread_id, owner, store)
    runner.forget([thread_id])
    record_deletion(thread_id, owner, began)
    return _list_archived(runner, owner) if owner and _is_shown_in_others(runner, owner) else []


def delete_from_graph(thread: GraphThread) -> Requests[list[str]]:
    """Delete a thread, with its checkpoints where its graph has a checkpointer."""
    owner = thread.runner.runs.find_resource(thread.config)
    saver = getattr(thread.graph, "checkpointer", None)
    checkpointer = saver if hasattr(saver, "delete_thread") else None
    return delete_thread(thread.runner, thread.id, owner, thread.store, checkpointer)


def delete_resource(
    runner: StepRunner, resource_id: str, store: Any, checkpointer: Any
) -> Requests[list[str]]:
    """Delete all threads of a resource; return the threads whose checkpoints are left."""
    check = partial(_check_reach, runner, ["index", "working"], store, checkpointer)
    yield from call_function(check, "om_delete")
    archived = partial(_list_archived, runner, resource_id)
    threads: list[str] = yield from call_function(archived, "om_delete")
    left = [*threads]
    if checkpointer is not None:
        for thread_id in threads:
            yield from call_graph(checkpointer, "delete_thread", thread_id)
        found, left = yield from _delete_unarchived(runner, resource_id, checkpointer)
        threads += found
    erase = partial(_erase_resource, runner, resource_id, threads, store)
    yield from call_function(erase, "om_delete")
    return left


def _erase_resource(
    runner: StepRunner, resource_id: str, threads: Sequence[str], store: Any
) -> None:
    """Delete a resource but for its checkpoints."""
    began, parts = time.time_ns(), runner.settings.parts
    if parts.archive is not None:
        parts.archive.erase_resource(resource_id)
    if store is not None:
        (parts.meaning or Meaning()).delete_resource(resource_id, threads, store)
        delete_stored(store, resource_id)
    runner.forget(threads, resource_id)
    record_deletion(None, resource_id, began)


def _delete_unarchived(
    runner: StepRunner, resource_id: str, checkpointer: Any
) -> Requests[tuple[list[str], list[str]]]:
    """Delete threads that only the checkpointer knows; return these, and those that stay."""
    done, left, limit = list[str](), list[str](), PAGE
    wanted = {"resource_id": resource_id}
    while True:
        found = yield from call_graph(checkpointer, "list", None, filter=wanted, limit=limit)
        listed = [str(each.config["configurable"]["thread_id"]) for each in found]
        new = [key for key in dict.fromkeys(listed) if key not in done and key not in left]
        if not new and len(listed) < limit:
            return done, left
        limit *= 1 if new else 2  # those that stay are listed again
        for thread_id in new:
            free = partial(_erase_if_free, runner, thread_id, resource_id)
            if not (yield from call_function(free, "om_delete")):
                left.append(thread_id)
                continue
            yield from call_graph(checkpointer, "delete_thread", thread_id)
            done.append(thread_id)


def _erase_if_free(runner: StepRunner, thread_id: str, resource_id: str) -> bool:
    """Return whether a thread is nobody else's; delete it from the archive if it is nobody's."""
    known = runner.archive.thread(thread_id) if runner.archive is not None else None
    if known is None:
        return True
    archiving = runner.settings.parts.archive
    if archiving is not None and known.resource_id is None:
        archiving.erase_thread(thread_id, None, runner.clock)
    return known.resource_id in {None, resource_id}


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
