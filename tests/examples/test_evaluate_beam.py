"""The evaluation on chats in the form of BEAM: ten abilities, and rubrics judged item by item."""

from __future__ import annotations

import pytest
from evaluation.formats import ABILITIES, Question, read_files

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
