"""Delete or move what is known of a thread or a user, wherever memory, or LangGraph, keeps that.

Both go one way: the state, the archive with its jobs, the texts of search by meaning, working
memory, and what this process remembers. Where something would be left that a call cannot reach, it
raises, and says what. The order is such that the same call can be made again: checkpoints are
deleted first, as the archive knows the threads, and written last when a thread moves, as the
archive says whose it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.runnables import RunnableConfig

from langgraph_om.archive import IN_STORE, ArchivedThread, StoreUse
from langgraph_om.archive.types import Aged
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import add_parents, derive_id
from langgraph_om.core.effects import Requests, call_function, call_graph
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.meaning import Meaning
from langgraph_om.features.working_store import delete_stored
from langgraph_om.runtime.acting import GraphThread
from langgraph_om.runtime.executors import BackgroundBuffering, InlineBuffering
from langgraph_om.runtime.hooks import record_deletion
from langgraph_om.runtime.runner import StepRunner

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

logger = logging.getLogger("langgraph_om")

PAGE: Final = 200
"""How many threads, or checkpoints, are asked for at once."""


# --- Moving --------------------------------------------------------------------------------------


def move_to(thread: GraphThread, resource_id: str) -> Requests[str]:
    """Give a thread to another user, in its state too."""
    runner, given = thread.runner, thread.config.get("configurable", {})
    if narrow := [name for name in ("checkpoint_id", "checkpoint_ns") if given.get(name)]:
        msg = f"`config` has a `{narrow[0]}`; only whole threads can be moved; omit it"
        raise ConfigurationError(msg)
    former = runner.runs.find_resource(thread.config)
    yield from thread.rest(also_of=resource_id)
    move = partial(move_thread, runner, thread.id, former, resource_id, thread.store)
    yield from call_function(move, "om_move")
    moved = {"configurable": {**given, "resource_id": resource_id}}
    thread.config = cast("RunnableConfig", {**thread.config, **moved})
    scope = runner.settings.scope
    named = {"thread_id": thread.id, "resource_id": resource_id, "scope": scope}
    key = derive_id("om", scope, thread.id, resource_id)
    return (yield from thread.act(lambda _: [{"type": "opened", "id": key, **named}]))


def move_thread(
    runner: StepRunner, thread_id: str, resource_id: str | None, to_resource_id: str, store: Any
) -> None:
    """Give a thread to another user, in the archive and the store.

    The archive goes first, in one transaction: from then on it answers the new owner, and refuses
    who writes for the former one. The store's texts follow, which are shown to nobody meanwhile.
    """
    archive, meaning = runner.archive, _find_meaning(runner)
    if archive is None:
        msg = (
            f"the thread {thread_id!r} cannot be moved: without an `archive`, the run names the "
            f"owner; run it with the other `resource_id`"
        )
        raise ConfigurationError(msg)
    would = f"would stay the former owner's; the thread {thread_id!r} is not moved yet"
    _check_store(runner, ["index"], store, would)
    meaning.flush()
    archive.move_thread(thread_id, resource_id, to_resource_id)
    if store is not None:
        meaning.move_thread(thread_id, resource_id, to_resource_id, store)
    runner.forget([thread_id])
    logger.info("thread %r: moved from %r to %r", thread_id, resource_id, to_resource_id)


# --- Deletion ------------------------------------------------------------------------------------


def delete_thread(
    runner: StepRunner, thread_id: str, resource_id: str | None, store: Any, checkpointer: Any
) -> Requests[list[str]]:
    """Delete a thread; return the threads whose checkpoints are left."""
    check = partial(_check_reach, runner, ["index"], store, checkpointer)
    yield from call_function(check, "om_delete")
    yield from _delete_checkpoints(checkpointer, [thread_id])
    erase = partial(_erase_thread, runner, thread_id, resource_id, store)
    others: list[str] = yield from call_function(erase, "om_delete")
    return others if checkpointer is not None else [thread_id, *others]


def _delete_checkpoints(checkpointer: Any, thread_ids: Sequence[str]) -> Requests[None]:
    """Delete the checkpoints of threads; without a checkpointer, nothing."""
    for thread_id in thread_ids if checkpointer is not None else ():
        yield from call_graph(checkpointer.delete_thread, checkpointer.adelete_thread, thread_id)


def _find_meaning(runner: StepRunner) -> Meaning:
    """Return what deletes from a store, in a memory that puts nothing there, too."""
    return runner.settings.parts.meaning or Meaning()


def _record_thread(runner: StepRunner, thread_id: str, resource_id: str | None, began: int) -> None:
    """Record that a thread is deleted; `began` is in nanoseconds since 1970."""
    store_id = derive_id("om", runner.settings.scope, thread_id, resource_id)
    record_deletion(thread_id, resource_id, store_id, began)


def _erase_thread(
    runner: StepRunner, thread_id: str, resource_id: str | None, store: Any
) -> list[str]:
    """Delete a thread but for its checkpoints; return the threads that may hold words of it."""
    owner, began, parts = resource_id, time.time_ns(), runner.settings.parts
    if parts.archive is not None:
        owner = parts.archive.erase_thread(thread_id, resource_id)
    if store is not None:
        _find_meaning(runner).delete_thread(thread_id, owner, store)
    runner.forget([thread_id])
    _record_thread(runner, thread_id, owner, began)
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
    yield from _delete_checkpoints(checkpointer, threads)
    if checkpointer is not None:
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
        _find_meaning(runner).delete_resource(resource_id, threads, store)
        delete_stored(store, resource_id)
    runner.forget(threads, resource_id)
    record_deletion(None, resource_id, resource_id, began)


def _delete_unarchived(
    runner: StepRunner, resource_id: str, checkpointer: Any
) -> Requests[tuple[list[str], list[str]]]:
    """Delete threads that only the checkpointer knows; return these, and those that stay."""
    done, left, limit = list[str](), list[str](), PAGE
    wanted = {"resource_id": resource_id}
    while True:
        found = yield from call_graph(
            checkpointer.list, checkpointer.alist, None, filter=wanted, limit=limit
        )
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
            yield from _delete_checkpoints(checkpointer, [thread_id])
            done.append(thread_id)


def _erase_if_free(runner: StepRunner, thread_id: str, resource_id: str) -> bool:
    """Return whether a thread is nobody else's; delete it from the archive if it is nobody's."""
    known = runner.archive.thread(thread_id) if runner.archive is not None else None
    if known is None:
        return True
    archiving = runner.settings.parts.archive
    if archiving is not None and known.resource_id is None:
        archiving.erase_thread(thread_id, None)
    return known.resource_id in {None, resource_id}


def _is_shown_in_others(runner: StepRunner, resource_id: str) -> bool:
    """Return whether what is known of a thread is shown in others of its resource, too."""
    archive, parts = runner.archive, runner.settings.parts
    has_log = archive is not None and archive.load_record(resource_id)[0] is not None
    return has_log or parts.sharing is not None or parts.inject is not None


def _list_archived(runner: StepRunner, resource_id: str) -> list[str]:
    found: list[str] = []
    page, has_more = 0, runner.archive is not None
    while runner.archive is not None and has_more:
        threads, has_more = runner.archive.threads(resource_id, page=page, limit=PAGE)
        found += [thread.id for thread in threads]
        page += 1
    return found


# --- Retention -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What `prune` deleted; with `dry_run`, what it would delete."""

    threads: list[str]
    """Ids of the deleted threads."""
    messages: int
    """How many old messages of other threads."""
    observations: int
    """How many groups of observations from these."""


