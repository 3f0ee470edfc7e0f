"""The Reflector is asked for edits until enough of the log has gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from langgraph_om.core.effects import ModelReply
from langgraph_om.core.reflect.reflector import EditedLog, EditsInput, reflect_by_edits
from langgraph_om.errors import ObserverError
from support.editing import TALK
from support.flows import GOOD, NOW, Talk, Told, texts
from support.groups import day_log, group
from support.rendering import divide
from support.words import Words

TEN = [group("g", day_log(0, *(f"* 🟡 (09:{at:02}) one two three four" for at in range(10))))]
"""Ten items of seven tokens and a heading of four."""
TOTAL = TEN[0]["tokens"]
REQUEST = EditsInput(TEN, target=50)


def asked(answers: list[Told], request: EditsInput = REQUEST) -> tuple[EditedLog, list[str]]:
    talk = Talk(answers)
    log = talk.run(reflect_by_edits(request, Words()))
    assert len(talk.calls) == len(answers)
    assert {call.role for call in talk.calls} <= {"reflector"}
    return log, [texts(call)[1] for call in talk.calls]


def test_one_question_is_enough_when_enough_goes() -> None:
    log, [question] = asked(["drop 1-4\n5: * one two"])
    assert log.tokens == TOTAL - 4 * 7 - 2 < 50
    assert (log.edits, log.dropped, log.shortened, log.joined) == (5, 4, 1, 0)
    assert "[10 ~7] * 🟡 (09:09) one two three four\n</observation-log>" in question
    assert f"The log has {TOTAL} tokens, headings included." in question


def test_a_tenth_more_is_asked_for_than_is_needed() -> None:
    _, [question] = asked(["drop 1-4"])
    assert TOTAL - 50 == 24
    assert "free 27 of them" in question


@pytest.mark.parametrize(("target", "questions"), [(46, 1), (45, 1), (44, 2)])
def test_less_than_three_percent_over_the_target_counts_as_reached(
    target: int, questions: int
) -> None:
    log, found = asked(["drop 1-4", "drop 1"][:questions], replace(REQUEST, target=target))
    assert len(found) == questions
    assert log.tokens == 46 - 7 * (questions - 1)


def test_the_next_question_shows_the_log_as_it_stands_with_new_numbers() -> None:
    log, [_, second, third] = asked(["drop 1-2\n99: x\n5: * One Eleven", "drop 1", "drop 1"])
    assert "[1 ~7] * 🟡 (09:02)" in second
    assert "[8 ~7] * 🟡 (09:09)" in second
    assert "Your edits so far freed 14 tokens." in second
    assert "free 12 of them" in second
    assert "- 99: there is no such item\n- 5: its items have no number '11'" in second
    assert "freed 21 tokens" in third
    assert "Left out" not in third
    assert log.dropped == 4


def test_three_questions_are_the_most_and_progress_is_kept() -> None:
    log, _ = asked(["drop 1"] * 3)
    assert log.tokens == TOTAL - 21


@pytest.mark.parametrize("answer", ["", "no", GOOD, "drop 99", "1: * 🔴 Invented"])
def test_without_a_valid_edit_there_is_no_further_question(answer: str) -> None:
    log, _ = asked([answer])
    assert log.edits == 0
    assert log.groups == TEN


@pytest.mark.parametrize("answer", ["nothing is left to shorten", TimeoutError("late")])
def test_what_was_achieved_stays_when_nothing_more_comes(answer: Told) -> None:
    log, _ = asked(["drop 1", answer])
    assert log.tokens == TOTAL - 7


def test_a_first_question_without_answer_is_a_failure() -> None:
    with pytest.raises(ObserverError, match="TimeoutError: late"):
        asked([TimeoutError("late")])


def test_of_an_answer_that_was_cut_off_all_but_the_last_edit_counts() -> None:
    log, _ = asked([ModelReply(NOW, "drop 1-5\n6: * one t", cut_off=True)])
    assert (log.dropped, log.shortened) == (5, 0)


def test_a_log_without_items_asks_nothing() -> None:
    log, questions = asked([], EditsInput([group("g", "")], target=5))
    assert (log.edits, questions) == (0, [])


def test_hints_are_shown_and_the_instruction_is_added() -> None:
    request = replace(
        REQUEST,
        hints={"current_task": "Plan <observations>", "suggested_response": None},
        instruction="Keep doses.",
    )
    talk = Talk(["drop 1-5"])
    talk.run(reflect_by_edits(request, Words()))
    system, task = texts(talk.calls[0])
    assert "<current-task>Plan &lt;observations></current-task>" in task
    assert "suggested-response" not in task
    assert "Keep doses." in system
    assert "several conversations" not in task


def test_all_threads_are_edited_by_one_question_the_quietest_first() -> None:
    log = [
        group("a1", "* old of a", thread="a"),
        group("b1", "* of b here", thread="b"),
        group("a2", "* new of a", thread="a"),
    ]
    request = EditsInput(log, target=9, division=divide(lambda thread: f"hid-{thread}"))
    edited, [question] = asked(["drop 1\n2+3: * of a"], request)
    assert question.index('<thread id="hid-b">') < question.index('<thread id="hid-a">')
    assert "several conversations" in question
    assert [entry["text"] for entry in edited.groups] == ["", "", "* of a"]
    assert edited.list_changes(cycle_id="c", reflected_at="").together == [["a1", "a2"], ["b1"]]


def test_what_a_hook_hid_is_not_shown_in_later_questions_either() -> None:
    log = [group("g", day_log(0, "* secret one", "* open two", "* open three", "* open four"))]
    for shown in (
        day_log(0, "* *** one", "* open two", "* open three", "* open four"),
        day_log(0, "* open two", "* open three", "* open four"),
    ):
        number = shown.count("*** ")
        request = EditsInput(log, target=4, shown=[shown])
        edited, questions = asked([f"drop {number + 1}", f"drop {number + 1}", "no"], request)
        assert "secret" not in "".join(questions)
        assert edited.groups[0]["text"] == day_log(0, "* secret one", "* open four")


def test_the_log_that_was_given_is_not_touched() -> None:
    before = repr(TALK)
    asked(["drop 1-6"], EditsInput(TALK, target=50))
    assert repr(TALK) == before
