"""Dates: the phrases and headings of a log, the times of messages, and how long ago that was.

Dates are read with tables of English names, not with the platform's locale. Every repetition in a
pattern is bounded or anchored: the text comes from a model, and must be read in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.content.message_keys import Keyed
from langgraph_om.errors import ConfigurationError

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_MONTH_NUMBERS = {name[:3].lower(): number for number, name in enumerate(MONTHS, 1)}
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS)
"""The pattern of a month's name, whole or of three letters."""
_PHRASE = re.compile(
    rf"(?:(?:{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in WEEKDAYS)}), )?"
    rf"(?:(?:week of )?(?P<month>{MONTH}) (?P<day>[0-9]{{1,2}})(?:[-\u2013][0-9]{{1,2}})?"
    rf"|(?:(?:early|mid|late)[ -])?(?P<whole>{MONTH})),? (?P<year>[0-9]{{4}})",
    re.ASCII | re.IGNORECASE,
)
_HEADING = re.compile(r"(?:#{1,6} )?[*_]{0,3}date:", re.ASCII | re.IGNORECASE)


class Phrase(NamedTuple):
    """A date phrase that was understood."""

    day: date
    """The first day that it covers."""
    is_month: bool
    """Whether it states a month or a part of one, as opposed to a day or days."""


def is_date_heading(line: str) -> bool:
    """Return whether a line of a log is a date heading, with a day or without."""
    return _HEADING.match(line.strip()) is not None


def observation_date(line: str) -> date | None:
    """Return the day of a date heading, such as `Date: Dec 4, 2025` or `**Date: Dec 4, 2025**`."""
    stripped = line.strip()
    heading = _HEADING.match(stripped)
    phrase = read_phrase(stripped[heading.end() :].strip(" \t*_#")) if heading else None
    return phrase.day if phrase and not phrase.is_month else None


def read_phrase(text: str) -> Phrase | None:
    """Read a date as the Observer is asked to write it; any other text is none.

    These are `Dec 12, 2025`, `Dec 27-28, 2025`, `week of May 4, 2026`, `late January 2026` and
    `January 2026`, each perhaps behind a weekday.
    """
    found = _PHRASE.fullmatch(text)
    if found is None:
        return None
    month = found["month"] or found["whole"]
    try:
        day = date(int(found["year"]), _MONTH_NUMBERS[month[:3].lower()], int(found["day"] or 1))
    except ValueError:  # no such day
        return None
    return Phrase(day, is_month=not found["day"])


# The time of a message, by one rule for whoever shows or keeps one.
#
# 1. Its own time: what the host says, its metadata, or a time-ordered id.
# 2. First seen: the stamp that was noted when it arrived while memory watched.
# 3. That of a neighbour. A person speaks when the next message with a time of its own is written,
#    since answers carry one, else when the last message before did; an answer or a result comes
#    when the last message before it does, else at the next time.
# 4. Unknown.
#
# A stamp tells nothing of what stands before it, which may be much older: a thread is adopted, or
# memory was off for a while.


MessageTime = Callable[[BaseMessage], datetime | None]


def read_zone(zone: str | tzinfo) -> tzinfo:
    """Return the zone of an IANA name, or of an offset such as `-05:00`.

    Raises:
        ValueError: When there is none of this name.
    """
    if isinstance(zone, tzinfo):
        return zone
    try:
        if zone[:1] in ("+", "-"):
            return datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").tzinfo or UTC
        return ZoneInfo(zone)
    except (OSError, LookupError, TypeError) as error:
        raise ValueError from error


def name_zone(zone: tzinfo, at: datetime) -> str:
    """Return the name by which `read_zone` finds a zone; of one without a name its offset."""
    key = getattr(zone, "key", None)
    if isinstance(key, str):
        return key
    minutes = int((at.astimezone(zone).utcoffset() or timedelta()) / timedelta(minutes=1))
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


# --- Time ----------------------------------------------------------------------------------------


def message_time(
    message: BaseMessage,
    key: str,
    stamps: Mapping[str, str],
    *,
    timezone: tzinfo,
    custom: MessageTime | None = None,
) -> datetime | None:
    """Tell when a message was written, as far as anything knows.

    Looks at the user's own function, then `created_at` in `additional_kwargs` and
    `response_metadata`, then a time-ordered id (UUIDv7), then the first-seen stamp. A time without
    a zone is one of the memory's `timezone`.

    Returns:
        An aware time, or `None` for a message of unknown time.
    """
    return find_own_time(message, timezone, custom) or _read_time(stamps.get(key), timezone)