def prune(
    runner: StepRunner,
    older_than: timedelta | None,
    store: Any,
    checkpointer: Any,
    *,
    keep_observations: bool,
    dry_run: bool,
) -> Requests[PruneReport]:
    """Delete what is older, thread by thread: whole threads first, then old messages of others."""
    if not isinstance(older_than, timedelta) or older_than <= timedelta(0):
        msg = (
            f"`older_than` is {older_than!r}; pass a `timedelta` above 0, such as "
            f"`timedelta(days=90)`, "
            f"or set `retention`"
        )
        raise ConfigurationError(msg)
    archive = runner.archive
    if archive is None:
        msg = "`prune` needs an `archive`, which knows how old messages are; set `archive`"
        raise ConfigurationError(msg)
    before, threads = runner.clock() - older_than, list[str]()
    if dry_run:
        idle = yield from call_function(partial(archive.idle_threads, before), "om_prune")
        threads = [thread.id for thread in idle]
    else:
        check = partial(_check_reach, runner, ["index"], store, checkpointer)
        yield from call_function(check, "om_prune")
        batch = partial(_prune_threads, runner, before, store)
        while gone := (yield from call_function(batch, "om_prune")):
            yield from _delete_checkpoints(checkpointer, gone)
            threads += gone
    messages = observations = 0
    for thread in (yield from call_function(partial(archive.aged_threads, before), "om_prune")):
        if not add_parents([thread.id]).isdisjoint(threads):
            continue  # in a dry run
        act = partial(archive.aged, thread.id)
        if not dry_run:
            act = partial(_prune_messages, archive, _find_meaning(runner), store, thread)
        old = yield from call_function(
            partial(act, before, keep_observations=keep_observations), "om_prune"
        )
        messages, observations = messages + len(old.messages), observations + len(old.groups)
    if not dry_run and not keep_observations:
        done = partial(archive.prune_jobs, older_than=older_than.total_seconds())
        yield from call_function(done, "om_prune")
    if not dry_run and (messages or observations):
        yield from call_function(archive.wipe_deleted, "om_prune")
        logger.info("pruned %d message(s) and %d observation(s)", messages, observations)
    return PruneReport(threads, messages, observations)


