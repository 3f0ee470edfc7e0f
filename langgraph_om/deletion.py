"""Delete what is known of a thread or a user, wherever memory, or LangGraph for it, keeps that.

Where something would be left that a call cannot reach, it raises, and says what; the order is such
that the same call can be made again: checkpoints go first, as the archive knows the threads.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from langgraph_om.archive import StoreUse
from langgraph_om.core.effects import Requests, call_function
from langgraph_om.core.step.step import Feature
from langgraph_om.errors import ConfigurationError
from langgraph_om.features import list_keepers
from langgraph_om.runtime.acting import awaited, waited
from langgraph_om.runtime.drivers import aperform
from langgraph_om.runtime.executors import BackgroundBuffering, ForgettingExecutor
from langgraph_om.runtime.flows import call_graph
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.telemetry import record_deletion

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

PAGE: Final = 200
"""How many threads, or checkpoints, are asked for at once."""


async def _afulfil(flow: Requests[list[str]]) -> list[str]:
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


class Deletable:
    """The methods of a memory with which an application deletes."""

    _runner: StepRunner
    archive: SQLAlchemyArchive | None

    @waited
    def delete_thread(
        self,
        thread_id: str,
        *,
        resource_id: str | None = None,
        store: Any = None,
        checkpointer: Any = None,
    ) -> Requests[list[str]]:
        """Delete a thread: its messages, observations, titles, search entries and jobs.

        From the archive, from the store, and from the checkpointer where that is passed. A job that
        is at work for the thread cannot keep its result any more. Runs on a server that wait for
        it, or for a pause of it, are deleted there, last of all.

        Args:
            resource_id: Whose it is, where no archive knows.
            store: The graph's store; needed where search by meaning (`retrieval.vector`) has put
                texts there.
            checkpointer: The graph's checkpointer, to delete the thread's checkpoints too.

        Returns:
            The threads whose checkpoints are left and may hold words of it: itself without a
            `checkpointer`, and others of its resource where they share a log, or are shown what was
            said in it. Their newest checkpoint has these words until their next turn,
            former ones for good.

        Raises:
            ConfigurationError: When the call cannot reach what it would leave behind. Nothing is
                deleted then.
            ArchiveError: When the archive's storage fails, or keeps traces; call again then.
            Exception: Whatever checkpointer and store raise, and the client of `ServerBuffering`
                where it is not reached; call again then. A run that is left does nothing.
        """
        runner, owner, began = self._runner, resource_id, time.time_ns()
        keepers = self._find_keepers("delete_thread", store, checkpointer)
        if checkpointer is not None:
            yield from call_graph(checkpointer, "delete_thread", thread_id)
        runner.spans.clear()
        for erase in runner.settings.features.having("erase_thread"):
            owner = erase(thread_id, resource_id, runner.clock)
        if store is not None:
            for keeper in keepers:
                keeper.delete_thread(thread_id, owner, store)
        runner.forget([thread_id])
        record_deletion(thread_id, owner, began)
        others = self._list_archived(owner) if owner and self._is_shown_in_others(owner) else []
        return others if checkpointer is not None else [thread_id, *others]

    @waited
    def delete_resource(
        self, resource_id: str, *, store: Any = None, checkpointer: Any = None
    ) -> Requests[list[str]]:
        """Delete all threads of a resource, as `delete_thread` does, and its working memory.

        With a `checkpointer` these are also threads that only it knows, such as those from before
        there was memory: all with this `resource_id` in a run's `configurable`. A thread that
        belongs to another resource in the archive stays.

        Args:
            store: The graph's store; needed where it has texts of search by meaning, or working
                memory.
            checkpointer: The graph's checkpointer, to delete the threads' checkpoints too.

        Returns:
            The threads whose checkpoints are left and may hold words of it: those that the archive
            knew without a `checkpointer`, those of another resource with one.

        Raises:
            ConfigurationError: As `delete_thread`.
            ArchiveError: As `delete_thread`.
            Exception: As `delete_thread`.
        """
        runner, began = self._runner, time.time_ns()
        keepers = self._find_keepers("delete_resource", store, checkpointer)
        threads, left = self._list_archived(resource_id), list[str]()
        if checkpointer is not None:
            for thread_id in threads:
                yield from call_graph(checkpointer, "delete_thread", thread_id)
            found, left = yield from self._delete_unarchived(resource_id, checkpointer)
            threads += found
        else:
            left = [*threads]
        runner.spans.clear()
        for erase in runner.settings.features.having("erase_resource"):
            erase(resource_id)
        if store is not None:
            for keeper in keepers:
                keeper.delete_resource(resource_id, threads, store)
        runner.forget(threads, resource_id)
        record_deletion(None, resource_id, began)
        return left

    adelete_thread = awaited(delete_thread, _afulfil)
    adelete_resource = awaited(delete_resource, _afulfil)

    def _delete_unarchived(
        self, resource_id: str, checkpointer: Any
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
                known = self.archive.thread(thread_id) if self.archive is not None else None
                if known is not None and known.resource_id not in {None, resource_id}:
                    left.append(thread_id)
                    continue
                yield from call_graph(checkpointer, "delete_thread", thread_id)
                done.append(thread_id)
                if known is not None:  # it is nobody's there
                    for erase in self._runner.settings.features.having("erase_thread"):
                        erase(thread_id, None, self._runner.clock)

    def _is_shown_in_others(self, resource_id: str) -> bool:
        """Return whether what is known of a thread is shown in others of its resource, too."""
        has_log = self.archive is not None and self.archive.record_revision(resource_id) > 0
        features = self._runner.settings.features.all
        return has_log or any(feature.shows_other_threads for feature in features)

    def _list_archived(self, resource_id: str) -> list[str]:
        found: list[str] = []
        page, has_more = 0, self.archive is not None
        while self.archive is not None and has_more:
            threads, has_more = self.archive.threads(resource_id, page=page, limit=PAGE)
            found += [thread.id for thread in threads]
            page += 1
        return found

    def _find_keepers(self, hook: str, store: Any, checkpointer: Any) -> list[Feature]:
        """Return the features that have a hook to delete what they keep in the graph's store."""
        runner, archive = self._runner, self.archive
        keepers = [
            keeper
            for keeper in list_keepers(runner.settings.features)
            if hook in vars(type(keeper))
        ]
        used: set[StoreUse] = set(runner.store_uses)
        if archive is not None:
            used |= archive.noted_stores()
        names = {keeper.store_use: keeper.kept_in_store for keeper in keepers}
        kept = [names[use] for use in sorted(used & names.keys())]
        if store is None and kept:
            msg = (
                f"`store` is missing, and {' and '.join(kept)} would be left; nothing is deleted "
                f"yet: pass the graph's store, `store=...`"
            )
            raise ConfigurationError(msg)
        # The results of `BackgroundBuffering` end with the process, and so do its jobs.
        is_kept_here = runner.settings.features.having("forget") or (
            isinstance(runner.buffering, ForgettingExecutor)
            and not isinstance(runner.buffering, BackgroundBuffering)
        )
        if archive is None and store is None and checkpointer is None and not is_kept_here:
            msg = (
                "there is nothing that this call can reach: without an `archive`, all that memory "
                "knows is in the threads' checkpoints; pass the graph's checkpointer, "
                "`checkpointer=...`"
            )
            raise ConfigurationError(msg)
        return keepers


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
