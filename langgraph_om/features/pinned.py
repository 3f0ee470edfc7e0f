"""Pin and unpin messages: a pinned one stands in each prompt, in its words as they were pinned."""

from __future__ import annotations

from typing import Any, Final

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.content.text import truncate_to_tokens
from langgraph_om.core.events import iso
from langgraph_om.core.record.kept import list_pinned, name_pinned
from langgraph_om.core.search import read_text
from langgraph_om.core.wire import Group
from langgraph_om.errors import ItemError
from langgraph_om.runtime.acting import Update, check_text, make_act_id
from langgraph_om.runtime.runner import StepRunner

PIN_ROOM: Final = 1000
"""Tokens of all of them."""
_LEAST: Final = 50
"""Tokens of a preview that is worth showing."""


def pin_message(runner: StepRunner, message_id: str, state: Any) -> Update:
    """Return the update that pins a message of a state; what has no room is cut."""
    wanted = check_text("message_id", message_id)
    count, record = runner.settings.counter.count_text, runner.record(state)
    found = [each for each in runner.conversation(state) if each.id == wanted]
    if not found:
        msg = (
            f"no message has the id {wanted!r}; pass the id of one that is in the state. One that "
            f"was evicted can be kept with `remember`"
        )
        raise ItemError(msg)
    others = [each for each in list_pinned(record) if name_pinned(each) != wanted]
    taken = sum(each["tokens"] for each in others)
    if taken > PIN_ROOM - _LEAST:
        msg = (
            f"{len(others)} pinned messages take {taken} tokens, which leaves no room for another; "
            f"unpin one"
        )
        raise ItemError(msg)
    text = truncate_to_tokens(read_text(found[-1]).strip(), PIN_ROOM - taken, count)
    act, at = make_act_id(), iso(runner.clock())
    kept: Group = {
        "id": derive_id("item", act, wanted),
        "kind": "observation",
        "ranges": [],
        "thread_id": record["thread_id"],
        "observed_at": at,
        "text": text,
        "tokens": count(text),
        "sources": [[wanted, wanted]],
        "keep": {
            "by": "person",
            "how": "message",
            "since": at,
            "role": role_of(found[-1]) or "message",
        },
    }
    told = {"type": "steered", "id": act, "action": "pin-message", "at": at}
    return [{**told, "item": wanted, "message": kept}]


def unpin_message(runner: StepRunner, message_id: str, state: Any) -> Update:
    """Return the update that lets go of a message, which is looked up in a state."""
    wanted = check_text("message_id", message_id)
    if state is not None:
        ids = [*map(name_pinned, list_pinned(runner.record(state)))]
        if wanted not in ids:
            msg = f"the message {wanted!r} is not pinned; pinned are {ids}"
            raise ItemError(msg)
    at = iso(runner.clock())
    told = {"type": "steered", "id": make_act_id(), "action": "unpin-message", "at": at}
    return [{**told, "item": wanted}]
