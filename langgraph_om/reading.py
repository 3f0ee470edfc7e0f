"""Where earlier messages and observations are read and searched: the archive, or a state.

A source shows only what the user of the current thread may see. That thread and the user come from
the run's configuration, never from what a model wrote. A thread or a message of another user is
answered like one that does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage

from langgraph_om.archive import ArchivedHit, ArchivedMessage, ArchivedThread
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import hidden_id, keyed_messages
from langgraph_om.core.content.parts import is_visible, part_text, parts_of, role_of
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.search import RECALL, Filter, fuse, search_texts, tools_in
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.errors import ConfigurationError

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive
    from langgraph_om.features.meaning import Meaning


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


def read_limits(
    before: datetime | str | None, after: datetime | str | None, timezone: tzinfo
) -> tuple[datetime | None, datetime | None]:
    """Read the limits of a search; `None` and an empty text are none.

    Raises:
        ConfigurationError: When one is no time.
    """
    return (
        read_time("before", before, timezone) if before else None,
        read_time("after", after, timezone) if after else None,
    )


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


@dataclass(frozen=True, kw_only=True)
class Source:
    """What one thread and its user may read."""

    who: Identity
    """The current thread and its user."""
    meaning: Meaning | None = None
    """Searches by meaning, beside the search by words."""
    store: Any = None
    """The store it searches."""

    @property
    def reaches_others(self) -> bool:
        """Whether the user's other threads can be read too."""
        return False

    def may_read(self, thread_id: str) -> bool:
        """Return whether a thread is there and may be read."""
        return thread_id == self.who.thread_id

    def title(self, thread_id: str) -> str | None:
        """Return the title of a thread that may be read."""
        raise NotImplementedError

    def threads(
        self, *, page: int, limit: int, before: datetime | None, after: datetime | None
    ) -> tuple[list[ArchivedThread], bool]:
        """Return a page of the user's threads, the last updated first, and whether more follow.

        Args:
            page: Counted from 0, after the filters.
            before: Only threads created before this time.
            after: Only threads created at this time or later.
        """
        del page, limit, before, after
        return [], False

    def find(self, key: str, thread_id: str = "") -> ArchivedMessage | None:
        """Return a message, visible or not, of a thread; without one, of this one, else of any."""
        raise NotImplementedError

    def messages(
        self,
        thread_id: str,
        *,
        limit: int,
        start: int | None = None,
        stop: int | None = None,
        newest_first: bool = False,
    ) -> list[ArchivedMessage]:
        """Return visible messages, always in the order of the conversation.

        Args:
            start: The first position; `None` for the beginning.
            stop: The position to stop before; `None` for the end.
            newest_first: Whether the last ones of the span are returned instead of the first.
        """
        raise NotImplementedError

    def search_words(self, asked: SearchRequest) -> list[ArchivedHit]:
        """Return messages and observations that hold the words, the best first."""
        raise NotImplementedError

    def is_standing(self, hit: ArchivedHit) -> bool:
        """Return whether observations were not replaced, corrected or forgotten."""
        raise NotImplementedError


# --- Search --------------------------------------------------------------------------------------

LEAST_LIKENESS: Final = 0.1
"""Texts less alike, by the cosine of their vectors, are about something else."""
LIKENESS_SHARE: Final = 0.5
"""And so are those that are less than so much as alike as the best one: some embeddings find all
texts alike."""

MOST_BY_MEANING: Final = 20
"""How many texts that are near in meaning are looked at, however few hits are asked for."""

_MEANING_WEIGHT: Final = 0.5
"""What the ranking by meaning counts beside that by words; see `FUSION` for what was measured."""


def search(source: Source, asked: SearchRequest) -> list[ArchivedHit]:
    """Return what matches by words, and by meaning where there is such a search, the best first."""
    by_words = source.search_words(asked)
    if source.meaning is None:
        return by_words
    most = max(asked.most, MOST_BY_MEANING) + len(asked.hidden)  # hidden ones are among them
    everywhere = source.reaches_others
    near = source.meaning.find_near(
        asked.query, most, source.who, source.store, in_resource=everywhere
    )
    alike = drop_unlike([hit for hit in near if not _is_hidden(hit, source, asked)])
    by_meaning = [now for hit in alike if (now := _look_again(hit, source, asked)) is not None]
    return join_hits(by_words, by_meaning)[: asked.most]


