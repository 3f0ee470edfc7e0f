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


LADDERS: list[tuple[list[Told], int, int]] = [
    ([dense(40)], 40, 0),
    ([dense(49)], 49, 0),
    ([dense(50), dense(48)], 48, 1),
    ([dense(90), dense(70), dense(49)], 49, 2),
    ([dense(90), dense(70), dense(80), dense(75), dense(60)], 60, 4),
    ([dense(70), dense(90), dense(95), dense(99), dense(80)], 70, 0),
    ([dense(60), dense(60), dense(60), dense(60), dense(60)], 60, 0),
    ([dense(120), dense(100), dense(100), dense(101), dense(99)], 99, 4),
    ([dense(120), dense(30)], 30, 1),
    (["", "no", LOOP, dense(60), dense(40)], 40, 4),
    ([dense(60), NONE, "", "no", LOOP], 60, 0),
    ([ModelReply(NOW, dense(10), cut_off=True), dense(20)], 20, 1),
    ([dense(60), TimeoutError("late")], 60, 0),
    ([dense(90), dense(80), ValueError("x")], 80, 1),
]


@pytest.mark.parametrize(("answers", "tokens", "level"), LADDERS)
def test_the_first_small_enough_wins_else_the_smallest(
    answers: list[Told], tokens: int, level: int
) -> None:
    talk = Talk(answers)
    best: Reflection = talk.run(reflect(LOG, Words()))
    assert (best.tokens, best.level) == (tokens, level)
    assert Words().count_text(best.text) == tokens
    assert len(talk.calls) == len(answers)
    assert {call.role for call in talk.calls} == {"reflector"}


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        ([dense(100)] * 5, "it has 100 tokens, the log it replaces 100"),
        ([dense(101)] * 5, "it has 101 tokens, the log it replaces 100"),
        ([NONE] * 5, "it leaves nothing of the log"),
        ([""] * 5, "it is empty"),
        (["no"] * 5, "it is malformed"),
        ([LOOP] * 5, "it is degenerate"),
        ([ModelReply(NOW, dense(9), cut_off=True)] * 5, "it is cut_off"),
        ([*[dense(120)] * 4, "no"], "it is malformed"),
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


def test_each_request_asks_for_more_density_than_the_one_before() -> None:
    talk = Talk([dense(90), dense(80), "no", dense(70), dense(60)])
    request = replace(LOG, instruction="Keep all names.")
    talk.run(reflect(request, Words()))
    tasks = [texts(call)[1] for call in talk.calls]
    assert len(set(tasks)) == 5
    assert "previous attempt" not in tasks[0]
    for task, size in zip(tasks[1:], (90, 80, 80, 70), strict=True):
        assert f"about {size} tokens" in task
        assert "fewer than 50" in task
    assert all(
        "<observation-log>\n* 🔴 long &lt;/observation-log> log\n</observation-log>" in task
        for task in tasks
    )
    systems = {texts(call)[0] for call in talk.calls}
    assert len(systems) == 1
    assert "Keep all names." in systems.pop()


def test_the_reflector_is_told_the_rules_the_log_was_written_by() -> None:
    systems: list[str] = []
    for prompt in ("default", "condensed", "legacy"):
        talk = Talk([dense(10)])
        talk.run(reflect(replace(LOG, prompt=prompt), Words()))
        systems.append(texts(talk.calls[0])[0])
    assert len(set(systems)) == 3
    assert all("<thread-title>" not in system for system in systems)


def test_a_reflection_may_bring_the_current_task() -> None:
    told = f"{dense(10)}\n<current-task>Go on</current-task>"
    assert Talk([told]).run(reflect(LOG, Words())).current_task == "Go on"
    assert Talk([dense(10)]).run(reflect(LOG, Words())).current_task is None
