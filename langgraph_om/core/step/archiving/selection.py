"""What of a conversation the archive lacks, and what memory needs no more, by the record alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import cast

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.message_keys import (
    Keyed,
    is_conversation,
    key_of,
    keyed_conversation,
)
from langgraph_om.core.record.record import CURSOR_TAIL
from langgraph_om.core.record.window import select_observed
from langgraph_om.core.step.archiving.deletion import drop_deleted
from langgraph_om.core.wire import MemoryRecord


def find_unarchived(
    record: MemoryRecord, messages: Sequence[BaseMessage], changed: Collection[str] = ()
) -> tuple[str | None, Keyed]:
    """Return what the archive does not have yet.

    Args:
        record: The memory of the thread.
        messages: The whole conversation.
        changed: Keys of messages that are new, or of another content than before.

    Returns:
        The key of the message before the first one, `None` at the start, and the messages.
    """
    last, missing = record["archived"], set(changed)
    found: dict[str, BaseMessage] = {}
    for message in reversed(messages):
        if last is None or not message.id or (key := key_of(message)) in found:
            break
        if key == last and not missing:
            return last, [*found.items()][::-1]
        missing.discard(key)
        if is_conversation(message):
            found[key] = message
    # From the start: the archive knows what it has already.
    entries = keyed_conversation(messages)
    return record["evicted"], drop_deleted(record, _drop_kept(record, entries))


def _drop_kept(record: MemoryRecord, entries: Keyed) -> Keyed:
    """Leave out what was removed: all of it where the caller kept it, in front of what is observed.

    Where it came back while nobody could tell, behind that, the last one keeps its place.
    """
    for at, (key, _) in enumerate(entries):
        if key == record["evicted"]:
            return entries[at + 1 :]
        if key in record["cursor"]:
            break
    return [entry for entry in entries if entry[0] != record["evicted"]]


def find_all_unarchived(
    record: MemoryRecord, messages: Sequence[BaseMessage]
) -> tuple[str | None, Keyed]:
    """Return the whole conversation, and the key of the message that was removed before it."""
    return find_unarchived(cast("MemoryRecord", {**record, "archived": None}), messages)


def _drop_floor(
    record: MemoryRecord, messages: Sequence[BaseMessage], observed: Sequence[BaseMessage]
) -> Sequence[BaseMessage]:
    """Leave out the messages that the thread had when it was deleted, which stay."""
    floor = record.get("floor")
    last = floor.get("message") if floor else None
    if last is None or all(key_of(message) != last for message in messages):
        return observed
    places = [at for at, message in enumerate(observed) if key_of(message) == last]
    return observed[places[-1] + 1 :] if places else []


def find_evictable(
    record: MemoryRecord, messages: Sequence[BaseMessage], request: str | None
) -> list[str]:
    """Return the ids of the messages that memory does not need any more, in order.

    These are the observed ones before the live user request, but for as many as the cursor names,
    by which the window is found: always the conversation's beginning, so that what stays is in one
    piece. System messages stay, and so does a message whose id does not name it in the archive.

    Args:
        record: The memory of the thread.
        messages: The whole conversation.
        request: The key of the live user request.
    """
    if record["outbox"]:  # others may have observed these messages otherwise meanwhile
        return []
    observed = _drop_floor(record, messages, select_observed(record, messages)[:-CURSOR_TAIL])
    old = takewhile(lambda message: message.id == key_of(message) != request, observed)
    return [str(message.id) for message in old]
