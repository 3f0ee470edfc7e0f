"""Split what was observed into days, each with the messages of that day.

Rules of this file:

1. The transcript says of which day a message is. One without a day belongs to the day in whose
   section it stands, and so does one that says an earlier day than the messages before it: messages
   keep their order.
2. A section under a date of which there is a message gets the messages from that day up to the next
   such section; those before the first section belong to it too. So each message belongs to exactly
   one day.
3. What stands under another date joins the section before it, or the first one. So does a date
   with nothing to note.
4. Where days cannot be told apart, all is one day: without dates, with one date, or where a section
   could not be read by itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, tzinfo
from itertools import pairwise
from typing import NamedTuple

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.observe.answer_lines import strip_dates
from langgraph_om.core.observe.answer_tags import LOG
from langgraph_om.core.observe.non_answers import says_nothing_to_note
from langgraph_om.core.observe.parse_answer import parse_output
from langgraph_om.core.observe.transcript import to_local
from langgraph_om.core.record.span import Entry
from langgraph_om.core.wire import Group

_BLANK_LINES = re.compile(r"\n{3,}")


class Noted(NamedTuple):
    """What was noted of messages of one thread."""

    first_id: str
    """The id of its first group, from which those of the others are derived."""
    thread_id: str
    text: str
    at: str
    """When the Observer answered."""


def build_groups(
    info: CycleInfo,
    noted: Noted,
    entries: Sequence[Entry],
    times: Sequence[datetime | None],
) -> list[Group]:
    """Return what an observation becomes in the log: a group for each day.

    Args:
        info: The cycle.
        noted: What was noted of the messages.
        entries: The messages; at least one.
        times: When they were written.
    """
    settings = info.settings
    days = split_days(noted.text, times, timezone=settings.timezone)
    return [
        {
            "id": derive_id("day", noted.first_id, number) if number else noted.first_id,
            "kind": "observation",
            "ranges": [[entries[day.start].key, entries[day.stop - 1].key]],
            "thread_id": noted.thread_id,
            "observed_at": noted.at,
            "text": day.text,
            "tokens": settings.counter.count_text(day.text),
        }
        for number, day in enumerate(days)
    ]


@dataclass(frozen=True, slots=True)
class Day:
    """What was observed of some messages that follow each other."""

    start: int
    stop: int
    """The messages from `start` up to `stop`."""
    text: str


@dataclass(slots=True)
class _Section:
    day: date
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return _BLANK_LINES.sub("\n\n", "\n".join(self.lines)).strip("\n")

    @property
    def is_empty(self) -> bool:
        noted = strip_dates(self.text)
        return not noted or says_nothing_to_note(noted)


def split_days(text: str, times: Sequence[datetime | None], *, timezone: tzinfo) -> Sequence[Day]:
    """Return the days of an observation, oldest first; at least one.

    Args:
        text: What the Observer wrote.
        times: When each of the messages was written, as the transcript said; at least one.
        timezone: The zone in which the transcript wrote days.
    """
    whole = [Day(0, len(times), text)]
    dated = _split_sections(text)
    if len(dated) < 2:  # noqa: PLR2004 two days
        return whole
    days = _date_messages(times, timezone)
    if not days or days[0] == days[-1]:
        return whole
    sections = _join_others(dated, set(days))
    if len(sections) < 2 or not all(map(_is_readable, sections)):  # noqa: PLR2004 two days
        return whole
    begun = [section.day for section in sections]
    places = [max(0, bisect_right(begun, day) - 1) for day in days]
    starts = [places.index(at) for at in range(len(sections))]
    ends = pairwise([*starts, len(times)])
    return [
        Day(start, stop, section.text)
        for (start, stop), section in zip(ends, sections, strict=True)
    ]


def _date_messages(times: Sequence[datetime | None], timezone: tzinfo) -> list[date]:
    """Return of which day each message is; nothing when no day is known."""
    known: list[date | None] = []
    for time in times:
        local = to_local(time, timezone)
        known.append(local.date() if local is not None else None)
    newest = next((day for day in known if day is not None), None)
    if newest is None:
        return []
    days: list[date] = []
    for day in known:
        newest = max(newest, day or newest)
        days.append(newest)
    return days


def _split_sections(text: str) -> list[_Section]:
    """Return what stands under each date, by day; what stands before all dates is of the first."""
    sections: dict[date, _Section] = {}
    before: list[str] = []
    section: _Section | None = None
    for line in text.split("\n"):
        day = observation_date(line)
        if day is None:
            (section.lines if section is not None else before).append(line)
        elif day in sections:
            section = sections[day]
        else:
            section = sections[day] = _Section(day, [*before, line])
            before = []
    return sorted(sections.values(), key=lambda each: each.day)


def _join_others(sections: Sequence[_Section], days: set[date]) -> list[_Section]:
    """Let sections without messages or items join the one before them, or the first one."""
    joined: list[_Section] = []
    early: list[str] = []
    for section in sections:
        if section.day in days and not section.is_empty:
            joined.append(_Section(section.day, [*early, *section.lines]))
            early = []
        else:
            (joined[-1].lines if joined else early).extend(section.lines)
    return joined


def _is_readable(section: _Section) -> bool:
    """Return whether a section alone is read as it was written."""
    parsed = parse_output(f"<{LOG}>\n{section.text}\n</{LOG}>")
    return (parsed.status, parsed.observations) == ("ok", section.text)
