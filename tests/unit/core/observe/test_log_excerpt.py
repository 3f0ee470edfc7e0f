"""What the Observer is shown of the log."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.record.record import write_log
from langgraph_om.core.wire import Group
from support.groups import day_log, group, heading
from support.words import Words

# --- What the Observer is shown ------------------------------------------------------------------


LOG = [
    group("a", day_log(0, "* 🔴 the dog is Rex", "* 🟢 weather talk one two three four")),
    group("b", day_log(1, "* 🟡 asked about food one two", "* ✅ bought the lead", "* 🟢 chat")),
    group("c", day_log(2, "* 🟢 more chat here", "* 🟢 newest chat")),
]


def shown(budget: int | Literal[False]) -> str:
    return select_previous(LOG, budget, Words())


def test_all_or_nothing() -> None:
    assert shown(budget=False) == write_log(LOG)
    assert shown(0) == ""
    assert shown(10_000) == write_log(LOG)
    assert shown(sum(entry["tokens"] for entry in LOG)) == write_log(LOG)
    assert select_previous([], 100, Words()) == ""


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


def test_of_many_important_lines_the_newest_stay() -> None:
    log = [group("a", day_log(0, *(f"* 🔴 fact {at}" for at in range(200))))]
    text = select_previous(log, 100, Words())
    assert "* 🔴 fact 199" in text
    assert "* 🔴 fact 0\n" not in text
    assert heading(0) in text


def test_the_beginning_holds_still_while_the_log_grows() -> None:
    log = [group("a", day_log(0, *(f"* 🟡 said {at} and on" for at in range(400))))]
    before, kept = "", 0
    for turn in range(40):
        facts = [f"* 🔴 fact {turn} {number}" for number in range(3)]
        log.append(group(f"g{turn}", day_log(turn + 1, *facts)))
        text = select_previous(log, 400, Words())
        kept += text.startswith(before)
        before = text
    assert kept >= 30, "most questions begin like the one before"


def test_each_gap_is_told_in_the_words_that_the_rules_explain() -> None:
    items = [*(f"* 🟡 said {at} and on" for at in range(60)), f"* 🟡 {'very ' * 300}long"]
    text = select_previous([group("a", day_log(0, *items, "* 🔴 short"))], 100, Words())
    assert re.findall(r"^\[.*", text, re.MULTILINE) == ["[61 earlier lines left out]"]
    text = select_previous([group("a", day_log(0, "* 🔴 short", *items))], 100, Words())
    assert text.splitlines()[-1] == "[61 earlier lines left out]"


def test_details_are_never_shown_without_their_item() -> None:
    items = [f"* 🟡 asked {at}\n  * -> detail one\n  * -> detail two" for at in range(100)]
    text = select_previous([group("a", day_log(0, *items))], 200, Words())
    shown_items = re.split(r"\n(?=\*|\[)", text)[1:]
    assert len(shown_items) > 3
    assert all(part.count("\n") == 2 for part in shown_items if part.startswith("*"))
    assert re.search(r"^\[(\d+) earlier lines left out\]$", text, re.MULTILINE)


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


@given(logs(), st.integers(40, 400))
def test_every_left_out_line_is_counted(log: list[Group], budget: int) -> None:
    text = select_previous(log, budget, Words())
    counted = sum(
        map(int, re.findall(r"^\[(\d+) (?:earlier )?lines? left out\]$", text, re.MULTILINE))
    )
    kept = [line for line in text.split("\n") if line.strip() and not line.startswith("[")]
    whole = [line for line in write_log(log).split("\n") if line.strip()]
    days = [line for line in whole if line.startswith("Date: ")]
    repeated = sum(day == before for before, day in pairwise(days))
    assert len(whole) - repeated <= len(kept) + counted <= len(whole)


def test_a_day_has_one_heading_however_many_groups_it_has() -> None:
    many = [group(f"g{at}", day_log(0, f"* 🔴 Redis node {at}")) for at in range(9)]
    log = [*many, *(group(f"n{at}", day_log(1, f"* 🔴 walk {at}")) for at in range(40))]
    about = "User (12:00): I never had a Redis node"
    text = select_previous(log, 60, Words(), about)
    shown, _, touched = text.partition("Of the lines left out")
    assert (shown.count(heading(1)), touched.count(heading(0))) == (1, 1)
    assert touched.count("Redis node") > 1


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


def test_what_one_message_names_is_not_lost_among_many_others() -> None:
    others = [f"We talked about {' '.join(FILLER[at].split()[6:])} again" for at in range(100)]
    assert NOTES[0] in shown_about(*others[:50], "Redis? Never.", *others[50:], budget=300)


def test_a_user_is_not_drowned_by_an_answer_full_of_code() -> None:
    calls = [f"* 🟡 (11:{at:02}) asked about call_{at}; assistant: retry_{at}" for at in range(40)]
    log = [group("old", day_log(0, *NOTES, *calls)), group("new", day_log(1, *FILLER))]
    code = "\n  ".join(f"const value_{at} = fetch(url_{at});" for at in range(80))
    said = f"User (12:00): I have never worked with redis\n  ```js\n  {code}\n  ```"
    answered = [f"Assistant (12:{at:02}): See call_{at} and retry_{at}" for at in range(1, 31)]
    about = "\n".join(["Date: Mar 9, 2026", *answered[:15], said, *answered[15:]])
    assert NOTES[0] in select_previous(log, 160, Words(), about)


def test_of_equals_the_newest_is_shown() -> None:
    twice = [group(f"g{day}", day_log(day, "* 🟢 Ilse rang")) for day in range(60)]
    log = [*twice, group("last", day_log(70, *FILLER))]
    text = shown_about("Ilse?", budget=100, log=log)
    found = re.findall(r"^(Date: .*)\n\* 🟢 Ilse rang", text, re.MULTILINE)
    assert found
    assert found == [heading(day) for day in range(60 - len(found), 60)]


def test_what_is_touched_stands_behind_a_beginning_that_holds_still() -> None:
    beginning = select_previous(LONG_LOG, 80, Words())
    assert shown_about("I never used Redis").startswith(beginning)
    assert shown_about("Is Opaal open?").startswith(beginning)
    assert shown_about("。。。") == beginning, "nothing is touched"


TALK = st.lists(
    st.lists(st.sampled_from(["word", "7", "1234", "never", "redis"]), max_size=12).map(" ".join),
    min_size=1,
    max_size=8,
)


@given(logs(), st.integers(40, 400), TALK)
def test_touched_items_are_whole_keep_to_the_budget_and_follow_from_the_texts(
    log: list[Group], budget: int, said: list[str]
) -> None:
    text = shown_about(*said, budget=budget, log=log)
    assert text == shown_about(*said, budget=budget, log=log)
    assert Words().count_text(text) <= budget
    excerpt, _, touched = text.partition("Of the lines left out")
    whole = [line for line in write_log(log).split("\n") if line.strip()]
    for part in (excerpt, touched.partition("\n")[2]):
        lines = [line for line in part.split("\n") if line.strip() and not line.startswith("[")]
        rest = iter(whole)
        assert all(line in rest for line in lines), "lines of the log, in their order"
