"""Give a thread to another user, wherever memory keeps it.

The archive goes first, in one transaction: from then on it answers the new owner, and refuses who
writes for the former one. The store's texts follow, which are shown to nobody meanwhile.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import RunnableConfig

from langgraph_om.archive.protocol import describe_shared_log
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.effects import Requests, call_function
from langgraph_om.core.step.step import Feature
from langgraph_om.errors import ConfigurationError
from langgraph_om.features import list_keepers
from langgraph_om.runtime.acting import GraphThread
from langgraph_om.runtime.runner import StepRunner

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

logger = logging.getLogger("langgraph_om")


def move_to(thread: GraphThread, resource_id: str) -> Requests[str]:
    """Give a thread to another user, in its state too."""
    runner, given = thread.runner, thread.config.get("configurable", {})
    if narrow := [name for name in ("checkpoint_id", "checkpoint_ns") if given.get(name)]:
        msg = f"`config` has a `{narrow[0]}`; a thread is moved as a whole: leave it out"
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
    """Give a thread to another user, in the archive and the store."""
    archive = runner.archive
    if archive is None:
        msg = (
            f"the thread {thread_id!r} cannot be moved: without an `archive` a thread is whose the "
            f"run says; run it with the other `resource_id`"
        )
        raise ConfigurationError(msg)
    if runner.settings.scope == "resource":
        raise ConfigurationError(describe_shared_log(thread_id, resource_id or to_resource_id))
    keepers = _list_keepers(runner, archive, store, thread_id)
    for keeper in keepers:
        keeper.flush()
    archive.move_thread(thread_id, resource_id, to_resource_id)
    if store is not None:
        for keeper in keepers:
            keeper.move_thread(thread_id, resource_id, to_resource_id, store)
    runner.forget([thread_id])
    logger.info("thread %r: moved from %r to %r", thread_id, resource_id, to_resource_id)


def _list_keepers(
    runner: StepRunner, archive: SQLAlchemyArchive, store: Any, thread_id: str
) -> list[Feature]:
    """Return the features that have something of a thread in the graph's store.

    Raises:
        ConfigurationError: When that would be left to the former owner.
    """
    found = list_keepers(runner.settings.features)
    keepers = [keeper for keeper in found if "move_thread" in vars(type(keeper))]
    used = runner.store_uses | archive.noted_stores()
    kept = [keeper.kept_in_store for keeper in keepers if keeper.store_use in used]
    if store is None and kept:
        msg = (
            f"`store` is missing, and {' and '.join(kept)} would stay the former owner's; the "
            f"thread {thread_id!r} is not moved yet: pass the graph's store, `store=...`"
        )
        raise ConfigurationError(msg)
    return keepers
