"""Reading dates out of a log, and telling the Actor how long ago they were."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.days import MONTHS, days
from support.examples import examples
from support.inside import annotate, describe_day, write_gap

TODAY = date(2025, 12, 18)
JUNE_15 = date(2026, 6, 15)


# relative_day and gap_line
@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-06-15", "today"),
        ("2026-06-14", "yesterday"),
        ("2026-06-16", "tomorrow"),
        ("2026-06-12", "3 days ago"),
        ("2026-06-09", "6 days ago"),
        ("2026-06-08", "1 week ago"),
        ("2026-06-02", "1 week ago"),
        ("2026-06-01", "2 weeks ago"),
        ("2026-05-17", "4 weeks ago"),
        ("2026-05-16", "1 month ago"),
        ("2026-04-17", "1 month ago"),
        ("2026-04-16", "2 months ago"),
        ("2026-04-10", "2 months ago"),
        ("2025-06-16", "12 months ago"),
        ("2025-06-15", "1 year ago"),
        ("2025-06-14", "1 year ago"),
        ("2024-06-15", "2 years ago"),
        ("2026-06-17", "in 2 days"),
        ("2026-06-20", "in 5 days"),
        ("2026-06-25", "in 1 week"),
        ("2026-07-20", "in 1 month"),
        ("2026-12-25", "in 6 months"),
        ("2027-06-20", "in 1 year"),
        ("2029-06-20", "in 3 years"),
    ],
)
def test_relative_day(day: str, expected: str) -> None:
    assert describe_day(date.fromisoformat(day), JUNE_15) == expected


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (-400, None),
        (-1, None),
        (0, None),
        (1, None),
        (2, "[2 days later]"),
        (6, "[6 days later]"),
        (7, "[1 week later]"),
        (13, "[1 week later]"),
        (14, "[2 weeks later]"),
        (29, "[4 weeks later]"),
        (30, "[1 month later]"),
        (59, "[1 month later]"),
        (60, "[2 months later]"),
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
        ("(estimated October 2025)", "(estimated October 2025 - 2 months ago)"),
        ("(estimated November 2026)", "(estimated November 2026 - in 11 months)"),
        ("(estimated December 2026)", "(estimated December 2026 - in 1 year)"),
        ("(estimated November 2023)", "(estimated November 2023 - 2 years ago)"),
        ("(estimated early December 2025)", "(estimated early December 2025 - this month)"),
        ("(estimated late December 2025)", "(estimated late December 2025 - this month)"),
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
