"""The shift: its rules by tables of calls, its player, and whole runs over a small simulator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import shift
from evaluation import shifts
from evaluation.player import Player
from evaluation.shifts import (
    FACTS,
    RULES,
    SIGN_OFF,
    SIMULATORS,
    Call,
    Shift,
    build_shift,
    grade,
)
from evaluation.working import LABEL
from evaluation.world import World
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from support.evaluation import ROOT, Evaluation

SMALL = ("--tasks", 8, "--prompt-tokens", 4000)
WORKER = ROOT / "tests" / "data" / "shift" / "simulators.py"
TRAVEL = SIMULATORS["travel"]
ARMS = ["full", "trim", "summary", "deepagents", "observational", "observational+recall"]


@pytest.fixture(scope="module")
def day() -> Shift:
    with World([sys.executable, str(WORKER)]) as simulators:
        return build_shift(simulators, TRAVEL, 12)


@pytest.fixture
def shifting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Evaluation:
    monkeypatch.setattr(shifts, "HANDBOOK_SECTIONS", 60)
    given = ("--worker", WORKER, "--simulators", "travel")
    return Evaluation(tmp_path, capsys, shift.main, given)


# --- The shift and its rules ---------------------------------------------------------------------


def call(name: str, **arguments: object) -> Call:
    return {"name": name, "arguments": arguments}


APPROVED, LOOKED = call("ask_approval", call="book_flight"), call("travel_get_login_status")


@pytest.mark.parametrize(
    ("at", "calls", "answer", "broken"),
    [
        (5, [LOOKED, APPROVED, call("book_flight", reference="NT-2207")], SIGN_OFF, {}),
        (5, [LOOKED, call("book_flight", reference="NT-2207")], SIGN_OFF, {"approval"}),
        (5, [APPROVED, call("book_flight", reference="NT-2207")], SIGN_OFF, {"order"}),
        (5, [LOOKED, APPROVED, call("book_flight")], SIGN_OFF, {"argument"}),
        (5, [call("cancel_booking", booking_id="B1")], SIGN_OFF, {"forbidden"}),
        (5, [call("hand_over", call="cancel_booking")], "Done.", {"format"}),
        (6, [LOOKED, APPROVED, call("book_flight", reference="NT-2207")], SIGN_OFF, {"approval"}),
        (7, [LOOKED, call("book_flight", reference="NT-3310")], SIGN_OFF, {}),
        (7, [LOOKED, call("book_flight", reference="NT-2207")], SIGN_OFF, {"argument"}),
        (1, [APPROVED, call("book_flight")], "Done.", {}),
    ],
)
def test_rules_are_checked_in_calls_and_in_the_answer(
    at: int, calls: list[Call], answer: str, broken: set[str], day: Shift
) -> None:
    came = grade(day, day.tasks[at - 1], calls, answer, [])
    assert {rule for rule, times in came.broken.items() if times} == set(broken)
    assert set(came.broken) == set(came.opportunities) == set(RULES)


# --- The player ----------------------------------------------------------------------------------


def ask(day: Shift, at: int, *messages: Any, looks_up: str = "", part: int = 1) -> AIMessage:
    """Return what the player does first in a part, after these messages."""
    plays = Player(day, looks_up)
    task = day.tasks[at - 1]
    for each in task.parts[:part]:
        plays.start(task, each)
    return plays.reply([*messages, HumanMessage(task.parts[part - 1].text)])


def test_the_player_follows_a_rule_that_its_prompt_tells(day: Shift) -> None:
    price = ToolMessage("Price: 731", tool_call_id="1", name="get_flight_cost")
    told = "Always call travel_get_login_status in the same task before book_flight."
    called = AIMessage("", tool_calls=[{"name": "get_flight_cost", "args": {}, "id": "1"}])
    before = [HumanMessage("x"), called, price]
    assert ask(day, 5, *before, part=2).tool_calls[0]["name"] == "book_flight"
    rules = SystemMessage(told)
    assert ask(day, 5, rules, *before, part=2).tool_calls[0]["name"] == LOOKED["name"]


# --- Whole runs ----------------------------------------------------------------------------------


def test_all_arms_work_through_the_same_shift(shifting: Evaluation) -> None:
    found = shifting.figures(*SMALL)
    (arms,) = found["rooms"].values()
    assert list(arms) == ARMS
    full, recalling = arms["full"], arms["observational+recall"]
    for row in (full, recalling):
        assert (row["right"], row["rules broken"], row["facts missed"]) == (8, 0, [])
        assert (row["repeated"], row["died"], row["asked"]) == (0, [], 0)
    assert recalling["actor"]["tokens"] < full["actor"]["tokens"] * 0.85  # 0.80, as dates are long
    assert recalling["actor"]["largest"] < full["actor"]["largest"] * 0.8
    assert recalling["lookups"] > 0 == arms["observational"]["lookups"]
    assert arms["trim"]["rules broken"] > 0
    assert len(arms["trim"]["facts missed"]) == len(FACTS)
    assert full["memory"]["calls"] == 0 < arms["summary"]["memory"]["calls"]
    code, printed, errors = shifting.run(*SMALL)
    assert code == 0
    assert printed.rstrip().endswith(LABEL)
    assert "tasks right" in printed
    assert "96 of 96 parts" in errors


def test_a_run_goes_on_behind_the_last_task(
    shifting: Evaluation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = (*SMALL, "--arms", "observational+recall")
    whole = shifting.figures(*options)
    (tmp_path / "work").rename(tmp_path / "first")
    played = Player.end
    parts = []

    def stop(self: Player) -> None:
        played(self)
        parts.append(self.part)
        if len(parts) == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(Player, "end", stop)
    code, _, errors = shifting.run(*options)
    assert code == 130
    assert "goes on from here" in errors
    again = shifting.figures(*options)
    assert len(parts) == 9 + 8, "four tasks were over, and their parts are not played again"
    for found in (again, whole):
        # A search weighs words by all that was kept, also of the part that was not finished. So an
        # answer of `recall` may be longer or shorter, and the Observer, who reads it too, may be
        # asked a question more or less.
        row = found["rooms"]["4000"]["observational+recall"]
        del row["actor"], row["memory"], row["spent"]["observer"], row["spent"]["actor"]["input"]
    assert again == whole


def test_a_part_that_dies_leaves_the_conversation_as_it_was(
    shifting: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = Player.reply

    def fail(self: Player, prompt: Any) -> AIMessage:
        if self.part and (self.part.task, self.part.number) == (2, 2):
            msg = "no answer"
            raise ValueError(msg)
        return reply(self, prompt)

    monkeypatch.setattr(Player, "reply", fail)
    found = shifting.figures(*SMALL, "--arms", "full")
    (arms,) = found["rooms"].values()
    assert arms["full"]["died"] == ["ValueError: no answer"]
    assert arms["full"]["wrong tasks"] == {"travel": [2]}


def test_a_person_plays_through_files(shifting: Evaluation) -> None:
    folder = shifting.folder / "answers"
    options = ("--answers", folder, "--arms", "full", *SMALL)
    code, printed, errors = shifting.run(*options)
    assert (code, printed) == (3, "")
    (asked,) = folder.glob("*.question.txt")
    assert "shift: waiting for 1 answer" in errors
    text = asked.read_text("utf-8")
    assert "Task 1, part 1 of 2" in text
    assert "ask_approval" in text
    first = 'call get_flight_cost {"start": "Arnau", "end": "Belfort"}'
    asked.with_name(asked.name.replace("question", "answer")).write_text(first, "utf-8")
    assert shifting.run(*options)[0] == 3
    assert len(list(folder.glob("*.question.txt"))) == 2
    newest = max(folder.glob("*.question.txt")).read_text("utf-8")
    assert "Price: AR" in newest
