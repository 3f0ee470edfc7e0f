"""Tell Actor and Observer of pauses: a line before each user message that follows one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.dates import describe_duration
from langgraph_om.core.observe.transcript import TimedMessage, format_weekday, to_local
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import MemoryRecord

SHORTEST: Final = timedelta(minutes=10)
"""The shortest pause that is shown, unless the option sets another."""
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


def find_gaps(settings: Settings, record: MemoryRecord, window: Window) -> Mapping[str, str]:
    """Return the line of each user message that follows a pause, by key; none where they are off.

    Answers count by a time of their own alone: one that has none is first seen when the
    conversation goes on.
    """
    if settings.shortest_gap is None:
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
        is_late = last is not None and time - last >= settings.shortest_gap
        if isinstance(message, HumanMessage) and last is not None and is_late:
            gaps[key] = write_line(time - last, time.astimezone(settings.timezone))
        last = time
    return gaps


def mark_gaps(settings: Settings, messages: Sequence[TimedMessage]) -> Sequence[TimedMessage]:
    """Return what the Observer is shown, with the same lines where messages have times."""
    if settings.shortest_gap is None:
        return messages
    marked, last = list[TimedMessage](), None
    for timed in messages:
        time = to_local(timed.time, settings.timezone)
        pause = time - last if time is not None and last is not None else timedelta()
        if time is not None and pause >= settings.shortest_gap and timed.message.type == "human":
            timed = replace(timed, before=write_line(pause, time))  # noqa: PLW2901 marked
        marked.append(timed)
        last = time or last
    return marked


def write_line(pause: timedelta, time: datetime) -> str:
    """Return the line after a pause, such as `[2 days later: Mon, May 4, 2026, 09:12]`."""
    unit, word = (_HOUR, "hour") if pause >= _HOUR else (_MINUTE, "minute")
    count = pause // unit
    many = "s" * (count > 1)
    length = describe_duration(pause.days) if pause >= _DAY else f"{count} {word}{many}"
    return f"[{length} later: {format_weekday(time.date())}, {time:%H:%M}]"
