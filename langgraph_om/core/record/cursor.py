"""Find where the window begins, from the message ids that the record's cursor names."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.message_keys import (
    OWN_IDS,
    Keyed,
    is_conversation,
    key_of,
    keyed_messages,
)
from langgraph_om.core.content.speakers import SPEAKERS
from langgraph_om.core.record.record import CURSOR_TAIL, select_own_groups
from langgraph_om.core.wire import MemoryRecord

_get_id = attrgetter("id")


def find_cursor(record: MemoryRecord, messages: Sequence[BaseMessage]) -> tuple[Keyed, int]:
    """Return the messages after the cursor with their keys, and the index of the first of them.

    The common case walks back from the end and stops at the cursor. With messages without ids,
    duplicate ids or removed messages, the whole list is read.
    """
    cursor = record["cursor"]
    if begins_at_first(record):
        return keyed_messages(messages), 0
    quick = walk_back(cursor, messages)
    if quick is not None:
        return quick
    keyed = keyed_messages(messages)
    start = _search_start(record, {key: at for at, (key, _) in enumerate(keyed)})
    return keyed[start:], start


def begins_at_first(record: MemoryRecord) -> bool:
    """Return whether nothing of the conversation is observed."""
    return not record["cursor"] and (not record["log"] or record["scope"] == "resource")


def walk_back(cursor: Sequence[str], messages: Sequence[BaseMessage]) -> tuple[Keyed, int] | None:
    """Return what `find_cursor` returns, searched from the end; `None` when anything is unusual."""
    if not cursor:
        return None
    newest = cursor[-1]
    found: dict[str, BaseMessage] = {}
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if not message.id or (key := key_of(message)) in found:
            return None
        if key == newest:
            is_cursor = is_tail_at(cursor, messages, at)
            return ([*found.items()][::-1], at + 1) if is_cursor else None
        found[key] = message
    return None


def names_all(cursor: Sequence[str], tail: Sequence[BaseMessage]) -> bool:
    """Return whether a cursor names just these messages, by their ids; `False` where in doubt."""
    return (
        [*map(_get_id, tail)] == cursor
        and SPEAKERS.issuperset(map(type, tail))
        and OWN_IDS.isdisjoint(cursor)
    )


def is_tail_at(cursor: Sequence[str], messages: Sequence[BaseMessage], at: int) -> bool:
    """Return whether the messages up to `at` are the cursor's tail, not just one of the same id."""
    if len(cursor) == CURSOR_TAIL and names_all(
        cursor, messages[max(0, at + 1 - CURSOR_TAIL) : at + 1]
    ):
        return True
    wanted = len(cursor) - 1
    while at >= 0 and wanted >= 0:
        if is_conversation(messages[at]):
            if key_of(messages[at]) != cursor[wanted]:
                return False
            wanted -= 1
        at -= 1
    if wanted >= 0:
        return False
    # A tail that is not full names all observed messages: nothing else may be before it.
    return len(cursor) == CURSOR_TAIL or not any(map(is_conversation, messages[: at + 1]))


def _search_start(record: MemoryRecord, positions: dict[str, int]) -> int:
    """Return the start of the window when the newest observed message is not where it was."""
    for key in reversed(record["cursor"]):
        if key in positions:
            return positions[key] + 1
    # Messages with a count were in the window at the last step.
    counts = record["token_cache"]["counts"]
    unobserved = min((positions[key] for key in counts if key in positions), default=0)
    ranges = [ends for group in select_own_groups(record) for ends in group["ranges"]]
    for passed, (first, last) in enumerate(reversed(ranges)):
        if last in positions:
            return max(positions[last] + 1, unobserved if passed else 0)
        if first in positions:
            return max(positions[first] + 1, unobserved)
    return unobserved if ranges else 0
