"""Define where recall reads from: what a source is, its values, and a source over a state.

A source shows only what the user of the current thread may see.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.parts import is_visible, part_text, parts_of, role_of
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.record.record import drop_deleted_groups
from langgraph_om.core.search import (
    RECALL,
    Filter,
    FoundText,
    Kind,
    fuse,
    search_texts,
    tools_in,
)
from langgraph_om.core.wire import Group, MemoryRecord, Scope
from langgraph_om.errors import ObservationalMemoryError

LEAST_LIKENESS: Final = 0.1
"""Texts less alike, by the cosine of their vectors, are about something else."""
LIKENESS_SHARE: Final = 0.5
"""And so are those that are less than so much as alike as the best one: some embeddings find all
texts alike."""


@dataclass(frozen=True, slots=True)
class RecallThread:
    """A conversation, as a list of conversations shows it."""

    id: str
    title: str | None = None
    created: datetime | None = None
    updated: datetime | None = None


def is_created_within(
    thread: RecallThread, before: datetime | None, after: datetime | None
) -> bool:
    """Return whether a thread passes the filters; one of unknown age passes no filter."""
    created = thread.created
    if created is None:
        return before is None and after is None
    created = created if created.tzinfo is not None else created.replace(tzinfo=UTC)
    return (before is None or created < before) and (after is None or created >= after)


@dataclass(frozen=True, slots=True)
class RecallMessage:
    """A message and its place in its conversation."""

    key: str
    """The id that the observation log uses for it."""

    thread_id: str
    position: int
    """Grows along the conversation; numbers may be missing."""

    message: BaseMessage
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RecallHit:
    """A message, or a group of observations, that a search found."""

    thread: RecallThread
    group_id: str
    """Empty for a message that no group is known of."""
    score: float
    """How well it matches, from 0 to 1."""
    text: str
    cursor: str
    """The id of the message, or of the first one that the group was written from."""

    updated: datetime | None = None
    """When it was said, or observed."""
    role: str | None = None
    """Who said it; `None` for observations, and where that is not known."""
    kind: Kind = "observations"
    held: float = 0.0
    """How much of the query its words are; 0 where none of them has found it."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is searched for."""

    query: str
    most: int
    """How many hits are wanted at most."""
    wanted: Filter = field(default_factory=Filter)
    thread_id: str | None = None
    """The one conversation to look in; `None`: wherever may be read."""
    hidden: frozenset[str] = frozenset()
    """Keys of messages of the current thread that are not found: who asks has them before him."""
    by_words: bool = False
    """Whether words alone are looked for."""


FindGroups = Callable[[str, int], list[RecallHit]]
"""Searches texts by meaning: a query, and how many to return at most."""

MOST_BY_MEANING: Final = 20
"""How many texts that are near in meaning are looked at, however few hits are asked for."""


