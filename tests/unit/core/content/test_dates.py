"""Days in a text are read in every spelling."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langgraph_om.core.content.dates import observation_date
from support.days import MONTHS, WORDS, days
from support.examples import examples
from support.rendering import parse_date

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def ordinal(day: int) -> str:
    if day in {11, 12, 13}:
        return f"{day}th"
    return f"{day}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th') }"


def spellings(day: date) -> list[str]:
    """Every way to write a full day that has to be understood."""
    month, number, year = MONTHS[day.month - 1], day.day, f"{day.year}"
    short, weekday = month[:3], WEEKDAYS[day.weekday()]
    return [
        f"{month} {number}, {year}",
        f"{month} {number} {year}",
        f"{month.upper()} {number:02}, {year}",
        f"{short} {number}, {year}",
        f"{short}. {number}, {year}",
        f"{short.lower()} {number} {year}",
        f"{number} {month} {year}",
        f"{number} {short}. {year}",
        f"{number}-{short}-{year}",
        f"{month} {ordinal(number)} {year}",
        f"{month} the {ordinal(number)}, {year}",
        f"{ordinal(number)} {month}, {year}",
        f"the {ordinal(number)} of {month}, {year}",
        f"{weekday}, {short} {number}, {year}",
        f"{weekday[:3]}. {number} {month} {year}",
        day.isoformat(),
        f"{weekday} {day.isoformat()}",
        f"{day.isoformat()}T14:30:00Z",
        f"{day.isoformat()} 14:30",
        f"{short} {number}, {year} at 2:30 pm",
        f"{short} {number}, {year} ({weekday})",
    ]


# parse_date
@given(days)
@examples(40)
def test_every_spelling_of_a_day_reads_as_that_day(day: date) -> None:
    for text in spellings(day):
        assert parse_date(text) == day, text
        assert parse_date(f"on {text}, or so") == day, text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("May 27-28, 2026", "2026-05-27"),
        ("May 27\u201328 2026", "2026-05-27"),
        ("May 27 and 28, 2026", "2026-05-27"),
        ("27-28 May 2026", "2026-05-27"),
        ("May 27 to June 2, 2026", "2026-05-27"),
        ("May 27, 2026 to June 2, 2026", "2026-05-27"),
        ("Dec 28 - Jan 3, 2026", "2025-12-28"),
        ("week of May 4, 2026", "2026-05-04"),
        ("the week of the 4th of May 2026", "2026-05-04"),
        ("early April 2026", "2026-04-07"),
        ("mid April 2026", "2026-04-15"),
        ("mid-December 2025", "2025-12-15"),
        ("late April 2026", "2026-04-23"),
        ("Late Feb. 2026", "2026-02-23"),
        ("mid-to-late May 2026", "2026-05-15"),
        ("early to mid May 2026", "2026-05-07"),
        ("late April to early May 2026", "2026-05-07"),
        ("April to May 2026", "2026-05-01"),
        ("April to early May 2026", "2026-05-07"),
        ("April-May 2026", "2026-05-01"),
        ("December 2025 to January 2026", "2025-12-01"),
        ("March 2026", "2026-03-01"),
        ("march, 2026", "2026-03-01"),
        ("sometime in Sept. 2026", "2026-09-01"),
        ("May 2026", "2026-05-01"),
        ("Sept 4, 2025", "2025-09-04"),
        ("Feb 29, 2028", "2028-02-29"),
        ("room 3 Dec 4, 2025", "2025-12-04"),
        ("14:30 Dec 4, 2025", "2025-12-04"),
        ("Dec\u00a04,\u00a02025", "2025-12-04"),
        ("Dec 4, 2025 and Jan 9, 2026", "2025-12-04"),
        ("2026-01-22, moved from Dec 4, 2025", "2026-01-22"),
    ],
)
def test_phrases_that_name_a_day(text: str, expected: str) -> None:
    assert parse_date(text) == date.fromisoformat(expected)


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "next Thursday", "Dec 4", "Dec 4, 25", "Dec 4, 20256", "2026"),
        *("Feb 30, 2026", "Feb 29, 2026", "30 February 2026", "May 27-35, 2026", "Dec 0, 2025"),
        *("Jan 1, 0000", "2026-02-30", "2026-13-01", "2026-1-2", "12026-01-22"),
        *("week of Dec 31, 9999", "Decemberish 2025", "dismay 2026", "\u017fept 4, 2025"),
        *("\uff12\uff10\uff12\uff16-01-22", "01/22/2026"),
    ],
)
def test_what_names_no_day(text: str) -> None:
    assert parse_date(text) is None


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map(" ".join)))
@examples(150)
@example("week of Dec 31, 9999")
@example("Dec 1 to Jan 1, 0001")
def test_any_text_can_be_asked(text: str) -> None:
    found = parse_date(text)
    assert found is None or str(found.year) in text or str(found.year + 1) in text
    observation_date(text)


# observation_date
@given(days)
@examples(40)
def test_a_heading_takes_every_spelling(day: date) -> None:
    for text in spellings(day):
        assert observation_date(f"Date: {text}") == day, text
        assert observation_date(f"## **Date:** {text}") == day, text


@pytest.mark.parametrize(
    "line",
    [
        *("Date: Dec 4, 2025", "   Date:Dec 4, 2025  ", "date: December 4 2025\r"),
        *("**Date: Dec 4, 2025**", "**Date:** Dec 4, 2025", "*Date: Dec 4, 2025*"),
        *("__Date: Dec 4, 2025__", "## Date: 2025-12-04", "### **Date: Thu, Dec 4, 2025** ###"),
        *("Date: Dec 4, 2025:", "Date: Dec 4, 2025, Thursday", "Date: Dec 4, 2025, 14:30 UTC"),
        *("Date: Dec 4, 2025 (continued)", "Date: Dec 4-5, 2025"),
        "Date: Dec 4, 2025 - Dec 6, 2025",
    ],
)
def test_date_headings(line: str) -> None:
    assert observation_date(line) == date(2025, 12, 4)


@pytest.mark.parametrize(
    "line",
    [
        *("", "Date:", "Dec 4, 2025", "Date: soon", "Date: December 2025"),
        *("Date: late December 2025", "Date: Feb 30, 2026", "Date: Dec 4"),
        *("Date: Dec 4, 2025 is when the user marries", "Date: the user named Dec 4, 2025"),
        *("* Date: Dec 4, 2025", "Update: Dec 4, 2025", "* 🔴 (14:30) Date: Dec 4, 2025"),
        "Due Date: Dec 4, 2025",
    ],
)
def test_lines_that_are_no_heading(line: str) -> None:
    assert observation_date(line) is None
