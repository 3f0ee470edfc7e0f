"""Find what was said and noted, and list threads, outside of any run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import BaseMessage

from langgraph_om.archive import ArchivedThread
from langgraph_om.core.config.options import check_count
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import keyed_messages
from langgraph_om.core.effects import Requests, call_function
from langgraph_om.core.record.record import find_label
from langgraph_om.core.search import Filter, Kind, cut_excerpt, query_words
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.reading import (
    ArchiveSource,
    FindGroups,
    RecallHit,
    RecallSource,
    SearchError,
    SearchRequest,
    StateSource,
)
from langgraph_om.runtime.acting import GraphThread, describe_anothers
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.state import as_state

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

logger = logging.getLogger("langgraph_om")

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
    archive: SQLAlchemyArchive | None

    def search_archive(
        self,
        asked: SearchRequest,
        thread_id: str | None,
        resource_id: str | None,
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
        return _look_up(source, asked)

    def search_messages(
        self,
        asked: SearchRequest,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: Any = None,
    ) -> list[SearchHit]:
        """Search a conversation, and the observations in its record."""
        keyed = keyed_messages(messages)
        times = self.settings.times_of(keyed, record["stamps"])
        entries = [(key, message, at) for (key, message), at in zip(keyed, times, strict=True)]
        thread_id, title = record["thread_id"], find_label(record)
        who = Identity(thread_id, record["resource_id"])
        near = self._find_near(who, store, in_resource=False)
        source = StateSource(thread_id, entries, title, record["log"], near)
        return _look_up(source, asked)

    def search_thread(
        self,
        asked: SearchRequest,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: Any = None,
    ) -> list[SearchHit]:
        """Search a thread as it is now, with the messages that are in the archive alone."""
        found = self.search_messages(asked, record, messages, store)
        if self.archive is None or not record["thread_id"]:
            return found
        branch = record.get("branch")
        who = Identity(record["thread_id"], record["resource_id"])
        times = self.settings.times_of
        source = ArchiveSource(
            self.archive, who, "thread", times, stamps=record["stamps"], branch=branch
        )
        here = {message.id for message in messages}
        archived = _look_up(source, asked)
        found += [hit for hit in archived if hit.kind == "message" and hit.id not in here]
        return sorted(found, key=lambda hit: -hit.score)[: asked.most]

    def _read_log_of_resource(
        self, archive: SQLAlchemyArchive, who: Identity
    ) -> dict[str, set[str]]:
        """Return the ids of the observations in a resource's log, by the threads they are about."""
        known = archive.thread(who.thread_id) if who.resource_id is None else None
        resource = known.resource_id if known is not None else who.resource_id
        sharing = self.settings.parts.sharing
        if sharing is None or resource is None:
            return {}
        records = sharing.read_history(archive, resource, 1)
        found: dict[str, set[str]] = {}
        for group in records[0]["log"] if records else ():
            found.setdefault(cast("str", group["thread_id"]), set()).add(group["id"])
        return found

    def _find_near(self, who: Identity, store: Any, *, in_resource: bool) -> FindGroups | None:
        meaning = self.settings.parts.meaning
        if meaning is None or store is None:
            return None

        def find(query: str, limit: int) -> list[RecallHit]:
            try:
                return meaning.find_near(query, limit, who, store, in_resource=in_resource)
            except SearchError as error:  # words are found all the same
                logger.warning("thread %r: %s", who.thread_id, error)
                return []

        return find


def build_request(
    query: object,
    limit: int,
    timezone: tzinfo,
    *,
    before: datetime | str | None = None,
    after: datetime | str | None = None,
    role: str | None = None,
    tool_name: str | None = None,
) -> SearchRequest:
    """Read what is searched for, and in which limits."""
    if not isinstance(query, str):
        msg = f"`query` is {query!r}; pass a text"
        raise ConfigurationError(msg)
    check_count("limit", limit)
    latest = _read_limit("before", before, timezone)
    earliest = _read_limit("after", after, timezone)
    wanted = Filter(latest, earliest, role or None, tool_name or None)
    return SearchRequest(query, min(limit, MAX_LIMIT), wanted)


def _read_limit(option: str, value: datetime | str | None, timezone: tzinfo) -> datetime | None:
    return None if value is None else read_time(option, value, timezone)


def read_time(option: str, value: datetime | str, timezone: tzinfo) -> datetime:
    """Read a time or its ISO text, of which a day means its beginning; in UTC.

    Args:
        timezone: The zone of a time without one.

    Raises:
        ConfigurationError: When it is neither.
    """
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone)
        return aware.astimezone(UTC)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        msg = f"`{option}` is {value!r}; pass a datetime or an ISO 8601 text such as '2026-03-15'"
        raise ConfigurationError(msg) from error


def _look_up(source: RecallSource, asked: SearchRequest) -> list[SearchHit]:
    words = query_words(asked.query)
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
        for hit in source.search(asked)
    ]


