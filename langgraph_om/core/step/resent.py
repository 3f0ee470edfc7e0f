"""Tell messages that a client sends again from new ones, after they were removed.

A client that knows nothing of eviction sends the whole history in each turn. What was removed would
come back behind what stayed, as if it was said now: shown, and observed once more. It is taken out
before anything else looks at the conversation, because each other rule takes the messages that the
record names for marks of how far things are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.message_keys import (
    Keyed,
    content_digest,
    is_conversation,
    key_of,
    keyed_conversation,
)
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.record.window import find_newest_human
from langgraph_om.core.wire import Event, Evicted, MemoryRecord

Ask = Callable[..., EffectFlow[Any]]
"""Calls a method of the storage."""
Append = Callable[..., EffectFlow[None]]
"""Archives messages behind one."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What has come into a conversation with a request."""

    request: str
    """The key of the live user request."""
    standing: Keyed
    """What the conversation held before."""
    dubious: Keyed
    """What may have been removed before: all that came in, but for a request at the end."""


def find_arrival(record: MemoryRecord, messages: Sequence[BaseMessage]) -> Arrival | None:
    """Return what came in with a request; `None` where that can be nothing that was removed.

    It stands behind all that the record knows to have been there.
    """
    if record["evicted"] is None or not messages:
        return None
    # The newest observed messages, and all that followed them at the last step.
    known = {*record["cursor"], *record["token_cache"]["counts"]}
    start = len(messages)
    while start and key_of(messages[start - 1]) not in known:
        start -= 1
    at = find_newest_human(messages)
    if at is None or at < start:
        return None
    stop = len(messages) - (at == len(messages) - 1)
    dubious = [(key_of(message), message) for message in messages[start:stop]]
    dubious = [entry for entry in dubious if entry[1].id == entry[0] and is_conversation(entry[1])]
    if not dubious:
        return None
    return Arrival(key_of(messages[at]), keyed_conversation(messages[:start]), dubious)


def find_resent(
    record: MemoryRecord, arrival: Arrival, ask: Ask, append: Append
) -> EffectFlow[list[str]]:
    """Return which messages that came in were removed from this branch before.

    What has other words than before was edited: the archive takes these, as it does when an
    observed message is edited that was not removed yet, and what was observed of it stays.

    Args:
        record: The memory of the thread.
        arrival: What came in.
        ask: What calls the storage.
        append: What archives messages.

    Raises:
        ArchiveError: When the storage fails.
    """
    words = dict(arrival.dubious)
    known = yield from ask("contains", record["thread_id"], [*words])
    if not known:
        return []
    removed = yield from _read_removed(record, known, ask)
    edited = [
        at
        for at, each in enumerate(removed)
        if each.key in known
        and (at or each.position == 0)
        and content_digest(each.message) != content_digest(words[each.key])
    ]
    if edited:
        first, last = edited[0], edited[-1] + 1
        before = removed[first - 1].key if first else None
        # What stands between them as it is, so that all of it is one change.
        said = [
            (each.key, words[each.key] if at in edited else each.message)
            for at, each in enumerate(removed[first:last], start=first)
        ]
        yield from append(said, after=before)
    there = {each.key for each in removed}
    return [key for key in words if key in there]


def build_removal(record: MemoryRecord, resent: Sequence[str]) -> Evicted:
    """Say that messages are removed once more, which changes nothing of the record."""
    return {"type": "evicted", "last": str(record["evicted"]), "ids": [*resent], "tokens": 0}


def _read_removed(record: MemoryRecord, known: set[str], ask: Ask) -> EffectFlow[Sequence[Any]]:
    """Read what was removed from this branch, from the oldest known message on if not before.

    A client sends the end of what was removed, or all of it.
    """
    whose = {"thread_id": record["thread_id"], "branch": record.get("branch")}
    place = yield from ask("find", record["evicted"], **whose)
    if place is None or not place.is_current:
        return []
    options = {**whose, "newest_first": True, "visible_only": False}
    size, stop = len(known) + 1, place.position + 1
    read: Sequence[Any] = yield from ask("messages", stop=stop, limit=size, **options)
    if read and not known <= {each.key for each in read}:
        stop = read[0].position
        read = [*(yield from ask("messages", stop=stop, limit=stop + 1, **options)), *read]
    return read


# --- What was removed ----------------------------------------------------------------------------


def list_removed(events: Sequence[Event]) -> list[str]:
    """Return the ids of the messages that events say are removed, in order."""
    gone = (event["ids"] for event in events if event["type"] == "evicted")
    return [key for ids in gone for key in ids]


def without_messages(
    messages: Sequence[BaseMessage], removed: Collection[str]
) -> Sequence[BaseMessage]:
    """Return a conversation without the messages of these ids."""
    gone = set(removed)
    return [message for message in messages if message.id not in gone] if gone else messages
