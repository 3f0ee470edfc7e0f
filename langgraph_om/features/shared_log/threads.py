"""Choose what the Actor is shown of the other threads of a resource, and what of them is observed.

Unobserved messages are shown, cut and within a budget, so that every conversation knows of the
others at once. What is too much to stay unobserved is observed: the oldest messages first, and only
complete exchanges.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.content.text import escape, escape_attribute
from langgraph_om.core.observe.transcript import TimedMessage, TranscriptLimits, transcribe
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.record.span import Entry, find_safe_cuts
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.features.shared_log.log import Excerpt

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
        self._messages = [*thread.entries, *thread.newest]
        self.cuts = [0, *_find_turn_ends(thread.entries)]
        sizes = (-entry.tokens for entry in thread.entries)
        self.left = [*accumulate(sizes, initial=thread.tokens + thread.rest_tokens)]

    def choose(self, limits: Thresholds, limit: int) -> int:
        """Choose the longest part that leaves the floor; more where a limit would be left."""
        stop = _find_start_of_turns(self._messages, limits.keep_turns)
        cuts = [cut for cut in self.cuts if cut <= stop]
        kept = (at for at, cut in enumerate(cuts) if self.left[cut] >= limits.keep_tokens)
        at = max(kept, default=0)
        if self.left[cuts[at]] >= limit:
            at = min(at + 1, len(cuts) - 1)
        return cuts[at]


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


def _find_start_of_turns(entries: Sequence[Entry], turns: int) -> int:
    """Return the index behind which the newest user turns are."""
    humans = [at for at, entry in enumerate(entries) if entry.message.type == "human"]
    if not turns:
        return len(entries)
    return humans[-turns] if len(humans) >= turns else 0


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
