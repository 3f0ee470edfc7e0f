"""What a process remembers of shared logs and their threads, and who exchanges with a log now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakValueDictionary

from langgraph_om.archive import ArchivedThread, ThreadEnd
from langgraph_om.archive.forks import begin_anew_after_fork
from langgraph_om.core.record.sharing import complete_log
from langgraph_om.core.wire import SharedLog

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

MAX_LOGS = 256
MAX_READS = 10_000
MAX_MESSAGES_READ = 20_000
"""How many logs, threads, and unobserved messages of threads a process remembers."""

ReadMark = tuple[ThreadEnd, str | None]
"""A thread as the archive lists it, with its end, and its newest observed message: the same as long
as nothing of it changed. The time alone would not do: workers' clocks differ, or stand still."""


class Rest(NamedTuple):
    """A part of the threads that come behind the newest ones."""

    ends: list[ThreadEnd]
    """The threads, with their ends."""
    next_part: ArchivedThread | None
    """Behind which thread the next part begins; `None` where this was the last."""


MAX_HOLD_SECONDS = 5.0
"""How long a thread keeps others of its resource from a log before the next one begins beside it,
as the archive may hang."""
MAX_WAIT_SECONDS = 60.0
"""How long a thread waits for others, however many there are, before it begins beside them."""


class LogPlace:
    """The right to exchange with a log alone in this process, until it is left or forgotten."""

    def __init__(self, resource_id: str, leave: Callable[[LogPlace], None]) -> None:
        self.resource_id, self._leave = resource_id, leave
        self.ends = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._leave(self)


class _Read(NamedTuple):
    mark: ReadMark
    found: Any
    weight: int


class LogCache:
    """Remembers the shared logs of one archive, and what of their threads is unobserved."""

    def __init__(self, archive: SQLAlchemyArchive) -> None:
        self._archive = archive
        self.begin_anew()
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Read the logs again in a forked process."""
        self._logs: dict[str, tuple[int, SharedLog]] = {}
        self._rests: dict[str, ArchivedThread | None] = {}
        """Per resource, where the look at its quiet threads goes on."""
        self._lock, self._left = threading.Lock(), threading.Condition()
        self._places: WeakValueDictionary[str, LogPlace] = WeakValueDictionary()
        """By resource, who exchanges with its log; a cancelled run leaves nothing behind."""
        self._reads: dict[str, _Read] = {}
        self._weight = 0

    def wait_for_log(self, resource_id: str) -> LogPlace:
        """Wait until no other thread of this process exchanges with a log, or for long enough.

        Other processes do so at the same time, so whoever has the place may be refused still.
        """
        place = LogPlace(resource_id, self._leave_log)
        gives_up = time.monotonic() + MAX_WAIT_SECONDS
        with self._left:
            while (held := self._places.get(resource_id)) is not None:
                now = time.monotonic()
                if now >= gives_up:
                    return place
                if now >= held.ends:
                    break
                left = min(held.ends, gives_up) - now
                del held  # or else it would be kept from being forgotten
                self._left.wait(left)
            place.ends = time.monotonic() + MAX_HOLD_SECONDS
            self._places[resource_id] = place
        return place

    def _leave_log(self, place: LogPlace) -> None:
        with self._left:
            if self._places.get(place.resource_id) is place:
                del self._places[place.resource_id]
                self._left.notify_all()

    def read_log(self, resource_id: str) -> SharedLog:
        """Return the shared log as it is now.

        Raises:
            ArchiveError: When the storage fails.
        """
        revision, known = self._archive.record_revision(resource_id), self._logs.get(resource_id)
        if known is not None and known[0] == revision:
            return known[1]
        stored, revision = self._archive.load_record(resource_id)
        shared = complete_log(stored)
        self.remember_log(resource_id, revision, shared)
        return shared

    def remember_log(self, resource_id: str, revision: int, shared: SharedLog) -> None:
        """Remember a log as it is at a revision."""
        self._keep(self._logs, resource_id, (revision, shared))

    def find_rest(self, resource_id: str, newest: Sequence[ThreadEnd], limit: int) -> Rest:
        """Return a part of a resource's threads behind its newest ones, the same until it is left.

        Args:
            newest: Its newest threads.

        Raises:
            ArchiveError: When the storage fails.
        """
        start, last = self._rests.get(resource_id), newest[-1].thread
        behind = last if start is None or start.updated > last.updated else start
        ends = self._archive.thread_ends(resource_id, limit=limit, behind=behind)
        return Rest(ends, ends[-1].thread if len(ends) == limit else None)

    def leave_rest(self, resource_id: str, rest: Rest) -> None:
        """Go on with the next part, because nothing is left to do in this one."""
        self._keep(self._rests, resource_id, rest.next_part)

    def _keep(self, kept: dict[str, Any], resource_id: str, value: object) -> None:
        """Keep something of a resource as one of the newest."""
        with self._lock:
            kept.pop(resource_id, None)
            kept[resource_id] = value
            while len(kept) > MAX_LOGS:
                del kept[next(iter(kept))]

    def recall_reads(self, marks: Sequence[ReadMark]) -> list[tuple[Any] | None]:
        """Return what was read of threads that are still the same; `None` of the others."""
        with self._lock:
            found = [self._reads.get(end.thread.id) for end, _ in marks]
        return [
            (read.found,) if read is not None and read.mark == mark else None
            for read, mark in zip(found, marks, strict=True)
        ]

    def remember_read(self, mark: ReadMark, found: Any, messages: int) -> None:
        """Remember what was read of a thread.

        Args:
            messages: How many messages that holds.
        """
        key = mark[0].thread.id
        with self._lock:
            former = self._reads.pop(key, None)
            self._weight += messages - (former.weight if former is not None else 0)
            self._reads[key] = _Read(mark, found, messages)
            while len(self._reads) > MAX_READS or self._weight > MAX_MESSAGES_READ:
                self._weight -= self._reads.pop(next(iter(self._reads))).weight
