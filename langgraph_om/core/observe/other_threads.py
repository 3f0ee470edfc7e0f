"""Other threads of the resource: what the Actor is shown of them, and what of them is observed.

Messages that are not observed yet are shown, cut and within a budget, so that every conversation
knows of the others at once. What is more than the budget is observed: the oldest first, and of each
thread whole exchanges only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.observe.thread_sections import escape_attribute
from langgraph_om.core.observe.transcript import (
    TimedMessage,
    TranscriptLimits,
    write_transcript_text,
)
from langgraph_om.core.record.window import Entry, find_safe_cuts
from langgraph_om.core.tokens.counter import TokenCounter

_PART_CHARACTERS: Final = 500
"""Of one text, call or result in an excerpt."""

_PART_TO_KEEP: Final = 0.5
"""How much of the budget is left unobserved, so that the newest messages stay in their words."""


@dataclass(frozen=True, slots=True)
class OtherThread:
    """A thread beside the Actor's, with its unobserved messages."""

    thread_id: str
    title: str | None
    updated: datetime
    cursor: Sequence[str]
    """The newest observed messages, newest last, as the shared log knows them."""
    entries: Sequence[Entry]
    """Oldest first; of a very long backlog only its beginning."""
    times: Sequence[datetime | None]
    """When each of them was said, as far as anything knows."""
    hints: Mapping[str, str | None]
    rest: int = 0
    """How many more messages there are behind `entries`."""
    newest: Sequence[Entry] = ()
    """Of the rest, the end."""
    newest_times: Sequence[datetime | None] = ()


class _Characters:
    """Counts characters where a transcript counts tokens."""

    identity = "characters"

    def count_text(self, text: str) -> int:
        return len(text)

    def count_message(self, message: BaseMessage) -> int:
        return len(str(message.content))


_BY_CHARACTER: Final = _Characters()
_LIMITS: Final = TranscriptLimits(_PART_CHARACTERS, _PART_CHARACTERS, _PART_CHARACTERS)


# --- What is shown -------------------------------------------------------------------------------


def build_excerpts(
    threads: Sequence[OtherThread],
    budget: int,
    counter: TokenCounter,
    show_id: ShowId,
    timezone: tzinfo,
) -> list[dict[str, Any]]:
    """Describe other threads, as the record keeps them.

    Args:
        threads: Those with unobserved messages.
        budget: Tokens that all texts together keep within.
        counter: What counts tokens.
        show_id: Tells how a thread's id is shown.
        timezone: The zone in which days and times are written.

    Returns:
        Per thread, the newest last: `thread_id`, `messages` and `tokens` (all that is unobserved,
        long parts cut), `observable` (messages that would be observed now), and `text`, the block
        to show; the newest messages of the newest threads are shown where not all of it fits.
    """
    ordered = sorted(threads, key=lambda each: (each.updated, each.thread_id))
    counts = counts_to_observe(ordered, budget)
    left = budget
    shown: list[dict[str, Any]] = []
    for thread in reversed(ordered):
        whole = _build_block(thread, len(_cut_end(thread)[0]), show_id, timezone)
        tokens = counter.count_text(whole)
        text = whole if tokens <= left else _select_newest(thread, left, counter, show_id, timezone)
        left -= counter.count_text(text) if text else 0
        shown.append(
            {
                "thread_id": thread.thread_id,
                "messages": len(thread.entries) + thread.rest,
                "rest": thread.rest,
                "tokens": tokens,
                "observable": counts[thread.thread_id],
                "text": text,
            }
        )
    return shown[::-1]


def _select_newest(
    thread: OtherThread, room: int, counter: TokenCounter, show_id: ShowId, timezone: tzinfo
) -> str:
    """Show as many of the newest messages as fit."""
    fits, over, text = 0, len(_cut_end(thread)[0]), ""
    while over - fits > 1:
        count = (fits + over) // 2
        block = _build_block(thread, count, show_id, timezone)
        if counter.count_text(block) <= room:
            fits, text = count, block
        else:
            over = count
    return text


def _build_block(thread: OtherThread, count: int, show_id: ShowId, timezone: tzinfo) -> str:
    entries, times = _cut_end(thread)
    first = len(entries) - count
    newest = zip(entries[first:], times[first:], strict=True)
    start = len(thread.entries) + thread.rest - count
    timed = [TimedMessage(entry.message, time) for entry, time in newest]
    text = write_transcript_text(timed, timezone=timezone, counter=_BY_CHARACTER, limits=_LIMITS)
    left_out = f"[{start} earlier message{'' if start == 1 else 's'} left out]\n" if start else ""
    title = f' title="{escape_attribute(thread.title)}"' if thread.title else ""
    name = f'id="{escape_attribute(show_id(thread.thread_id))}"{title}'
    return f"<other-conversation {name}>\n{left_out}{escape(text)}\n</other-conversation>"


def _cut_end(thread: OtherThread) -> tuple[Sequence[Entry], Sequence[datetime | None]]:
    """Return the newest messages of a thread that are at hand, with their times."""
    if thread.rest:
        return thread.newest, thread.newest_times
    return thread.entries, thread.times


# --- What is observed ----------------------------------------------------------------------------


def counts_to_observe(threads: Sequence[OtherThread], budget: int) -> dict[str, int]:
    """Choose how many of each thread's oldest messages are observed when that is due.

    The newest messages of the newest threads stay, within half of the budget.
    """
    room = round(budget * _PART_TO_KEEP)
    counts: dict[str, int] = {}
    for thread in sorted(threads, key=lambda each: (each.updated, each.thread_id), reverse=True):
        cuts = [0, *_find_turn_ends(thread.entries)]
        kept = sum(entry.tokens for entry in thread.entries)
        if thread.rest:
            counts[thread.thread_id] = cuts[-1]
            continue
        before = count = 0
        for cut in cuts:
            kept -= sum(entry.tokens for entry in thread.entries[before:cut])
            before = count = cut
            if kept <= room:
                break
        counts[thread.thread_id] = count
        room = max(0, room - kept)
    return counts


def _find_turn_ends(entries: Sequence[Entry]) -> list[int]:
    """List where a thread may be cut so that an answer stays with its question."""
    cuts = find_safe_cuts(entries)
    return [
        cut
        for cut in cuts
        if cut == cuts[-1] or cut == len(entries) or entries[cut].message.type == "human"
    ]


def split_batches(
    threads: Sequence[tuple[OtherThread, int]], batch_tokens: int
) -> list[list[tuple[OtherThread, int]]]:
    """Put threads together that are observed in one question.

    Args:
        threads: Threads, each with the number of its oldest messages to observe.
        batch_tokens: Tokens of messages in one question; a single exchange may have more.

    Returns:
        The batches, the thread updated longest ago first. Of a thread that is larger than a batch,
        only the first exchanges that fit are in one; its rest comes when these are observed.
    """
    found: list[list[tuple[OtherThread, int]]] = []
    size = 0
    for thread, count in sorted(threads, key=lambda each: (each[0].updated, each[0].thread_id)):
        fitting, tokens = _cut_head(thread, count, batch_tokens)
        if not fitting:
            continue
        if not found or size + tokens > batch_tokens:
            found.append([])
            size = 0
        found[-1].append((thread, fitting))
        size += tokens
    return found


def _cut_head(thread: OtherThread, count: int, limit: int) -> tuple[int, int]:
    """Take as many of the oldest exchanges as fit, at least one, and count their tokens."""
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
