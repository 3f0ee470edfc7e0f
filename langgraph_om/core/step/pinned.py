"""Keep messages that a person pinned in the Actor's sight, whatever the window does.

What they say is kept in the record: it outlasts observation and eviction, and forks have their own.
"""

from __future__ import annotations

from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import content_digest, key_of
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.content.text import truncate_to_tokens
from langgraph_om.core.events import iso
from langgraph_om.core.record.kept import list_pinned
from langgraph_om.core.search import read_text
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import MessagesPinned, PinnedMessage, PinnedTold

PIN_ROOM: Final = 1000
"""Tokens of all of them."""
_LEAST: Final = 50
"""Tokens of a preview that is worth showing."""


def write_change(act: str, at: str, pin: list[PinnedMessage], unpin: list[str]) -> MessagesPinned:
    """Return the event with which pinned messages change."""
    return {"type": "messages-pinned", "id": act, "at": at, "pin": pin, "unpin": unpin}


def read_message(message: BaseMessage, settings: Settings, room: int) -> PinnedMessage | None:
    """Return a message as it is pinned; `None` where so many tokens are no room for it."""
    if room < _LEAST:
        return None
    text = read_text(message).strip()
    shown = truncate_to_tokens(text, room, settings.counter.count_text)
    return {
        "id": key_of(message),
        "role": role_of(message) or "message",
        "text": shown,
        "digest": content_digest(message),
        "is_whole": shown == text,
    }


def follow_pins(step: Step) -> None:
    """Follow messages that were edited, and let go of those that a user removed."""
    pinned, count = list_pinned(step.record), step.settings.counter.count_text
    if not pinned:
        return
    there = {message.id: message for message in step.messages}
    gone: list[str] = []
    changed: list[PinnedMessage] = []
    for each in pinned:
        message = there.get(each["id"])
        new: PinnedMessage | None = {**each}
        if message is None:
            new = new if each.get("is_evicted") else None
        elif content_digest(message) != each["digest"]:
            taken = sum(count(other["text"]) for other in pinned if other is not each)
            new = read_message(message, step.settings, PIN_ROOM - taken)
        if new is None:
            gone.append(each["id"])
            continue
        if message is not None:
            new.pop("is_evicted", None)
        if message is not None and each["id"] in step.removed:
            new["is_evicted"] = True
        if new != each:
            changed.append(new)
    if gone or changed:
        act, at = step.record["pinned"]["act"], iso(step.now)
        step.apply([write_change(act, at, changed, gone)])


def tell_pins(step: Step) -> None:
    """Tell which messages are pinned, where a person or an edit has changed that."""
    if "pinned" in step.record and step.record["pinned"].get("is_new"):
        pinned = list_pinned(step.record)
        count = step.settings.counter.count_text
        told: PinnedTold = {
            "type": "pinned",
            "id": step.record["pinned"]["act"],
            "at": iso(step.now),
            "messages": [
                {"id": each["id"], "role": each["role"], "is_whole": each["is_whole"]}
                for each in pinned
            ],
            "tokens": sum(count(each["text"]) for each in pinned),
            "room": PIN_ROOM,
            "record_id": step.record["id"],
            "thread_id": step.record["thread_id"],
        }
        step.events.append(told)
