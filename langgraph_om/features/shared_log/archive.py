"""Shared logs in an archive: what a process remembers of them, and their former generations."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from langgraph_om.archive import MessageArchive, ThreadEnd, ThreadEndsArchive
from langgraph_om.archive.protocol import begin_anew_after_fork
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.features.shared_log.log import complete_log, to_record
from langgraph_om.features.shared_log.wire import SharedLog

MAX_LOGS = 256
MAX_READS = 10_000
MAX_MESSAGES_READ = 20_000
"""How many logs, threads, and unobserved messages of threads a process remembers."""

Mark = tuple[ThreadEnd, str | None]
"""A thread as the archive lists it, with its end, and its newest observed message: the same as long
as nothing of it changed. The time alone would not do: workers' clocks differ, or stand still."""


class Rest(NamedTuple):
    """A part of the threads that come behind the newest ones."""

    ends: list[ThreadEnd]
    """The threads, with their ends."""
    next_part: Any
    """Where the next part begins; `None` where this was the last."""


class _Read(NamedTuple):
    mark: Mark
    found: Any
    weight: int


@dataclass(eq=False)
class LogCache:
    """Remembers the shared logs of one archive, and what of their threads is unobserved."""

    archive: MessageArchive
    _logs: OrderedDict[str, tuple[int, SharedLog]] = field(default_factory=OrderedDict, repr=False)
    _reads: OrderedDict[str, _Read] = field(default_factory=OrderedDict, repr=False)
    _weight: int = field(default=0, repr=False)
    _rests: OrderedDict[str, Any] = field(default_factory=OrderedDict, repr=False)
    """Per resource, where the look at its quiet threads goes on."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Read the logs again in a forked process."""
        self._lock = threading.Lock()
        self._logs, self._reads, self._weight = OrderedDict(), OrderedDict(), 0
        self._rests = OrderedDict()

    def read_log(self, resource_id: str) -> SharedLog:
        """Return the shared log as it is now.

        Raises:
            ArchiveError: When the storage fails.
        """
        revision = self.archive.record_revision(resource_id)
        with self._lock:
            known = self._logs.get(resource_id)
        if known is not None and known[0] == revision:
            return known[1]
        stored, revision = self.archive.load_record(resource_id)
        shared = complete_log(stored)
        self.remember_log(resource_id, revision, shared)
        return shared

    def remember_log(self, resource_id: str, revision: int, shared: SharedLog) -> None:
        """Remember a log as it is at a revision."""
        with self._lock:
            _put_newest(self._logs, resource_id, (revision, shared), MAX_LOGS)

    def find_threads(self, resource_id: str, limit: int) -> list[ThreadEnd]:
        """Return a resource's threads with their ends, newest updated first.

        Raises:
            ArchiveError: When the storage fails.
        """
        archive = self.archive
        if isinstance(archive, ThreadEndsArchive):
            return archive.thread_ends(resource_id, limit=limit)
        threads, _ = archive.threads(resource_id, page=0, limit=limit)
        return [ThreadEnd(thread, archive.last_position(thread.id)) for thread in threads]

    def find_rest(self, resource_id: str, newest: Sequence[ThreadEnd], limit: int) -> Rest:
        """Return a part of a resource's threads behind its newest ones, the same until it is left.

        Args:
            resource_id: The resource.
            newest: Its newest threads.
            limit: How many threads at most.

        Raises:
            ArchiveError: When the storage fails.
        """
        archive = self.archive
        with self._lock:
            start = self._rests.get(resource_id)
        if isinstance(archive, ThreadEndsArchive):
            last = newest[-1].thread
            behind = last if start is None or start.updated > last.updated else start
            ends = archive.thread_ends(resource_id, limit=limit, behind=behind)
            return Rest(ends, ends[-1].thread if len(ends) == limit else None)
        first = -(-len(newest) // limit)
        page = first if start is None else start
        threads, has_more = archive.threads(resource_id, page=page, limit=limit)
        ends = [ThreadEnd(thread, archive.last_position(thread.id)) for thread in threads]
        return Rest(ends, page + 1 if has_more else None)

    def leave_rest(self, resource_id: str, rest: Rest) -> None:
        """Go on with the next part, because nothing is left to do in this one."""
        with self._lock:
            _put_newest(self._rests, resource_id, rest.next_part, MAX_LOGS)

    def recall_reads(self, marks: Sequence[Mark]) -> list[tuple[Any] | None]:
        """Return what was read of threads that are still the same; `None` of the others."""
        with self._lock:
            found = [self._reads.get(end.thread.id) for end, _ in marks]
        return [
            (read.found,) if read is not None and read.mark == mark else None
            for read, mark in zip(found, marks, strict=True)
        ]

    def remember_read(self, mark: Mark, found: Any, messages: int) -> None:
        """Remember what was read of a thread.

        Args:
            mark: How the thread was before it was read.
            found: Anything.
            messages: How many messages that holds.
        """
        key = mark[0].thread.id
        with self._lock:
            former = self._reads.pop(key, None)
            self._weight += messages - (former.weight if former is not None else 0)
            self._reads[key] = _Read(mark, found, messages)
            while len(self._reads) > MAX_READS or self._weight > MAX_MESSAGES_READ:
                self._weight -= self._reads.popitem(last=False)[1].weight


def _put_newest(known: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > most:
        known.popitem(last=False)


# --- Former generations --------------------------------------------------------------------------

_MAX_TRIES = 50
_MAX_GENERATIONS = 1000


def list_generations(
    archive: MessageArchive, resource_id: str, limit: int, until: datetime | None = None
) -> list[MemoryRecord]:
    """Return the last record of each generation of a resource's log, newest first."""
    return [
        to_record(entry["record"], resource_id, entry["revision"])
        for entry in archive.record_history(resource_id, limit=limit, until=until)
    ]


def restore_resource(
    archive: MessageArchive, resource_id: str, generation: int, now: datetime
) -> MemoryRecord:
    """Restore an earlier generation of a resource's log as a new generation.

    Raises:
        ConfigurationError: When there is no such generation.
        ArchiveError: When the storage fails, or the log keeps changing.
    """
    for _ in range(_MAX_TRIES):
        entries = archive.record_history(resource_id, limit=_MAX_GENERATIONS)
        former = next(
            (entry for entry in entries if entry["record"]["generation"] == generation), None
        )
        if former is None:
            known = ", ".join(str(entry["record"]["generation"]) for entry in entries) or "none"
            msg = f"`generation` is {generation!r}; those of {resource_id!r} are {known}"
            raise ConfigurationError(msg)
        newest = entries[0]
        record = {
            **complete_log(former["record"]),
            "generation": newest["record"]["generation"] + 1,
        }
        revision = newest["revision"]
        if archive.commit_record(resource_id, record, expected=revision, now=now):
            return to_record(record, resource_id, revision + 1)
    msg = f"the log of {resource_id!r} changed {_MAX_TRIES} times while it was restored"
    raise ArchiveError(msg)
