"""What the Actor sees of time: whole days, so a text made from a log changes at most once a day.

The words of a log are never rewritten; relative time is only added, in three places:

1. a date heading ends in how long ago it was: `Date: Dec 4, 2025 (2 weeks ago)`;
2. a heading that comes two or more days after the one before it follows a gap line;
3. a dated mark tells its distance: `(meaning Dec 12, 2025 - in 8 days)`, and a plan whose last
   day has passed is `likely done by now`.

Dates are read with tables of English names, not with the platform's locale. Every repetition in a
pattern is bounded or anchored: the text comes from a model, and must be read in linear time.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NUMBERS = {name: number for number, name in enumerate(_MONTHS, 1)}
_PART_DAYS = {"early": (1, 7, 10), "mid": (11, 15, 20), "late": (21, 23, 31)}
"""The first, the named and the last day of a part of a month."""

PATTERN_FLAGS = re.ASCII | re.IGNORECASE
_SPACE = r"[\s\xa0\u202f]"
_JOINT = r"[\s\xa0\u202f-]{1,3}"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z])"
)
_PART = r"(?:early|mid|late)"
_TO = rf"{_SPACE}{{0,3}}(?:[-\u2013\u2014/&]|to|through|until|and){_SPACE}{{0,3}}"
_WEEKDAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?(?![a-z])"


def _days_pattern(name: str) -> str:
    """Write the pattern of a day number or a range of them, with or without ordinal endings."""
    number, ending = r"[0-9]{1,2}", r"(?![0-9:])(?:st|nd|rd|th)?"
    return rf"(?P<{name}>{number}){ending}(?:{_TO}(?P<{name}_to>{number}){ending})?"


def _point_pattern(end: str) -> str:
    """Write the pattern of one end of a phrase: a month and what narrows it."""
    part = rf"(?P<part_{end}>{_PART})(?:[\s/-]{{1,3}}(?:to[\s-]{{1,3}})?(?P<upto_{end}>{_PART}))?"
    before = rf"(?:the{_SPACE})?{_days_pattern(f'before_{end}')}{_JOINT}(?:of{_SPACE})?"
    after = rf"{_JOINT}(?:the{_SPACE})?{_days_pattern(f'after_{end}')}"
    month = rf"(?P<month_{end}>{_MONTH})\.?"
    return rf"(?:{part}[\s-]{{1,3}})?(?:{before})?{month}(?:{after})?"


_ENGLISH = re.compile(
    rf"(?<![\w:./])(?:(?P<week>week)\sof\s)?{_point_pattern('a')}(?:{_TO}{_point_pattern('b')})?"
    rf"[\s,\xa0\u202f-]{{1,3}}(?:of\s)?(?P<year>[0-9]{{4}})(?![0-9])",
    PATTERN_FLAGS,
)
_ISO = re.compile(r"(?<![\w:./-])([0-9]{4})-([0-9]{2})-([0-9]{2})(?![0-9])", PATTERN_FLAGS)
_RANGE = re.compile(_TO, PATTERN_FLAGS)

_HEADING = re.compile(r"(?:#{1,6}[ \t]*)?[*_]{0,3}date:[*_]{0,3}", PATTERN_FLAGS)
_HEADING_WEEKDAY = re.compile(rf"{_WEEKDAY}[\s,]{{1,3}}", PATTERN_FLAGS)
_HEADING_TAIL = re.compile(
    rf"(?:[\s,]{{1,3}}{_WEEKDAY})?"
    r"(?:(?:T|[\s,]{1,3}(?:at\s)?)[0-9]{1,2}:[0-9]{2}[^\s()]{0,20}"
    r"(?:\s(?:[ap]\.?m\.?|utc|gmt))?)?"
    r"(?:\s{0,3}\([^()]{0,60}\))?:?",
    PATTERN_FLAGS,
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A date phrase that was understood."""

    day: date
    """The day it names."""
    first: date
    """The first day it covers."""
    last: date
    """The last day it covers."""
    grain: Literal["day", "part", "month"]
    """What it states: a day, a part of a month, or a month."""
    end: int = 0
    """Where in the text it ends."""