def find_own_time(
    message: BaseMessage, timezone: tzinfo, custom: MessageTime | None
) -> datetime | None:
    """Tell when a message was written, as far as it says so itself; see `message_time`."""
    if custom is not None:
        told: Any = custom(message)
        if told is not None and not isinstance(told, datetime):
            msg = f"`message_time` returned {told!r}; return a datetime or None"
            raise ConfigurationError(msg)
        if told is not None:
            return told if told.tzinfo else told.replace(tzinfo=timezone)
    for source in (message.additional_kwargs, message.response_metadata):
        created = source.get("created_at")
        if created and (known := _read_time(created, timezone)) is not None:
            return known
    return _id_time(message.id)


def times_of(
    messages: Keyed,
    stamps: Mapping[str, str],
    *,
    timezone: tzinfo,
    custom: MessageTime | None = None,
) -> list[datetime | None]:
    """Tell when each of these messages was written, by the rule of this file."""
    own = [find_own_time(each, timezone, custom) for _, each in messages]
    seen = [_read_time(stamps.get(key), timezone) for key, _ in messages]
    filled = [of_itself or stamp for of_itself, stamp in zip(own, seen, strict=True)]
    ahead, following = list[datetime | None](), None
    for of_itself, known in zip(reversed(own), reversed(filled), strict=True):
        ahead.append(following)
        following = following if known is None else of_itself
    last: datetime | None = None
    for at, ((_, message), later) in enumerate(zip(messages, reversed(ahead), strict=True)):
        near = (later, last) if isinstance(message, HumanMessage) else (last, later)
        last = filled[at] = filled[at] or near[0] or near[1]
    return filled


def find_unread_time(message: BaseMessage, timezone: tzinfo) -> object:
    """Return the `created_at` of a message that is not read as a time; `None` without one."""
    sources = (message.additional_kwargs, message.response_metadata)
    said = [source["created_at"] for source in sources if source.get("created_at")]
    is_read = any(_read_time(each, timezone) is not None for each in said)
    return None if is_read or not said else said[0]


def _read_time(value: object, timezone: tzinfo) -> datetime | None:
    """Return a time given as a datetime, ISO, or seconds or milliseconds since 1970."""
    if isinstance(value, str):
        value = _parse_time(value[:_MAX_TIME_CHARS])
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = _from_epoch(value)
    if not isinstance(value, datetime) or not _UNSET_YEAR < value.year < _LAST_YEAR:
        return None
    return value if value.tzinfo else value.replace(tzinfo=timezone)


def _parse_time(text: str) -> datetime | float | None:
    reads: tuple[Callable[[str], datetime | float], ...] = (datetime.fromisoformat, float)
    for read in reads:
        with suppress(ValueError):
            return read(text)
    return None


def _from_epoch(value: float) -> datetime | None:
    for milliseconds in (value, value * 1000):
        if _EARLIEST_MS <= milliseconds <= _LATEST_MS:
            return datetime.fromtimestamp(milliseconds / 1000, UTC)
    return None


_UNSET_YEAR, _LAST_YEAR = 1970, 2100
"""Programs write the year 1 or 1970 where they know no time."""
_MAX_TIME_CHARS = 64
"""Read of a time: more than any of the forms has."""

_UUID_LENGTH, _UUID_VERSION_AT = 36, 14
_EARLIEST_MS = 946_684_800_000  # 2000-01-01: an older "time" is a random id
_LATEST_MS = 4_102_444_800_000  # 2100-01-01


def _id_time(key: str | None) -> datetime | None:
    if key is None:
        return None
    bare = key.removeprefix("run-").removeprefix("lc_run--")[:_UUID_LENGTH]
    if len(bare) != _UUID_LENGTH or bare[_UUID_VERSION_AT] != "7":
        return None
    with suppress(ValueError):
        milliseconds = int(bare.replace("-", ""), 16) >> 80
        if _EARLIEST_MS <= milliseconds <= _LATEST_MS:
            return datetime.fromtimestamp(milliseconds / 1000, UTC)
    return None