def _prune_threads(runner: StepRunner, before: datetime, store: Any) -> list[str]:
    """Delete some old threads but for their checkpoints.

    The archive goes first: only it can tell, in its transaction, that nobody comes back to one.
    """
    began, archive = time.time_ns(), runner.archive
    gone = [] if archive is None else archive.prune_threads(before)
    for thread in gone:
        if store is not None:
            _find_meaning(runner).delete_thread(thread.id, thread.resource_id, store)
        _record_thread(runner, thread.id, thread.resource_id, began)
    ids = [thread.id for thread in gone]
    runner.forget(ids)
    if ids:
        logger.info("pruned %d thread(s): %s", len(ids), ", ".join(ids))
    return ids


def _prune_messages(
    archive: SQLAlchemyArchive,
    meaning: Meaning,
    store: Any,
    thread: ArchivedThread,
    before: datetime,
    *,
    keep_observations: bool,
) -> Aged:
    """Delete old messages of a thread.

    The store goes first: the same call can be made again while the archive says what is old. And
    once more, as others may have put something there until the archive said that it is gone.
    """
    who, keeps = Identity(thread.id, thread.resource_id), {"keep_observations": keep_observations}
    if store is not None:
        meaning.delete_aged(who, archive.aged(thread.id, before, **keeps), store)
    aged = archive.prune_messages(thread.id, before, **keeps)
    if store is not None:
        meaning.delete_aged(who, aged, store)
    return aged


def _check_store(runner: StepRunner, uses: Sequence[StoreUse], store: Any, would: str) -> None:
    """Check that a call has the graph's store, where any process has put something there.

    Raises:
        ConfigurationError: When it has none.
    """
    used: set[StoreUse] = set(runner.store_uses)
    if runner.archive is not None:
        used |= runner.archive.noted_stores()
    kept = [IN_STORE[use] for use in uses if use in used]
    if store is None and kept:
        msg = (
            f"`store` is missing, and {' and '.join(kept)} {would}: pass the graph's store, "
            f"`store=...`"
        )
        raise ConfigurationError(msg)


def _check_reach(
    runner: StepRunner, uses: Sequence[StoreUse], store: Any, checkpointer: Any
) -> None:
    """Check that a deletion reaches all that there is.

    Args:
        uses: What it deletes in the graph's store.

    Raises:
        ConfigurationError: When something would be left.
    """
    _check_store(runner, uses, store, "would be left; nothing is deleted yet")
    # The results of `BackgroundBuffering` end with the process, and so do its jobs.
    is_kept_here = not isinstance(runner.buffering, BackgroundBuffering | InlineBuffering)
    if runner.archive is None and store is None and checkpointer is None and not is_kept_here:
        msg = (
            "this call can't reach anything: without an `archive`, all of memory is in the "
            "threads' checkpoints; pass the graph's checkpointer, "
            "`checkpointer=...`"
        )
        raise ConfigurationError(msg)
