"""Other threads of a resource, with their unobserved messages, read from the archive."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import content_digest, derive_id, is_conversation
from langgraph_om.core.cycles.cycle import Mode
from langgraph_om.core.effects import (
    EffectFlow,
    KeepLease,
    Storage,
    call_storage,
    warn_once_an_outage,
)
from langgraph_om.core.record.record import find_newest_observed, log_tokens
from langgraph_om.core.record.span import Entry
from langgraph_om.core.wire import MemoryRecord, Operation
from langgraph_om.errors import ArchiveError
from langgraph_om.features.shared_log.log import LogChange, SharedLog, SharingRecord, apply_changes
from langgraph_om.features.shared_log.reducers import OTHERS
from langgraph_om.features.shared_log.threads import OtherThread

# One thread at a time works on what all threads of a resource share, over all workers.
#
# The lease is a job in the archive without a result. It is renewed while the work goes on, and
# held until the shared log has what came of it, so that who gets it next sees that; where a
# process ends before, it ends by itself.


LEASE_SECONDS: Final = 120.0
"""How long the work of a process that ended, or of a thread that does not go on, keeps others from
beginning anew."""
AHEAD_SECONDS: Final = 600.0
"""The same for a reflection ahead of need, which the thread keeps until the log has grown."""


def claim_log(
    record: MemoryRecord, operation: Operation, mode: Mode = "blocking"
) -> EffectFlow[bool]:
    """Ask to be the one that works on the log of a resource.

    Returns:
        Whether the thread is; not while another one is at it, or the archive fails.
    """
    name, seconds = _describe_lease(record, operation, mode)
    whose = {"thread_id": record["thread_id"], "resource_id": record["resource_id"]}
    try:
        claim = yield from call_storage("claim", name, record["id"], seconds=seconds, **whose)
    except ArchiveError:
        return False
    return bool(claim == "mine")


def keep_log(record: MemoryRecord, operation: Operation, mode: Mode) -> EffectFlow[None]:
    """Keep what the thread claimed for as long as its work takes."""
    name, seconds = _describe_lease(record, operation, mode)
    yield KeepLease(name, record["id"], seconds)


def claim_reflection(record: MemoryRecord, mode: Mode, *, leave_below: int = 0) -> EffectFlow[bool]:
    """Ask to be the one that condenses the log, as it is by now.

    Args:
        mode: Whether the turn waits for it.
        leave_below: Tokens of the log below which a turn leaves it to another thread that has, or
            makes, a reflection ahead of need.

    Returns:
        Whether the thread is; not while another one is at it, or has condensed the log since. What
        others added to it since does no harm.
    """
    name, _ = _describe_lease(record, "reflection", "ahead")
    try:
        ahead = (yield from call_storage("job", name)) if log_tokens(record) < leave_below else None
    except ArchiveError:
        ahead = None
    if ahead is not None and ahead.state == "running" and ahead.owner != record["id"]:
        return False
    if not (yield from claim_log(record, "reflection", mode)):
        return False
    try:
        shared = yield from call_storage("read_log", record["resource_id"])
        if shared["generation"] == record["generation"]:
            return True
    except ArchiveError:  # nobody can tell
        pass
    yield from release_log(record, "reflection")
    return False


def release_log(record: MemoryRecord, operation: Operation) -> EffectFlow[None]:
    """Let the next one work; a lease that the archive does not take back ends by itself."""
    modes: tuple[Mode, ...] = ("blocking", "ahead")
    for name in sorted({_describe_lease(record, operation, mode)[0] for mode in modes}):
        yield Storage("release", (name, record["id"]))


def release_after(record: MemoryRecord, sent: Sequence[LogChange]) -> EffectFlow[None]:
    """Let the next one work where the log has, or has refused, what came of this thread's."""
    if any(
        change["kind"] == "extend" and change["thread_id"] != record["thread_id"] for change in sent
    ):
        yield from release_log(record, OTHERS)
    if any(change["kind"] == "replace" for change in sent):
        yield from release_log(record, "reflection")


def _describe_lease(record: MemoryRecord, operation: Operation, mode: Mode) -> tuple[str, float]:
    """Return name and seconds; a turn does not wait for a reflection that is ready elsewhere."""
    is_kept = operation == "reflection" and mode == "ahead"
    name = derive_id("shared-log", operation, record["resource_id"], "ahead" if is_kept else "")
    return name, AHEAD_SECONDS if is_kept else LEASE_SECONDS


MAX_THREADS = 200
"""How many of a resource's threads are looked at for unobserved messages, newest updated first."""
REST_THREADS = 50
"""How many of those behind are looked at, in one turn these and in another the next."""
MAX_MESSAGES = 400
"""How many unobserved messages of another thread are read at once, the oldest."""
MAX_ENDS = 4
"""How many of a thread's newest ranges are looked at for where its unobserved messages begin."""


