"""Keep messages that a person pinned in the Actor's sight, whatever the window does.

What they say is kept in the record: it outlasts observation and eviction, and forks have their own.
"""

from __future__ import annotations

from typing import Any, Final, cast

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import content_digest, key_of
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.content.text import escape, escape_attribute, truncate_to_tokens
from langgraph_om.core.events import iso
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.kept import list_pinned
from langgraph_om.core.search import read_text
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import MemoryRecord, MessagesPinned, PinnedMessage, PinnedTold
from langgraph_om.errors import ItemError
from langgraph_om.runtime.acting import Update, check_text, make_act_id
from langgraph_om.runtime.runner import StepRunner

_ROOM: Final = 1000
"""Tokens of all of them."""
_LEAST: Final = 50
"""Tokens of a preview that is worth showing."""


def _write_change(act: str, at: str, pin: list[PinnedMessage], unpin: list[str]) -> MessagesPinned:
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


def list_rows(record: MemoryRecord) -> list[tuple[str, ...]]:
    """Return id, role, how much is shown, and text of each pinned message."""
    return [
        (
            each["id"],
            each["role"],
            "whole" if each["is_whole"] else "in part",
            " ".join(each["text"].split()),
        )
        for each in list_pinned(record)
    ]


class Pinning:
    """Shows the messages that a person pinned."""

    name = "pinned"

    def follow(self, step: Step) -> None:
        """Follow messages that were edited, and let go of those that a user removed."""
        there = {message.id: message for message in step.messages}
        pinned, count = list_pinned(step.record), step.settings.counter.count_text
        gone: list[str] = []
        changed: list[PinnedMessage] = []
        for each in pinned:
            message = there.get(each["id"])
            new: PinnedMessage | None = {**each}
            if message is None:
                new = new if each.get("is_evicted") else None
            elif content_digest(message) != each["digest"]:
                taken = sum(count(other["text"]) for other in pinned if other is not each)
                new = read_message(message, step.settings, _ROOM - taken)
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
            step.apply([_write_change(act, at, changed, gone)])

    def tell(self, step: Step) -> None:
        """Tell which messages are pinned, where a person or an edit has changed that."""
        if "pinned" in step.record and step.record["pinned"].get("is_new"):
            pinned = list_pinned(step.record)
            count = step.settings.counter.count_text
            told: PinnedTold = {
                "type": "pinned",
                "id": step.record["pinned"]["act"],
                "at": iso(step.now),
                "messages": [
                    {"id": each["id"], "role": each["role"], "isWhole": each["is_whole"]}
                    for each in pinned
                ],
                "tokens": sum(count(each["text"]) for each in pinned),
                "room": _ROOM,
                "record_id": step.record["id"],
                "thread_id": step.record["thread_id"],
            }
            step.events.append(told)

    def memory_block(self, record: MemoryRecord) -> str:
        """Return the messages for the system message."""
        pinned = list_pinned(record)
        blocks = [
            f'<pinned-message id="{escape_attribute(each["id"])}" role="{each["role"]}">\n'
            f"{escape(each['text'])}\n</pinned-message>"
            for each in pinned
        ]
        return fill("pinned_messages", messages="\n\n".join(blocks)) if blocks else ""


def pin_message(runner: StepRunner, message_id: str, state: Any) -> Update:
    """Return the update that pins a message of a state."""
    wanted = check_text("message_id", message_id)
    settings, record = runner.settings, runner.record(state)
    found = [each for each in runner.conversation(state) if each.id == wanted]
    if not found:
        msg = (
            f"no message has the id {wanted!r}; pass the id of one that is in the state. One that "
            f"was evicted can be noted with `remember`"
        )
        raise ItemError(msg)
    others = [each for each in list_pinned(record) if each["id"] != wanted]
    taken = sum(settings.counter.count_text(each["text"]) for each in others)
    message = read_message(found[-1], settings, _ROOM - taken)
    if message is None:
        msg = (
            f"{len(others)} pinned messages take {taken} tokens, which leaves no room for another; "
            f"unpin one"
        )
        raise ItemError(msg)
    return _write_update(runner, [message], [])


def unpin_message(runner: StepRunner, message_id: str, state: Any) -> Update:
    """Return the update that lets go of a message, which is looked up in a state."""
    wanted = check_text("message_id", message_id)
    if state is not None:
        ids = [each["id"] for each in list_pinned(runner.record(state))]
        if wanted not in ids:
            msg = f"the message {wanted!r} is not pinned; pinned are {ids}"
            raise ItemError(msg)
    return _write_update(runner, [], [wanted])


def _write_update(runner: StepRunner, pin: list[PinnedMessage], unpin: list[str]) -> Update:
    event = _write_change(make_act_id(), iso(runner.clock()), pin, unpin)
    return [cast("dict[str, Any]", event)]
