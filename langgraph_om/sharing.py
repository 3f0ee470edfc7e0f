"""The log that a resource's threads share: each step takes in what is new, and gives what it has.

A thread works with its own copy of the log, in its checkpoint, and notes what it changes. The gate
puts these changes into the archive by compare-and-set, on top of whatever other threads have put
there meanwhile, and brings the copy up to date. When the archive fails the thread goes on with its
copy, and the next step tries again.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from langchain_core.messages import BaseMessage

from langgraph_om.archive import ArchivedThread, MessageArchive
from langgraph_om.core.digest import content_digest
from langgraph_om.core.events import Event
from langgraph_om.core.record import MemoryRecord, newest_observed
from langgraph_om.core.settings import Identity, Settings
from langgraph_om.core.threads.others import OtherThread, excerpts
from langgraph_om.core.threads.shared import (
    SharedLog,
    applied,
    difference,
    readable_log,
    rewound,
)
from langgraph_om.core.window import Entry, Window, is_conversation, open_window
from langgraph_om.errors import ArchiveError, ConfigurationError

__all__ = ["Sharing", "check_shares"]

logger = logging.getLogger("langgraph_om")

MOST_THREADS = 200
"""How many of a resource's threads are looked at for unobserved messages, newest updated first."""
MOST_MESSAGES = 400
"""How many unobserved messages of another thread are read at once, the oldest."""
MOST_COMMITS = 50
"""How often a commit is tried before the step goes on without it."""
MOST_LOGS = 256
MOST_QUIET = 10_000
"""How many logs, and threads without unobserved messages, a process remembers."""


