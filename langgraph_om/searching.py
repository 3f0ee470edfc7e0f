"""Find what was said and noted, and list threads, outside of any run."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from langgraph_om.archive import ArchivedThread, MessageArchive
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.search.lookup import Lookup, SearchHit, build_filter, read_time
from langgraph_om.search.source import find_near_search


class Searchable:
    """The methods of a memory with which an application finds what was said and noted."""

    _runner: StepRunner
    archive: MessageArchive | None
    messages_key: str

    def search(
        self,
        query: str,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        state: Any = None,
        before: datetime | str | None = None,
        after: datetime | str | None = None,
        role: str | None = None,
        tool_name: str | None = None,
        limit: int = 8,
        store: Any = None,
    ) -> list[SearchHit]:
        """Find messages and observations by words, the best first; asks no model.

        In the archive, or in a conversation that is passed. `retrieval` need not be on. Nothing in
        the query is an operator; a query without words finds nothing.

        Args:
            query: What to look for.
            thread_id: The thread to look in.
            resource_id: The user or entity whose threads to look in; with `thread_id`, whose the
                thread has to be.
            state: A conversation to look in instead of the archive: a list of messages, or a state
                as for `llm_input_messages`, whose observations are found too.
            before: Only what was said before this time, or its ISO text; without a zone it is one
                of the memory's `timezone`.
            after: Only what was said at this time or later.
            role: Only messages of this role: `"user"`, `"assistant"` or `"tool"`.
            tool_name: Only calls of this tool and their results.
            limit: How many hits to return at most, 1000 and fewer.
            store: With `retrieval={"vector": True}`, the LangGraph store with the vectors, so that
                what is near in meaning is found too.

        Raises:
            ConfigurationError: When it is not said where to look, or an argument cannot be meant.
            ArchiveError: When the archive's storage fails.
        """
        runner, timezone = self._runner, self._runner.settings.timezone
        wanted = build_filter(before, after, role, tool_name, timezone)
        lookup = Lookup(runner.settings, runner.archive, find_near_search(runner.settings.features))
        if state is None:
            return lookup.search_archive(
                query, thread_id, resource_id, wanted, limit=limit, store=store
            )
        # A `StateSnapshot` is a tuple, too.
        is_plain = isinstance(state, list | tuple) and not hasattr(state, "values")
        seen = {self.messages_key: list(state)} if is_plain else state
        messages = runner.conversation(seen)
        return lookup.search_messages(
            query, runner.stored_record(seen), messages, wanted, limit=limit
        )

    async def asearch(
        self,
        query: str,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        state: Any = None,
        before: datetime | str | None = None,
        after: datetime | str | None = None,
        role: str | None = None,
        tool_name: str | None = None,
        limit: int = 8,
        store: Any = None,
    ) -> list[SearchHit]:
        """Do the same as `search` without blocking the event loop."""
        return await asyncio.to_thread(
            self.search,
            query,
            thread_id=thread_id,
            resource_id=resource_id,
            state=state,
            before=before,
            after=after,
            role=role,
            tool_name=tool_name,
            limit=limit,
            store=store,
        )

    def threads(
        self,
        resource_id: str,
        *,
        before: datetime | str | None = None,
        after: datetime | str | None = None,
        limit: int = 20,
        page: int = 0,
    ) -> list[ArchivedThread]:
        """Return the threads of a user or entity with titles and times, last updated first.

        Args:
            resource_id: The user or entity.
            before: Only threads created before this time, or its ISO text.
            after: Only threads created after this time.
            limit: How many to return at most.
            page: Which page of that size, from 0.

        Raises:
            ConfigurationError: When there is no archive, or an argument cannot be meant.
            ArchiveError: When the archive's storage fails.
        """
        if self.archive is None:
            msg = "`threads` lists what the `archive` keeps, and there is none; set `archive`"
            raise ConfigurationError(msg)
        timezone = self._runner.settings.timezone
        found, _ = self.archive.threads(
            resource_id,
            page=page,
            limit=limit,
            before=read_time("before", before, timezone),
            after=read_time("after", after, timezone),
        )
        return found

    async def athreads(
        self,
        resource_id: str,
        *,
        before: datetime | str | None = None,
        after: datetime | str | None = None,
        limit: int = 20,
        page: int = 0,
    ) -> list[ArchivedThread]:
        """Do the same as `threads` without blocking the event loop."""
        return await asyncio.to_thread(
            self.threads, resource_id, before=before, after=after, limit=limit, page=page
        )
