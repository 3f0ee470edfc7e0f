"""Add relative dates to the log for the Actor: "2 weeks ago", gaps, plans that are likely done.

Text is only added, of whole days, so that it changes at most once a day. What is in a code fence
stays as it is.
"""

from __future__ import annotations

from datetime import date

from langgraph_om.core.content.dates import (
    PATTERN_FLAGS,
    Phrase,
    find_phrase,
    is_date_heading,
    observation_date,
)
from langgraph_om.core.content.text import compile_late

_DAYS_PER_WEEK = 7
_DAYS_PER_MONTH = 30
_DAYS_PER_YEAR = 365
_MONTHS_PER_YEAR = 12
_MIN_GAP_DAYS = 2

_WORD_BEFORE_CHARS = 24
"""How far to search back for the word before a plan: further than the longest word that matters."""

_FENCE = compile_late(r"[\s>*+-]*(`{3,})([^`]*)$")
_MARK = compile_late(r"\((?:meaning|estimated):?\s([^()]{1,200})\)", PATTERN_FLAGS)
_PLAN = compile_late(
    r"(?P<will>\b(?-i:will)|['\u2019](?-i:ll))\s{1,3}(?!not\b|never\b|no\b)(?-i:[a-z]+)\b"
    r"|\b(?:plans?|planning|looking\s{1,3}forward|going|intends?|wants?|needs?|about)\s{1,3}to\b"
    r"|\b(?:is|are)\s{1,3}due\b|\b(?:re)?scheduled\b|\bbooked\s{1,3}for\b",
    PATTERN_FLAGS,
)
_DETERMINERS = frozenset({"a", "her", "his", "its", "my", "our", "the", "their", "your"})

_BEFORE_NOUN = _DETERMINERS | {"at", "free", "good", "last", "living", "own", "strong"}
"""Words after which `will` is a noun."""

_NEGATIONS = frozenset({"cannot", "longer", "never", "not"})


def describe_day(day: date, today: date) -> str:
    """Return how far `day` is from `today`: `today`, `3 days ago`, `in 2 weeks`."""
    days = (day - today).days
    if days == 0:
        return "today"
    if days in {-1, 1}:
        return "tomorrow" if days > 0 else "yesterday"
    return _add_direction(describe_duration(abs(days)), future=days > 0)


def write_gap(previous: date, following: date) -> str | None:
    """Return the line that states the time between two headings, such as `[3 days later]`.

    Returns:
        The line, or `None` when the second date is not at least two days later.
    """
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
    fence, said = 0, previous
    for line in text.split("\n"):
        fenced = fence > 0
        fence = track_fence(line, fence)
        if fenced or fence:
            lines.append(line)
            continue
        day = observation_date(line)
        if day is None:
            said = None if is_date_heading(line) else said
            lines.append(_annotate_marks(line, today, said=said))
            continue
        gap = write_gap(previous, day) if previous else None
        if gap:
            lines.append(gap + "\r" * line.endswith("\r"))
        content = line.rstrip()
        lines.append(f"{content} ({describe_day(day, today)}){line[len(content) :]}")
        previous = said = day
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


def _describe_phrase(phrase: Phrase, today: date) -> str:
    """Return how far a phrase is from `today`, no more precisely than the phrase is."""
    if phrase.grain != "day" and phrase.first <= today <= phrase.last:
        one_month = (phrase.first.year, phrase.first.month) == (phrase.last.year, phrase.last.month)
        return "this month" if one_month else "about now"
    if phrase.grain == "month":
        return _describe_month(phrase.day, today)
    return describe_day(phrase.day, today)


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


def _annotate_marks(line: str, today: date, *, said: date | None) -> str:
    """Return the line with relative time in each mark that has a date.

    Args:
        said: The day that it stands under; a date before it is no plan's, whatever the words.
    """
    pieces: list[str] = []
    done = 0
    for mark in _MARK.finditer(line):
        phrase = find_phrase(mark[1])
        if not phrase:
            continue
        end = mark.start(1) + len(mark[1].rstrip())
        was_ahead = said is None or phrase.last >= said
        past_plan = was_ahead and phrase.last < today and _states_plan(line[done : mark.start()])
        note = f" - {_describe_phrase(phrase, today)}" + ", likely done by now" * past_plan
        pieces += [line[done:end], note, line[end : mark.end()]]
        done = mark.end()
    return "".join([*pieces, line[done:]])


def _states_plan(text: str) -> bool:
    for plan in _PLAN.finditer(text):
        # A bounded look back keeps this linear.
        words = text[max(0, plan.start() - _WORD_BEFORE_CHARS) : plan.start()].split()
        word = words[-1].lower().lstrip("\"'*_(") if words else ""
        if word in _NEGATIONS or word.endswith(("n't", "n\u2019t")):
            continue
        if plan["will"] == "will" and (word in _BEFORE_NOUN or word.endswith(("'s", "\u2019s"))):
            continue
        return True
    return False
