"""The evaluation with a person, or any model, in a role: questions and answers are files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from evaluation import doubles
from evaluation.files import ANSWER, QUESTION, read_answer
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage

from support.evaluation import LOCOMO, LONGMEMEVAL, SMALL, Evaluation

HEADING = re.compile(r"^======== (\w+)(?: (\w+))? ========\n\n", re.MULTILINE)
FIRST = ("--conversations", 1, "--workers", 1)


class Person:
    """Answers files as the doubles do, knowing no more than what stands in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def unanswered(self) -> list[Path]:
        asked = sorted(self.folder.glob(f"*{QUESTION}"))
        return [path for path in asked if not answer_of(path).exists()]

    def answer(self) -> int:
        """Answer all that is asked, and return how much that was."""
        asked = self.unanswered()
        for path in asked:
            answer_of(path).write_text(self._reply(path.read_text("utf-8")), "utf-8")
        return len(asked)

    def _reply(self, question: str) -> str:
        role = question.partition("\n")[0].removeprefix("You are asked as: ")
        if role == "judge":
            return "yes"
        prompt = list(messages_in(question))
        if role != "actor":
            return doubles.memory_model().invoke(prompt, {"run_name": f"om_{role}"}).text
        said = doubles.actor().invoke(prompt)
        calls = [f"call {call['name']} {json.dumps(call['args'])}" for call in said.tool_calls]
        return "\n".join(calls) or said.text


def answer_of(question: Path) -> Path:
    return question.with_name(question.name.replace(QUESTION, ANSWER))


def messages_in(question: str) -> Iterator[BaseMessage]:
    """Read the messages of a question back from its file."""
    parts = HEADING.split(question)[1:]
    for kind, _, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        body = text.removesuffix("\n").removesuffix("\n")
        if kind == "system":
            yield SystemMessage(body)
        elif kind == "human":
            yield HumanMessage(body)
        elif kind == "ai":
            yield read_answer(body)
        elif kind == "tool":
            yield ToolMessage(body, tool_call_id="any")


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "answers")


def play(evaluation: Evaluation, person: Person, *options: object) -> int:
    """Run and answer until nothing is asked any more; returns how many rounds it took."""
    for rounds in range(200):
        code, printed, errors = evaluation.run(*options, "--answers", person.folder)
        if code != 3:
            assert code == 0, errors
            return rounds
        assert printed == ""
        assert person.answer() > 0
    msg = "it asks again and again"
    raise AssertionError(msg)


@pytest.mark.parametrize("memory", ["observational"])
def test_whoever_answers_the_files_plays_every_role(
    memory: str, evaluation: Evaluation, person: Person, tmp_path: Path
) -> None:
    options = (LOCOMO, "--memory", memory, "--prompt-tokens", 300)
    play(evaluation, person, *options)
    found = evaluation.figures(*options, "--answers", person.folder)
    (tmp_path / "offline").mkdir()
    offline = Evaluation(tmp_path / "offline", evaluation.capsys).figures(*options)
    assert found["scores"] == offline["scores"]
    assert found["recalls"] == offline["recalls"]
    assert found["remembered at the end"] == offline["remembered at the end"]
    # What was asked again in a later round is counted once.
    calls = [
        {(row["part"], row["phase"]): row["calls"] for row in each["tokens"]["rows"]}
        for each in (found, offline)
    ]
    assert calls[0] == calls[1]
    roles = {path.name.split("-")[1] for path in person.folder.glob(f"*{QUESTION}")}
    assert roles == {part for part, _ in calls[1]}


def test_a_missing_answer_stops_the_run_and_says_which_file_to_write(
    evaluation: Evaluation, person: Person
) -> None:
    options = (LOCOMO, *SMALL, *FIRST, "--answers", person.folder)
    code, printed, errors = evaluation.run(*options)
    assert (code, printed) == (3, "")
    (asked,) = person.unanswered()
    assert re.fullmatch(r"0001-observer-[0-9a-f]{12}\.question\.txt", asked.name)
    assert str(answer_of(asked)) in errors
    assert asked.name in errors
    assert "waiting for 1 answer;" in errors
    # Nothing was written down as if it were over.
    assert not (evaluation.folder / "work" / "results.jsonl").exists()


def test_a_judge_in_files_sees_no_arm_and_the_same_answer_once(
    evaluation: Evaluation, person: Person
) -> None:
    options = (LONGMEMEVAL, "--arms", "full,summary", "--actor", "offline", "--judge", "file")
    play(evaluation, person, *options)
    found = evaluation.figures(*options, "--answers", person.folder)
    for figures in found["arms"].values():
        assert figures["scores"]["judge file"]["overall"]["all questions"]["score"] == 1
    asked = sorted(person.folder.glob(f"*{QUESTION}"))
    # Without a limit no summary is written, so both answer alike.
    assert len(asked) == 7
    for path in asked:
        assert "summary" not in path.read_text("utf-8")
