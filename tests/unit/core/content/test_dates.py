"""Days are read as the Observer is asked to write them; other words are text."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given

from support.days import MONTHS, days
from support.examples import examples
from support.inside import observation_date, read_phrase


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