class RecallSource:
    """What recall reads from."""

    find_groups: FindGroups | None

    @property
    def current_thread(self) -> str:
        """The thread that asks."""
        raise NotImplementedError

    def thread(self, thread_id: str) -> RecallThread | None:
        """Return a thread; None for one that does not exist and for one of another user."""
        raise NotImplementedError

    def threads(
        self, *, page: int, limit: int, before: datetime | None, after: datetime | None
    ) -> tuple[list[RecallThread], bool]:
        """Return a page of the user's threads, the last updated first, and whether more follow.

        Args:
            page: Counted from 0, after the filters.
            before: Only threads created before this time.
            after: Only threads created at this time or later.
        """
        own = self.thread(self.current_thread) or RecallThread(self.current_thread)
        passes = page == 0 and limit > 0 and is_created_within(own, before, after)
        return ([own] if passes else []), False

    def find(self, key: str, thread_id: str | None) -> RecallMessage | None:
        """Return the message of this key, visible or not, without a thread from any of them."""
        raise NotImplementedError

    def messages(
        self,
        thread_id: str,
        *,
        limit: int,
        start: int | None = None,
        stop: int | None = None,
        newest_first: bool = False,
    ) -> list[RecallMessage]:
        """Return visible messages, always in the order of the conversation.

        Args:
            start: The first position; None for the beginning.
            stop: The position to stop before; None for the end.
            newest_first: Whether the last ones of the span are returned instead of the first.
        """
        raise NotImplementedError

    def search_words(self, asked: SearchRequest) -> list[RecallHit]:
        """Return messages and observations that hold the words, the best first."""
        raise NotImplementedError

    def is_standing(self, hit: RecallHit) -> bool:
        """Return whether a hit is no observation that was replaced, corrected or forgotten."""
        raise NotImplementedError

    def is_hidden(self, hit: RecallHit, asked: SearchRequest) -> bool:
        """Return whether a hit is a message that is not to be found."""
        is_own = hit.kind == "message" and hit.thread.id == self.current_thread
        return is_own and hit.cursor in asked.hidden

    def search(self, asked: SearchRequest) -> list[RecallHit]:
        """Return what matches by words, and by meaning where there is such a search."""
        by_words = self.search_words(asked)
        if self.find_groups is None or asked.by_words:
            return by_words
        most = max(asked.most, MOST_BY_MEANING) + len(asked.hidden)  # hidden ones are among them
        near = self.find_groups(asked.query, most)
        by_meaning: list[RecallHit] = []
        for hit in drop_unlike([hit for hit in near if not self.is_hidden(hit, asked)]):
            thread = self.thread(hit.thread.id)
            if thread is None or asked.thread_id not in {None, thread.id}:
                continue
            if hit.kind != "message":
                if self.is_standing(hit) and asked.wanted.passes(hit.updated, None, ()):
                    by_meaning.append(replace(hit, thread=thread))
                continue
            found = self.find(hit.cursor, thread.id)
            if found is None or not is_said(hit.text, found.message):
                continue  # it was removed from its conversation, or edited
            role, tools = role_of(found.message), tools_in(parts_of(found.message), {})
            if asked.wanted.passes(found.at, role, tools):
                by_meaning.append(replace(hit, thread=thread, role=role, updated=found.at))
        return join_hits(by_words, by_meaning)[: asked.most]


def to_hit(found: FoundText, thread: RecallThread) -> RecallHit:
    """Return what was found by words in a thread."""
    group = "" if found.kind == "message" else found.key
    place = (thread, group, found.score, found.text, found.cursor, found.at)
    return RecallHit(*place, role=found.role, kind=found.kind, held=found.held)


# --- Hits of two searches -----------------------------------------------------------------------


def drop_unlike(hits: Sequence[RecallHit]) -> list[RecallHit]:
    """Return the hits of a search by meaning that are near enough."""
    best = max((hit.score for hit in hits), default=0.0)
    least = max(LEAST_LIKENESS, LIKENESS_SHARE * best)
    return [hit for hit in hits if hit.score >= least]


_MEANING_WEIGHT: Final = 0.5
"""What the ranking by meaning counts beside that by words; see `FUSION` for what was measured."""


def join_hits(by_words: Sequence[RecallHit], by_meaning: Sequence[RecallHit]) -> list[RecallHit]:
    """Join two rankings of the same texts; what both put in front comes first, then mostly words.

    A hit of both has the greater score of the two: each says how well it matches, from 0 to 1.
    """
    known: dict[str, RecallHit] = {}
    for hit in (*by_words, *by_meaning):
        name = _name(hit)
        other = known.setdefault(name, hit)
        if hit.score > other.score:
            known[name] = replace(other, score=hit.score)
    rankings = [[_name(hit) for hit in hits] for hits in (by_words, by_meaning)]
    names = fuse(rankings, [1.0, _MEANING_WEIGHT])
    return [known[name] for name in names]


def _name(hit: RecallHit) -> str:
    return repr((hit.thread.id, hit.kind, hit.group_id if hit.kind != "message" else hit.cursor))


# --- What is read, and how much ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InSight:
    """What who asks is shown beside the answer, so that it need not be repeated."""

    groups: frozenset[str] = frozenset()
    """Ids of the observations."""
    ids: frozenset[str] = frozenset()
    """Ids of messages, of which other answers show something."""
    text: str = ""
    """What these answers show, without blanks."""


@dataclass(frozen=True, slots=True)
class RecallScope:
    """What recall may read, and how it writes times and thread ids."""

    scope: Scope
    current_thread: str
    timezone: tzinfo
    hidden: frozenset[str] = frozenset()
    """Keys of messages of the current thread that no search finds: the question that asks."""
    end: str | None = None
    """The key of the message at which the current thread ends for a reader; `None`: the last."""
    in_sight: InSight = field(default_factory=InSight)
    show_id: Callable[[str], str] = str
    """Writes a thread id for the model."""

    read_id: Callable[[str], str | None] = str
    """Reads a thread id that the model wrote; None when there is no such id."""


