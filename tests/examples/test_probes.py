"""Probes of agents' sessions: reading transcripts, making keys, grading, and whole runs offline."""

from __future__ import annotations

from pathlib import Path

import probes
import pytest
from evaluation.formats import PROBES, Conversation, Question
from evaluation.probing import make_conversation
from evaluation.transcripts import Transcript, read_transcript

from support.evaluation import DATA, Evaluation

HISTORY = DATA / "history"
TIDE, RENAME = sorted(HISTORY.glob("2026*.md"))
SMALL = ("--history", HISTORY, "--min-bytes", 1, "--kinds", 1, "--workers", 1)
ARMS = ["full", "trim", "summary", "deepagents", "observational", "observational+recall"]


@pytest.fixture(scope="module")
def session() -> Transcript:
    return read_transcript(TIDE)


@pytest.fixture(scope="module")
def asked(session: Transcript) -> Conversation:
    made = make_conversation(session)
    assert made is not None
    return made


def of_kind(conversation: Conversation, kind: str) -> list[Question]:
    return [question for question in conversation.questions if question.category == kind]


# --- Keys ----------------------------------------------------------------------------------------


def test_keys_are_made_of_the_work(asked: Conversation) -> None:
    assert {question.category for question in asked.questions} == set(PROBES)
    answers = {
        kind: [question.answer for question in of_kind(asked, kind)]
        for kind in ("error", "files", "next", "rules")
    }
    assert answers == {
        "error": [
            "numpy.linalg.LinAlgError: Singular matrix in fit_constituents(rank=35)",
            "ERROR tests/gauges/test_reader.py:41 - KeyError: 'station_code' in read_station()",
        ],
        "files": ["reader.py\nconstituents.py\nhorizon.py"],
        "next": [
            (
                "Fit the harmonic constituents\nLimit the horizon to fourteen days\n"
                "Write docs/forecast.md"
            )
        ],
        "rules": [
            (
                "You should never write into fixtures/raw, those files are evidence.\n"
                "Always run ruff before you say that something is done.\n"
                "We don't want the forecast to reach beyond fourteen days."
            )
        ],
    }
    chosen, reason = of_kind(asked, "decision")
    assert chosen.answer.startswith("Harmonic analysis\nThirty-seven constituents")
    assert reason.answer == "numpy broadcasts over columns without a loop."


# --- Whole runs ----------------------------------------------------------------------------------


@pytest.fixture
def probing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Evaluation:
    return Evaluation(tmp_path, capsys, probes.main)


def test_all_arms_are_asked_at_the_same_room(probing: Evaluation) -> None:
    found = probing.figures(*SMALL, "--prompt-tokens", 1500)
    assert list(found["arms"]) == ARMS
    scores = {
        arm: row["scores"]["keys"]["overall"]["all questions"]["score"]
        for arm, row in found["arms"].items()
    }
    assert scores["full"] == 1.0, "all keys are in the transcript"
    assert scores["trim"] < 1.0
    assert scores["observational+recall"] > scores["observational"]
    assert scores["observational+recall"] > scores["trim"]
    held = {arm: row["remembered at the end"] for arm, row in found["compared"].items()}
    assert held.pop("full") > 2000
    assert max(held.values()) <= 1500
    rules = found["arms"]["observational"]["scores"]["keys"]["categories"]["rules"]["score"]
    assert rules > found["arms"]["trim"]["scores"]["keys"]["categories"]["rules"]["score"]
