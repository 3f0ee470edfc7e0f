"""What a person changes by the command line or a form of the inspector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph_om.errors import ConfigurationError
from langgraph_om.handle import Updates
from langgraph_om.runtime.acting import Update


def build_update(updates: Updates, action: str, given: Mapping[str, Any], state: Any) -> Update:
    """Return the update of `om` that a command or a form asks for.

    Args:
        action: The name of the command, or of the form.
        given: What was written, by the names of the fields.
    """
    text, item, message = (given.get(name) or "" for name in ("text", "item", "message"))
    match action:
        case "remember":
            update = updates.remember(text, date=given.get("date"), state=state)
        case "correct":
            update = updates.correct(item, text, state=state)
        case "forget":
            update = updates.forget(item, state=state)
        case "pin":
            update = updates.pin(item, state=state)
        case "unpin":
            update = updates.unpin(item, state=state)
        case "undo":
            update = updates.undo(given.get("act") or None)
        case "pin-message":
            update = updates.pin_message(message, state=state)
        case "unpin-message":
            update = updates.unpin_message(message, state=state)
        case "title":
            update = updates.set_title(None if given.get("clear") else text)
        case _:
            msg = f"there is no change {action!r}"
            raise ConfigurationError(msg)
    return update
