"""What of a conversation goes to the archive, and which messages may leave the checkpoint then.

The record names the last message that was archived and the last one that was removed, so that a
step looks only at what came since; a fork has both of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.message_keys import Keyed, is_conversation, key_of, keyed_messages
from langgraph_om.core.record.record import CURSOR_TAIL
from langgraph_om.core.record.window import select_observed
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
    # From the start, behind what was removed: the archive knows what it has already.
    everything = [each for each in keyed_messages(messages) if is_conversation(each[1])]
    return record["evicted"], everything


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
    observed = select_observed(record, messages)[:-CURSOR_TAIL]
    old = takewhile(lambda message: message.id == key_of(message) != request, observed)
    return [str(message.id) for message in old]
