"""The evaluation of several memories side by side, and of all within the same room."""

from __future__ import annotations

import re

import pytest

from support.evaluation import LOCOMO, SMALL, Evaluation

NAMES = [
    *("full", "trim", "summary", "deepagents"),
    *("observational", "observational+recall"),
]


def test_all_arms_stand_side_by_side_in_one_report(evaluation: Evaluation) -> None:
    code, printed, errors = evaluation.run(LOCOMO, "--arms", "all", *SMALL)
    assert code == 0, errors
    heads = [line.split() for line in printed.splitlines() if line.split()[-6:] == NAMES]
    assert heads == [["F1", *NAMES], NAMES]
    cells = [re.split(r"  +", line.strip()) for line in printed.splitlines()]
    rows = {name: values for name, *values in cells}
    for name in (
        *("remembered at the end", "prompt at the end, mean", "prompt at the end, largest"),
        *("memory: calls", "of the observer", "of the reflector", "of the summarizer"),
        *("memory: input tokens", "memory: output tokens", "memory: cost", "recalls"),
    ):
        assert len(rows[name]) == len(NAMES), name
    for category in ("multi-hop (1)", "temporal (2)", "single-hop (3)", "adversarial (2)"):
        assert any(line.startswith(category) for line in printed.splitlines())
    assert f"{9 * len(NAMES)} of {9 * len(NAMES)} questions" in errors
    assert "full, trim, summary" not in printed, "each caveat says whose it is"


@pytest.mark.parametrize("tokens", [200, 400])
def test_every_arm_keeps_to_the_same_room(tokens: int, evaluation: Evaluation) -> None:
    found = evaluation.figures(LOCOMO, "--arms", "all", "--prompt-tokens", tokens, "--limit", 1)
    assert found["prompt tokens"] == tokens
    held = {arm: row["remembered at the end"] for arm, row in found["compared"].items()}
    assert held.pop("full") > tokens
    assert max(held.values()) <= tokens
    assert min(held.values()) > tokens / 8, "and makes use of it"
