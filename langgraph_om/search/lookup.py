"""Search for the application's own code: the sources of recall, and hits as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, cast

from langchain_core.messages import BaseMessage

from langgraph_om.archive import MessageArchive
from langgraph_om.core.additions import find_label
from langgraph_om.core.config.checks import check_count
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import keyed_messages
from langgraph_om.core.search import Filter, Kind, cut_excerpt, query_words
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.search.archive_source import ArchiveSource, FindGroups, IndexedStateSource
from langgraph_om.search.source import NearSearch, RecallHit, SearchRequest

MAX_LIMIT: Final = 1_000


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message, or a group of observations, that `memory.search` found."""

    kind: Kind
    """`"message"` or `"observations"`."""
    id: str
    """The message's id, or that of the first message the observations were written from."""
    thread_id: str
    thread_title: str | None
    role: str | None
    """Who said it: `"user"`, `"assistant"`, `"tool"`; `None` for observations."""
    at: datetime | None
    """When it was said, or observed; `None` where that is not known."""
    excerpt: str
    """About 240 characters around the words that were found."""
    score: float
    """How well it matches: near 1 when it holds every word often, or means the same."""


@dataclass(frozen=True)
class Lookup:
    """Searches what one memory keeps."""

    settings: Settings
    archive: MessageArchive | None
    near: NearSearch | None
    """What searches beside the words; `None` for nothing."""

    def search_archive(
        self,
        query: str,
        thread_id: str | None,
        resource_id: str | None,
        wanted: Filter,
        *,
        limit: int,
        store: Any = None,
    ) -> list[SearchHit]:
        """Search the archive, in a thread or in all threads of a resource.

        Raises:
            ConfigurationError: When there is no archive, or neither of the two is given.
            ArchiveError: When the storage fails.
        """
        if self.archive is None:
            msg = (
                "`state` is None and there is no `archive`, so there is nothing to search; pass "
                "the conversation as `state`, or set `archive`"
            )
            raise ConfigurationError(msg)
        if not thread_id and not resource_id:
            msg = (
                "`thread_id` and `resource_id` are missing; pass the one whose messages to "
                "search, or a conversation as `state`"
            )
            raise ConfigurationError(msg)
        who = Identity(thread_id or "", resource_id)
        source = ArchiveSource(
            self.archive,
            who,
            "thread" if thread_id else "resource",
            self.settings.times_of,
            self._find_near(who, store, in_resource=not thread_id),
            logs=self._read_log_of_resource(self.archive, who),
            knows_all=self.settings.scope == "resource",
        )
        return _look_up(source, query, wanted, limit)

    def search_messages(
        self,
        query: str,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        wanted: Filter,
        *,
        limit: int,
    ) -> list[SearchHit]:
        """Search a conversation, and the observations in its record."""
        keyed = keyed_messages(messages)
        times = self.settings.times_of(keyed, record["stamps"])
        entries = [(key, message, at) for (key, message), at in zip(keyed, times, strict=True)]
        thread_id, title = record["thread_id"], find_label(record)
        source = IndexedStateSource(thread_id, entries, title, record["log"])
        return _look_up(source, query, wanted, limit)

    def _read_log_of_resource(self, archive: MessageArchive, who: Identity) -> dict[str, set[str]]:
        """Return the ids of the observations in a resource's log, by the threads they are about."""
        known = archive.thread(who.thread_id) if who.resource_id is None else None
        resource = known.resource_id if known is not None else who.resource_id
        read = self.settings.features.first("read_history")
        if read is None or resource is None:
            return {}
        records: list[MemoryRecord] = read(archive, resource, 1)
        found: dict[str, set[str]] = {}
        for group in records[0]["log"] if records else ():
            found.setdefault(cast("str", group["thread_id"]), set()).add(group["id"])
        return found

    def _find_near(self, who: Identity, store: Any, *, in_resource: bool) -> FindGroups | None:
        near = self.near
        if near is None or store is None:
            return None

        def find(query: str, limit: int) -> list[RecallHit]:
            return near.find_near(query, limit, who, store, in_resource=in_resource)

        return find


def build_filter(
    before: datetime | str | None,
    after: datetime | str | None,
    role: str | None,
    tool_name: str | None,
    timezone: tzinfo,
) -> Filter:
    """Read the filters of a search.

    Raises:
        ConfigurationError: When a time cannot be read.
    """
    return Filter(
        read_time("before", before, timezone),
        read_time("after", after, timezone),
        role or None,
        tool_name or None,
    )


def read_time(option: str, value: datetime | str | None, timezone: tzinfo) -> datetime | None:
    """Read a time or its ISO text; without a zone it is one of `timezone`.

    Raises:
        ConfigurationError: When it is neither.
    """
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone)
        return aware.astimezone(UTC)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        msg = f"`{option}` is {value!r}; pass a datetime or an ISO 8601 text such as '2026-03-15'"
        raise ConfigurationError(msg) from error


def check_query(query: object) -> None:
    """Refuse what is no text.

    Raises:
        ConfigurationError: When it is not.
    """
    if not isinstance(query, str):
        msg = f"`query` is {query!r}; pass a text"
        raise ConfigurationError(msg)


def _look_up(
    source: ArchiveSource | IndexedStateSource, query: str, wanted: Filter, limit: int
) -> list[SearchHit]:
    check_query(query)
    check_count("limit", limit)
    words = query_words(query)
    hits = source.search(SearchRequest(query, min(limit, MAX_LIMIT), wanted))
    return [
        SearchHit(
            kind=hit.kind,
            id=hit.cursor,
            thread_id=hit.thread.id,
            thread_title=hit.thread.title,
            role=hit.role,
            at=hit.updated,
            excerpt=cut_excerpt(hit.text, words),
            score=round(hit.score, 4),
        )
        for hit in hits
    ]