def search_thread(
    thread: GraphThread, query: str, limit: int, **limits: Any
) -> Requests[list[SearchHit]]:
    """Search a thread as it is now; `limits` are those of `build_request`."""
    runner, state = thread.runner, (yield from thread.read())
    record, messages = runner.record(state), runner.conversation(state)
    timezone = runner.settings_for(record, messages).timezone
    asked = build_request(query, limit, timezone, **limits)
    lookup = Lookup(runner.settings, runner.archive)
    look = partial(lookup.search_thread, asked, record, messages, thread.store)
    hits: list[SearchHit] = yield from call_function(look, "om_search")
    # The record of a thread that never ran does not say which one it is.
    return [replace(hit, thread_id=hit.thread_id or thread.id) for hit in hits]


def list_checkpointed(checkpointer: Any, resource_id: str) -> list[ArchivedThread]:
    """Return the threads of a user or entity that a checkpointer has, last updated first.

    They are known by the metadata of their checkpoints, which have no titles.
    """
    if not hasattr(checkpointer, "list"):
        msg = "`graph` has no checkpointer, so its threads cannot be listed; compile it with one"
        raise ConfigurationError(msg)
    times: dict[str, list[datetime]] = {}
    for kept in checkpointer.list(None, filter={"resource_id": resource_id}):
        place = kept.config.get("configurable", {})
        if not place.get("checkpoint_ns"):
            at = datetime.fromisoformat(kept.checkpoint["ts"])
            times.setdefault(str(place.get("thread_id")), []).append(at)
    threads = [
        ArchivedThread(thread_id, resource_id, None, min(seen), max(seen))
        for thread_id, seen in times.items()
    ]
    return sorted(threads, key=lambda thread: thread.updated, reverse=True)


def _search_each(
    look: Callable[[str], list[SearchHit]], thread_ids: Sequence[str]
) -> list[SearchHit]:
    """Return what is found in some threads, the best first; without any, nothing is."""
    found: list[SearchHit] = []
    for thread_id in dict.fromkeys(thread_ids):
        if not isinstance(thread_id, str) or not thread_id:
            msg = f"`thread_id` has {thread_id!r}; pass ids of threads, which are texts"
            raise ConfigurationError(msg)
        found += look(thread_id)
    return sorted(found, key=lambda hit: -hit.score)


def search(
    runner: StepRunner,
    query: str,
    limit: int,
    *,
    thread_id: str | Sequence[str] | None,
    resource_id: str | None,
    state: Any,
    store: Any,
    **limits: Any,
) -> list[SearchHit]:
    """Search the archive, or a conversation; `limits` are those of `build_request`."""
    ask = partial(build_request, query, limit, **limits)
    lookup = Lookup(runner.settings, runner.archive)
    if state is None:
        asked = ask(timezone=runner.settings.timezone)
        look = partial(lookup.search_archive, asked, resource_id=resource_id, store=store)
        if thread_id is None or isinstance(thread_id, str):
            return look(thread_id)
        return _search_each(look, thread_id)[: asked.most]
    seen = as_state(state, runner.messages_key)
    messages, record = runner.conversation(seen), runner.stored_record(seen)
    if resource_id is not None and record["resource_id"] not in {None, str(resource_id)}:
        raise ConfigurationError(describe_anothers(record["thread_id"], resource_id))
    asked = ask(timezone=runner.settings_for(record, messages).timezone)
    return lookup.search_messages(asked, record, messages)


def list_threads(
    runner: StepRunner,
    resource_id: str,
    *,
    before: datetime | str | None,
    after: datetime | str | None,
    limit: int,
    page: int,
    graph: Any,
) -> list[ArchivedThread]:
    """List the threads of a user or entity, of the archive, or of a graph's checkpointer."""
    archive, timezone = runner.archive, runner.settings.timezone
    earliest = _read_limit("after", after, timezone)
    latest = _read_limit("before", before, timezone)
    if graph is None and archive is None:
        msg = (
            "`threads` lists what the `archive` keeps, and there is none; set `archive`, or "
            "pass the agent's `graph`, whose checkpointer is read"
        )
        raise ConfigurationError(msg)
    if graph is None and archive is not None:
        found, _ = archive.threads(
            resource_id, page=page, limit=limit, before=latest, after=earliest
        )
        return found
    check_count("limit", limit)
    listed = [
        thread
        for thread in list_checkpointed(graph.checkpointer, resource_id)
        if (latest is None or thread.created < latest)
        and (earliest is None or thread.created >= earliest)
        and not _is_anothers(archive, thread)
    ]
    shown = listed[page * limit : (page + 1) * limit]
    return [replace(thread, title=_read_label(runner, graph, thread.id)) for thread in shown]


def _is_anothers(archive: SQLAlchemyArchive | None, listed: ArchivedThread) -> bool:
    """Return whether a thread was moved since, as former checkpoints name the former owner."""
    known = archive.thread(listed.id) if archive is not None else None
    return known is not None and known.resource_id not in {None, listed.resource_id}


def _read_label(runner: StepRunner, graph: Any, thread_id: str) -> str | None:
    state = graph.get_state({"configurable": {"thread_id": thread_id}})
    return find_label(runner.record(state))
