"""Where earlier messages and observations are read and searched: the archive, or a state.

A source shows only what the user of the current thread may see. That thread and the user come from
the run's configuration, never from what a model wrote. A thread or a message of another user is
answered like one that does not exist.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Final

from langchain_core.messages import BaseMessage

from langgraph_om.archive import ArchivedMessage, ArchivedThread
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import Keyed, hidden_id
from langgraph_om.core.content.parts import is_visible, part_text, parts_of, role_of
from langgraph_om.core.content.text import sanitize
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

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

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
    hides_ids: bool = False
    """Whether the model is shown hashes in the place of thread ids."""

    def show_id(self, thread_id: str) -> str:
        """Write a thread id for the model."""
        return hidden_id(thread_id) if self.hides_ids else thread_id


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
    return [group for group in [*record["log"], *buffered] if group["text"]]


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


# --- The archive ---------------------------------------------------------------------------------

TimesOf = Callable[[Keyed, Mapping[str, str]], list[datetime | None]]
"""Tells when each message of a stretch was written, given when some of them were first seen."""

NEIGHBOURS = 4
"""How many messages before and after a page are read along with it."""

MAX_THREADS_PER_READ = 200

MAX_GROUPS_READ = 1_000

MAX_THREADS_READ = 20_000
"""A hidden id of a thread further back than that is not recognised."""


@dataclass(frozen=True)
class ArchiveSource(RecallSource):
    """The archived messages that the user of the current thread may see."""

    archive: SQLAlchemyArchive
    who: Identity
    """The current thread and its user."""
    scope: Scope
    """Whether the other threads of the resource can be seen too."""
    times_of: TimesOf
    find_groups: FindGroups | None = None
    stamps: Mapping[str, str] = field(default_factory=dict)
    """When messages of the current thread were first seen, as its record knows it."""
    branch: str | None = None
    """The archive's name for the current thread as who asks knows it; `None`: as it went on last.
    """
    logs: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By thread id, the ids of the observations that stand in logs, as far as who asks knows them.
    """
    knows_all: bool = False
    """Whether no other thread has observations, as the log is a shared one."""
    _read_logs: dict[str, Collection[str]] = field(init=False, compare=False, default_factory=dict)
    """By thread id, the ids of observations as the archive was told them last."""
    _readable: set[str] = field(init=False, compare=False, default_factory=set)
    """The threads in which a message was found."""
    _adjacent: dict[tuple[str, int | None, int | None, bool], RecallMessage] = field(
        init=False, compare=False, default_factory=dict
    )
    """Messages that were read along with others, by thread, first position, position to stop
    before, and whether the last message is asked for."""
    _looked_up: dict[str, ArchivedThread | None] = field(
        init=False, compare=False, default_factory=dict
    )
    """The threads looked up so far; one answer asks for the same ones again."""

    @property
    def current_thread(self) -> str:
        return self.who.thread_id

    def thread(self, thread_id: str) -> RecallThread | None:
        found = self._find_thread(thread_id)
        return None if found is None else _to_recall_thread(found)

    def threads(
        self, *, page: int, limit: int, before: datetime | None, after: datetime | None
    ) -> tuple[list[RecallThread], bool]:
        if not self._is_shared:
            return super().threads(page=page, limit=limit, before=before, after=after)
        found, has_more = self.archive.threads(
            str(self.who.resource_id),
            page=page,
            limit=limit,
            before=before,
            after=_step_before(after),
        )
        return [_to_recall_thread(thread) for thread in found], has_more

    def find(self, key: str, thread_id: str | None) -> RecallMessage | None:
        """Return the message of this key, without a thread from any of the user's.

        A message that was removed from its conversation, by an edit or a fork, is not shown: it has
        no neighbours there any more.
        """
        if not key:
            return None
        if thread_id is None and self._is_shared:
            found = self.archive.find(key, resource_id=self.who.resource_id)
            if found is not None and found.thread_id == self.who.thread_id:
                found = self._find_in(found.thread_id, key)
        else:
            found = self._find_in(self.who.thread_id if thread_id is None else thread_id, key)
        if found is None:
            return None
        self._readable.add(found.thread_id)
        return self._to_recall_messages([found])[0] if found.is_current else None

    def messages(
        self,
        thread_id: str,
        *,
        limit: int,
        start: int | None = None,
        stop: int | None = None,
        newest_first: bool = False,
    ) -> list[RecallMessage]:
        """Return visible messages of the span, in the order of the conversation.

        Some messages next to the span are read along with it: they tell the times of those that
        have none, and a page asks for the nearest one next, to know whether more follow.
        """
        if limit <= 0 or (stop is not None and stop <= 0) or not self._may_read(thread_id):
            return []
        adjacent = self._adjacent.get((thread_id, start, stop, newest_first))
        if limit == 1 and adjacent is not None:
            return [adjacent]
        first, last, count = start, stop, limit + NEIGHBOURS
        if start and stop is None and not newest_first:
            first, count = max(0, start - NEIGHBOURS), count + NEIGHBOURS
        elif start is None and stop is not None and newest_first:
            last, count = stop + NEIGHBOURS, count + NEIGHBOURS
        found = self.archive.messages(
            thread_id,
            start=first,
            stop=last,
            limit=count,
            newest_first=newest_first,
            branch=self._find_branch(thread_id),
        )
        timed = self._to_recall_messages(found)
        before = [message for message in timed if start is not None and message.position < start]
        after = [message for message in timed if stop is not None and message.position >= stop]
        if before:
            self._adjacent[thread_id, None, start, True] = before[-1]
        if after:
            self._adjacent[thread_id, stop, None, False] = after[0]
        inside = timed[len(before) : len(timed) - len(after)]
        return inside[-limit:] if newest_first else inside[:limit]

    def search_words(self, asked: SearchRequest) -> list[RecallHit]:
        thread_id = asked.thread_id
        if thread_id is None and not self._is_shared:
            thread_id = self.who.thread_id
        if thread_id is not None and not self._may_read(thread_id):
            return []
        found = self.archive.search(
            asked.query,
            **asdict(asked.wanted),
            thread_id=thread_id,
            # A thread may be read that was stored before its resource was known.
            resource_id=self.who.resource_id if thread_id is None else None,
            limit=asked.most + len(asked.hidden),
            branches={} if self.branch is None else {self.who.thread_id: self.branch},
            groups=self.logs,
        )
        threads = {key: self.thread(key) for key in {hit.thread_id for hit in found}}
        hits = [
            to_hit(hit.found, thread)
            for hit in found
            if (thread := threads[hit.thread_id]) is not None
        ]
        shown = [hit for hit in hits if not self.is_hidden(hit, asked)]
        standing = [hit for hit in shown if self.is_standing(hit)]
        return standing[: asked.most]

    def is_standing(self, hit: RecallHit) -> bool:
        if hit.kind == "message":
            return True
        log = self.logs.get(hit.thread.id)
        if log is None and not self.knows_all:
            log = self._read_log(hit.thread.id)
        return log is not None and hit.group_id in log

    def _read_log(self, thread_id: str) -> Collection[str]:
        if thread_id not in self._read_logs:
            found = self.archive.groups(thread_id=thread_id, limit=MAX_GROUPS_READ, in_log=True)
            self._read_logs[thread_id] = {group["id"] for group in found}
        return self._read_logs[thread_id]

    @property
    def _is_shared(self) -> bool:
        return self.scope == "resource" and bool(self.who.resource_id)

    def _find_in(self, thread_id: str, key: str) -> ArchivedMessage | None:
        """Return a message of a thread that may be read, on any branch."""
        resource, branch = self.who.resource_id, self._find_branch(thread_id)
        if not self._is_in_reach(thread_id):
            return None
        if resource is not None and thread_id not in self._looked_up:
            # One query is enough where the thread is the user's, as it nearly always is.
            found = self.archive.find(key, thread_id=thread_id, resource_id=resource, branch=branch)
            own = None if found is not None else self._find_thread(thread_id)
            if own is None or own.resource_id == resource:
                return found
        if not self._may_read(thread_id):
            return None
        return self.archive.find(key, thread_id=thread_id, branch=branch)

    def _find_branch(self, thread_id: str) -> str | None:
        return self.branch if thread_id == self.who.thread_id else None

    def _may_read(self, thread_id: str) -> bool:
        """Return whether the messages of a thread may be read; one that does not exist has none."""
        if thread_id in self._readable:
            return True
        if self.who.resource_id is None:
            return self._is_in_reach(thread_id)
        return self._find_thread(thread_id) is not None

    def _is_in_reach(self, thread_id: str) -> bool:
        """Return whether a thread is the current one, or others may be read too."""
        return bool(thread_id) and (thread_id == self.who.thread_id or self._is_shared)

    def _find_thread(self, thread_id: str) -> ArchivedThread | None:
        is_current = thread_id == self.who.thread_id
        if not self._is_in_reach(thread_id):
            return None
        if thread_id in self._looked_up:
            return self._looked_up[thread_id]
        found = self.archive.thread(thread_id)
        if found is not None and not self._may_see(found, is_current=is_current):
            found = None
        self._looked_up[thread_id] = found
        return found

    def _may_see(self, thread: ArchivedThread, *, is_current: bool) -> bool:
        if thread.resource_id == self.who.resource_id:
            return True
        # A thread may be stored before its resource is known, and some of its runs may have none.
        return is_current and None in {thread.resource_id, self.who.resource_id}

    def _to_recall_messages(self, found: Sequence[ArchivedMessage]) -> list[RecallMessage]:
        """Return messages of one thread that follow each other, with their times."""
        seen = {message.key: message.at.isoformat() for message in found if message.at is not None}
        if found and found[0].thread_id == self.who.thread_id:
            seen = {**self.stamps, **seen}
        times = self.times_of([(message.key, message.message) for message in found], seen)
        return [
            RecallMessage(message.key, message.thread_id, message.position, message.message, at)
            for message, at in zip(found, times, strict=True)
        ]


def read_hidden_id(written: str, source: RecallSource, current: str) -> str | None:
    """Return the thread id that a model means, which it may have been shown hidden or as it is."""
    if written in {current, hidden_id(current)}:
        return current
    if not written.startswith("thread-") or source.thread(written) is not None:
        return written
    for page in range(MAX_THREADS_READ // MAX_THREADS_PER_READ):
        found, has_more = source.threads(
            page=page, limit=MAX_THREADS_PER_READ, before=None, after=None
        )
        for thread in found:
            if hidden_id(thread.id) == written:
                return thread.id
        if not has_more:
            break
    return None


def _to_recall_thread(thread: ArchivedThread) -> RecallThread:
    return RecallThread(thread.id, thread.title, thread.created, thread.updated)


def _step_before(moment: datetime | None) -> datetime | None:
    """Turn "at this time or later" into the archive's "after this time"."""
    step = timedelta(microseconds=1)
    if moment is None or moment < datetime.min.replace(tzinfo=UTC) + step:
        return None
    return moment - step
