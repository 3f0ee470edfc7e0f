"""The other threads of a resource: how they are read, what is shown of them, and what is observed.

Unobserved messages are shown, cut and within a budget, so that every conversation knows of the
others at once. What is too much to stay unobserved is observed: the oldest messages first, and only
complete exchanges.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Final

from langchain_core.messages import BaseMessage

from langgraph_om.archive.types import CLAIM_SECONDS
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.content.message_keys import content_digest, derive_id, is_conversation
from langgraph_om.core.content.text import escape, escape_attribute
from langgraph_om.core.cycles.cycle import Mode
from langgraph_om.core.effects import EffectFlow, Storage, call_storage, find_part
from langgraph_om.core.observe.transcript import TimedMessage, TranscriptLimits, transcribe
from langgraph_om.core.record.record import find_newest_observed, log_tokens
from langgraph_om.core.record.sharing import apply_changes
from langgraph_om.core.record.window import Entry, find_safe_cuts
from langgraph_om.core.wire import OTHERS, Excerpt, LogChange, MemoryRecord, Operation, SharedLog
from langgraph_om.errors import ArchiveError
from langgraph_om.features.archive import find_archive, warn_of_outage
from langgraph_om.features.shared_log.cache import LogCache

_MAX_TEXT_CHARACTERS: Final = 500
"""Shown of one text, call or result in an excerpt."""


@dataclass(frozen=True, slots=True)
class OtherThread:
    """A thread other than the Actor's, with its unobserved messages."""

    thread_id: str
    title: str | None
    updated: datetime
    cursor: Sequence[str]
    """The newest observed messages, newest last, as the shared log knows them."""
    entries: Sequence[Entry]
    """Its unobserved messages, oldest first; only the beginning of a very long backlog."""
    times: Sequence[datetime | None]
    """When each of them was written, where that is known."""
    hints: Mapping[str, str | None]
    rest: int = 0
    """How many more unobserved messages there are after `entries`."""
    newest: Sequence[Entry] = ()
    """The last messages of the rest."""
    newest_times: Sequence[datetime | None] = ()
    fixed: Collection[str] = ()
    """Names of the hints that a person set."""
    is_behind: bool = False
    """Whether so many threads are newer that nobody is shown what it said last."""

    @property
    def tokens(self) -> int:
        """Tokens of `entries`."""
        return sum(entry.tokens for entry in self.entries)

    @property
    def rest_tokens(self) -> int:
        """About how many tokens the rest has, by its newest messages."""
        if not self.newest:
            return 0
        return sum(entry.tokens for entry in self.newest) * self.rest // len(self.newest)


def build_excerpts(
    threads: Sequence[OtherThread], counts: Mapping[str, int], budget: int, settings: Settings
) -> list[Excerpt]:
    """Describe other threads in the form that the record keeps.

    Args:
        counts: How many messages of each are to be observed now.
        budget: Tokens of all texts together.

    Returns:
        Per thread that is shown or to be observed, the newest last. Where not everything fits, the
        newest messages of the newest threads are shown.
    """
    left = budget
    shown: list[Excerpt] = []
    for thread in sorted(threads, key=_age_key, reverse=True):
        text, observable = "", counts.get(thread.thread_id, 0)
        if left > 0:
            text = _build_block(thread, len(_select_newest(thread)[0]), settings)
            size = settings.counter.count_text(text)
            if size > left:
                text, size = _build_fitting_block(thread, left, settings), left
            left -= size
        if text or observable:
            shown.append(
                {
                    "thread_id": thread.thread_id,
                    "messages": len(thread.entries) + thread.rest,
                    "rest": thread.rest,
                    "tokens": thread.tokens,
                    "observable": observable,
                    "text": text,
                }
            )
    return shown[::-1]


_BUSY: Final = timedelta(minutes=30)
"""For so long after its last message a thread is left to observe itself ahead of need."""
_KEPT: Final = timedelta(days=1)
"""For so long a little of a thread that nobody is shown waits until there is more to observe."""


