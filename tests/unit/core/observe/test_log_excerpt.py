"""What the Observer is shown of the log."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.wire import Group
from support.groups import day_log, group, heading
from support.inside import select_previous, write_log
from support.words import Words

# --- What the Observer is shown ------------------------------------------------------------------


LOG = [
    group("a", day_log(0, "* 🔴 the dog is Rex", "* 🟢 weather talk one two three four")),
    group("b", day_log(1, "* 🟡 asked about food one two", "* ✅ bought the lead", "* 🟢 chat")),
    group("c", day_log(2, "* 🟢 more chat here", "* 🟢 newest chat")),
]


def shown(budget: int | Literal[False]) -> str:
    return select_previous(LOG, budget, Words())


def test_the_newest_and_the_important_are_kept_under_their_headings() -> None:
    filler = [f"* 🟢 small talk number {at}" for at in range(40)]
    log = [
        group("a", day_log(0, "* 🔴 the dog is Rex", *filler)),
        group("b", day_log(1, *filler, "* ✅ bought the lead", *filler)),
        group("c", day_log(2, *filler, "* 🟢 newest")),
    ]
    text = select_previous(log, 160, Words())
    lines = text.split("\n")
    assert lines[-1] == "* 🟢 newest"
    assert lines[:2] == [heading(0), "* 🔴 the dog is Rex"]
    assert heading(2) in lines
    done = lines.index("* ✅ bought the lead")
    assert heading(1) in lines[:done]
    left_out = re.findall(r"\[(\d+) (?:earlier )?lines? left out\]", text)
    kept = [line for line in lines if not line.startswith("[")]
    whole = [line for line in write_log(log).split("\n") if line]
    assert len(kept) + sum(map(int, left_out)) == len(whole)
    assert [line for line in whole if line in set(kept)][:2] == kept[:2]


ITEM = st.builds(
    lambda mark, count, last: f"* {mark} {' '.join(['word'] * count)} {last}",
    st.sampled_from("🔴🟡🟢✅"),
    st.integers(0, 25),
    st.integers(0, 9999),
)


@st.composite
def logs(draw: st.DrawFn) -> list[Group]:
    """Groups of a few days, some without a heading, and now and then a blank line."""
    groups: list[Group] = []
    day = 0
    for at in range(draw(st.integers(1, 6))):
        lines: list[str] = []
        for _ in range(draw(st.integers(0, 3))):
            day += draw(st.integers(0, 2))
            lines += [heading(day)] if draw(st.booleans()) else [""]
            lines += draw(st.lists(ITEM, max_size=8))
        groups.append(group(f"g{at}", "\n".join(lines)))
    return groups


@given(logs(), st.integers(40, 400))
def test_the_budget_is_kept_and_nothing_is_made_up(log: list[Group], budget: int) -> None:
    text = select_previous(log, budget, Words())
    assert Words().count_text(text) <= budget
    whole = [line for line in write_log(log).split("\n") if line.strip()]
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("[")]
    rest = iter(whole)
    assert all(line in rest for line in lines), "lines of the log, in their order"


# --- What the conversation may deny or change ----------------------------------------------------

NOTES = [
    "* 🔴 (09:00) User has used Redis for sessions since 2021\n  * -> three nodes in Frankfurt",
    "* 🟡 (09:10) User asked for quiet cafés; assistant recommended Brug and Opaal",
    "* 🔴 (09:20) User's invoice 2024-0881 of Kessler is paid",
    "* 🟢 (09:30) User's file `config/maps.toml` has the key",
]
FILLER = [
    f"* 🔴 (10:{at % 60:02}) User talked about the weather and the walk number {word}"
    for at, word in enumerate(f"w{number}x" for number in range(150))
]
LONG_LOG = [group("old", day_log(0, *NOTES)), group("new", day_log(1, *FILLER))]


def shown_about(*said: str, budget: int = 160, log: list[Group] = LONG_LOG) -> str:
    lines = [f"User (12:{at:02}): {text}" for at, text in enumerate(said)]
    return select_previous(log, budget, Words(), "\n".join(["Date: Mar 9, 2026", *lines]))


@pytest.mark.parametrize(
    ("said", "note"),
    [
        ("I have never worked with redis", NOTES[0]),
        ("What about Opaal?", NOTES[1]),
        ("2024-0881 was never paid by me", NOTES[2]),
        ("There is no config/maps.toml here", NOTES[3]),
    ],
)
def test_an_old_item_that_a_message_may_deny_is_shown_whole_under_its_day(
    said: str, note: str
) -> None:
    assert note not in select_previous(LONG_LOG, 160, Words())
    weather = "The walk was long, and the weather was fine"
    text = shown_about(weather, "Good morning! How are you?", said, weather)
    touched = text.partition("Of the lines left out")[2]
    assert touched.split("\n")[1] == heading(0)
    assert f"\n{note}" in touched
    assert Words().count_text(text) <= 160
