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
from langgraph_om.runtime.acting import Handle, Update, awaited, threaded, waited
from langgraph_om.runtime.runner import StepRunner

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

logger = logging.getLogger("langgraph_om")


class Movable:
    """The methods of a memory with which an application gives a thread to another user."""

    _runner: StepRunner

    def move_thread(
        self, thread_id: str, resource_id: str | None, to_resource_id: str, *, store: Any = None
    ) -> None:
        """Give a thread to another user or entity, with all that the archive and the store have.

        Searches, lists and `recall` of the new owner have it then, and those of the former one do
        not. Jobs at work for it are given up, and done again in its next turn. A run of the former
        owner that is under way is refused when it writes next; what it said is in the checkpoint.

        The thread's record names the new owner from their first turn on, or at once where
        `memory.of(graph, config).move_to(...)` moves it. Working memory of a user stays theirs.

        Args:
            thread_id: The thread.
            resource_id: Whose it is; `None` for nobody's.
            to_resource_id: Whose it is to be.
            store: The graph's store; needed where search by meaning (`retrieval.vector`) has put
                texts there.

        Raises:
            ConfigurationError: When there is no such thread, it is somebody else's, it cannot be
                told from a log that threads share, or the call cannot reach what it would leave
                behind. Nothing is moved then.
            ArchiveError: When the archive's storage fails; call again then.
            Exception: Whatever the store raises; call again then.
        """
        _move(self._runner, thread_id, resource_id, to_resource_id, store)

    amove_thread = threaded(move_thread)


class MoveActs(Handle):
    """The method of a thread's memory that gives it to another user."""

    @waited
    def move_to(self, resource_id: str) -> Requests[str]:
        """Give the thread to another user or entity, as `move_thread` of the memory does.

        It is the user's whom `config` names until then. Waits for a run under way, and notes the
        new owner in the thread's state, so that a further run of the former one is refused at once.

        Args:
            resource_id: Whose it is to be.

        Returns:
            The id of the act.

        Raises:
            ConfigurationError: As `move_thread`, or when `config` names no whole thread.
            ThreadBusyError: When a run goes on for too long. Where it began meanwhile, archive and
                store are moved already, and the same call moves the rest.
            ArchiveError: As `move_thread`.
        """
        runner, given = self._runner, self._config.get("configurable", {})
        if narrow := [name for name in ("checkpoint_id", "checkpoint_ns") if given.get(name)]:
            msg = f"`config` has a `{narrow[0]}`; a thread is moved as a whole: leave it out"
            raise ConfigurationError(msg)
        former = runner.runs.find_resource(self._config)
        store = getattr(self._graph, "store", None)
        yield from self._rest(also_of=resource_id)
        move = partial(_move, runner, self.thread_id, former, resource_id, store)
        yield from call_function(move, "om_move")
        moved = {"configurable": {**given, "resource_id": resource_id}}
        self._config = cast("RunnableConfig", {**self._config, **moved})
        return (yield from self._act(lambda _: self._open(resource_id)))

    amove_to = awaited(move_to)

    def _open(self, resource_id: str) -> Update:
        """Return the update with which the thread is the user's."""
        scope = self._runner.settings.scope
        named = {"thread_id": self.thread_id, "resource_id": resource_id, "scope": scope}
        key = derive_id("om", scope, self.thread_id, resource_id)
        return [{"type": "opened", "id": key, **named}]


def _move(
    runner: StepRunner, thread_id: str, resource_id: str | None, to_resource_id: str, store: Any
) -> None:
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
    from langgraph_om.features import list_keepers  # noqa: PLC0415 the table, which names this file

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
