"""Give a thread to another user, wherever memory keeps it.

The archive goes first, in one transaction: from then on it answers the new owner, and refuses who
writes for the former one. The store's texts follow, which are shown to nobody meanwhile.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from langgraph_om.archive import IN_STORE
from langgraph_om.archive.types import describe_shared_log
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.effects import Requests, call_function
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.meaning import Meaning
from langgraph_om.runtime.acting import GraphThread
from langgraph_om.runtime.runner import StepRunner

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
    if store is None and "index" in runner.store_uses | archive.noted_stores():
        msg = (
            f"`store` is missing, and {IN_STORE['index']} would stay the former owner's; "
            f"the thread {thread_id!r} is not moved yet: pass the graph's store, `store=...`"
        )
        raise ConfigurationError(msg)
    meaning = runner.settings.parts.meaning or Meaning()
    meaning.flush()
    archive.move_thread(thread_id, resource_id, to_resource_id)
    if store is not None:
        meaning.move_thread(thread_id, resource_id, to_resource_id, store)
    runner.forget([thread_id])
    logger.info("thread %r: moved from %r to %r", thread_id, resource_id, to_resource_id)
