"""The shift: its rules by tables of calls, its player, and whole runs over a small simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
import shift
from evaluation import shifts
from evaluation.shifts import (
    FACTS,
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
