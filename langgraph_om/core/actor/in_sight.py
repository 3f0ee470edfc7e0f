"""Keep parts of the graph's state in the Actor's sight, such as its plan (`todos`).

A tool such as `write_todos` leaves the plan in a message, which is observed in time. The state has
it still. So it is shown before the live request once no message of the window says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.text import (
    as_label,
    escape,
    escape_attribute,
    truncate_to_tokens,
    write_json,
)
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.window import Window

STATE_CHANNELS: Final = ("todos",)
"""The channels that are shown: the plan of LangChain's to-do list, which deep agents have."""
MOST_TOKENS: Final = 1000
"""Of one channel; of more, the beginning and the end are shown."""

_MARKS: Final[Mapping[str, str]] = {"completed": "x", "in_progress": "~", "pending": " "}


def write_channels(settings: Settings, window: Window, channels: Mapping[str, Any]) -> str:
    """Return the block of the channels that no message of the window says; empty for none."""
    hidden = {name: value for name, value in channels.items() if not is_said(name, value, window)}
    blocks = [
        f'<state name="{escape_attribute(name)}">\n{write_state(value, settings)}\n</state>'
        for name, value in hidden.items()
    ]
    return fill("state_in_sight", blocks="\n\n".join(blocks)) if blocks else ""


def list_channels(settings: Settings, channels: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return name and text of the channels as the Actor reads them."""
    return [(as_label(key), write_state(kept, settings)) for key, kept in channels.items()]


def is_said(name: str, value: Any, window: Window) -> bool:
    """Return whether a call in the window wrote a channel as it is now.

    A call counts that has an argument of the channel's name with its value; nothing after it in
    the window changed the channel then.
    """
    for entry in reversed(window.entries):
        calls = entry.message.tool_calls if isinstance(entry.message, AIMessage) else ()
        for call in calls:
            if name in call["args"]:
                return bool(call["args"][name] == value)
    return False


def write_state(value: Any, settings: Settings) -> str:
    """Return a channel's value as the Actor reads it: a task a line, or else as JSON."""
    lines = [_write_task(task) for task in value] if isinstance(value, list) else []
    is_plan = lines and all(line is not None for line in lines)
    text = "\n".join(filter(None, lines)) if is_plan else write_json(value)
    return escape(truncate_to_tokens(text, MOST_TOKENS, settings.counter.count_text))


def _write_task(task: Any) -> str | None:
    """Return the line of a task as LangChain's to-do list has it; `None` for anything else."""
    if not isinstance(task, Mapping) or not {"content", "status"} <= set(task):
        return None
    mark = _MARKS.get(str(task["status"]), str(task["status"]))
    return f"- [{mark}] {task['content']}"