def _is_hidden(hit: ArchivedHit, source: Source, asked: SearchRequest) -> bool:
    is_own = hit.found.kind == "message" and hit.thread_id == source.who.thread_id
    return is_own and hit.found.cursor in asked.hidden


def _look_again(hit: ArchivedHit, source: Source, asked: SearchRequest) -> ArchivedHit | None:
    """Return what was found by meaning as it is now; `None` where it is not what is asked for."""
    found, tools = hit.found, set[str]()
    if asked.thread_id not in {None, hit.thread_id} or not source.may_read(hit.thread_id):
        return None
    if found.kind == "message":
        kept = source.find(found.cursor, hit.thread_id)
        if kept is None or found.text not in sanitize(read_said(kept.message)):
            return None  # it was removed from its conversation, or edited
        found = replace(found, role=role_of(kept.message), at=kept.at)
        tools = tools_in(parts_of(kept.message), {})
    elif not source.is_standing(hit):
        return None
    passes = asked.wanted.passes(found.at, found.role, tools)
    return replace(hit, found=found) if passes else None


def read_said(message: BaseMessage) -> str:
    """Return the texts and tool results of a message, without attachments, reasoning or calls.

    What `recall` has answered is left out, which would be found in the place of what it repeats.
    """
    return "\n".join(
        part_text(part)
        for part in parts_of(message)
        if part.kind == "text" or (part.kind in _RESULTS and part.name != RECALL)
    )


_RESULTS: Final = frozenset({"tool-result", "tool-error"})


def drop_unlike(hits: Sequence[ArchivedHit]) -> list[ArchivedHit]:
    """Return the hits of a search by meaning that are near enough."""
    best = max((hit.found.score for hit in hits), default=0.0)
    least = max(LEAST_LIKENESS, LIKENESS_SHARE * best)
    return [hit for hit in hits if hit.found.score >= least]


def join_hits(
    by_words: Sequence[ArchivedHit], by_meaning: Sequence[ArchivedHit]
) -> list[ArchivedHit]:
    """Join two rankings of the same texts; what both put in front comes first, then mostly words.

    A hit of both has the greater score of the two: each says how well it matches, from 0 to 1.
    """
    known: dict[str, ArchivedHit] = {}
    for hit in (*by_words, *by_meaning):
        other = known.setdefault(_name(hit), hit)
        score = max(hit.found.score, other.found.score)
        known[_name(hit)] = replace(other, found=replace(other.found, score=score))
    rankings = [[*map(_name, hits)] for hits in (by_words, by_meaning)]
    return [known[name] for name in fuse(rankings, [1.0, _MEANING_WEIGHT])]


def _name(hit: ArchivedHit) -> str:
    return repr((hit.thread_id, hit.found.kind, hit.found.key))


# --- A state -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StateSource(Source):
    """The messages of one thread's state, and what was observed of them; no other threads."""

    said: Sequence[ArchivedMessage]
    label: str | None = None
    groups: Sequence[Group] = ()
    """The thread's log, which a search looks in too."""

    def title(self, thread_id: str) -> str | None:
        return self.label if thread_id == self.who.thread_id else None

    def find(self, key: str, thread_id: str = "") -> ArchivedMessage | None:
        if thread_id not in {"", self.who.thread_id}:
            return None
        return next((each for each in self.said if each.key == key), None)

    def messages(
        self,
        thread_id: str,
        *,
        limit: int,
        start: int | None = None,
        stop: int | None = None,
        newest_first: bool = False,
    ) -> list[ArchivedMessage]:
        span = self.said[slice(start, stop)] if thread_id == self.who.thread_id else ()
        shown = [each for each in span if each.is_visible]
        return shown[max(0, len(shown) - limit) :] if newest_first else shown[:limit]

    def search_words(self, asked: SearchRequest) -> list[ArchivedHit]:
        thread_id = self.who.thread_id
        if asked.thread_id not in {None, thread_id}:
            return []
        entries = [(m.key, m.message, m.at) for m in self.said if m.key not in asked.hidden]
        found = search_texts(asked.query, entries, self.groups, asked.wanted)
        return [ArchivedHit(thread_id, each) for each in found[: asked.most]]

    def is_standing(self, hit: ArchivedHit) -> bool:
        return any(group["id"] == hit.found.key for group in self.groups)


