"""Search by words over an archive: what one answers that has an index, and how others are searched.

An archive that cannot search is read, newest first as far as `MAX_READ`, and ranked here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Protocol, cast, runtime_checkable

from langgraph_om.archive.protocol import ArchivedMessage, MessageArchive
from langgraph_om.core.search.matching import Filter, Found, search_texts
from langgraph_om.core.wire import Group
from langgraph_om.errors import ConfigurationError

MAX_READ: Final = 5_000
"""How many messages are read of an archive that cannot search, the newest threads first."""
PAGE: Final = 500
MAX_GROUPS_READ: Final = 1_000


@dataclass(frozen=True, slots=True)
class ArchivedHit:
    """A message or a group of observations that a search found."""

    thread_id: str
    found: Found


@runtime_checkable
class SearchableArchive(Protocol):
    """An archive that searches by words; optional, as any other is read and ranked instead."""

    def search(
        self,
        query: str,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        role: str | None = None,
        tool_name: str | None = None,
        limit: int = 8,
        offset: int = 0,
        branches: Mapping[str, str] | None = None,
        groups: Mapping[str, Collection[str]] | None = None,
    ) -> list[ArchivedHit]:
        """Return messages of branches, and groups, that hold words of a query, best first.

        The query is text: nothing in it is an operator, and nothing raises.

        Args:
            query: What to look for.
            thread_id: The thread to look in.
            resource_id: The resource to look in; with `thread_id`, whose the thread has to be.
            before: Only what was said before this time.
            after: Only what was said at this time or later.
            role: Only messages of this role: `user`, `assistant`, `tool`.
            tool_name: Only calls of this tool and its results.
            limit: How many to return at most.
            offset: How many to leave out before.
            branches: By thread id, the names of branches (see `MessageArchive.append`) that are
                searched; of other threads the current ones are.
            groups: By thread id, the ids of the groups that are searched; of other threads those
                are that their logs have, as `MessageArchive.add_groups` was told last.

        Raises:
            ConfigurationError: When neither thread nor resource is given.
            ArchiveError: When the storage fails.
        """


def search_archive(
    archive: MessageArchive,
    query: str,
    wanted: Filter,
    *,
    thread_id: str | None,
    resource_id: str | None,
    limit: int,
    offset: int = 0,
    branches: Mapping[str, str] | None = None,
    groups: Mapping[str, Collection[str]] | None = None,
) -> list[ArchivedHit]:
    """Search any archive by words; the best hits first.

    Args:
        archive: What to search.
        query: What to look for.
        wanted: What has to be true of a hit.
        thread_id: The thread to look in.
        resource_id: The resource to look in; with `thread_id`, whose the thread has to be.
        limit: How many to return at most.
        offset: How many to leave out before.
        branches: By thread id, the names of branches that are searched instead of current ones.
        groups: By thread id, the ids of groups that are searched instead of those of the log.

    Raises:
        ConfigurationError: When neither thread nor resource is given.
        ArchiveError: When the storage fails.
    """
    if thread_id is None and resource_id is None:
        msg = "`thread_id` and `resource_id` are None; pass at least one of them"
        raise ConfigurationError(msg)
    if isinstance(archive, SearchableArchive):
        options: Mapping[str, Any] = {
            "before": wanted.before,
            "after": wanted.after,
            "role": wanted.role,
            "tool_name": wanted.tool_name,
            "branches": branches,
            "groups": groups,
        }
        return archive.search(
            query,
            thread_id=thread_id,
            resource_id=resource_id,
            limit=limit,
            offset=offset,
            **options,
        )
    hits: list[ArchivedHit] = []
    room = MAX_READ
    for thread in _list_threads(archive, thread_id, resource_id):
        branch = (branches or {}).get(thread)
        messages = [*islice(_read_back(archive, thread, branch), room)][::-1]
        room -= len(messages)
        rows = [(each.key, each.message, each.at) for each in messages]
        log = _read_log(archive, thread, (groups or {}).get(thread))
        hits += (ArchivedHit(thread, found) for found in search_texts(query, rows, log, wanted))
        if room <= 0:
            break
    return sorted(hits, key=lambda hit: -hit.found.score)[offset : offset + limit]


def _list_threads(
    archive: MessageArchive, thread_id: str | None, resource_id: str | None
) -> Iterator[str]:
    """Yield the threads to look in, the last updated first."""
    if thread_id is not None:
        known = archive.thread(thread_id)
        if known is not None and resource_id in {None, known.resource_id}:
            yield thread_id
        return
    page, has_more = 0, True
    while has_more:
        threads, has_more = archive.threads(str(resource_id), page=page)
        yield from (thread.id for thread in threads)
        page += 1


def _read_back(
    archive: MessageArchive, thread_id: str, branch: str | None
) -> Iterator[ArchivedMessage]:
    """Yield the visible messages of a thread, the newest first."""
    stop: int | None = None
    while rows := archive.messages(
        thread_id, stop=stop, limit=PAGE, newest_first=True, branch=branch
    ):
        yield from reversed(rows)
        stop = rows[0].position


def _read_log(
    archive: MessageArchive, thread_id: str, known: Collection[str] | None
) -> list[Group]:
    """Read the groups of a thread that are searched."""
    read = archive.groups(thread_id=thread_id, limit=MAX_GROUPS_READ, in_log=known is None)
    return [cast("Group", group) for group in read if known is None or group["id"] in known]