@dataclass(frozen=True)
class StateSource(RecallSource):
    """The messages of one thread's state, and what was observed of them; no other threads."""

    thread_id: str
    entries: Sequence[tuple[str, BaseMessage, datetime | None]]
    """The key of each message, the message, and when it was written."""

    title: str | None = None
    groups: Sequence[Group] = ()
    """The thread's log, which a search looks in too."""
    find_groups: FindGroups | None = None

    @property
    def current_thread(self) -> str:
        return self.thread_id

    def thread(self, thread_id: str) -> RecallThread | None:
        return self._thread if thread_id == self.thread_id else None

    def find(self, key: str, thread_id: str | None) -> RecallMessage | None:
        at = self._places.get(key)
        if at is None or thread_id not in {None, self.thread_id}:
            return None
        return self._to_recall_message(at)

    def messages(
        self,
        thread_id: str,
        *,
        limit: int,
        start: int | None = None,
        stop: int | None = None,
        newest_first: bool = False,
    ) -> list[RecallMessage]:
        if thread_id != self.thread_id or limit <= 0:
            return []
        visible = self._visible
        first = 0 if start is None else bisect_left(visible, start)
        last = len(visible) if stop is None else bisect_left(visible, stop)
        if newest_first:
            first = max(first, last - limit)
        return [self._to_recall_message(at) for at in visible[first : min(last, first + limit)]]

    def search_words(self, asked: SearchRequest) -> list[RecallHit]:
        if asked.thread_id not in {None, self.thread_id}:
            return []
        entries = [entry for entry in self.entries if entry[0] not in asked.hidden]
        found = search_texts(asked.query, entries, self.groups, asked.wanted)
        return [to_hit(each, self._thread) for each in found[: asked.most]]

    def is_standing(self, hit: RecallHit) -> bool:
        return hit.kind == "message" or any(group["id"] == hit.group_id for group in self.groups)

    def _to_recall_message(self, at: int) -> RecallMessage:
        key, message, written_at = self.entries[at]
        return RecallMessage(key, self.thread_id, at, message, written_at)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {key: at for at, (key, _, _) in enumerate(self.entries)}

    @cached_property
    def _visible(self) -> list[int]:
        return [at for at, (_, message, _) in enumerate(self.entries) if is_visible(message)]

    @cached_property
    def _thread(self) -> RecallThread:
        times = [at for _, _, at in self.entries if at is not None]
        created, updated = (times[0], times[-1]) if times else (None, None)
        return RecallThread(self.thread_id, self.title, created, updated)


class SearchError(ObservationalMemoryError):
    """A store or its embedding failed in a search."""


FOUND_KINDS: Final = frozenset({"text", "tool-result", "tool-error"})


def list_groups(record: MemoryRecord) -> list[Group]:
    """Return the observations of a thread's log, and those that are buffered for it."""
    buffered = [group for chunk in record["chunks"] for group in chunk["groups"]]
    groups = drop_deleted_groups(record, [*record["log"], *buffered])
    return [group for group in groups if group["text"]]


def find_thread(group: Group, record: MemoryRecord) -> str:
    """Return the thread that a group is about; with a shared log it may be another one."""
    is_shared = record["scope"] == "resource"
    return (group["thread_id"] if is_shared else None) or record["thread_id"]


def list_searched(record: MemoryRecord) -> dict[str, set[str]]:
    """Return the ids of a record's observations, by the thread that they are about."""
    found: dict[str, set[str]] = {record["thread_id"]: set()}
    for group in list_groups(record):
        found.setdefault(find_thread(group, record), set()).add(group["id"])
    return found


def is_said(text: str, message: BaseMessage) -> bool:
    """Return whether a text that was indexed is of a message as it is now."""
    return text in sanitize(read_said(message))


def read_said(message: BaseMessage) -> str:
    """Return the texts and tool results of a message, without attachments, reasoning or calls.

    What `recall` has answered is left out, which would be found in the place of what it repeats.
    """
    parts = (part for part in parts_of(message) if part.kind in FOUND_KINDS)
    is_recall = ((part, part.kind != "text" and part.name == RECALL) for part in parts)
    return "\n".join(part_text(part) for part, is_its in is_recall if not is_its)
