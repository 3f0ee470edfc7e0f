"""Dates are read as the Observer is asked to write them, and told with how long ago they were."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from support.examples import examples
from support.inside import (
    annotate,
    describe_day,
    message_time,
    observation_date,
    read_phrase,
    write_gap,
)

MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip

days = st.dates(date(1900, 1, 1), date(2200, 12, 31))


@given(days)
@examples(40)
def test_a_day_is_read(day: date) -> None:
    month, number, year = MONTHS[day.month - 1], day.day, f"{day.year}"
    weekday = f"{day:%A}"
    for text in (
        f"{month[:3]} {number}, {year}",
        f"{month} {number}, {year}",
        f"{month[:3].lower()} {number:02} {year}",
        f"{weekday}, {month[:3]} {number}, {year}",
        f"{weekday[:3]}, {month} {number}, {year}",
    ):
        for heading in (f"Date: {text}", f"**Date: {text}**", f"## **Date:** {text}  "):
            assert observation_date(heading) == day, heading
        assert read_phrase(text) == (day, False)


@pytest.mark.parametrize(
    ("text", "expected", "is_month"),
    [
        ("Dec 27-28, 2025", "2025-12-27", False),
        ("week of May 4, 2026", "2026-05-04", False),
        ("early April 2026", "2026-04-01", True),
        ("mid-December 2025", "2025-12-01", True),
        ("late January 2026", "2026-01-01", True),
        ("March 2026", "2026-03-01", True),
    ],
)
def test_phrases_that_are_asked_for(text: str, expected: str, *, is_month: bool) -> None:
    assert read_phrase(text) == (date.fromisoformat(expected), is_month)


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "next Thursday", "Dec 4", "Dec 4, 25", "Dec 4, 20256", "2026", "2026-01-22"),
        *("Feb 30, 2026", "Feb 29, 2026", "Dec 0, 2025", "Jan 1, 0000", "01/22/2026", "4 Dec 2025"),
        *("Decemberish 2025", "dismay 2026", "\u017fept 4, 2025", "Dec 4, 2025 or so"),
        *("Dec 28 to Jan 3, 2026", "the 22nd of January, 2026", "yesterday, Dec 4, 2025"),
    ],
)
def test_other_words_are_text(text: str) -> None:
    assert read_phrase(text) is None
    assert observation_date(f"Date: {text}") is None


# --- How long ago --------------------------------------------------------------------------------


TODAY = date(2025, 12, 18)
JUNE_15 = date(2026, 6, 15)


# relative_day and gap_line
@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-06-15", "today"),
        ("2026-06-14", "yesterday"),
        ("2026-06-09", "6 days ago"),
        ("2026-06-08", "1 week ago"),
        ("2026-06-01", "2 weeks ago"),
        ("2026-05-17", "4 weeks ago"),
        ("2026-05-16", "1 month ago"),
        ("2026-04-16", "2 months ago"),
        ("2025-06-16", "12 months ago"),
        ("2025-06-15", "1 year ago"),
        ("2026-06-17", "in 2 days"),
        ("2026-06-25", "in 1 week"),
        ("2026-12-25", "in 6 months"),
        ("2029-06-20", "in 3 years"),
    ],
)
def test_relative_day(day: str, expected: str) -> None:
    assert describe_day(date.fromisoformat(day), JUNE_15) == expected


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (-1, None),
        (1, None),
        (2, "[2 days later]"),
        (6, "[6 days later]"),
        (7, "[1 week later]"),
        (13, "[1 week later]"),
        (14, "[2 weeks later]"),
        (29, "[4 weeks later]"),
        (30, "[1 month later]"),
        (365, "[12 months later]"),
        (800, "[26 months later]"),
    ],
)
def test_gap_line(distance: int, expected: str | None) -> None:
    assert write_gap(JUNE_15, JUNE_15 + timedelta(distance)) == expected


# annotate
def test_a_whole_log() -> None:
    text = """\
Date: Dec 4, 2025
* 🔴 (14:30) User prefers direct answers
* 🟡 (14:31) User will fly to Oslo (meaning Dec 12, 2025)
  * -> asked for a packing list (estimated mid-December 2025)

**Date: Dec 5, 2025**
* 🟡 (09:00) User wants to move (estimated March 2026)

## Date: Dec 15, 2025
* ✅ (09:01) User booked a flat (meaning yesterday, Dec 14, 2025)
"""
    annotated, last = annotate(text, TODAY)
    assert (
        annotated
        == """\