def is_date_heading(line: str) -> bool:
    """Return whether a line of a log is a date heading, with a day or without."""
    return _HEADING.match(line.strip()) is not None


def observation_date(line: str) -> date | None:
    """Return the day of a date heading, such as `Date: Dec 4, 2025` or `## Date: 2025-12-04`.

    Spaces around it, Markdown emphasis and heading marks, a weekday, a time and a closing remark
    in parentheses are accepted. Any other words, or a date without a day, make it plain text.

    Args:
        line: One line of an observation log.

    Returns:
        The day, or `None` when the line is no heading.
    """
    stripped = line.strip()
    heading = _HEADING.match(stripped)
    if not heading:
        return None
    rest = stripped[heading.end() :].strip(" \t*_#")
    weekday = _HEADING_WEEKDAY.match(rest)
    phrase = _phrase_at(rest, weekday.end() if weekday else 0)
    if phrase and phrase.grain == "day" and _HEADING_TAIL.fullmatch(rest, phrase.end):
        return phrase.day
    return None


# Reading dates


def find_phrase(text: str) -> Phrase | None:
    """Find the first date phrase in the text; an impossible one is not skipped."""
    matches = [match for match in (_ISO.search(text), _ENGLISH.search(text)) if match]
    return _phrase_at(text, min(match.start() for match in matches)) if matches else None


def _phrase_at(text: str, start: int) -> Phrase | None:
    """Read the date phrase that begins at `start`, stretched to its other end if it is a range."""
    phrase = _single_phrase_at(text, start)
    separator = _RANGE.match(text, phrase.end) if phrase else None
    other = _single_phrase_at(text, separator.end()) if separator else None
    if phrase and other:
        return replace(phrase, last=max(phrase.last, other.last), end=other.end)
    return phrase


def _single_phrase_at(text: str, start: int) -> Phrase | None:
    try:
        if match := _ISO.match(text, start):
            day = date(*map(int, match.groups()))
            return Phrase(day, day, day, "day", match.end())
        if match := _ENGLISH.match(text, start):
            return _english_phrase(match)
    except (ValueError, OverflowError):  # No such day.
        pass
    return None


def _english_phrase(match: re.Match[str]) -> Phrase:
    """Read a match of `_ENGLISH`; raises `ValueError` for a day that does not exist."""
    year = int(match["year"])
    if not match["month_b"]:
        phrase = _point(match, "a", year)
    else:
        later = _point(match, "b", year)
        # `Dec 28 to Jan 3, 2026` begins in the year before.
        crosses = _month_number(match["month_a"]) > later.day.month
        earlier = _point(match, "a", year - 1 if crosses else year)
        named = earlier if earlier.grain == "day" else later
        last = max(earlier.last, later.last)
        phrase = replace(named, first=earlier.first, last=last)
    if match["week"]:
        phrase = replace(phrase, last=max(phrase.last, phrase.first + timedelta(days=6)))
    return replace(phrase, end=match.end())


def _point(match: re.Match[str], end: str, year: int) -> Phrase:
    """Read one end of an English phrase by itself."""
    month = _month_number(match[f"month_{end}"])
    for place in ("after", "before"):  # In `3 Dec 4, 2025` the 3 belongs to something else.
        if match[f"{place}_{end}"]:
            day = date(year, month, int(match[f"{place}_{end}"]))
            last = date(year, month, int(match[f"{place}_{end}_to"] or day.day))
            return Phrase(day, day, max(day, last), "day")
    length = monthrange(year, month)[1]
    first, named, last_number = 1, 1, length
    if part := match[f"part_{end}"]:
        first, named, _ = _PART_DAYS[part.lower()]
        last_number = min(length, _PART_DAYS[(match[f"upto_{end}"] or part).lower()][2])
    return Phrase(
        date(year, month, named),
        date(year, month, first),
        date(year, month, last_number),
        "part" if part else "month",
    )


def _month_number(name: str) -> int:
    return _MONTH_NUMBERS[name[:3].lower()]
