"""Answers of edits are read in the forms that models give them."""

from __future__ import annotations

import pytest

from langgraph_om.core.reflect.edits import Drop, Edit, Rewording, parse_edits


def drop(*ranges: tuple[int, int]) -> Drop:
    return Drop(ranges)


def word(text: str, *ranges: tuple[int, int]) -> Rewording:
    return Rewording(ranges, text)


TEXT = "* 🔴 (10:02) shorter text"


@pytest.mark.parametrize(
    ("answer", "edits"),
    [
        ("drop 3, 7, 9-12", [drop((3, 3), (7, 7), (9, 12))]),
        ("Drop: 3, 7 and 9–12.", [drop((3, 3), (7, 7), (9, 12))]),
        ("- **drop** 3", [drop((3, 3))]),
        ("drop 12-9", [drop((9, 12))]),
        ("drop #3, [7]", [drop((3, 3), (7, 7))]),
        ("drop 3 (a greeting), 7 (said twice)", [drop((3, 3), (7, 7))]),
        ("drop 3,\n  7, 8", [drop((3, 3), (7, 7), (8, 8))]),
        ("drop 3: said twice", [drop((3, 3))]),
        ("Drop 12 tokens more", []),
        ("drop", []),
        ("drop everything", []),
        (f"14: {TEXT}", [word(TEXT, (14, 14))]),
        (f"* 14: {TEXT}", [word(TEXT, (14, 14))]),
        (f"**14:** {TEXT}", [word(TEXT, (14, 14))]),
        (f"[14]: {TEXT}", [word(TEXT, (14, 14))]),
        (f"[14 ~31] {TEXT}", [word(TEXT, (14, 14))]),
        (f"14:\n{TEXT}", [word(TEXT, (14, 14))]),
        (f"14 -> {TEXT}", [word(TEXT, (14, 14))]),
        (f"21+25: {TEXT}", [word(TEXT, (21, 21), (25, 25))]),
        (f"join 21 + 23-25: {TEXT}", [word(TEXT, (21, 21), (23, 25))]),
        (f"21, 25: {TEXT}", [word(TEXT, (21, 21), (25, 25))]),
        (
            f"14: {TEXT}\n  * -> below\n15: x",
            [word(f"{TEXT}\n  * -> below", (14, 14)), word("x", (15, 15))],
        ),
        ("14: (drop)", [drop((14, 14))]),
        ("14: drop\n15: removed", [drop((14, 14)), word("removed", (15, 15))]),
        ("10:02 is a time", []),
        ("Sure, here are the edits:\n\ndrop 3\n\nThat frees 40 tokens.", [drop((3, 3))]),
        (f"```text\ndrop 3\n14: {TEXT}\n```", [drop((3, 3)), word(TEXT, (14, 14))]),
        ("<think>\ndrop 9\n</think>\ndrop 3", [drop((3, 3))]),
        ("<observations>\n* 🔴 (10:02) a whole log\n</observations>", []),
        ("", []),
    ],
)
def test_forms(answer: str, edits: list[Edit]) -> None:
    assert parse_edits(answer) == edits


def test_the_last_edit_of_an_answer_that_was_cut_off_does_not_count() -> None:
    assert parse_edits("drop 3\n14: * half a te", cut_off=True) == [drop((3, 3))]
    assert parse_edits("drop 3, 1", cut_off=True) == []