Date: Dec 4, 2025 (2 weeks ago)
* 🔴 (14:30) User prefers direct answers
* 🟡 (14:31) User will fly to Oslo (meaning Dec 12, 2025 - 6 days ago)
  * -> asked for a packing list (estimated mid-December 2025 - this month)

**Date: Dec 5, 2025** (1 week ago)
* 🟡 (09:00) User wants to move (estimated March 2026 - in 3 months)

[1 week later]
## Date: Dec 15, 2025 (3 days ago)
* ✅ (09:01) User booked a flat (meaning yesterday, Dec 14, 2025)
"""
    )
    assert last == date(2025, 12, 15)


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("(meaning Dec 26, 2025)", "(meaning Dec 26, 2025 - in 1 week)"),
        ("(estimated Dec 18, 2025)", "(estimated Dec 18, 2025 - today)"),
        ("(meaning Dec 8-9, 2025)", "(meaning Dec 8-9, 2025 - 1 week ago)"),
        ("(MEANING Dec 19, 2025)", "(MEANING Dec 19, 2025 - tomorrow)"),
        ("(meaning week of Dec 15, 2025)", "(meaning week of Dec 15, 2025 - 3 days ago)"),
        ("(estimated December 2025)", "(estimated December 2025 - this month)"),
        ("(estimated November 2025)", "(estimated November 2025 - last month)"),
        ("(estimated January 2026)", "(estimated January 2026 - next month)"),
        ("(estimated November 2026)", "(estimated November 2026 - in 11 months)"),
        ("(estimated November 2023)", "(estimated November 2023 - 2 years ago)"),
        ("(estimated early December 2025)", "(estimated early December 2025 - this month)"),
    ],
)
def test_dated_marks(mark: str, expected: str) -> None:
    assert annotate(f"* saw it {mark}, ok", TODAY)[0] == f"* saw it {expected}, ok"


# Laws
DISTANCE = r"(?:today|yesterday|tomorrow|in \d+ [a-z]+|\d+ [a-z]+ ago|(?:last|this|next) month)"

ADDED = re.compile(
    rf"^\[\d+ (?:day|week|month)s? later\]\n"
    rf"| \({DISTANCE}\)$"
    rf"| - {DISTANCE}(?=\))",
    re.MULTILINE,
)

log_lines = st.one_of(
    st.builds("{}Date: {}".format, st.sampled_from(["", "  ", "## "]), days),
    st.builds("* 🔴 (14:30) User will go (meaning {}), ok".format, days),
    st.builds("  * -> (estimated {} {:04})".format, st.sampled_from(MONTHS), st.integers(1, 2500)),
    st.sampled_from(["", "```", "* 🟡 (09:00) plain", "Date: soon", "(meaning soon)"]),
)

logs = st.lists(log_lines, max_size=12).map("\n".join)


@given(logs, days, st.none() | days)
@examples(100)
def test_without_what_was_added_the_log_is_as_written(
    text: str, today: date, previous: date | None
) -> None:
    annotated, _ = annotate(text, today, previous)
    assert ADDED.sub("", annotated) == text
    assert annotate(text, today, previous)[0] == annotated


# --- When a message was made ---------------------------------------------------------------------


NOON = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.isoformat(),
        NOON.timestamp(),
        int(NOON.timestamp() * 1000),
        str(int(NOON.timestamp())),
    ],
)
def test_each_form_of_a_time_is_read(value: object) -> None:
    """The day of a message decides what "tomorrow" means in it."""
    message = HumanMessage("Tomorrow, then.", additional_kwargs={"created_at": value})
    assert message_time(message, "a", {}, timezone=UTC) == NOON


@pytest.mark.parametrize(
    "value",
    [
        *("yesterday", float("nan"), float("inf"), 10**400, -5, True, [1], "9" * 9000, "\0,"),
        "Mon, 04 May 2026 14:30:00 +0200",
        "May 4, 2026 2:30 PM",  # read without its PM by a lenient parser
        "Mon May 04 2026 14:30:00 GMT+0200 (CEST)",  # without its zone
        *("0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),  # not set
    ],
)
def test_a_time_that_cannot_be_read_is_unknown(value: object) -> None:
    """It neither raises nor becomes a wrong date."""
    message = HumanMessage("Tomorrow, then.", additional_kwargs={"created_at": value})
    assert message_time(message, "a", {}, timezone=UTC) is None
