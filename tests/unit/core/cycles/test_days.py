"""An observation over several days: a group for each, with the messages of that day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.core.cycles.observation import observe_cycle, split_days
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.window import open_window
from support.flows import NOW, Talk, conversation, later, setup
from support.groups import heading
from support.windows import Words

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


def test_each_day_gets_its_messages() -> None:
    assert split(notes(0, 1, 2), 0, 0, 1, 2, 2) == [
        (0, 2, notes(0)),
        (2, 3, notes(1)),
        (3, 5, notes(2)),
    ]


def test_messages_of_a_day_without_a_section_belong_to_the_one_before() -> None:
    assert split(notes(1, 3), 0, 1, 2, 3) == [(0, 3, notes(1)), (3, 4, notes(3))]


def test_items_of_a_day_without_messages_join_the_day_before() -> None:
    text = notes(0, 1, 2)
    assert split(text, 0, 2) == [(0, 1, notes(0, 1)), (1, 2, notes(2))]


def test_items_of_a_day_before_all_messages_join_the_first_day() -> None:
    text = notes(0, 1, 2)
    assert split(text, 1, 2) == [(0, 1, notes(0, 1)), (1, 2, notes(2))]


def test_messages_without_a_time_belong_to_the_day_in_which_they_stand() -> None:
    assert split(notes(0, 1), None, 0, None, 1, None) == [(0, 3, notes(0)), (3, 5, notes(1))]


def test_messages_keep_their_order_where_a_time_goes_back() -> None:
    assert split(notes(0, 1), 0, 1, 0, 1) == [(0, 1, notes(0)), (1, 4, notes(1))]


def test_days_are_those_of_the_transcript() -> None:
    times = [NOON, NOON + timedelta(hours=9)]  # half past five in the morning, in this zone
    zone = timezone(timedelta(hours=8, minutes=30))
    assert len(split_days(notes(0, 1), times, timezone=zone)) == 2
    assert len(split_days(notes(0, 1), times, timezone=UTC)) == 1


# --- What the Observer wrote ----------------------------------------------------------------------


def test_what_stands_before_all_dates_belongs_to_the_first_day() -> None:
    text = f"* 🔴 Undated\n{notes(0, 1)}"
    assert split(text, 0, 1) == [(0, 1, f"* 🔴 Undated\n{notes(0)}"), (1, 2, notes(1))]


def test_days_out_of_order_are_put_in_order() -> None:
    assert split(notes(1, 0), 0, 1) == [(0, 1, notes(0)), (1, 2, notes(1))]


def test_a_day_that_is_named_twice_is_one_day() -> None:
    text = f"{notes(0, 1)}\n{heading(0)}\n* 🔴 (10:00) More"
    first = f"{notes(0)}\n\n* 🔴 (10:00) More"
    assert split(text, 0, 1) == [(0, 1, first), (1, 2, notes(1))]


@pytest.mark.parametrize("nothing", ["", "\n(none)", "\n* Nothing to note."])
def test_a_date_without_items_is_no_day(nothing: str) -> None:
    text = f"{notes(0)}\n\n{heading(1)}{nothing}\n\n{notes(2)}"
    found = split(text, 0, 1, 2)
    assert [(start, stop) for start, stop, _ in found] == [(0, 2), (2, 3)]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        pytest.param("", (0, 1), id="nothing"),
        pytest.param("* 🔴 Undated", (0, 1), id="no date"),
        pytest.param(notes(1, 0), (0, 0), id="one day of messages"),
        pytest.param(notes(0, 1), (None, None), id="no times"),
        pytest.param(notes(0), (0, 1), id="one date"),
        pytest.param(notes(5, 6), (0, 1), id="other dates"),
        pytest.param("Date: 1.3.2026\n* 🔴 A\nDate: 2.3.2026\n* 🔴 B", (0, 1), id="other forms"),
    ],
)
def test_where_days_cannot_be_told_apart_all_is_as_it_was_written(
    text: str, days: tuple[int | None, ...]
) -> None:
    assert split(text, *days) == [(0, len(days), text)]


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


@given(st.lists(_days, min_size=1))
def test_with_times_in_order_each_day_has_its_own_messages(messages: list[int]) -> None:
    messages.sort()
    found = split(notes(*sorted(set(messages))), *messages)
    assert [set(messages[start:stop]) for start, stop, _ in found] == [
        {day} for day in sorted(set(messages))
    ]


# --- In the log -----------------------------------------------------------------------------------


def said(day: int, at: int) -> HumanMessage | AIMessage:
    kind = AIMessage if at % 2 else HumanMessage
    written = (NOON + timedelta(days=day, minutes=at)).isoformat()
    return kind("word " * 30, id=f"m{at}", additional_kwargs={"created_at": written})


def test_an_observation_of_three_days_makes_three_groups() -> None:
    record, _ = conversation()
    window = open_window(record, [said(day, at) for at, day in enumerate((0, 0, 1, 1, 2))], Words())
    settings = setup()

    def observe() -> list[dict[str, Any]]:
        talk = Talk([later(f"<observations>\n{notes(0, 1, 2)}\n</observations>")])
        return talk.run_cycle(observe_cycle(settings, record, window, 5, NOW))

    events = observe()
    log = fold(record, [events])["log"]
    assert [(group["ranges"], group["text"]) for group in log] == [
        ([["m0", "m1"]], notes(0)),
        ([["m2", "m3"]], notes(1)),
        ([["m4", "m4"]], notes(2)),
    ]
    assert log[0]["id"] == events[0]["cycle_id"]
    assert len({group["id"] for group in log}) == 3
    assert events[1]["observation_tokens"] == sum(group["tokens"] for group in log)
    assert fold(record, [observe()])["log"] == log, "a repeated step names the same groups"
    assert fold(fold(record, [events]), [events])["log"] == log
