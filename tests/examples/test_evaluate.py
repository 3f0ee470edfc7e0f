"""The evaluation: its formats, its rules by tables of cases, and whole runs with doubles."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from evaluation import doubles, running
from evaluation.formats import (
    CATEGORIES,
    QUESTION_TYPES,
    Question,
    read_files,
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


def test_questions_do_not_see_each_other(recorder: Recorder, evaluation: Evaluation) -> None:
    evaluation.figures(LOCOMO, *SMALL)
    questions = [each.text for each in read_files([LOCOMO]).conversations[0].questions]
    shown = ["\n".join(message.text for message in prompt) for prompt in recorder.prompts]
    assert sum(isinstance(prompt[-1], ToolMessage) for prompt in recorder.prompts) == len(questions)
    for text in shown:
        assert sum(question in text for question in questions) == 1


def test_nothing_gives_an_answer_away(recorder: Recorder, evaluation: Evaluation) -> None:
    evaluation.figures(LONGMEMEVAL, *SMALL)
    assert any(isinstance(prompt[-1], ToolMessage) for prompt in recorder.prompts)
    for prompt in recorder.prompts:
        whole = "".join(repr(message) for message in prompt)
        assert not re.search(r"_abs|answer_\d|filler_|has_answer", whole)


# --- Going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["observational", "summary"])
def test_an_interrupted_run_goes_on_wherever_it_stopped(
    memory: str, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (LOCOMO, *SMALL, "--memory", memory, "--judge", "offline")
    write = running.Journal.write
    for stop in (0, 2, 3, 6):
        left = [stop]

        def counted(journal: Any, *args: Any, left: list[int] = left, **values: Any) -> Row:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return write(journal, *args, **values)

        monkeypatch.setattr(running.Journal, "write", counted)
        code, printed, errors = evaluation.run(*options)
        assert (code, printed) == (130, "")
        assert "goes on from here" in errors
    monkeypatch.setattr(running.Journal, "write", write)
    found = evaluation.figures(*options)
    assert len(evaluation.rows("answer")) == found["questions"] == 9
    sessions = Counter(row["session"] for row in evaluation.rows("session"))
    assert sessions == {1: 1, 2: 1, 3: 1, 4: 1}


# --- Failures ------------------------------------------------------------------------------------


def test_a_failed_question_counts_as_wrong_and_is_tried_again(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = doubles.actor()

    def fails(prompt: list[BaseMessage]) -> AIMessage:
        if "accordion" in "".join(message.text for message in prompt):
            msg = "the provider is down"
            raise ConnectionError(msg)
        return whole.invoke(prompt)

    with monkeypatch.context() as patch:
        patch.setattr(doubles, "actor", lambda: ScriptedChatModel(actor=fails))
        found = evaluation.figures(LONGMEMEVAL, "--memory", "full", code=1)
        _, printed, _ = evaluation.run(LONGMEMEVAL, "--memory", "full")
    assert found["errors"] == {"memory": 0, "answer": 1, "judge": 0}
    users = found["scores"]["judge offline"]["categories"]["single-session-user"]
    assert (users["count"], users["errors"], users["score"]) == (2, 1, 0.5)
    assert "counted as wrong: 1 in answer" in printed
    assert "1 x answer: ConnectionError: the provider is down" in printed
    again = evaluation.figures(LONGMEMEVAL, "--memory", "full")
    assert set(again["errors"].values()) == {0}
    assert again["scores"]["judge offline"]["categories"]["single-session-user"]["score"] == 1


# --- The rules -----------------------------------------------------------------------------------


def question(category: str = "single-hop", answer: str = "", **others: Any) -> Question:
    moment = datetime(2024, 5, 30, 23, 40, tzinfo=UTC)
    return Question("q", "Which one?", answer, category, moment, **others)