def count_in_others(
    settings: Settings, record: MemoryRecord, threads: Sequence[OtherThread], now: datetime
) -> dict[str, int]:
    """Return by thread id how many of its oldest messages are to be observed now.

    A thread is observed as it would observe itself: at the limit, and down to the floor. Many small
    ones together are observed at the limit too, down to half of it, those that were quiet for
    longest first: each down to its floor, and only where that is not enough as a whole. What
    nobody is shown any more is observed as a whole, many threads at a time.
    """
    limits, log = settings.thresholds, log_tokens(record)
    ordered = sorted(threads, key=_age_key)
    counts = {thread.thread_id: 0 for thread in ordered}
    left = {thread.thread_id: thread.tokens + thread.rest_tokens for thread in ordered}
    cuts: dict[str, _Cuts] = {}
    limit, busy = limits.messages_at(log), set[str]()
    limit_of = dict.fromkeys(counts, limit)
    if limits.buffer_tokens is not None:  # a thread has its own chunks, and activates them
        # Its last turn may have made it larger than it ever is at the start of its own: with that
        # one, it has chunks for most of it.
        busy = {thread.thread_id for thread in threads if thread.updated >= now - _BUSY}
        limit_of |= dict.fromkeys(busy, limits.block_messages_at(log) + limit)

    def take(thread: OtherThread, *, is_whole: bool) -> None:
        key = thread.thread_id
        size = cuts[key] = cuts.get(key) or _Cuts(thread)
        counts[key] = max(counts[key], size.cuts[-1] if is_whole else size.choose(limits, limit))
        left[key] = size.left[counts[key]]

    for thread in ordered:
        if left[thread.thread_id] >= limit_of[thread.thread_id]:
            take(thread, is_whole=False)
    alone = [thread for thread in ordered if thread.thread_id not in busy]
    behind = [thread for thread in alone if thread.is_behind]
    has_waited = bool(behind) and behind[0].updated < now - _KEPT
    has_waited = has_waited or sum(thread.tokens for thread in behind) > limit // 2
    for thread in behind if has_waited else ():
        take(thread, is_whole=True)
    quiet = [thread for thread in alone if not thread.is_behind]
    total = sum(left[thread.thread_id] for thread in quiet)
    if total <= limit:
        return counts
    for is_whole in (False, True):
        for thread in quiet:
            if total <= limit // 2:
                return counts
            total -= left[thread.thread_id]
            take(thread, is_whole=is_whole)
            total += left[thread.thread_id]
    return counts


class _Cuts:
    """Where a thread's unobserved messages can be cut, and what would be left."""

    def __init__(self, thread: OtherThread) -> None:
        self.cuts = [0, *_find_turn_ends(thread.entries)]
        sizes = (-entry.tokens for entry in thread.entries)
        self.left = [*accumulate(sizes, initial=thread.tokens + thread.rest_tokens)]

    def choose(self, limits: Thresholds, limit: int) -> int:
        """Choose the longest part that leaves the floor; more where a limit would be left."""
        kept = (at for at, cut in enumerate(self.cuts) if self.left[cut] >= limits.keep_tokens)
        at = max(kept, default=0)
        if self.left[self.cuts[at]] >= limit:
            at = min(at + 1, len(self.cuts) - 1)
        return self.cuts[at]


def split_batches(
    threads: Sequence[tuple[OtherThread, int]], batch_tokens: int
) -> list[list[tuple[OtherThread, int]]]:
    """Group threads into batches, each observed in one question.

    Args:
        batch_tokens: Tokens of messages in one question; a single exchange may have more.

    Returns:
        The batches, the thread updated longest ago first. Of a thread that is larger than a batch
        only the first exchanges that fit are taken; the rest follows once these are observed.
    """
    batches: list[list[tuple[OtherThread, int]]] = []
    size = 0
    for thread, count in sorted(threads, key=lambda pair: _age_key(pair[0])):
        fitting, tokens = _fit_oldest(thread, count, batch_tokens)
        if not fitting:
            continue
        if not batches or size + tokens > batch_tokens:
            batches.append([])
            size = 0
        batches[-1].append((thread, fitting))
        size += tokens
    return batches


# --- What is shown -------------------------------------------------------------------------------


class _Characters:
    """Counts characters where a transcript counts tokens."""

    identity = "characters"

    def count_text(self, text: str) -> int:
        return len(text)

    def count_message(self, message: BaseMessage) -> int:
        return len(str(message.content))


