"""Choose what the Actor is shown of the other threads of a resource, and what of them is observed.

Unobserved messages are shown, cut and within a budget, so that every conversation knows of the
others at once. What is too much to stay unobserved is observed: the oldest messages first, and only
complete exchanges.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.content.text import escape, escape_attribute
from langgraph_om.core.observe.transcript import (
    TimedMessage,
    TranscriptLimits,
    transcribe,
)
from langgraph_om.core.record.span import Entry, find_safe_cuts
from langgraph_om.core.tokens.counter import TokenCounter
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
    threads: Sequence[OtherThread],
    counts: Mapping[str, int],
    budget: int,
    *,
    counter: TokenCounter,
    show_id: ShowId,
    timezone: tzinfo,
) -> list[Excerpt]:
    """Describe other threads in the form that the record keeps.

    Args:
        counts: How many messages of each are to be observed now.

    Returns:
        Per thread that is shown or to be observed, the newest last. Where not everything fits, the
        newest messages of the newest threads are shown.
    """
    left = budget
    shown: list[Excerpt] = []
    for thread in sorted(threads, key=_age_key, reverse=True):
        text, observable = "", counts.get(thread.thread_id, 0)
        if left > 0:
            text = _build_block(thread, len(_select_newest(thread)[0]), show_id, timezone)
            size = counter.count_text(text)
            if size > left:
                text, size = _build_fitting_block(thread, left, counter, show_id, timezone), left
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


@dataclass(frozen=True, slots=True)
class Shares:
    """How much of other threads stays unobserved, in tokens of their messages."""

    limit: int
    """What one thread, or all together, may have."""
    keep: int
    """The retention floor: what of a thread that reached the limit stays verbatim."""
    keep_turns: int = 0
    """How many of its newest user turns stay verbatim, too."""
    busy_since: datetime | None = None
    """Threads that were updated since observe themselves ahead of need: they are left alone below
    a limit of their own. `None`: no thread does."""
    busy_limit: int = 0
    kept_since: datetime | None = None
    """What threads that nobody is shown have left unobserved waits for more of it, but not for
    longer than since then."""

    def leaves_alone(self, thread: OtherThread) -> bool:
        """Return whether a thread is its own to observe as long as it keeps to its limit."""
        return self.busy_since is not None and thread.updated >= self.busy_since

    def limit_of(self, thread: OtherThread) -> int:
        """Return what a thread may have by itself."""
        return self.busy_limit if self.leaves_alone(thread) else self.limit

    def has_waited(self, behind: Sequence[OtherThread]) -> bool:
        """Return whether threads that nobody is shown have enough unobserved, or for long enough.

        Args:
            behind: The threads, updated longest ago first.
        """
        if sum(thread.tokens for thread in behind) > self.limit // 2:
            return True
        since = self.kept_since
        return bool(behind) and since is not None and behind[0].updated < since


def count_to_observe(threads: Sequence[OtherThread], shares: Shares) -> dict[str, int]:
    """Return by thread id how many of its oldest messages are to be observed now.

    A thread is observed as it would observe itself: at the limit, and down to the floor. Many small
    ones together are observed at the limit too, down to half of it, those that were quiet for
    longest first: each down to its floor, and only where that is not enough as a whole. What
    nobody is shown any more is observed as a whole, many threads at a time.
    """
    ordered = sorted(threads, key=_age_key)
    counts = {thread.thread_id: 0 for thread in ordered}
    left = {thread.thread_id: thread.tokens + thread.rest_tokens for thread in ordered}
    cuts: dict[str, _Cuts] = {}

    def take(thread: OtherThread, *, is_whole: bool) -> None:
        key = thread.thread_id
        size = cuts[key] = cuts.get(key) or _Cuts(thread)
        counts[key] = max(counts[key], size.last if is_whole else size.choose(shares))
        left[key] = size.left_after(counts[key])

    for thread in ordered:
        if left[thread.thread_id] >= shares.limit_of(thread):
            take(thread, is_whole=False)
    alone = [thread for thread in ordered if not shares.leaves_alone(thread)]
    behind = [thread for thread in alone if thread.is_behind]
    if shares.has_waited(behind):
        for thread in behind:
            take(thread, is_whole=True)
    quiet = [thread for thread in alone if not thread.is_behind]
    total = sum(left[thread.thread_id] for thread in quiet)
    if total <= shares.limit:
        return counts
    for is_whole in (False, True):
        for thread in quiet:
            if total <= shares.limit // 2:
                return counts
            total -= left[thread.thread_id]
            take(thread, is_whole=is_whole)
            total += left[thread.thread_id]
    return counts


class _Cuts:
    """Where a thread's unobserved messages can be cut, and what would be left."""

    def __init__(self, thread: OtherThread) -> None:
        self._messages = [*thread.entries, *thread.newest]
        self._cuts = [0, *_find_turn_ends(thread.entries)]
        self._left = [thread.tokens + thread.rest_tokens]
        for entry in thread.entries:
            self._left.append(self._left[-1] - entry.tokens)

    @property
    def last(self) -> int:
        return self._cuts[-1]

    def left_after(self, count: int) -> int:
        return self._left[count]

    def choose(self, shares: Shares) -> int:
        """Choose the longest part that leaves the floor; more where a limit would be left."""
        stop = _find_start_of_turns(self._messages, shares.keep_turns)
        cuts = [cut for cut in self._cuts if cut <= stop]
        at = max((at for at, cut in enumerate(cuts) if self._left[cut] >= shares.keep), default=0)
        if self._left[cuts[at]] >= shares.limit:
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


def _build_block(thread: OtherThread, count: int, show_id: ShowId, timezone: tzinfo) -> str:
    entries, times = _select_newest(thread)
    first = len(entries) - count
    newest = zip(entries[first:], times[first:], strict=True)
    start = len(thread.entries) + thread.rest - count
    timed = [TimedMessage(entry.message, time) for entry, time in newest]
    text = transcribe(timed, timezone=timezone, counter=_BY_CHARACTER, limits=_LIMITS).text
    left_out = f"[{start} earlier message{'' if start == 1 else 's'} left out]\n" if start else ""
    title = f' title="{escape_attribute(thread.title)}"' if thread.title else ""
    name = f'id="{escape_attribute(show_id(thread.thread_id))}"{title}'
    return f"<other-conversation {name}>\n{left_out}{escape(text)}\n</other-conversation>"


def _build_fitting_block(
    thread: OtherThread, room: int, counter: TokenCounter, show_id: ShowId, timezone: tzinfo
) -> str:
    """Return the block with as many of the newest messages as fit; empty when none does."""
    fits, too_many, text = 0, len(_select_newest(thread)[0]), ""
    while too_many - fits > 1:
        count = (fits + too_many) // 2
        block = _build_block(thread, count, show_id, timezone)
        if counter.count_text(block) <= room:
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
