"""Messages that were put before the window after what is there had been observed.

History that is loaded late, a note in front, a conversation that is written anew: such messages are
behind the cursor and in no range. The record keeps how many messages stand before the window, which
a look compares; only where that has grown are they searched for. Those that are certainly in no
range are part of the window, in their order, until they are observed by themselves. Of the others,
which stand within a range or beside one whose ends are gone, only the number is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from langchain_core.messages import BaseMessage

from langgraph_om.core.additions import find_removed, is_shared
from langgraph_om.core.content.message_keys import (
    Keyed,
    is_conversation,
    key_of,
    keyed_conversation,
)
from langgraph_om.core.record.record import CURSOR_TAIL
from langgraph_om.core.wire import MemoryRecord, ObservedPart


@dataclass(frozen=True, slots=True)
class Strays:
    """The messages before the window that are not observed."""

    messages: tuple[tuple[str, BaseMessage], ...] = ()
    """Each with its key, in the order of the conversation."""
    run: int = 0
    """How many of the first follow each other."""
    before: str | None = None
    """The group in front of which the observations of this run belong; `None`: behind all."""
    earlier: tuple[tuple[str, BaseMessage], ...] = ()
    """Some messages directly before the run."""
    later: tuple[tuple[str, BaseMessage], ...] = ()
    """Some messages directly after the run."""


NO_STRAYS = Strays()


def check_observed(
    record: MemoryRecord, messages: Sequence[BaseMessage], start: int
) -> tuple[ObservedPart | None, int]:
    """Compare what stands before the window with what the record says.

    Args:
        start: The index of the window's first message.

    Returns:
        What the record shall keep of it, and how many messages were put there that can be neither
        shown nor observed.
    """
    last = next((at for at in range(start - 1, -1, -1) if is_conversation(messages[at])), None)
    if last is None:
        return None, 0
    newest = key_of(messages[last])
    old = record["observed"]
    if old is None:
        count = sum(map(is_conversation, messages[: last + 1]))
        return {"last": newest, "index": last, "count": count, "strays": []}, 0
    moved, at = 0, last
    while at >= 0 and key_of(messages[at]) != old["last"]:
        moved += is_conversation(messages[at])
        at -= 1
    if at == old["index"]:
        return {**old, "last": newest, "index": last, "count": old["count"] + moved}, 0
    keyed = keyed_conversation(messages[:start])
    before = [key for key, _ in keyed]
    removed = find_removed(record).last
    if removed in before:  # the caller kept what may be removed
        del before[: before.index(removed) + 1]
    count = len(before)
    grown = count - old["count"] - moved if at >= 0 else 0
    strays = [key for key in before if key in set(old["strays"])]
    if grown > 0 and not is_shared(record):
        unread = {*_find_uncovered(record, before), *_find_among_named(record, keyed)} - {*strays}
        new = [key for key in before if key in unread]
        unnamed = [key for key in before if key not in {*record["cursor"], *strays}]
        if removed is not None and len(unnamed) == grown:
            # Most ends of ranges are gone, but the cursor names what is left.
            ends = {end for group in record["log"] for ends in group["ranges"] for end in ends}
            new = [key for key in unnamed if key not in ends]
        if len(new) <= grown:  # more were left uncovered on purpose: their group was deleted
            strays, grown = [*strays, *new], grown - len(new)
    found: ObservedPart = {"last": newest, "index": last, "count": count, "strays": strays}
    overlooked = old.get("overlooked", 0) + max(0, grown)
    if overlooked:
        found["overlooked"] = overlooked
    return found, max(0, grown)


def has_strays(record: MemoryRecord) -> bool:
    """Return whether there are messages before the window that are not observed."""
    return bool(record["observed"] and record["observed"]["strays"])


def select_strays(record: MemoryRecord, messages: Sequence[BaseMessage], start: int) -> Strays:
    """Return the messages before the window that are not observed."""
    if record["observed"] is None or not has_strays(record):
        return NO_STRAYS
    keys = set(record["observed"]["strays"])
    before = keyed_conversation(messages[:start])
    places = [at for at, (key, _) in enumerate(before) if key in keys]
    if not places:
        return NO_STRAYS
    first = places[0]
    run = next((i for i, at in enumerate(places) if at != first + i), len(places))
    positions = {key: at for at, (key, _) in enumerate(before)}
    behind = (
        group["id"]
        for group in record["log"]
        if any(positions.get(end, -1) > first for ends in group["ranges"] for end in ends)
    )
    rest = keyed_conversation(messages)
    return Strays(
        tuple(before[at] for at in places),
        run,
        next(behind, None),
        tuple(before[max(0, first - CURSOR_TAIL) : first]),
        tuple(rest[first + run : first + run + CURSOR_TAIL]),
    )


def _find_among_named(record: MemoryRecord, keyed: Keyed) -> list[str]:
    """Return the keys that stand behind one that the cursor names, and are not named.

    It names the newest observed messages, and leaves out none that has an id of its own; where
    messages share an id, it names nobody for certain.
    """
    if any(message.id and key != message.id for key, message in keyed):
        return []
    named = set(record["cursor"])
    first = next((at for at, (key, _) in enumerate(keyed) if key in named), len(keyed))
    return [key for key, message in keyed[first:] if message.id and key not in named]


def _find_uncovered(record: MemoryRecord, keys: Sequence[str]) -> list[str]:
    """Return the keys that are certainly in no range.

    A range whose first or last message is gone may cover whatever stands on that side of it.
    """
    positions = {key: at for at, key in enumerate(keys)}
    # Observations of strays were joined with those of what stands behind them: in any order.
    placed: list[tuple[int, list[str]]] = []
    for group in record["log"]:
        for ends in group["ranges"]:
            before = placed[-1][0] if placed else 0
            at = next((positions[end] for end in ends if end in positions), before)
            placed.append((at, ends))
    uncovered: list[str] = []
    reached, is_sure = 0, True
    for _, ends in sorted(placed, key=itemgetter(0)):
        first, last = (positions.get(end) for end in ends)
        if first is not None and is_sure:
            uncovered += keys[reached:first]
        known = [at for at in (first, last) if at is not None]
        reached = max([reached, *(at + 1 for at in known)])
        is_sure = last is not None
    return [*uncovered, *keys[reached:]] if is_sure else uncovered
