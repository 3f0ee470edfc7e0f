"""Say in the Actor's view how long a conversation paused before the user went on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.core.actor.relative_dates import write_duration
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import GAP_ID
from langgraph_om.core.observe.transcript import format_weekday
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import MemoryRecord

_SHORTEST = timedelta(hours=1)
_HOUR_SECONDS = 3600
_DAY = timedelta(days=1)


def find_gaps(settings: Settings, record: MemoryRecord, window: Window) -> Mapping[str, str]:
    """Find the user messages of a window that follow a pause of an hour or more.

    Answers count by a time of their own alone: one that has none is first seen when the
    conversation goes on.

    Returns:
        By the key of such a message, the line to put before it; always the same for one message.
    """
    if not settings.gap_markers:
        return {}
    gaps: dict[str, str] = {}
    last: datetime | None = None
    shown = [(entry.key, entry.message) for entry in window.entries]
    strays = len(window.strays.messages)
    for key, message in [*shown[:strays], *window.observed, *shown[strays:]]:
        stamps = {} if isinstance(message, AIMessage) else record["stamps"]
        time = settings.time_of(key, message, stamps)
        if time is None:
            continue
        if isinstance(message, HumanMessage) and last is not None and time - last >= _SHORTEST:
            gaps[key] = write_gap_line(time - last, time.astimezone(settings.timezone))
        last = time
    return gaps


def write_gap_line(pause: timedelta, time: datetime) -> str:
    """Write the line before a message, such as `[2 days later: Mon, May 4, 2026, 09:12]`."""
    hours = int(pause.total_seconds()) // _HOUR_SECONDS
    length = write_duration(pause.days) if pause >= _DAY else f"{hours} hour{'s' * (hours > 1)}"
    return f"[{length} later: {format_weekday(time.date())}, {time:%H:%M}]"


def write_gap_message(line: str) -> BaseMessage:
    """Return the message that shows a line; it is in no state."""
    return HumanMessage(line, id=GAP_ID)
