"""The evaluation with a person, or any model, in a role: questions and answers are files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import evaluate
import pytest
from evaluation import doubles
from evaluation.command import UNANSWERED
from evaluation.files import ANSWER, QUESTION, Mailbox, UnansweredError, read_answer
from evaluation.formats import read_files
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

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


@pytest.mark.parametrize("memory", ["observational", "full", "summary"])
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


def test_a_rerun_finds_the_same_question(evaluation: Evaluation, person: Person) -> None:
    options = (LOCOMO, *SMALL, *FIRST, "--answers", person.folder)
    evaluation.run(*options)
    (asked,) = person.unanswered()
    written = asked.read_text("utf-8")
    evaluation.run(*options)
    assert person.unanswered() == [asked]
    answer_of(asked).write_text(" \n", "utf-8")
    assert evaluation.run(*options)[0] == 3, "a blank answer is none yet"
    answer_of(asked).unlink()
    person.answer()
    evaluation.run(*options)
    (following,) = person.unanswered()
    assert following.name.startswith("0002-observer-")
    assert asked.read_text("utf-8") == written


def test_what_does_not_depend_on_an_answer_is_asked_in_one_round(
    evaluation: Evaluation, person: Person
) -> None:
    options = (LONGMEMEVAL, "--arms", "full,observational", *SMALL, "--answers-wait")
    code, _, _ = evaluation.run(*options, "--answers", person.folder)
    assert code == 3
    roles = [path.name.split("-")[1] for path in person.unanswered()]
    assert roles.count("actor") >= 7, "full history waits for nobody"
    assert roles.count("observer") > 1, "each question has a conversation of its own"
    assert play(evaluation, person, *options) < 12


def test_a_file_shows_who_is_asked_and_everything_in_order(
    evaluation: Evaluation, person: Person
) -> None:
    options = (LOCOMO, *SMALL, *FIRST, "--limit", 1, "--observer", "offline", "--actor", "file")
    evaluation.run(*options, "--answers", person.folder)
    (asked,) = person.unanswered()
    text = asked.read_text("utf-8")
    assert text.startswith("You are asked as: actor\n\n======== system ========\n\n")
    (question,) = (
        question.text
        for question in read_files([LOCOMO]).conversations[0].questions
        if question.text in text
    )
    assert text.index("<observations>") < text.index(question) < text.index("======== tools ===")
    assert '"name": "recall"' in text
    assert text.rstrip().endswith('call NAME {"argument": "value"}')
    person.answer()
    evaluation.run(*options, "--answers", person.folder)
    (after,) = person.unanswered()
    shown = after.read_text("utf-8")
    call, _, result = shown.partition("======== tool recall ========")
    assert "======== ai ========\n\ncall recall {" in call
    assert result.strip()


def test_one_role_may_be_a_file_and_the_others_not(evaluation: Evaluation, person: Person) -> None:
    options = (LOCOMO, *SMALL, "--observer", "file", "--actor", "offline")
    play(evaluation, person, *options)
    roles = {path.name.split("-")[1] for path in person.folder.glob(f"*{QUESTION}")}
    assert roles == {"observer", "reflector"}


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


def test_answers_of_one_folder_are_not_taken_for_those_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        person = Person(tmp_path / name)
        arguments = [str(each) for each in (LOCOMO, "--memory", "full", "--limit", 1)]
        assert evaluate.main([*arguments, "--answers", str(person.folder)]) == 3
        person.answer()
        assert evaluate.main([*arguments, "--answers", str(person.folder)]) == 0
    capsys.readouterr()


# --- The folder ----------------------------------------------------------------------------------


def test_ids_that_each_run_makes_anew_do_not_make_another_question(tmp_path: Path) -> None:
    def question(first: object, second: object) -> str:
        return f"Look at {first}, then at {second}, then at {first} again.\n"

    before, after = [uuid4(), uuid4()], [uuid4(), uuid4()]
    with pytest.raises(UnansweredError):
        Mailbox(tmp_path).ask("actor", question(*before))
    (asked,) = Person(tmp_path).unanswered()
    answer_of(asked).write_text(f'call recall {{"cursor": "{before[1]}"}}', "utf-8")
    answer = Mailbox(tmp_path).ask("actor", question(*after))
    assert answer == f'call recall {{"cursor": "{after[1]}"}}'
    with pytest.raises(UnansweredError):
        Mailbox(tmp_path).ask("actor", question(after[0], after[0]))


def test_a_question_may_wait_until_somebody_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(Mailbox(tmp_path, stays=True).ask, "actor", "Who?")
        told = ""
        while not told.endswith("\n"):
            assert not asked.done()
            told += capsys.readouterr().err
        (found,) = Person(tmp_path).unanswered()
        assert told == f"waiting for {answer_of(found)}\n"
        answer_of(found).write_text("Ada\n", "utf-8")
        assert asked.result(timeout=120) == "Ada"


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ('call recall {"cursor": "S1:2"}', 1),
        ('call recall {"cursor": "S1:2"}\n\n call recall {"cursor": "S2:2"}', 2),
        ('Let me call recall {"cursor": "S1:2"}', 0),
        ('call recall {"cursor": "S1:2"}\nThat is all.', 0),
        ("call recall {cursor}", 0),
        ("call me tomorrow", 0),
    ],
)
def test_an_answer_of_calls_alone_calls_tools(answer: str, calls: int) -> None:
    message = read_answer(answer)
    assert isinstance(message, AIMessage)
    assert len(message.tool_calls) == calls
    assert (message.text == answer) is (calls == 0)
    assert len({call["id"] for call in message.tool_calls}) == calls


def test_questions_about_a_chat_may_stand_in_one_prompt(
    evaluation: Evaluation, person: Person, tmp_path: Path
) -> None:
    options = (LOCOMO, "--memory", "full", "--at-once", "--answers", person.folder)
    assert evaluation.run(*options)[0] == UNANSWERED
    (asked,) = person.unanswered()
    assert "[9] " in asked.read_text()
    answer_of(asked).write_text("[1] one\ntwo\n\n**[3]** three\n[12] nothing", encoding="utf-8")
    assert evaluation.run(*options)[0] == 0
    (written,) = tmp_path.rglob("results.jsonl")
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    answers = [row["answer"] for row in rows if row["kind"] == "answer"]
    assert answers == ["one\ntwo", "", "three", *[""] * 6]


def test_what_memory_reads_is_told_by_kind(evaluation: Evaluation) -> None:
    found = evaluation.figures(LOCOMO, "--arms", "summary,observational", "--prompt-tokens", 300)
    for arm in ("summary", "observational"):
        memory = found["compared"][arm]["memory"]
        read = {kind: memory["read"][kind] for kind in ("rules", "earlier", "conversation")}
        assert min(read.values()) > 0, arm
        assert sum(read.values()) == pytest.approx(memory["input"], rel=0.2)