def read_state(
    settings: Settings,
    who: Identity,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    *,
    meaning: Meaning | None = None,
    store: Any = None,
) -> StateSource:
    """Return a conversation, and the observations of it in its record, as a source."""
    keyed = keyed_messages(messages)
    times = settings.times_of(keyed, record["stamps"])
    said = [
        ArchivedMessage(
            key, who.thread_id, at, message, is_visible(message), is_current=True, at=time
        )
        for at, ((key, message), time) in enumerate(zip(keyed, times, strict=True))
    ]
    own = [each for each in list_groups(record) if find_thread(each, record) == record["thread_id"]]
    title = record["thread_title"]
    return StateSource(who=who, meaning=meaning, store=store, said=said, label=title, groups=own)


def list_groups(record: MemoryRecord) -> list[Group]:
    """Return the observations of a thread's log, and those that are buffered for it."""
    buffered = [group for chunk in record["chunks"] for group in chunk["groups"]]
    return [group for group in [*record["log"], *buffered] if group["text"]]


def find_thread(group: Group, record: MemoryRecord) -> str:
    """Return the thread that a group is about; in a user's log it may be any."""
    return record["thread_id"] or group["thread_id"] or ""


# --- The archive ---------------------------------------------------------------------------------

MAX_THREADS_PER_READ: Final = 200
MAX_GROUPS_READ: Final = 1_000
MAX_THREADS_READ: Final = 20_000
"""A hidden id of a thread further back than that is not recognized."""


