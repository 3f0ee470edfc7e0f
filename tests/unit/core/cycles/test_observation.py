"""Whole observations: parts, days, what they leave in memory, and what follows a failure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.cycles.observation import observe_cycle, split_days
from langgraph_om.core.cycles.reflection import reflect_cycle
from langgraph_om.core.events import to_part
from langgraph_om.core.plan import plan
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.window import open_window
from langgraph_om.errors import ObserverError
from support.edits import edited
from support.flows import (
    GOOD,
    ITEM,
    NOW,
    Talk,
    conversation,
    kinds,
    later,
    reflectable,
    setup,
)
from support.groups import heading
from support.words import Words

# --- Whole cycles --------------------------------------------------------------------------------


def observed(talk: Talk, settings: Settings, count: int = 1) -> list[dict[str, Any]]:
    record, window = conversation()
    return talk.run_cycle(observe_cycle(settings, record, window, count, NOW))


def test_what_an_observation_leaves_in_memory() -> None:
    record, _ = conversation()
    events = observed(Talk([later(GOOD)]), setup())
    after = fold(record, [events])
    assert after["cursor"] == ["m0"]
    assert [(entry["text"], entry["ranges"]) for entry in after["log"]] == [(ITEM, [["m0", "m0"]])]
    assert after["log"][0]["id"] == events[0]["cycle_id"]
    assert after["usage"] == {"observation": {"calls": 1, "input_tokens": 10, "output_tokens": 3}}
    assert fold(after, [events]) == after


@pytest.mark.parametrize(
    ("on_error", "expected"),
    [
        ("continue", ["observation-start", "observation-failed"]),
        ("abort", ["observation-start", "observation-failed", "tripped"]),
        ("raise", ["observation-start", "observation-failed"]),
    ],
)
@pytest.mark.parametrize("operation", ["observation", "reflection"])
def test_what_follows_a_failure(
    on_error: Literal["continue", "abort", "raise"], expected: list[str], operation: str
) -> None:
    record, window = conversation()
    settings = setup(on_error)
    if operation == "reflection":
        record = edited(record, reflectable())
        flow = reflect_cycle(settings, record, window, NOW)
    else:
        flow = observe_cycle(settings, record, window, 1, NOW)
    talk = Talk([TimeoutError("no answer")])
    if on_error == "raise":
        with pytest.raises(ObserverError, match="no answer"):
            talk.run_cycle(flow)
    else:
        talk.run_cycle(flow)
    assert kinds(talk.events) == expected
    failed = to_part(talk.events[1])
    assert failed is not None
    assert failed["type"] == "data-om-observation-failed"
    assert failed["data"]["operationType"] == operation
    assert "TimeoutError: no answer" in failed["data"]["error"]
    assert failed["data"]["usage"]["calls"] == 1
    after = fold(record, [talk.events])
    assert (after["log"], after["cursor"]) == (record["log"], record["cursor"])
    assert after["attempts"][operation]["failures"] == 1
    decision = plan(after, window, settings.thresholds, NOW).kind
    if on_error == "abort":
        assert decision == "abort"
    else:
        assert decision != {"observation": "observe", "reflection": "reflect"}[operation]
    if on_error == "abort":
        # The gate shows it, in this turn and in each that repeats it.
        assert to_part(talk.events[2]) is None
        assert after["tripwire"]["operation"] == operation


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
