"""The Reflector is asked until the log is small enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from langgraph_om.core.effects import ModelReply
from langgraph_om.core.reflect.reflector import Reflection, reflect
from langgraph_om.errors import ObserverError
from support.flows import (
    LOG,
    LOOP,
    NONE,
    NOW,
    Talk,
    Told,
    dense,
    texts,
)
from support.words import Words

# --- Asking the Reflector ------------------------------------------------------------------------


TRIES: list[tuple[list[Told], int]] = [
    ([dense(40)], 40),
    ([dense(49)], 49),
    ([dense(51)], 51),
    ([dense(52), dense(48)], 48),
    ([dense(90), dense(70), dense(49)], 49),
    ([dense(90), dense(70), dense(80)], 70),
    ([dense(70), dense(90), dense(95)], 70),
    ([dense(60), dense(60), dense(60)], 60),
    ([dense(120), dense(100), dense(99)], 99),
    ([dense(120), dense(30)], 30),
    (["", "no", dense(60)], 60),
    ([LOOP, dense(60), dense(40)], 40),
    ([dense(60), NONE, ""], 60),
    ([ModelReply(NOW, dense(10), cut_off=True), dense(20)], 20),
    ([dense(60), TimeoutError("late")], 60),
    ([dense(90), dense(80), ValueError("x")], 80),
]


@pytest.mark.parametrize(("answers", "tokens"), TRIES)
def test_the_first_small_enough_wins_else_the_smallest(answers: list[Told], tokens: int) -> None:
    talk = Talk(answers)
    best: Reflection = talk.run(reflect(LOG, Words()))
    assert best.tokens == tokens
    assert Words().count_text(best.text) == tokens
    assert len(talk.calls) == len(answers)
    assert {call.role for call in talk.calls} == {"reflector"}


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        ([dense(100)] * 3, "it has 100 tokens, the log it replaces 100"),
        ([dense(101)] * 3, "it has 101 tokens, the log it replaces 100"),
        ([NONE] * 3, "it leaves nothing of the log"),
        ([""] * 3, "it is empty"),
        (["no"] * 3, "it is malformed"),
        ([LOOP] * 3, "it is degenerate"),
        ([ModelReply(NOW, dense(9), cut_off=True)] * 3, "it is cut_off"),
        ([*[dense(120)] * 2, "no"], "it is malformed"),
        ([TimeoutError("late")], "TimeoutError: late"),
        (["no", dense(130), ValueError("bad key")], "ValueError: bad key"),
    ],
)
def test_when_no_reflection_is_usable(answers: list[Told], named: str) -> None:
    talk = Talk(answers)
    with pytest.raises(ObserverError) as caught:
        talk.run(reflect(LOG, Words()))
    assert named in str(caught.value)
    assert len(talk.calls) == len(answers)


def test_the_first_question_names_the_size_that_is_wanted() -> None:
    talk = Talk([dense(40)])
    talk.run(reflect(replace(LOG, instruction="Keep all names."), Words()))
    system, task = texts(talk.calls[0])
    assert "about 100 tokens" in task
    assert "fewer than 50 tokens" in task
    log = "<observation-log>\n* 🔴 long &lt;/observation-log> log\n</observation-log>"
    assert log in task
    assert "Keep all names." in system


def test_a_retry_shows_the_former_answer_and_how_much_it_has_too_many() -> None:
    talk = Talk([dense(90), "no form", dense(40)])
    talk.run(reflect(LOG, Words()))
    first, second, third = (texts(call) for call in talk.calls)
    assert second[:2] == third[:2] == first
    assert second[2] == dense(90)
    assert "It has 90 tokens, 41 too many: fewer than 50 are needed." in second[3]
    assert third[2] == "no form"
    assert "It is malformed" in third[3]
    assert len(third) == 4


@pytest.mark.parametrize("answer", ["", LOOP, ModelReply(NOW, dense(10), cut_off=True)])
def test_a_retry_does_not_show_what_is_no_basis(answer: Told) -> None:
    talk = Talk([answer, dense(40)])
    talk.run(reflect(LOG, Words()))
    assert len(texts(talk.calls[1])) == 3


def test_one_question_may_be_all() -> None:
    talk = Talk([dense(90)])
    assert talk.run(reflect(LOG, Words(), questions=1)).tokens == 90
    with pytest.raises(ObserverError, match="in 1 attempt: it is malformed"):
        Talk(["no"]).run(reflect(LOG, Words(), questions=1))


def test_the_reflector_is_told_the_rules_the_log_was_written_by() -> None:
    systems: list[str] = []
    for prompt in ("default", "condensed"):
        talk = Talk([dense(10)])
        talk.run(reflect(replace(LOG, prompt=prompt), Words()))
        systems.append(texts(talk.calls[0])[0])
    assert len(set(systems)) == 2
    assert all("<thread-title>" not in system for system in systems)


@pytest.mark.needs("hints")
def test_a_reflection_may_bring_the_current_task() -> None:
    told = f"{dense(10)}\n<current-task>Go on</current-task>"
    assert Talk([told]).run(reflect(LOG, Words())).hints == {"current_task": "Go on"}
    assert Talk([dense(10)]).run(reflect(LOG, Words())).hints == {}
