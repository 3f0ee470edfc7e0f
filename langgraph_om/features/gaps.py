"""Tell the Actor of pauses: a line before each user message that follows an hour or more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Final, Self

from langchain_core.messages import AIMessage, HumanMessage
from typing_extensions import TypedDict

from langgraph_om.core.actor.dates import write_duration
from langgraph_om.core.config.options import Hint, Preset
from langgraph_om.core.config.settings import Settings, Setup
from langgraph_om.core.observe.transcript import format_weekday
from langgraph_om.core.record.window import Window
from langgraph_om.core.step.step import Feature
from langgraph_om.core.wire import MemoryRecord

SHORTEST: Final = timedelta(hours=1)
_HOUR_SECONDS: Final = 3600
_DAY: Final = timedelta(days=1)


class GapOptions(TypedDict, total=False):
    """The option of gap markers."""

    gap_markers: Annotated[bool, Hint("True or False"), Preset(value=False)]
    """Whether a pause of an hour or more is told to the Actor, by a line before the next user
    message. For example `[2 days later: Mon, May 4, 2026, 09:12]`."""


class Gaps(Feature):
    """Shows a line before user messages that follow a pause."""

    name = "gaps"

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `gap_markers`."""
        return cls() if setup.options["gap_markers"] else None

    def lines_before(
        self, settings: Settings, record: MemoryRecord, window: Window
    ) -> Mapping[str, str]:
        """Return the line of each user message that follows a pause, by key.

        Answers count by a time of their own alone: one that has none is first seen when the
        conversation goes on.
        """
        gaps: dict[str, str] = {}
        last: datetime | None = None
        shown = [(entry.key, entry.message) for entry in window.entries]
        strays = len(window.strays.messages)
        for key, message in [*shown[:strays], *window.observed, *shown[strays:]]:
            stamps = {} if isinstance(message, AIMessage) else record["stamps"]
            time = settings.time_of(key, message, stamps)
            if time is None:
                continue
            if isinstance(message, HumanMessage) and last is not None and time - last >= SHORTEST:
                gaps[key] = write_line(time - last, time.astimezone(settings.timezone))
            last = time
        return gaps


def write_line(pause: timedelta, time: datetime) -> str:
    """Return the line after a pause, such as `[2 days later: Mon, May 4, 2026, 09:12]`."""
    hours = int(pause.total_seconds()) // _HOUR_SECONDS
    length = write_duration(pause.days) if pause >= _DAY else f"{hours} hour{'s' * (hours > 1)}"
    return f"[{length} later: {format_weekday(time.date())}, {time:%H:%M}]"
