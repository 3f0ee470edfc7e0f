"""The shift: its rules by tables of calls, its player, and whole runs over a small simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
import shift
from evaluation import shifts
from evaluation.player import Player
from evaluation.shifts import (
    FACTS,
    Call,
)
from evaluation.working import LABEL

from support.evaluation import ROOT, Evaluation

SMALL = ("--tasks", 8, "--prompt-tokens", 4000)
WORKER = ROOT / "tests" / "data" / "shift" / "simulators.py"
ARMS = ["full", "trim", "summary", "deepagents", "observational", "observational+recall"]


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
