"""Find what was said and noted, and list threads, outside of any run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langgraph_om.archive import ArchivedThread
from langgraph_om.core.config.options import check_count
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.effects import Requests, call_function
from langgraph_om.core.search import Filter, Kind, cut_excerpt, query_words
from langgraph_om.errors import ConfigurationError
from langgraph_om.reading import SearchRequest, Source, read_archive, read_limits, read_state
from langgraph_om.reading import search as find
from langgraph_om.runtime.acting import GraphThread, describe_anothers
from langgraph_om.runtime.run import as_state
from langgraph_om.runtime.runner import StepRunner

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

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
    """When it was said or observed; `None` if that is not known."""
    excerpt: str
    """About 240 characters around the words found."""
    score: float
    """How well it matches: near 1 if it holds every word often, or means the same."""


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
    wanted = Filter(*read_limits(before, after, timezone), role or None, tool_name or None)
    return SearchRequest(query, min(limit, MAX_LIMIT), wanted)


def _show(source: Source, asked: SearchRequest) -> list[SearchHit]:
    words = query_words(asked.query)
    return [
        SearchHit(
            kind=hit.found.kind,
            id=hit.found.cursor,
            thread_id=hit.thread_id,
            thread_title=source.title(hit.thread_id),
            role=hit.found.role,
            at=hit.found.at,
            excerpt=cut_excerpt(hit.found.text, words),
            score=round(hit.found.score, 4),
        )
        for hit in find(source, asked)
    ]


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
    settings = runner.settings
    if state is not None:
        seen = as_state(state, runner.messages_key)
        messages, record = runner.conversation(seen), runner.stored_record(seen)
        if resource_id is not None and record["resource_id"] not in {None, str(resource_id)}:
            raise ConfigurationError(describe_anothers(record["thread_id"], resource_id))
        timezone = runner.actor.settings_for(record, messages).timezone
        who = Identity(record["thread_id"], record["resource_id"])
        asked = build_request(query, limit, timezone, **limits)
        return _show(read_state(settings, who, record, messages), asked)
    asked = build_request(query, limit, settings.timezone, **limits)
    look = partial(
        search_archive, settings, runner.archive, asked, resource_id=resource_id, store=store
    )
    if thread_id is None or isinstance(thread_id, str):
        return look(thread_id)
    found: list[SearchHit] = []
    for each in dict.fromkeys(thread_id):
        if not isinstance(each, str) or not each:
            msg = f"`thread_id` has {each!r}; pass thread ids, which are strings"
            raise ConfigurationError(msg)
        found += look(each)
    return sorted(found, key=lambda hit: -hit.score)[: asked.most]


def search_archive(
    settings: Settings,
    archive: SQLAlchemyArchive | None,
    asked: SearchRequest,
    thread_id: str | None,
    *,
    resource_id: str | None,
    store: Any = None,
) -> list[SearchHit]:
    """Search the archive, in a thread or in all threads of a resource.

    Raises:
        ConfigurationError: When there is no archive, or neither of the two is given.
        ArchiveError: When the storage fails.
    """
    if archive is None:
        msg = (
            "`state` is None and there is no `archive`, so there is nothing to search; pass "
            "the conversation as `state`, or set `archive`"
        )
        raise ConfigurationError(msg)
    if not thread_id and not resource_id:
        msg = (
            "`thread_id` and `resource_id` are missing; pass the one whose messages you want to "
            "search, or a conversation as `state`"
        )
        raise ConfigurationError(msg)
    who = Identity(thread_id or "", resource_id)
    source = read_archive(
        settings,
        archive,
        who,
        None,
        is_shared=not thread_id,
        meaning=None if store is None else settings.parts.meaning,
        store=store,
    )
    return _show(source, asked)


def search_thread(
    thread: GraphThread, query: str, limit: int, **limits: Any
) -> Requests[list[SearchHit]]:
    """Search a thread as it is now, with the messages that are in the archive alone."""
    runner, state = thread.runner, (yield from thread.read())
    record, messages = runner.record(state), runner.conversation(state)
    settings, archive, store = runner.settings, runner.archive, thread.store
    timezone = runner.actor.settings_for(record, messages).timezone
    asked = build_request(query, limit, timezone, **limits)
    # The record of a thread that never ran does not say which one it is.
    who = Identity(record["thread_id"] or thread.id, record["resource_id"])

    def look() -> list[SearchHit]:
        near = None if store is None else settings.parts.meaning
        found = _show(read_state(settings, who, record, messages, meaning=near, store=store), asked)
        if archive is not None and record["thread_id"]:
            here = {message.id for message in messages}
            archived = _show(read_archive(settings, archive, who, record, is_shared=False), asked)
            found += [hit for hit in archived if hit.kind == "message" and hit.id not in here]
        return sorted(found, key=lambda hit: -hit.score)[: asked.most]

    hits: list[SearchHit] = yield from call_function(look, "om_search")
    return hits


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
    latest, earliest = read_limits(before, after, timezone)
    if graph is None and archive is None:
        msg = (
            "`threads` reads the `archive`, and there is none; set `archive`, or pass the agent's "
            "`graph` to read its checkpointer"
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
    return [replace(thread, title=_read_title(runner, graph, thread.id)) for thread in shown]


def _is_anothers(archive: SQLAlchemyArchive | None, listed: ArchivedThread) -> bool:
    """Return whether a thread was moved since, as former checkpoints name the former owner."""
    known = archive.thread(listed.id) if archive is not None else None
    return known is not None and known.resource_id not in {None, listed.resource_id}


def _read_title(runner: StepRunner, graph: Any, thread_id: str) -> str | None:
    state = graph.get_state({"configurable": {"thread_id": thread_id}})
    return runner.record(state)["thread_title"]
