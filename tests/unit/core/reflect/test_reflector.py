"""The Reflector is asked for edits until the log is small enough."""

from __future__ import annotations

from collections import Counter

import pytest

from langgraph_om.errors import ObserverError
from support.flows import GOOD, Talk, Told, texts
from support.groups import day_log, group
from support.inside import EditedLog, ReflectorInput, reflect
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


ALL = f"drop {', '.join(map(str, range(1, 10)))}"
"""A small model counts on to the end, or nearly."""
UNUSABLE = ["", "no", GOOD, "drop 99", "1: * 🔴 Invented", ALL]


@pytest.mark.parametrize("answer", UNUSABLE)
def test_without_a_valid_edit_the_reflector_is_told_why_and_asked_once_more(answer: str) -> None:
    log, [_, again] = asked([answer, "drop 1-4"])
    assert log.tokens < 50
    assert "Your last answer changed nothing" in again
    assert ("It holds no line" in again) == (answer in UNUSABLE[:3])
    assert ("- drop 99: there is no such item" in again) == (answer == "drop 99")
    assert ("- drop: it leaves 7 tokens, and 47 may stay" in again) == (answer == ALL)
    with pytest.raises(ObserverError, match="asked twice, gave no usable edit"):
        asked([answer, answer])


@pytest.mark.parametrize("answer", ["nothing is left to shorten", TimeoutError("late")])
def test_what_was_achieved_stays_when_nothing_more_comes(answer: Told) -> None:
    log, _ = asked(["drop 1", answer])
    assert log.tokens == TOTAL - 7


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
