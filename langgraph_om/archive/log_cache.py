"""What a process remembers of the logs that threads share, so that it need not read them again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_om.archive import MessageArchive
from langgraph_om.archive.after_fork import begin_anew_after_fork
from langgraph_om.core.record.shared_log import complete_log
from langgraph_om.core.wire import SharedLog

MAX_LOGS = 256
MAX_THREADS_WITHOUT_NEWS = 10_000
"""How many logs, and threads without unobserved messages, a process remembers."""

Mark = tuple[str, int | None, str | None]
"""A thread, its last position and its newest observed message: the same as long as nothing of it
changed. Not when it was updated: the clocks of workers differ, or stand still."""


@dataclass(eq=False)
class LogCache:
    """Remembers the shared logs of one archive, and threads in which everything is observed."""

    archive: MessageArchive
    _logs: OrderedDict[str, tuple[int, SharedLog]] = field(default_factory=OrderedDict, repr=False)
    _seen_without_news: OrderedDict[Mark, None] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Read the logs again in a forked process."""
        self._lock = threading.Lock()
        self._logs, self._seen_without_news = OrderedDict(), OrderedDict()

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

    def find_news(self, threads: Sequence[tuple[str, str | None]]) -> list[Mark | None]:
        """Return which threads may have unobserved messages.

        Args:
            threads: Ids, each with the key of the newest observed message.

        Returns:
            Per thread a mark to note when it has none after all; `None` when that is known.

        Raises:
            ArchiveError: When the storage fails.
        """
        marks = [(key, self.archive.last_position(key), observed) for key, observed in threads]
        with self._lock:
            return [None if mark in self._seen_without_news else mark for mark in marks]

    def note_without_news(self, mark: Mark) -> None:
        """Remember that a thread has no unobserved messages."""
        with self._lock:
            _put_newest(self._seen_without_news, mark, None, MAX_THREADS_WITHOUT_NEWS)


def _put_newest(known: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > most:
        known.popitem(last=False)