def read_other_threads(
    settings: Settings, record: SharingRecord
) -> EffectFlow[tuple[list[OtherThread], Any]]:
    """Read the other threads of a resource with their unobserved messages.

    Of these, the newest and a part of the rest. What the thread could not send yet counts as
    observed: it is not asked for once more.

    Returns:
        Those with unobserved messages, and the part of the threads behind the newest that was read;
        `None` where there are no more.

    Raises:
        ArchiveError: When the storage fails.
    """
    resource = str(record["resource_id"])
    log = yield from call_storage("read_log", resource)
    shared = apply_changes(log, record["outbox"])
    listed = yield from call_storage("find_threads", resource, MAX_THREADS)
    rest: Any = None
    if len(listed) == MAX_THREADS:
        rest = yield from call_storage("find_rest", resource, listed, REST_THREADS)
    behind = {end.thread.id for end in rest.ends} if rest is not None else set()
    marks = [
        (end, find_newest_observed({"cursor": _find_cursor(shared, end.thread.id)}))
        for end in [*listed, *(rest.ends if rest is not None else ())]
        if end.thread.id != record["thread_id"]
    ]
    known = yield from call_storage("recall_reads", marks)
    found: list[OtherThread] = []
    for mark, read in zip(marks, known, strict=True):
        thread = mark[0].thread
        if mark[1] is not None and mark[0].key == mark[1]:  # all of it is observed
            continue
        if read is not None:
            other = read[0]
        else:
            other = yield from _read_thread(settings, shared, thread)
            messages = 0 if other is None else len(other.entries) + len(other.newest)
            yield Storage("remember_read", (mark, other, messages))
        if other is not None:
            entry = shared["threads"].get(thread.id)
            hints = entry["hints"] if entry else {}
            fixed = shared.get("fixed", {}).get(thread.id, {}).keys()
            cursor = _find_cursor(shared, thread.id)
            is_behind = thread.id in behind
            about = {"hints": hints, "fixed": fixed, "is_behind": is_behind}
            found.append(replace(other, cursor=cursor, **about))
    return found, rest


def read_other_threads_if_possible(
    settings: Settings, record: SharingRecord
) -> EffectFlow[list[OtherThread]]:
    """Read the other threads of a resource; none when the archive fails."""
    try:
        return (yield from read_other_threads(settings, record))[0]
    except ArchiveError as error:
        text = "thread %r: other threads cannot be read: %s"
        yield from warn_once_an_outage(text, (record["thread_id"], error))
        return []


def _find_cursor(shared: SharedLog, thread_id: str) -> list[str]:
    known = shared["threads"].get(thread_id)
    return known["cursor"] if known else []


def _read_thread(
    settings: Settings, shared: SharedLog, thread: Any
) -> EffectFlow[OtherThread | None]:
    """Read the unobserved messages of a thread, as the archive lists it; `None` without any."""
    cursor = _find_cursor(shared, thread.id)
    start = yield from _find_start(thread.id, cursor, shared)
    if start is None:
        return None
    read = yield from call_storage(
        "messages", thread.id, start=start, limit=MAX_MESSAGES, visible_only=False
    )
    entries, times = _time_messages(settings, read)
    if not entries:
        return None
    found = OtherThread(thread.id, thread.title, thread.updated, cursor, entries, times, {})
    if len(read) < MAX_MESSAGES:
        return found
    return (yield from _read_end(settings, found, read[-1].position))


def _time_messages(
    settings: Settings, read: Sequence[Any]
) -> tuple[list[Entry], list[datetime | None]]:
    """Return what of archived messages is conversation, and when it was said."""
    counter = settings.counter
    entries = [
        Entry(
            archived.key,
            archived.message,
            content_digest(archived.message),
            counter.count_message(archived.message),
        )
        for archived in read
        if is_conversation(archived.message)
    ]
    seen = {archived.key: archived.at.isoformat() for archived in read if archived.at is not None}
    return entries, settings.times_of([(entry.key, entry.message) for entry in entries], seen)


def _read_end(settings: Settings, thread: OtherThread, last: int) -> EffectFlow[OtherThread]:
    """Add what is shown of a backlog that is too long to be read as a whole: its end."""
    end = yield from call_storage("last_position", thread.thread_id)
    if end is None or end <= last:
        return thread
    read = yield from call_storage(
        "messages",
        thread.thread_id,
        start=last + 1,
        limit=MAX_MESSAGES,
        newest_first=True,
        visible_only=False,
    )
    newest, times = _time_messages(settings, read)
    return replace(thread, rest=end - last, newest=newest, newest_times=times)


def _find_start(thread_id: str, cursor: Sequence[str], shared: SharedLog) -> EffectFlow[int | None]:
    """Find the position of a thread's first unobserved message on its current branch.

    The cursor may stand before messages that were observed and then removed by hand: the archive
    has these still, and ranges of the log tell that they are observed.

    Returns:
        The position; `None` where the archive does not have the newest observed message yet, as all
        that it has of the thread is observed then.
    """
    if not cursor:
        return 0
    found = yield from call_storage("find", cursor[-1], thread_id=thread_id)
    if found is None:
        return None
    ends = [
        last
        for group in reversed(shared["log"])
        if group["thread_id"] == thread_id
        for _, last in reversed(group["ranges"])
    ]
    newest: int
    if not found.is_current:
        newest = yield from _find_start_on_branch(thread_id, cursor, set(ends))
        return newest
    newest = found.position + 1
    for key in ends[:MAX_ENDS]:
        if key != found.key:
            newest = max(newest, (yield from _find_behind(thread_id, key)))
    return newest


def _find_start_on_branch(
    thread_id: str, cursor: Sequence[str], ends: AbstractSet[str]
) -> EffectFlow[int]:
    """Find the same where another branch went on last, which the log was not told yet.

    What both have in common is observed, and what was observed of this one before the other began.
    """
    start = 0
    for key in reversed(cursor[:-1]):
        start = start or (yield from _find_behind(thread_id, key))
    at = start
    while read := (
        yield from call_storage(
            "messages", thread_id, start=at, limit=MAX_MESSAGES, visible_only=False
        )
    ):
        start = max([start, *(each.position + 1 for each in read if each.key in ends)])
        at = read[-1].position + 1
    return start


def _find_behind(thread_id: str, key: str) -> EffectFlow[int]:
    """Return the position behind a message; 0 when it is not on the current branch."""
    found = yield from call_storage("find", key, thread_id=thread_id)
    return found.position + 1 if found is not None and found.is_current else 0
