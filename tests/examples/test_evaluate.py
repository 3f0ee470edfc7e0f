"""The evaluation: its formats, its rules by tables of cases, and whole runs with doubles."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from evaluation import doubles
from evaluation.formats import (
    CATEGORIES,
    QUESTION_TYPES,
)
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langgraph_om.testing import ScriptedChatModel
from support.evaluation import (
    KEYS,
    LOCOMO,
    LONGMEMEVAL,
    ROOT,
    SMALL,
    Evaluation,
    Row,
)

# --- Whole runs ----------------------------------------------------------------------------------


def spent_by(found: Row) -> set[tuple[str, str]]:
    return {(row["part"], row["phase"]) for row in found["tokens"]["rows"]}


@pytest.mark.parametrize("memory", ["observational", "summary"])
@pytest.mark.parametrize("file", [LONGMEMEVAL, LOCOMO])
def test_every_memory_answers_every_question(
    file: Path, memory: str, evaluation: Evaluation
) -> None:
    limits = SMALL if file == LOCOMO else ("--message-tokens", 150, "--observation-tokens", 150)
    found = evaluation.figures(file, "--memory", memory, *limits)
    is_locomo = file == LOCOMO
    asked = 9 if is_locomo else 7
    (table,) = found["scores"].values()
    assert found["questions"] == asked == sum(row["count"] for row in table["categories"].values())
    assert list(table["categories"]) == list(CATEGORIES.values() if is_locomo else QUESTION_TYPES)
    assert set(found["errors"].values()) == {0}
    assert 0 < table["overall"]["all questions"]["score"] < 1
    if is_locomo or memory == "observational":  # the other is shorter than what a summary keeps
        part = "observer" if memory == "observational" else "summarizer"
        assert (part, "remembering") in spent_by(found)
    assert ("actor", "asking") in spent_by(found)
    assert (found["recalls"] > 0) == (memory == "observational")
    assert any("test the plumbing" in caveat for caveat in found["caveats"])


def test_a_newcomer_runs_it_from_the_root(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "examples/evaluate.py", LOCOMO, *map(str, SMALL), "--work", tmp_path],
        cwd=ROOT,
        env={**kept, "PYTHONUTF8": "1", "FORCE_COLOR": "1"},
        encoding="utf-8",
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("LoCoMo: 9 questions about 1 conversations, memory: observation")
    assert re.search(
        r"^all questions +9 +0 +0\.\d{3}  0\.\d{3} to 0\.\d{3}$", done.stdout, re.MULTILINE
    )
    assert re.search(
        r"^observer +remembering +offline +\d+ +\d+ +0 +\d+$", done.stdout, re.MULTILINE
    )
    assert "questions that failed, counted as wrong: none" in done.stdout
    assert "9 of 9 questions" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


# --- What the Actor is shown ---------------------------------------------------------------------


class Recorder:
    """Plays the Actor as the double does, and keeps what it was shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prompts: list[list[BaseMessage]] = []
        self._actor = doubles.actor()
        monkeypatch.setattr(doubles, "actor", lambda: ScriptedChatModel(actor=self._answer))

    def _answer(self, prompt: list[BaseMessage]) -> AIMessage:
        self.prompts.append(prompt)
        return self._actor.invoke(prompt)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


def test_nothing_gives_an_answer_away(recorder: Recorder, evaluation: Evaluation) -> None:
    evaluation.figures(LONGMEMEVAL, *SMALL)
    assert any(isinstance(prompt[-1], ToolMessage) for prompt in recorder.prompts)
    for prompt in recorder.prompts:
        whole = "".join(repr(message) for message in prompt)
        assert not re.search(r"_abs|answer_\d|filler_|has_answer", whole)
