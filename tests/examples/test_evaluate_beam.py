"""The evaluation on chats in the form of BEAM: ten abilities, and rubrics judged item by item."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from evaluation.formats import ABILITIES, FormatError, Question, read_files
from evaluation.rules import contains_items, judge_prompts, read_grade

from support.evaluation import DATA, Evaluation, Judged

CHAT = DATA / "beam" / "chats" / "tiny" / "1" / "chat.json"


def questions() -> dict[str, Question]:
    (conversation,) = read_files([CHAT]).conversations
    return {question.category: question for question in conversation.questions}


def test_a_chat_is_read_with_its_questions_of_ten_abilities() -> None:
    dataset = read_files([CHAT])
    (conversation,) = dataset.conversations
    assert (dataset.benchmark, conversation.id) == ("BEAM", "tiny/1")
    assert dataset.categories == list(ABILITIES)
    days = [(session.at.day, session.opens) for session in conversation.sessions]
    assert days == [(15, True), (15, False), (15, False), (10, True), (10, False), (10, False)]
    texts = [turn.text for session in conversation.sessions for turn in session.turns]
    assert not any("->->" in text for text in texts), "the marks of BEAM's plan are left out"
    assert conversation.sessions[0].messages()[0].text.startswith("[A session begins: Friday, 15")
    assert conversation.sessions[1].messages()[0].text.startswith("Always give weights")
    asked = {question.category: question for question in conversation.questions}
    assert [name for name, each in asked.items() if not each.has_answer] == ["abstention"]
    assert len(asked["contradiction_resolution"].answer.splitlines()) == 3


def test_each_item_of_a_rubric_is_judged_by_itself(evaluation: Evaluation, judged: Judged) -> None:
    asked = judged(lambda text: "partly" if "contradictory" in text else "No.")
    options = (CHAT, "--memory", "full", "--judge", "openai/gpt-6-sol")
    found = evaluation.figures(*options)
    assert len(asked) == sum(len(each.answer.splitlines()) for each in questions().values())
    assert all(text.endswith("yes, partly or no.") for text in asked)
    table = found["scores"]["judge openai/gpt-6-sol"]["categories"]
    scores = {name: row["score"] for name, row in table.items() if row["score"]}
    assert scores == {"contradiction_resolution": pytest.approx(0.5 / 3)}
    assert list(table) == list(ABILITIES)


def test_events_are_judged_by_their_place() -> None:
    prompts = judge_prompts("BEAM", questions()["event_ordering"], "First the scale.")
    assert ["as number 1 of 3): scale" in prompts[0], "as number 3 of 3)" in prompts[2]] == [
        True
    ] * 2
    (prompt,) = judge_prompts("BEAM", questions()["knowledge_update"], "520")
    assert "as number" not in prompt
    assert "Criterion: LLM response should state: 520 readings a day" in prompt


@pytest.mark.parametrize(
    ("reply", "grade"), [("Yes", 1.0), ("partly", 0.5), ("No, only partly", 0.0), ("**no**", 0.0)]
)
def test_grades(reply: str, grade: float) -> None:
    assert read_grade(reply) == grade


def test_a_grade_is_one_of_three() -> None:
    with pytest.raises(ValueError, match="none of yes, partly and no"):
        read_grade("perhaps")


@pytest.mark.parametrize(
    ("ability", "answer", "share"),
    [
        ("knowledge_update", "It writes 520 readings a day.", 1.0),
        ("knowledge_update", "It writes 412 readings a day.", 0.0),
        ("event_ordering", "The scale, then hive three.", 2 / 3),
        ("abstention", "Not mentioned in the conversation", 1.0),
        ("abstention", "Carnica.", 0.0),
    ],
)
def test_without_a_model_items_are_looked_for_word_for_word(
    ability: str, answer: str, share: float
) -> None:
    assert contains_items(questions()[ability], answer) == pytest.approx(share)


def test_a_run_offline_says_that_its_scores_are_none(evaluation: Evaluation) -> None:
    found = evaluation.figures(CHAT, "--memory", "full")
    assert found["questions"] == len(ABILITIES)
    assert set(found["errors"].values()) == {0}
    assert any("not the benchmark's score" in caveat for caveat in found["caveats"])
    assert "without abstention" in found["scores"]["judge offline"]["overall"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a chat that may be changed."""
    return Path(shutil.copytree(CHAT.parent, tmp_path / "chats" / "1")) / "chat.json"


def change(file: Path, edit: Any) -> None:
    data = json.loads(file.read_text("utf-8"))
    edit(data)
    file.write_text(json.dumps(data), "utf-8")


@pytest.mark.parametrize(
    ("place", "edit", "complaint"),
    [
        ("chat", lambda rows: rows[0]["turns"][0][0].pop("time_anchor"), "no `time_anchor`"),
        ("chat", lambda rows: rows[1].pop("turns"), "batch 2 has no `turns`"),
        ("chat", lambda rows: rows[0]["turns"][0][1].update(role="bee"), "`role` is 'bee'"),
        ("asked", lambda rows: rows.update(humming=[]), "there is no ability 'humming'"),
        ("asked", lambda rows: rows["abstention"][0].pop("rubric"), "abstention 1 has no `rubric`"),
        ("asked", lambda rows: rows["abstention"][0].update(rubric=[]), "`rubric` is empty"),
    ],
)
def test_what_is_wrong_with_a_chat_is_said_by_place(
    place: str, edit: Any, complaint: str, copy: Path
) -> None:
    asked = copy.parent / "probing_questions" / "probing_questions.json"
    change(copy if place == "chat" else asked, edit)
    with pytest.raises(FormatError, match=complaint):
        read_files([copy])


def test_a_chat_needs_its_questions_beside_it(copy: Path) -> None:
    shutil.rmtree(copy.parent / "probing_questions")
    with pytest.raises(FormatError, match="can not be read"):
        read_files([copy])
