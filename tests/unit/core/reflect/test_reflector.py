"""The Reflector is asked for edits until the log is small enough."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.record.record import (
    MAX_RANGES,
    MAX_SHOWN_RANGES,
    collect_ranges,
    write_range,
)
from langgraph_om.core.reflect.reflector import (
    EditedLog,
    ReflectorInput,
    reflect,
)
from langgraph_om.core.wire import Group
from langgraph_om.errors import ObserverError
from support.editing import TALK
from support.flows import GOOD, Talk, Told, texts
from support.groups import day_log, group
from support.real_ids import MESSAGE_IDS
from support.rendering import divide
from support.words import Words

TEN = [group("g", day_log(0, *(f"* 🟡 (09:{at:02}) one two three four" for at in range(10))))]
"""Ten items of seven tokens and a heading of four."""
TOTAL = TEN[0]["tokens"]
REQUEST = ReflectorInput(TEN, target=50)


def asked(answers: list[Told], request: ReflectorInput = REQUEST) -> tuple[EditedLog, list[str]]:
    talk = Talk(answers)
    log = talk.run(reflect(request, Words()))
    assert len(talk.calls) == len(answers)
    assert {call.role for call in talk.calls} <= {"reflector"}
    return log, [texts(call)[1] for call in talk.calls]


def test_one_question_is_enough_when_enough_goes() -> None:
    log, [question] = asked(["drop 1-4\n5: * one two"])
    assert log.tokens == TOTAL - 4 * 7 - 2 < 50
    assert log.edited == Counter(edits=5, dropped=4, shortened=1)
    assert "[10 ~7] * 🟡 (09:09) one two three four\n</observation-log>" in question
    assert f"The log has {TOTAL} tokens, headings included." in question


def test_three_questions_are_the_most_and_progress_is_kept() -> None:
    log, _ = asked(["drop 1"] * 3)
    assert log.tokens == TOTAL - 21


UNUSABLE = ["", "no", GOOD, "drop 99", "1: * 🔴 Invented"]


@pytest.mark.parametrize("answer", UNUSABLE)
def test_without_a_valid_edit_the_reflector_is_told_why_and_asked_once_more(answer: str) -> None:
    log, [_, again] = asked([answer, "drop 1-4"])
    assert log.tokens < 50
    assert "Your last answer changed nothing" in again
    assert ("It holds no line" in again) == (answer in UNUSABLE[:3])
    assert ("- drop 99: there is no such item" in again) == (answer == "drop 99")
    with pytest.raises(ObserverError, match="no edit that can be applied, asked twice"):
        asked([answer, answer])


@pytest.mark.parametrize("answer", ["nothing is left to shorten", TimeoutError("late")])
def test_what_was_achieved_stays_when_nothing_more_comes(answer: Told) -> None:
    log, _ = asked(["drop 1", answer])
    assert log.tokens == TOTAL - 7


def test_a_first_question_without_answer_is_a_failure() -> None:
    with pytest.raises(ObserverError, match="TimeoutError: late"):
        asked([TimeoutError("late")])


def test_all_threads_are_edited_by_one_question_the_quietest_first() -> None:
    log = [
        group("a1", "* old of a", thread="a"),
        group("b1", "* of b here", thread="b"),
        group("a2", "* new of a", thread="a"),
    ]
    request = ReflectorInput(log, target=9, division=divide(lambda thread: f"hid-{thread}"))
    edited, [question] = asked(["drop 1\n2+3: * of a"], request)
    assert question.index('<thread id="hid-b">') < question.index('<thread id="hid-a">')
    assert "several conversations" in question
    assert [entry["text"] for entry in edited.groups] == ["", "", "* of a"]
    assert edited.list_changes(cycle_id="c", reflected_at="")[1] == [["a1", "a2"], ["b1"]]


def test_what_a_hook_hid_is_not_shown_in_later_questions_either() -> None:
    log = [group("g", day_log(0, "* secret one", "* open two", "* open three", "* open four"))]
    for shown in (
        day_log(0, "* *** one", "* open two", "* open three", "* open four"),
        day_log(0, "* open two", "* open three", "* open four"),
    ):
        number = shown.count("*** ")
        request = ReflectorInput(log, target=4, shown=[shown])
        edited, questions = asked([f"drop {number + 1}", f"drop {number + 1}", "no"], request)
        assert "secret" not in "".join(questions)
        assert edited.groups[0]["text"] == day_log(0, "* secret one", "* open four")


def test_the_log_that_was_given_is_not_touched() -> None:
    before = repr(TALK)
    asked(["drop 1-6"], ReflectorInput(TALK, target=50))
    assert repr(TALK) == before


# --- The ranges of a group -----------------------------------------------------------------------


def joined(sources: list[Group]) -> Group:
    return {**sources[0], "ranges": collect_ranges(sources)}


def day_of(count: int, thread: str = "t", start: int = 0) -> list[Group]:
    """Groups of one day, two messages each."""
    return [
        group(f"{thread}{at}", day_log(0, f"* item {at}"), 2 * at, 2 * at + 1, thread)
        for at in range(start, start + count)
    ]


def test_the_groups_of_one_day_keep_their_ranges_apart() -> None:
    written = joined(day_of(5))
    assert written["ranges"] == [[f"t{at}", f"t{at + 1}"] for at in range(0, 10, 2)]
    # A reflection of reflections keeps them too.
    again = joined([written, *day_of(2, start=5)])
    assert again["ranges"] == [[f"t{at}", f"t{at + 1}"] for at in range(0, 14, 2)]


@given(st.lists(MESSAGE_IDS, min_size=2, max_size=60, unique=True))
def test_ranges_of_real_ids_stay_in_order_and_whole(keys: list[str]) -> None:
    pairs = [[first, last] for first, last in zip(keys[::2], keys[1::2], strict=False)]
    entry = joined([{**group(f"g{at}", "* x"), "ranges": [ends]} for at, ends in enumerate(pairs)])
    order = {key: at for at, key in enumerate(keys)}
    assert (entry["ranges"][0][0], entry["ranges"][-1][1]) == (pairs[0][0], pairs[-1][1])
    assert len(entry["ranges"]) <= MAX_RANGES
    starts = [order[first] for first, _ in entry["ranges"]]
    stops = [order[last] for _, last in entry["ranges"]]
    assert [at + 1 for at in stops[:-1]] == starts[1:], "no message between them is lost"
    shown = write_range(entry).removeprefix("_range: `").removesuffix("`_").split(",")
    assert len(shown) <= MAX_SHOWN_RANGES
    assert all(key in order for pair in shown for key in pair.split(":"))