_BY_CHARACTER: Final = _Characters()
_LIMITS: Final = TranscriptLimits(_MAX_TEXT_CHARACTERS, _MAX_TEXT_CHARACTERS, _MAX_TEXT_CHARACTERS)


def _build_block(thread: OtherThread, count: int, settings: Settings) -> str:
    entries, times = _select_newest(thread)
    first = len(entries) - count
    newest = zip(entries[first:], times[first:], strict=True)
    start = len(thread.entries) + thread.rest - count
    timed = [TimedMessage(entry.message, time) for entry, time in newest]
    zone = settings.timezone
    text = transcribe(timed, timezone=zone, counter=_BY_CHARACTER, limits=_LIMITS).text
    left_out = f"[{start} earlier message{'' if start == 1 else 's'} left out]\n" if start else ""
    title = f' title="{escape_attribute(thread.title)}"' if thread.title else ""
    name = f'id="{escape_attribute(settings.show_id(thread.thread_id))}"{title}'
    return f"<other-conversation {name}>\n{left_out}{escape(text)}\n</other-conversation>"


def _build_fitting_block(thread: OtherThread, room: int, settings: Settings) -> str:
    """Return the block with as many of the newest messages as fit; empty when none does."""
    fits, too_many, text = 0, len(_select_newest(thread)[0]), ""
    while too_many - fits > 1:
        count = (fits + too_many) // 2
        block = _build_block(thread, count, settings)
        if settings.counter.count_text(block) <= room:
            fits, text = count, block
        else:
            too_many = count
    return text


def _select_newest(thread: OtherThread) -> tuple[Sequence[Entry], Sequence[datetime | None]]:
    """Return the newest messages of a thread that were loaded, with their times."""
    if thread.rest:
        return thread.newest, thread.newest_times
    return thread.entries, thread.times


# --- What is observed ----------------------------------------------------------------------------


def _age_key(thread: OtherThread) -> tuple[datetime, str]:
    return thread.updated, thread.thread_id


def _find_turn_ends(entries: Sequence[Entry]) -> list[int]:
    """Return the safe cuts of a thread that do not separate an answer from its question."""
    cuts = find_safe_cuts(entries)
    return [
        cut
        for cut in cuts
        if cut == cuts[-1] or cut == len(entries) or entries[cut].message.type == "human"
    ]


def _fit_oldest(thread: OtherThread, count: int, limit: int) -> tuple[int, int]:
    """Return how many of the oldest messages fit, at least one exchange, and their tokens."""
    taken = tokens = size = before = 0
    for cut in find_safe_cuts(thread.entries):
        if cut > count:
            break
        size += sum(entry.tokens for entry in thread.entries[before:cut])
        before = cut
        if taken and size > limit:
            break
        taken, tokens = cut, size
    return taken, tokens


# One thread at a time works on what all threads of a resource share, over all workers.
#
# The claim is a job in the archive without a result. It lasts until the shared log has what came of
# it, so that who gets it next sees that; where a process ends before, it ends by itself.


def claim_log(
    record: MemoryRecord, operation: Operation, mode: Mode = "blocking"
) -> EffectFlow[bool]:
    """Ask to be the one that works on the log of a resource.

    Returns:
        Whether the thread is; not while another one is at it, or the archive fails.
    """
    name = _name_claim(record, operation, mode)
    archive = yield from find_archive()
    try:
        claim = yield from call_storage(
            archive.claim,
            name,
            record["id"],
            seconds=CLAIM_SECONDS,
            thread_id=record["thread_id"],
            resource_id=record["resource_id"],
        )
    except ArchiveError:
        return False
    return claim == "mine"


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
    name = _name_claim(record, "reflection", "ahead")
    archive = yield from find_archive()
    try:
        ahead = (
            (yield from call_storage(archive.job, name))
            if log_tokens(record) < leave_below
            else None
        )
    except ArchiveError:
        ahead = None
    if ahead is not None and ahead.state == "running" and ahead.owner != record["id"]:
        return False
    if not (yield from claim_log(record, "reflection", mode)):
        return False
    try:
        cache = yield from find_part(LogCache)
        shared = yield from call_storage(cache.read_log, str(record["resource_id"]))
        if shared["generation"] == record["generation"]:
            return True
    except ArchiveError:  # nobody can tell
        pass
    yield from release_log(record, "reflection")
    return False


