"""Read for recall from the archive.

The current thread and the user come from the run's configuration, never from what a model wrote. A
thread or a message of another user is answered like one that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from langgraph_om.archive import ArchivedMessage, ArchivedThread, MessageArchive
from langgraph_om.archive.protocol import MAX_GROUPS_READ, search_archive
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import Keyed, hidden_id
from langgraph_om.core.wire import Scope
from langgraph_om.search.source import (
    FindGroups,
    RecallHit,
    RecallMessage,
    RecallSource,
    RecallThread,
    SearchRequest,
    to_hit,
)

TimesOf = Callable[[Keyed, Mapping[str, str]], list[datetime | None]]
"""Tells when each message of a stretch was written, given when some of them were first seen."""

NEIGHBOURS = 4
"""How many messages before and after a page are read along with it."""

MAX_THREADS_PER_READ = 200

MAX_THREADS_READ = 20_000
"""A hidden id of a thread further back than that is not recognised."""


@dataclass(frozen=True)
class ArchiveSource(RecallSource):
    """The archived messages that the user of the current thread may see."""

    archive: MessageArchive
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
        found = search_archive(
            self.archive,
            asked.query,
            asked.wanted,
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
