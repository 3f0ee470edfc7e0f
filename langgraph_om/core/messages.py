"""The reducer of a `messages` channel that is kept as deltas.

It gives what LangGraph's `add_messages` gives, in the batched form that a `DeltaChannel` needs,
with two differences that replay asks for: it never makes up an id (LangGraph stamps ids before it
persists), and removing a message that is not there is no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)

__all__ = ["REMOVE_ALL", "messages_reducer"]

REMOVE_ALL = "__remove_all__"
"""The id with which a `RemoveMessage` clears the conversation (LangGraph's `REMOVE_ALL_MESSAGES`).
"""


def messages_reducer(state: Sequence[AnyMessage] | None, updates: Sequence[Any]) -> list[Any]:
    """Merge updates into a conversation, in order.

    Args:
        state: The conversation so far; it is not changed.
        updates: Each a message, or a list of messages, in any form LangChain reads.

    Returns:
        The conversation: a message of a known id replaces it in place, others are appended.
    """
    merged: list[BaseMessage | None] = list(state or [])
    places = {message.id: at for at, message in enumerate(merged) if message and message.id}
    for update in updates:
        removed: set[str] = set()
        for message in _read(update):
            if isinstance(message, RemoveMessage):
                if message.id == REMOVE_ALL:
                    merged, places, removed = [], {}, set()
                elif message.id in places:
                    removed.add(message.id)
            elif message.id in places:
                removed.discard(message.id)
                merged[places[message.id]] = message
            else:
                if message.id:
                    places[message.id] = len(merged)
                merged.append(message)
        for key in removed:
            merged[places.pop(key)] = None
    return [message for message in merged if message is not None]


def _read(update: Any) -> list[BaseMessage]:
    if update is None:
        return []
    items = update if isinstance(update, list) else [update]
    return [
        message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message
        for message in convert_to_messages(items)
    ]
