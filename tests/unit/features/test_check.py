"""What the Observer writes is looked up in what it was shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import ObservationalMemory
from langgraph_om.features.check import Shown, cut_unfounded, find_unfounded
from langgraph_om.testing import ScriptedChatModel

SAID = Shown(
    [
        """\
Date: Mar 3, 2026
User (09:12): Our service `rates` runs on port 8080 with Flask 2.3.1, p95 is 1,020 ms. Mail:
  ops@example.org, commit 9f3c2ab7.
  app/
    models/
      user.py
Assistant (09:13): I wrote src/fx/rates.py; two hundred tests pass, 157,213 rows. They said:
  "We ship on Friday, not before."
"""
    ]
)


@pytest.mark.parametrize(
    "note",
    [
        "* 🔴 (09:12) Service `rates` runs on port 8080 (Flask 2.3.1), p95 1020 ms",
        "* 🔴 (09:12) p95 is 1.020 ms; mail OPS@example.org; commit `9f3c2ab7`",
        "* ✅ (09:13) `src/fx/rates.py` is written; 200 tests pass on 157k rows",
        "* 🔴 (09:13) `app/models/user.py` is there",
        "* 🔴 (09:13) Release: “we ship on Friday ... not before”",
        "* 🔴 (21:45) Release is due (meaning Mar 6, 2026), begun in 2024, 14:30, 99 of 12",
        "* 🔴 Planned for 2026-03-06, Mar 6, 2026 and (estimated late 1999)",
        '* 🔴 The 27" screen is income/expense',
    ],
)
def test_what_was_said_in_this_or_another_form_is_founded(note: str) -> None:
    assert find_unfounded(note, SAID) == []
    assert cut_unfounded(note, SAID) == note


@pytest.mark.parametrize(
    ("note", "word", "kept"),
    [
        ("* 🔴 (09:12) Flask 2.3.4 on port 8080", "2.3.4", "* 🔴 (09:12) Flask on port 8080"),
        ("* 🔴 (09:12) p95 is 250ms today", "250", "* 🔴 (09:12) p95 is today"),
        ("* 🔴 (09:12) Rates service, on port 9090", "9090", "* 🔴 (09:12) Rates service"),
        ("* ✅ (09:13) Wrote `src/fx/money.py`", "src/fx/money.py", ""),
        (
            "* ✅ (09:13) Wrote it (`app/views.py`) at last",
            "app/views.py",
            "* ✅ (09:13) Wrote it at last",
        ),
        ("* 🔴 (09:12) Mail: admin@example.org", "admin@example.org", ""),
        ("* 🔴 (09:12) Commit 1a2b3c4d is live", "1a2b3c4d", ""),
        ('* 🔴 (09:13) "On Friday we ship"', "On Friday we ship", "* 🔴 (09:13) On Friday we ship"),
        ('* 🔴 (09:13) User: "I hate mornings"', "I hate mornings", ""),
        (
            "* 🔴 (09:13) Tests pass\n  * -> 412 of them\n  * -> in `rates.py`",
            "412",
            "* 🔴 (09:13) Tests pass\n  * -> of them\n  * -> in `rates.py`",
        ),
    ],
)
def test_what_nobody_said_is_found_and_cut_out(note: str, word: str, kept: str) -> None:
    found = [each.text for line in note.split("\n") for each in find_unfounded(line, SAID)]
    assert found[:1] == [word]
    assert cut_unfounded(note, SAID) == kept


@given(st.text(max_size=200), st.text(max_size=200))
def test_what_is_kept_of_a_note_is_founded(note: str, said: str) -> None:
    shown = Shown([said])
    kept = cut_unfounded(note, shown)
    assert not any(find_unfounded(line, shown) for line in kept.split("\n"))


@given(st.text(max_size=200))
def test_a_note_that_says_what_was_said_is_left_alone(text: str) -> None:
    assert find_unfounded(text, Shown([text])) == []


# --- In a conversation ---------------------------------------------------------------------------


NOTES = (
    "<observations>\nDate: Mar 3, 2026\n"
    "* 🔴 (09:12) User's service runs on port 9090\n"
    "* 🔴 (09:12) User likes short answers\n"
    "* 🔴 (09:12) User's mail is admin@example.org\n"
    "</observations>"
)


def observe(second: str, **options: Any) -> tuple[str, list[str], list[Any]]:
    """What the log says, what the Observer was asked, and the parts of the stream."""
    questions: list[str] = []

    def answer(messages: list[BaseMessage]) -> str:
        questions.append(messages[-1].text)
        return NOTES if len(questions) == 1 else second

    memory = ObservationalMemory(
        ScriptedChatModel(observer=answer),
        observation={"message_tokens": 100, "buffer_tokens": False},
        **options,
    )
    said = "My service runs on port 8080, and I like short answers. " + "Well. " * 120
    messages = [HumanMessage(said, id="m1"), AIMessage("ok", id="m2"), HumanMessage("?", id="m3")]
    result = memory.step(None, messages, thread_id="t")
    log = "\n".join(group["text"] for group in result.record["log"])
    return log, questions, [part for part in result.events if part["type"] == "data-om-checked"]


def test_the_observer_mends_what_it_was_not_shown() -> None:
    mended = "[1] * 🔴 (09:12) User's service runs on port 8080\n[2] (none)"
    log, questions, parts = observe(mended, check_observations=True)
    assert "port 8080" in log
    assert "short answers" in log
    assert "9090" not in log
    assert "admin@" not in log
    assert len(questions) == 2
    assert "`9090`" in questions[1]
    assert "`admin@example.org`" in questions[1]
    assert "short answers" not in questions[1]
    assert [part["data"]["mended"] for part in parts] == [2]


@pytest.mark.parametrize("second", ["[1] * 🔴 (09:12) User's service runs on port 9091", "no idea"])
def test_what_it_does_not_mend_is_cut_out_or_left_out(second: str) -> None:
    log, questions, parts = observe(second, check_observations=True)
    assert "User's service runs on port" in log
    assert "909" not in log
    assert "mail" not in log
    assert "short answers" in log
    assert len(questions) == 2, "it is asked once more, not for ever"
    assert [(part["data"]["cut"], part["data"]["leftOut"]) for part in parts] == [(1, 1)]


def test_without_the_option_nothing_is_looked_up() -> None:
    log, questions, parts = observe("")
    assert "9090" in log
    assert len(questions) == 1
    assert parts == []
