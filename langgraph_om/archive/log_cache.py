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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from langchain_core.messages import BaseMessage

from langgraph_om.archive import ArchivedMessage, ArchivedThread, MessageArchive
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import content_digest, is_conversation, keyed_messages
from langgraph_om.core.observe.other_threads import OtherThread, build_excerpts
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import CURSOR_TAIL, find_newest_observed
from langgraph_om.core.record.shared_log import apply_changes, complete_log, diff_record, rewind
from langgraph_om.core.record.window import Entry, Window, open_window
from langgraph_om.core.wire import Event, Group, MemoryRecord, SharedLog
from langgraph_om.errors import ArchiveError, ConfigurationError

logger = logging.getLogger("langgraph_om")

MAX_THREADS = 200
"""How many of a resource's threads are looked at for unobserved messages, newest updated first."""
MAX_MESSAGES = 400
"""How many unobserved messages of another thread are read at once, the oldest."""
MAX_ENDS = 4
"""How many of a thread's newest ranges are looked at for where its unobserved messages begin."""
MAX_COMMITS = 50
"""How often a commit is tried before the step goes on without it."""
MAX_LOGS = 256
MAX_QUIET = 10_000
"""How many logs, and threads without unobserved messages, a process remembers."""


@dataclass
class LogCache:
    """Keeps the copies of one memory's threads and the archive's logs together."""

    archive: MessageArchive
    settings: Settings
    _logs: OrderedDict[str, tuple[int, SharedLog]] = field(default_factory=OrderedDict, repr=False)
    _quiet: OrderedDict[tuple[str, int | None, str | None], None] = field(
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
        is_new_turn = window.request != record["turn"]["request"]
        try:
            events = self._exchanged(resource, record, messages, now, is_new_turn=is_new_turn)
            if events or is_new_turn:
                events += self._read_others(fold(record, [events]))
        except ArchiveError as error:
            logger.warning(
                "thread %r: the shared log cannot be reached, the thread goes on with its copy: %s",
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
        *,
        is_new_turn: bool,
    ) -> list[Event]:
        changes = record["outbox"]
        # Once in a turn the log itself is read: one that was begun anew counts from 1 again.
        is_quick = not changes and not is_new_turn
        if is_quick and self.archive.record_revision(resource) == record["revision"]:
            return []
        for _ in range(MAX_COMMITS):
            stored, revision = self.archive.load_record(resource)
            before = complete_log(stored)
            shared = apply_changes(
                self._at_hand(before, record, messages), self._real(record, changes)
            )
            if shared == before:
                break
            if self.archive.commit_record(resource, dict(shared), expected=revision, now=now):
                revision += 1
                break
        else:
            msg = f"the shared log of {resource!r} changed {MAX_COMMITS} times while it was read"
            raise ArchiveError(msg)
        self._remember(resource, revision, shared)
        self._archive_groups(resource, record, shared, now)
        event = diff_record(record, shared, revision, changes)
        return [event] if fold(record, [event]) != record else []

    def _remember(self, resource: str, revision: int, shared: SharedLog) -> None:
        with self._lock:
            self._logs[resource] = (revision, shared)
            self._logs.move_to_end(resource)
            while len(self._logs) > MAX_LOGS:
                self._logs.popitem(last=False)

    def _log(self, resource: str) -> SharedLog:
        """Return the shared log as it is now."""
        revision = self.archive.record_revision(resource)
        with self._lock:
            known = self._logs.get(resource)
        if known is not None and known[0] == revision:
            return known[1]
        stored, revision = self.archive.load_record(resource)
        shared = complete_log(stored)
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
        newest = known["cursor"][-1]
        own = [group for group in shared["log"] if group["thread_id"] == thread_id]
        ends = {last for group in own for _, last in group["ranges"]}
        for message in reversed(messages):
            if message.id == newest:
                return shared
            if message.id in ends:
                break
        keys = [key for key, each in keyed_messages(messages) if is_conversation(each)]
        places = {key: at for at, key in enumerate(keys)}
        if record["evicted"] in known["cursor"]:
            return shared
        stop = max(
            self._own_end(record, messages, own, known["cursor"], places),
            max((places[key] + 1 for key in known["cursor"] if key in places), default=0),
            _find_covered_end(own, places),
        )
        if stop and keys[stop - 1] == newest:
            return shared
        return rewind(shared, thread_id, keys[:stop][-CURSOR_TAIL:])

    def _own_end(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        own: Sequence[Group],
        cursor: Sequence[str],
        places: Mapping[str, int],
    ) -> int:
        """Count the messages that are observed as the thread knows it, unsent ones left out."""
        if places.keys().isdisjoint(record["cursor"]):
            record = cast("MemoryRecord", {**record, "log": own, "cursor": cursor})
        window = open_window(record, messages, self.settings.counter)
        stop = len(places) - len(window.entries)
        for change in record["outbox"]:
            if change["kind"] == "extend" and change["thread_id"] == record["thread_id"]:
                sent = places.get(change["after"], -1) + 1
                return min(stop, sent)
        return stop

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
        self, resource: str, record: MemoryRecord, shared: SharedLog, now: datetime
    ) -> None:
        """Keep what the log took of other threads; of its own the thread archives it itself.

        Raises:
            ArchiveError: When the storage fails; the next step tries again.
        """
        taken = {group["id"] for group in shared["log"]}
        others: dict[str, list[Group]] = {}
        titles: dict[str, str] = {}
        for change in record["outbox"]:
            groups = [group for group in change["groups"] if group["id"] in taken]
            for group in groups:
                if group["thread_id"] not in (None, record["thread_id"]):
                    others.setdefault(str(group["thread_id"]), []).append(group)
            title = change["hints"].get("thread_title")
            is_other = change.get("thread_id") != record["thread_id"]
            if groups and change["kind"] == "extend" and is_other and title:
                titles[change["thread_id"]] = title
        for thread_id, groups in others.items():
            if self.archive.thread(thread_id) is not None:
                self.archive.add_groups(thread_id, resource, groups, now)
        for thread_id, title in titles.items():
            try:
                self.archive.set_title(thread_id, title, now)
            except (ArchiveError, ConfigurationError) as error:  # no storage takes every text
                logger.warning("thread %r: its title is not kept: %s", thread_id, error)

    # --- Other threads ---------------------------------------------------------------------------

    def _read_others(self, record: MemoryRecord) -> list[Event]:
        """Describe the other threads, when that is news."""
        found = build_excerpts(
            self.others(record),
            self.settings.thresholds.others_tokens,
            self.settings.counter,
            self.settings.show_id,
            self.settings.timezone,
        )
        return [{"type": "others", "others": found}] if found != record["others"] else []

    def others(self, record: MemoryRecord) -> list[OtherThread]:
        """Return the other threads of a resource with their unobserved messages.

        What the thread could not send yet counts as observed: it is not asked for once more.

        Raises:
            ArchiveError: When the storage fails.
        """
        resource, thread_id = str(record["resource_id"]), record["thread_id"]
        shared = apply_changes(self._log(resource), record["outbox"])
        threads, _ = self.archive.threads(resource, page=0, limit=MAX_THREADS)
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
        # Not by when it was updated: the clocks of workers differ, or stand still.
        mark = (
            thread.id,
            self.archive.last_position(thread.id),
            find_newest_observed({"cursor": cursor}),
        )
        with self._lock:
            if mark in self._quiet:
                return None
        start = self._start(thread.id, cursor, shared)
        read = self.archive.messages(thread.id, start=start, limit=MAX_MESSAGES, visible_only=False)
        told = [each for each in read if is_conversation(each.message)]
        last = read[-1].position if len(read) == MAX_MESSAGES else None
        if not told:
            with self._lock:
                self._quiet[mark] = None
                while len(self._quiet) > MAX_QUIET:
                    self._quiet.popitem(last=False)
            return None
        entries, times = self._entries(told)
        hints = known["hints"] if known else {}
        found = OtherThread(thread.id, thread.title, thread.updated, cursor, entries, times, hints)
        return found if last is None else self._with_rest(found, last)

    def _entries(
        self, told: Sequence[ArchivedMessage]
    ) -> tuple[list[Entry], list[datetime | None]]:
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
        return entries, _fill_times(
            [self.settings.time_of(entry.key, entry.message, {}) for entry in entries]
        )

    def _with_rest(self, thread: OtherThread, last: int) -> OtherThread:
        """Add what is shown of a backlog that is too long to be read as a whole: its end."""
        end = self.archive.last_position(thread.thread_id)
        if end is None or end <= last:
            return thread
        read = self.archive.messages(
            thread.thread_id,
            start=last + 1,
            limit=MAX_MESSAGES,
            newest_first=True,
            visible_only=False,
        )
        newest, times = self._entries([each for each in read if is_conversation(each.message)])
        return replace(thread, rest=end - last, newest=newest, newest_times=times)

    def _start(self, thread_id: str, cursor: Sequence[str], shared: SharedLog) -> int:
        """Find the position of a thread's first unobserved message on its current branch.

        The cursor may stand before messages that were observed and then removed by hand: the
        archive has these still, and ranges of the log tell that they are observed.
        """
        if not cursor:
            return 0
        ends = [
            last
            for group in reversed(shared["log"])
            if group["thread_id"] == thread_id
            for _, last in reversed(group["ranges"])
        ]
        newest = max(self._behind(thread_id, key) for key in [cursor[-1], *ends[:MAX_ENDS]])
        for key in [] if newest else [*reversed(cursor[:-1]), *ends[MAX_ENDS:]]:
            newest = self._behind(thread_id, key)
            if newest:
                break
        return newest

    def _behind(self, thread_id: str, key: str) -> int:
        """Return the position behind a message; 0 when it is not on the current branch."""
        found = self.archive.find(key, thread_id=thread_id)
        return found.position + 1 if found is not None and found.is_current else 0


def _find_covered_end(groups: Sequence[Group], places: Mapping[str, int]) -> int:
    """Count the messages up to the end of the last range that lies in a conversation."""
    ends = [
        places[last] + 1
        for group in groups
        for first, last in group["ranges"]
        if first in places and last in places
    ]
    return max(ends, default=0)


def _fill_times(times: Sequence[datetime | None]) -> list[datetime | None]:
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
