"""Whole observations: parts, days, what they leave in memory, and what follows a failure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.groups import heading
from support.inside import split_days

# --- Whole cycles --------------------------------------------------------------------------------


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""Of `FIRST_DAY`."""


def notes(*days: int) -> str:
    """A text with a section of one item for each of these days."""
    return "\n\n".join(f"{heading(day)}\n* 🔴 (09:00) Fact {day}" for day in days)


def split(text: str, *days: int | None) -> list[tuple[int, int, str]]:
    """Split a text over messages of these days, in UTC."""
    times = [None if day is None else NOON + timedelta(days=day) for day in days]
    found = split_days(text, times, timezone=UTC)
    return [(day.start, day.stop, day.text) for day in found]


# --- Which messages belong to which day -----------------------------------------------------------


UNDATED = "* 🔴 Undated"
MORE = "* 🔴 (10:00) More"


@pytest.mark.parametrize(
    ("text", "days", "found"),
    [
        pytest.param(
            notes(0, 1, 2),
            (0, 0, 1, 2, 2),
            [(0, 2, notes(0)), (2, 3, notes(1)), (3, 5, notes(2))],
            id="each day",
        ),
        pytest.param(
            notes(1, 3),
            (0, 1, 2, 3),
            [(0, 3, notes(1)), (3, 4, notes(3))],
            id="no section: the one before",
        ),
        pytest.param(
            notes(0, 1, 2),
            (0, 2),
            [(0, 1, notes(0, 1)), (1, 2, notes(2))],
            id="no messages: the day before",
        ),
        pytest.param(
            notes(0, 1, 2),
            (1, 2),
            [(0, 1, notes(0, 1)), (1, 2, notes(2))],
            id="before all messages: the first day",
        ),
        pytest.param(
            notes(0, 1),
            (None, 0, None, 1, None),
            [(0, 3, notes(0)), (3, 5, notes(1))],
            id="no time: where they stand",
        ),
        pytest.param(
            notes(0, 1), (0, 1, 0, 1), [(0, 1, notes(0)), (1, 4, notes(1))], id="back in time"
        ),
        pytest.param(
            f"{UNDATED}\n{notes(0, 1)}",
            (0, 1),
            [(0, 1, f"{UNDATED}\n{notes(0)}"), (1, 2, notes(1))],
            id="before all dates: the first day",
        ),
        pytest.param(
            notes(1, 0), (0, 1), [(0, 1, notes(0)), (1, 2, notes(1))], id="days out of order"
        ),
        pytest.param(
            f"{notes(0, 1)}\n{heading(0)}\n{MORE}",
            (0, 1),
            [(0, 1, f"{notes(0)}\n\n{MORE}"), (1, 2, notes(1))],
            id="a day that is named twice",
        ),
    ],
)
def test_each_day_has_its_messages_and_its_items(
    text: str, days: tuple[int | None, ...], found: list[tuple[int, int, str]]
) -> None:
    assert split(text, *days) == found


# --- What the Observer wrote ----------------------------------------------------------------------


_days = st.integers(0, 6)


@given(
    messages=st.lists(st.one_of(st.none(), _days), min_size=1),
    dates=st.lists(_days),
    is_undated=st.booleans(),
)
def test_every_message_and_every_item_is_in_exactly_one_day(
    *, messages: list[int | None], dates: list[int], is_undated: bool
) -> None:
    items = [f"* 🔴 (09:00) Fact {at}" for at in range(len(dates))]
    sections = [f"{heading(day)}\n{item}" for day, item in zip(dates, items, strict=True)]
    lead = ["* 🔴 (08:00) Undated"] if is_undated else []
    found = split("\n".join([*lead, *sections]), *messages)
    assert [place for start, stop, _ in found for place in range(start, stop)] == [
        *range(len(messages))
    ]
    written = [line for _, _, text in found for line in text.split("\n")]
    assert sorted(line for line in written if line.startswith("*")) == sorted([*lead, *items])
    assert len(found) <= len({day for day in messages if day is not None} & set(dates)) or (
        len(found) == 1
    )