# --- Relative dates ------------------------------------------------------------------------------

# "2 weeks ago" and gaps are added to the log for the Actor. Text is only added, of whole days, so
# that it changes at most once a day. What is in a code fence stays as it is.

_DAYS_PER_WEEK = 7
_DAYS_PER_MONTH = 30
_DAYS_PER_YEAR = 365
_MONTHS_PER_YEAR = 12
_MIN_GAP_DAYS = 2

_FENCE = re.compile(r"[\s>*+-]*(`{3,})([^`]*)$")
_MARK = re.compile(r"\((?:meaning|estimated) ([^()]{1,200})\)", re.IGNORECASE)


def describe_day(day: date, today: date) -> str:
    """Return how far `day` is from `today`: `today`, `3 days ago`, `in 2 weeks`."""
    days = (day - today).days
    if days == 0:
        return "today"
    if days in {-1, 1}:
        return "tomorrow" if days > 0 else "yesterday"
    return _add_direction(describe_duration(abs(days)), future=days > 0)


def write_gap(previous: date, following: date) -> str | None:
    """Return a line such as `[3 days later]`; `None` for less than two days."""
    days = (following - previous).days
    return None if days < _MIN_GAP_DAYS else f"[{describe_duration(days, years=False)} later]"


def annotate(text: str, today: date, previous: date | None = None) -> tuple[str, date | None]:
    """Return the text with relative time added, and the date of the last heading in it.

    Args:
        text: A stretch of an observation log as it was written, not annotated before.
        today: The current day in the reader's timezone.
        previous: The last heading date of the text rendered before this one.

    Returns:
        The annotated text, and what to pass as `previous` with the next text.
    """
    lines: list[str] = []
    fence = 0
    for line in text.split("\n"):
        fenced = fence > 0
        fence = track_fence(line, fence)
        if fenced or fence:
            lines.append(line)
            continue
        day = observation_date(line)
        if day is None:
            lines.append(_MARK.sub(lambda mark: _annotate_mark(mark, today), line))
            continue
        gap = write_gap(previous, day) if previous else None
        if gap:
            lines.append(gap + "\r" * line.endswith("\r"))
        content = line.rstrip()
        lines.append(f"{content} ({describe_day(day, today)}){line[len(content) :]}")
        previous = day
    return "\n".join(lines), previous


# --- Wording -------------------------------------------------------------------------------------


def describe_duration(days: int, *, years: bool = True) -> str:
    """Return a number of days in its largest whole unit, at most months without `years`."""
    if days < _DAYS_PER_WEEK:
        return _write_count(days, "day")
    if days < _DAYS_PER_MONTH:
        return _write_count(days // _DAYS_PER_WEEK, "week")
    if days < _DAYS_PER_YEAR or not years:
        return _write_count(days // _DAYS_PER_MONTH, "month")
    return _write_count(days // _DAYS_PER_YEAR, "year")


def _write_count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _add_direction(duration: str, *, future: bool) -> str:
    return f"in {duration}" if future else f"{duration} ago"


def _describe_month(day: date, today: date) -> str:
    """Return how far the month of `day` is from that of `today`, whatever the days in them."""
    months = (day.year - today.year) * _MONTHS_PER_YEAR + day.month - today.month
    if months in {-1, 0, 1}:
        return ("last month", "this month", "next month")[months + 1]
    if abs(months) < _MONTHS_PER_YEAR:
        return _add_direction(_write_count(abs(months), "month"), future=months > 0)
    return _add_direction(_write_count(abs(months) // _MONTHS_PER_YEAR, "year"), future=months > 0)


# --- Lines ---------------------------------------------------------------------------------------


def track_fence(line: str, fence: int) -> int:
    """Return how many backticks close the code fence that is open after `line`; 0 when none is."""
    match = _FENCE.match(line)
    if not match:
        return fence
    ticks, info = len(match[1]), match[2].strip()
    if not fence:
        return ticks
    return 0 if ticks >= fence and not info else fence


def _annotate_mark(mark: re.Match[str], today: date) -> str:
    """Return a mark with how far its date is from `today`, no more precisely than it is stated."""
    phrase = read_phrase(mark[1])
    if phrase is None:
        return mark[0]
    describe = _describe_month if phrase.is_month else describe_day
    return f"{mark[0][:-1]} - {describe(phrase.day, today)})"