@dataclass
class Sharing:
    """Keeps the copies of one memory's threads and the archive's logs together."""

    archive: MessageArchive
    settings: Settings
    _logs: OrderedDict[str, tuple[int, SharedLog]] = field(default_factory=OrderedDict, repr=False)
    _quiet: OrderedDict[tuple[str, datetime, str | None], None] = field(
        default_factory=OrderedDict, repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def synced(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        window: Window,
        now: datetime,
    ) -> list[Event]:
        """Exchange what is new with the shared log.

        Args:
            record: The memory of the thread, looked at in this step.
            messages: The whole conversation.
            window: Its unobserved messages, by the thread's own copy.
            now: The current time.

        Returns:
            The events to fold.
        """
        resource = str(record["resource_id"])
        try:
            events = self._exchanged(resource, record, messages, now)
            if events or window.request != record["turn"]["request"]:
                events += self._read_others(resource, record)
        except ArchiveError as error:
            logger.warning(
                "thread %r: the shared log can not be reached, the thread goes on with its copy: "
                "%s",
                record["thread_id"],
                error,
            )
            return []
        return events

    # --- The log ---------------------------------------------------------------------------------

    def _exchanged(
        self,
        resource: str,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        now: datetime,
    ) -> list[Event]:
        changes = record["outbox"]
        if not changes and self.archive.record_revision(resource) == record["revision"]:
            return []
        for _ in range(MOST_COMMITS):
            stored, revision = self.archive.load_record(resource)
            before = readable_log(stored)
            shared = applied(self._at_hand(before, record, messages), self._real(record, changes))
            if shared == before:
                break
            if self.archive.commit_record(resource, dict(shared), expected=revision, now=now):
                revision += 1
                self._archive_groups(resource, record, changes, now)
                break
        else:
            msg = f"the shared log of {resource!r} changed {MOST_COMMITS} times while it was read"
            raise ArchiveError(msg)
        self._remember(resource, revision, shared)
        return [difference(record, shared, revision, changes)]

    def _remember(self, resource: str, revision: int, shared: SharedLog) -> None:
        with self._lock:
            self._logs[resource] = (revision, shared)
            self._logs.move_to_end(resource)
            while len(self._logs) > MOST_LOGS:
                self._logs.popitem(last=False)

    def _log(self, resource: str) -> SharedLog:
        """Return the shared log as it is now."""
        revision = self.archive.record_revision(resource)
        with self._lock:
            known = self._logs.get(resource)
        if known is not None and known[0] == revision:
            return known[1]
        stored, revision = self.archive.load_record(resource)
        shared = readable_log(stored)
        self._remember(resource, revision, shared)
        return shared

    def _at_hand(
        self, shared: SharedLog, record: MemoryRecord, messages: Sequence[BaseMessage]
    ) -> SharedLog:
        """Let the thread go on from its own last message when the log names messages it never had.

        So it is in a fork from before these, and in the conversation that was forked.
        """
        thread_id = record["thread_id"]
        known = shared["threads"].get(thread_id)
        if known is None or not known["cursor"] or not messages:
            return shared
        present = {message.id for message in messages}
        if not present.isdisjoint(known["cursor"]) or record["evicted"] in known["cursor"]:
            return shared
        if present.isdisjoint(record["cursor"]):
            own = [group for group in shared["log"] if group["thread_id"] == thread_id]
            record = cast("MemoryRecord", {**record, "log": own, "cursor": known["cursor"]})
        keys = open_window(record, messages, self.settings.counter).observed_keys
        return rewound(shared, thread_id, keys)

    def _real(
        self, record: MemoryRecord, changes: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Leave out what was observed of other threads that are deleted by now."""
        own = record["thread_id"]
        return [
            change
            for change in changes
            if change["kind"] != "extend"
            or change["thread_id"] == own
            or self.archive.contains(change["thread_id"], change["cursor"][-1:])
        ]

    def _archive_groups(
        self,
        resource: str,
        record: MemoryRecord,
        changes: Sequence[dict[str, Any]],
        now: datetime,
    ) -> None:
        """Keep groups of other threads; those of its own the thread archives itself."""
        others: dict[str, list[Any]] = {}
        for change in changes:
            for group in change["groups"]:
                if group["thread_id"] not in (None, record["thread_id"]):
                    others.setdefault(group["thread_id"], []).append(group)
            title = change["hints"].get("thread_title")
            if change["kind"] == "extend" and change["thread_id"] != record["thread_id"] and title:
                self.archive.set_title(change["thread_id"], title, now)
        for thread_id, groups in others.items():
            if self.archive.thread(thread_id) is not None:
                self.archive.add_groups(thread_id, resource, groups, now)

    # --- Other threads ---------------------------------------------------------------------------

    def _read_others(self, resource: str, record: MemoryRecord) -> list[Event]:
        """Describe the other threads, when that is news."""
        found = excerpts(
            self.others(resource, record["thread_id"]),
            self.settings.thresholds.others_tokens,
            self.settings.counter,
            self.settings.show_id,
            self.settings.timezone,
        )
        return [{"type": "others", "others": found}] if found != record["others"] else []

    def others(self, resource: str, thread_id: str) -> list[OtherThread]:
        """Return the other threads of a resource with their unobserved messages.

        Raises:
            ArchiveError: When the storage fails.
        """
        shared = self._log(resource)
        threads, _ = self.archive.threads(resource, page=0, limit=MOST_THREADS)
        found: list[OtherThread] = []
        for thread in threads:
            if thread.id != thread_id:
                other = self._other(thread, shared)
                if other is not None:
                    found.append(other)
        return found

    def _other(self, thread: ArchivedThread, shared: SharedLog) -> OtherThread | None:
        """Return a thread's unobserved messages; `None` when it has none."""
        known = shared["threads"].get(thread.id)
        cursor = known["cursor"] if known else []
        mark = (thread.id, thread.updated, newest_observed({"cursor": cursor}))
        with self._lock:
            if mark in self._quiet:
                return None
        start = self._start(thread.id, cursor, shared)
        read = self.archive.messages(
            thread.id, start=start, limit=MOST_MESSAGES, visible_only=False
        )
        told = [each for each in read if is_conversation(each.message)]
        if not told:
            with self._lock:
                self._quiet[mark] = None
                while len(self._quiet) > MOST_QUIET:
                    self._quiet.popitem(last=False)
            return None
        counter = self.settings.counter
        entries = [
            Entry(
                each.key,
                each.message,
                content_digest(each.message),
                counter.count_message(each.message),
            )
            for each in told
        ]
        times = _filled([self.settings.time_of(entry, {}) for entry in entries])
        hints = known["hints"] if known else {}
        return OtherThread(thread.id, thread.title, thread.updated, cursor, entries, times, hints)

    def _start(self, thread_id: str, cursor: Sequence[str], shared: SharedLog) -> int:
        """Find the position of a thread's first unobserved message on its current branch."""
        ends = [
            last
            for group in reversed(shared["log"])
            if group["thread_id"] == thread_id
            for _, last in reversed(group["ranges"])
        ]
        for key in [*reversed(cursor), *(ends if cursor else [])]:
            found = self.archive.find(key, thread_id=thread_id)
            if found is not None and found.is_current:
                return found.position + 1
        return 0


def _filled(times: Sequence[datetime | None]) -> list[datetime | None]:
    """Give a message of unknown time that of the next one with a time, or of the last one.

    When a message was first seen, only its own thread knows; answers of models carry a time.
    """
    filled, known = list(times), None
    for at in reversed(range(len(filled))):
        known = filled[at] = filled[at] or known
    for at in range(1, len(filled)):
        filled[at] = filled[at] or filled[at - 1]
    return filled


def check_shares(identity: Identity) -> None:
    """Check that a run says with which threads it shares a log.

    Raises:
        ConfigurationError: When it does not.
    """
    if not identity.resource_id:
        msg = (
            '`scope` is "resource" and the run has no resource id; write one into the '
            'configuration, {"configurable": {"resource_id": "..."}}, or set `resource_id`'
        )
        raise ConfigurationError(msg)
