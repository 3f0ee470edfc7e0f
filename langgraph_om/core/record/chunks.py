"""Decide which chunks, observations made ahead of need, still fit, and how many to activate.

A chunk fits as long as its messages are unchanged and directly follow those of the chunk before it.
Where one does not fit, none of the later ones does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from langchain_core.messages import HumanMessage

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.record.span import Entry
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import Chunk, MemoryRecord

MIN_REMAINING = 1000
"""Tokens of messages that an activation leaves, or the retention floor where that is lower."""

_OVERSHOOT = 0.95
"""The share of the retention floor that an activation may take to end on a chunk's boundary."""

_TURN_ALIGNED = 0.9
"""A chunk ends before a human message if it keeps at least this share of its size."""


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """A chunk that fits the current window."""

    chunk: Chunk
    stop: int
    """How many of the window's messages are covered by the chunks up to this one."""
    tokens: int
    """The current tokens of its messages."""


def digest_entries(entries: Sequence[Entry]) -> str:
    """Return a digest of the ids and contents of a run of messages."""
    return derive_id("messages", *(f"{entry.key}:{entry.digest}" for entry in entries))


def digest_run(window: Window, start: int, stop: int) -> str:
    """Return the same of a window's entries from `start` up to `stop`, worked out once."""
    digests = window.span.digests
    if (start, stop) not in digests:
        digests[start, stop] = digest_entries(window.entries[start:stop])
    return digests[start, stop]


def select_live_chunks(record: MemoryRecord, window: Window) -> list[LiveChunk]:
    """Return the chunks that fit, oldest first."""
    if not record["chunks"]:
        return []
    places = window.span.places
    live: list[LiveChunk] = []
    start = 0
    for chunk in record["chunks"]:
        first, last = chunk["groups"][0]["ranges"][0][0], chunk["groups"][-1]["ranges"][-1][1]
        stop = places.get(last, -1) + 1
        if places.get(first) != start or stop <= start:
            break
        if digest_run(window, start, stop) != chunk["digest"]:
            break
        live.append(LiveChunk(chunk, stop, window.weight(start, stop)))
        start = stop
    return live


def count_covered(live: Sequence[LiveChunk]) -> int:
    """Count the window's messages that are covered by chunks."""
    return live[-1].stop if live else 0


def choose_chunks(sizes: Sequence[int], window_tokens: int, *, keep: int, force_at: int) -> int:
    """Return how many chunks one activation takes, oldest first.

    The goal is to leave `keep` tokens of messages. The boundary above the goal is taken, unless it
    takes too much of what is to be kept (more than 95 % of it, while the window is below its
    blocking threshold) or leaves too little; then it is the boundary below.

    Args:
        sizes: Message tokens of each chunk; at least one chunk.
        window_tokens: Tokens of the window now.
        keep: The retention floor, in tokens.
        force_at: The window's blocking threshold, in tokens.
    """
    removed = list(accumulate(sizes))
    target = max(0, window_tokens - keep)
    over = next((at for at, total in enumerate(removed) if total >= target), None)
    under = len(removed) - 1 if over is None else over - 1
    min_remaining = min(MIN_REMAINING, keep)

    def leaves_enough(at: int) -> bool:
        return window_tokens - removed[at] >= min_remaining

    if over is not None and leaves_enough(over):
        overshoot = removed[over] - target
        if window_tokens >= force_at or overshoot <= _OVERSHOOT * keep:
            return over + 1
    if under >= 0 and leaves_enough(under):
        return under + 1
    return 1 if over is None else over + 1


def find_chunk_end(
    window: Window, start: int, *, interval: int, most: int, stop: int | None = None
) -> int:
    """Return where the next chunk would end, or 0 when none is due.

    Args:
        window: The unobserved messages.
        start: How many of them are covered by chunks.
        interval: Tokens of uncovered messages that make a chunk due.
        most: Tokens that a chunk should not exceed; a single exchange may.
        stop: How many of the messages may be covered; `None`: all.
    """
    if window.weight(start, len(window.entries)) < interval:
        return 0
    total = window.span.sums
    last = len(window.entries) if stop is None else stop
    cuts = [cut for cut in window.span.cuts if start < cut <= last]
    fitting = [cut for cut in cuts if total[cut] - total[start] <= most] or cuts[:1]
    if not fitting:
        return 0
    size = total[fitting[-1]] - total[start]
    if size * 2 < interval:  # most of the growth is an exchange that is not complete yet
        return 0
    for cut in reversed(fitting):
        if total[cut] - total[start] < size * _TURN_ALIGNED:
            break
        if cut < len(window.entries) and isinstance(window.entries[cut].message, HumanMessage):
            return cut
    return fitting[-1]