@dataclass(frozen=True, kw_only=True)
class ArchiveSource(Source):
    """The archived messages that the user of the current thread may see."""

    archive: SQLAlchemyArchive
    settings: Settings
    is_shared: bool = True
    """Whether the other threads of the user can be seen too, where it is known whose this one is.
    """
    branch: str | None = None
    """The archive's name for the current thread as who asks knows it; `None`: as it went on last.
    """
    logs: dict[str, set[str]] = field(default_factory=dict)
    """By thread id, the ids of the observations that stand in logs, as far as they are known."""
    _found: dict[str, ArchivedThread | None] = field(init=False, default_factory=dict)
    """The threads that were looked up for this answer."""

    @property
    def reaches_others(self) -> bool:
        return self.is_shared and bool(self.who.resource_id)

    def may_read(self, thread_id: str) -> bool:
        return self._find_thread(thread_id) is not None

    def title(self, thread_id: str) -> str | None:
        found = self._find_thread(thread_id)
        return None if found is None else found.title

    def threads(
        self, *, page: int, limit: int, before: datetime | None, after: datetime | None
    ) -> tuple[list[ArchivedThread], bool]:
        if self.reaches_others:
            resource = str(self.who.resource_id)
            return self.archive.threads(
                resource, page=page, limit=limit, before=before, after=after
            )
        own = self._find_thread(self.who.thread_id)
        is_within = (
            own is not None
            and (before is None or own.created < before)
            and (after is None or own.created >= after)
        )
        return ([own] if own is not None and is_within and page == 0 else []), False

    def find(self, key: str, thread_id: str = "") -> ArchivedMessage | None:
        """Return a message of a thread; without one, of this one, else of any of the user's.

        A message that was removed from its conversation, by an edit or a fork, is not shown: it has
        no neighbors there any more.
        """
        where, found = thread_id or self.who.thread_id, None
        if key and self.may_read(where):
            found = self.archive.find(key, thread_id=where, branch=self._branch_of(where))
        if found is None and key and not thread_id and self.reaches_others:
            found = self.archive.find(key, resource_id=self.who.resource_id)
        is_there = found is not None and found.is_current and not found.is_pruned
        return self._date([found])[0] if found is not None and is_there else None

    def messages(
        self,
        thread_id: str,
        *,
        limit: int,
        start: int | None = None,
        stop: int | None = None,
        newest_first: bool = False,
    ) -> list[ArchivedMessage]:
        if limit <= 0 or (stop is not None and stop <= 0) or not self.may_read(thread_id):
            return []
        found = self.archive.messages(
            thread_id,
            start=start,
            stop=stop,
            limit=limit,
            newest_first=newest_first,
            branch=self._branch_of(thread_id),
        )
        return self._date(found)

    def search_words(self, asked: SearchRequest) -> list[ArchivedHit]:
        own = self.who.thread_id
        thread_id = asked.thread_id or (None if self.reaches_others else own)
        if thread_id is not None and not self.may_read(thread_id):
            return []
        found = self.archive.search(
            asked.query,
            **asdict(asked.wanted),
            thread_id=thread_id,
            # A thread may be read that was stored before its resource was known.
            resource_id=self.who.resource_id if thread_id is None else None,
            limit=asked.most + len(asked.hidden),
            branches={} if self.branch is None else {own: self.branch},
            groups=self.logs,
        )
        return [
            hit
            for hit in found
            if self.may_read(hit.thread_id) and not _is_hidden(hit, self, asked)
        ][: asked.most]

    def is_standing(self, hit: ArchivedHit) -> bool:
        log, thread_id = self.logs.get(hit.thread_id), hit.thread_id
        if log is None:
            found = self.archive.groups(thread_id=thread_id, limit=MAX_GROUPS_READ, in_log=True)
            log = self.logs[thread_id] = {group["id"] for group in found}
        return log is not None and hit.found.key in log

    def _branch_of(self, thread_id: str) -> str | None:
        return self.branch if thread_id == self.who.thread_id else None

    def _find_thread(self, thread_id: str) -> ArchivedThread | None:
        is_own = thread_id == self.who.thread_id
        if not thread_id or not (is_own or self.reaches_others):
            return None
        if thread_id not in self._found:
            found = self.archive.thread(thread_id)
            owners = set() if found is None else {found.resource_id, self.who.resource_id}
            # A thread may be stored before its owner is known, and some of its runs may have none.
            is_theirs = len(owners) == 1 or (is_own and None in owners)
            self._found[thread_id] = found if is_theirs else None
        return self._found[thread_id]

    def _date(self, found: Sequence[ArchivedMessage]) -> list[ArchivedMessage]:
        """Return messages of one thread that follow each other, with their times."""
        seen = {message.key: message.at.isoformat() for message in found if message.at is not None}
        times = self.settings.times_of([(each.key, each.message) for each in found], seen)
        return [replace(each, at=at) for each, at in zip(found, times, strict=True)]


def read_archive(
    settings: Settings,
    archive: SQLAlchemyArchive,
    who: Identity,
    record: MemoryRecord | None,
    *,
    is_shared: bool,
    meaning: Meaning | None = None,
    store: Any = None,
) -> ArchiveSource:
    """Return an archive as a source.

    Args:
        record: What is known of the thread; `None`: nothing.
    """
    logs: dict[str, set[str]] = {}
    if record is not None:
        logs[record["thread_id"]] = set()
        for group in list_groups(record):
            logs.setdefault(find_thread(group, record), set()).add(group["id"])
    return ArchiveSource(
        who=who,
        meaning=meaning,
        store=store,
        archive=archive,
        settings=settings,
        is_shared=is_shared,
        branch=None if record is None else record.get("branch"),
        logs=logs,
    )


def read_hidden_id(written: str, source: Source) -> str | None:
    """Return the thread id that a model means, which it may have been shown hidden or as it is."""
    current = source.who.thread_id
    if written in {current, hidden_id(current)}:
        return current
    if not written.startswith("thread-") or source.may_read(written):
        return written
    size = MAX_THREADS_PER_READ
    for page in range(MAX_THREADS_READ // size):
        found, has_more = source.threads(page=page, limit=size, before=None, after=None)
        named = next((each.id for each in found if hidden_id(each.id) == written), None)
        if named is not None or not has_more:
            return named
    return None
