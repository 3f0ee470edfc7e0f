"""Pin and unpin messages."""

from __future__ import annotations

from typing import Any, cast

from langgraph_om.core.events import iso
from langgraph_om.core.record.kept import list_pinned
from langgraph_om.core.step.pinned import PIN_ROOM, read_message, write_change
from langgraph_om.core.wire import PinnedMessage
from langgraph_om.errors import ItemError
from langgraph_om.runtime.acting import Update, check_text, make_act_id
from langgraph_om.runtime.runner import StepRunner


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
    message = read_message(found[-1], settings, PIN_ROOM - taken)
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
    event = write_change(make_act_id(), iso(runner.clock()), pin, unpin)
    return [cast("dict[str, Any]", event)]
