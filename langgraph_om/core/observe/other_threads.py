"""Choose what the Actor is shown of the other threads of a resource, and what of them is observed.

Unobserved messages are shown, cut and within a budget, so that every conversation knows of the
others at once. What exceeds the budget is observed: the oldest messages first, and only complete
exchanges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.observe.thread_sections import escape_attribute
from langgraph_om.core.observe.transcript import (
    TimedMessage,
    TranscriptLimits,
    write_transcript_text,
)
from langgraph_om.core.record.span import Entry, find_safe_cuts
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Excerpt

_MAX_TEXT_CHARACTERS: Final = 500
"""Shown of one text, call or result in an excerpt."""

_SHARE_TO_KEEP: Final = 0.5
"""How much of the budget stays unobserved, so that the newest messages are shown verbatim."""


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


def build_excerpts(
    threads: Sequence[OtherThread],
    budget: int,
    counter: TokenCounter,
    show_id: ShowId,
    timezone: tzinfo,
) -> list[Excerpt]:
    """Describe other threads in the form that the record keeps.

    Args:
        threads: The other threads with unobserved messages.
        budget: The most tokens of all texts together.
        counter: What counts tokens.
        show_id: Writes a thread's id for the model.
        timezone: The zone in which days and times are written.

    Returns:
        Per thread, the newest last: `thread_id`, `messages` and `tokens` (all that is unobserved,
        long texts cut), `observable` (messages that would be observed now), and `text`, the block
        to show. Where not everything fits, the newest messages of the newest threads are shown.
    """
    ordered = sorted(threads, key=_age_key)
    counts = count_to_observe(ordered, budget)
    left = budget
    shown: list[Excerpt] = []
    for thread in reversed(ordered):
        text = _build_block(thread, len(_select_newest(thread)[0]), show_id, timezone)
        tokens = counter.count_text(text)
        if tokens > left:
            text = _build_fitting_block(thread, left, counter, show_id, timezone)
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


def count_to_observe(threads: Sequence[OtherThread], budget: int) -> dict[str, int]:
    """Return by thread id how many of its oldest messages are observed when that is due.

    The newest messages of the newest threads stay unobserved, up to half of the budget.
    """
    room = round(budget * _SHARE_TO_KEEP)
    counts: dict[str, int] = {}
    for thread in sorted(threads, key=_age_key, reverse=True):
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


def split_batches(
    threads: Sequence[tuple[OtherThread, int]], batch_tokens: int
) -> list[list[tuple[OtherThread, int]]]:
    """Group threads into batches, each observed in one question.

    Args:
        threads: Threads, each with the number of its oldest messages to observe.
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
    text = write_transcript_text(timed, timezone=timezone, counter=_BY_CHARACTER, limits=_LIMITS)
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