def release_log(record: MemoryRecord, operation: Operation) -> EffectFlow[None]:
    """Let the next one work; a claim that the archive does not take back ends by itself."""
    archive = yield from find_archive()
    modes: tuple[Mode, ...] = ("blocking", "ahead")
    for name in sorted({_name_claim(record, operation, mode) for mode in modes}):
        yield Storage(archive.release, (name, record["id"]))


def release_after(record: MemoryRecord, sent: Sequence[LogChange]) -> EffectFlow[None]:
    """Let the next one work where the log has, or has refused, what came of this thread's."""
    if any(
        change["kind"] == "extend" and change["thread_id"] != record["thread_id"] for change in sent
    ):
        yield from release_log(record, OTHERS)
    if any(change["kind"] == "replace" for change in sent):
        yield from release_log(record, "reflection")


def _name_claim(record: MemoryRecord, operation: Operation, mode: Mode) -> str:
    """Name what is claimed; a turn does not wait for a reflection that is ready elsewhere."""
    is_kept = operation == "reflection" and mode == "ahead"
    return derive_id("shared-log", operation, record["resource_id"], "ahead" if is_kept else "")


MAX_THREADS = 200
"""How many of a resource's threads are looked at for unobserved messages, newest updated first."""
REST_THREADS = 50
"""How many of those behind are looked at, in one turn these and in another the next."""
MAX_MESSAGES = 400
"""How many unobserved messages of another thread are read at once, the oldest."""
MAX_ENDS = 4
"""How many of a thread's newest ranges are looked at for where its unobserved messages begin."""


def read_other_threads(
    settings: Settings, record: MemoryRecord
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
    archive = yield from find_archive()
    cache = yield from find_part(LogCache)
    log = yield from call_storage(cache.read_log, resource)
    shared = apply_changes(log, record["outbox"])
    listed = yield from call_storage(archive.thread_ends, resource, limit=MAX_THREADS)
    rest: Any = None
    if len(listed) == MAX_THREADS:
        rest = yield from call_storage(cache.find_rest, resource, listed, REST_THREADS)
    behind = {end.thread.id for end in rest.ends} if rest is not None else set()
    marks = [
        (end, find_newest_observed({"cursor": _find_cursor(shared, end.thread.id)}))
        for end in [*listed, *(rest.ends if rest is not None else ())]
        if end.thread.id != record["thread_id"]
    ]
    known = cache.recall_reads(marks)
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
            cache.remember_read(mark, other, messages)
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
    settings: Settings, record: MemoryRecord
) -> EffectFlow[list[OtherThread]]:
    """Read the other threads of a resource; none when the archive fails."""
    try:
        return (yield from read_other_threads(settings, record))[0]
    except ArchiveError as error:
        text = "thread %r: other threads cannot be read: %s"
        yield from warn_of_outage(text, (record["thread_id"], error))
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
    archive = yield from find_archive()
    read = yield from call_storage(
        archive.messages, thread.id, start=start, limit=MAX_MESSAGES, visible_only=False
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
    archive = yield from find_archive()
    end = yield from call_storage(archive.last_position, thread.thread_id)
    if end is None or end <= last:
        return thread
    read = yield from call_storage(
        archive.messages,
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
    archive = yield from find_archive()
    found = yield from call_storage(archive.find, cursor[-1], thread_id=thread_id)
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
    archive = yield from find_archive()
    while read := (
        yield from call_storage(
            archive.messages, thread_id, start=at, limit=MAX_MESSAGES, visible_only=False
        )
    ):
        start = max([start, *(each.position + 1 for each in read if each.key in ends)])
        at = read[-1].position + 1
    return start


def _find_behind(thread_id: str, key: str) -> EffectFlow[int]:
    """Return the position behind a message; 0 when it is not on the current branch."""
    archive = yield from find_archive()
    found = yield from call_storage(archive.find, key, thread_id=thread_id)
    return found.position + 1 if found is not None and found.is_current else 0
