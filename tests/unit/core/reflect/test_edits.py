"""Edits of the log are read in the forms that models give them, judged one by one, and applied."""

from __future__ import annotations

import pytest

from support.editing import checked
from support.groups import group
from support.inside import Edit, find_invented, parse_edits


def drop(*ranges: tuple[int, int]) -> Edit:
    return Edit(ranges)


def word(text: str, *ranges: tuple[int, int]) -> Edit:
    return Edit(ranges, text)


TEXT = "* 🔴 (10:02) shorter text"


@pytest.mark.parametrize(
    ("answer", "edits"),
    [
        ("drop 3, 7, 9-12", [drop((3, 3), (7, 7), (9, 12))]),
        ("drop 12-9", [drop((9, 12))]),
        (f"14: {TEXT}", [word(TEXT, (14, 14))]),
        (f"21+25: {TEXT}", [word(TEXT, (21, 21), (25, 25))]),
        (f"21+23-25: {TEXT}", [word(TEXT, (21, 21), (23, 25))]),
        (
            f"14: {TEXT}\n  * -> below\n15: x",
            [word(f"{TEXT}\n  * -> below", (14, 14)), word("x", (15, 15))],
        ),
        ("Sure, here are the edits:\n\ndrop 3\n\nThat frees 40 tokens.", [drop((3, 3))]),
        (f"```text\ndrop 3\n14: {TEXT}\n```", [drop((3, 3)), word(TEXT, (14, 14))]),
        ("<think>\ndrop 9\n</think>\ndrop 3", [drop((3, 3))]),
    ],
)
def test_forms(answer: str, edits: list[Edit]) -> None:
    assert parse_edits(answer) == edits


@pytest.mark.parametrize(
    "answer",
    [
        *("", "drop", "drop everything", "Drop 12 tokens more", "Drop: 3", "- **drop** 3"),
        *(
            "drop 3 (a greeting), 7 (said twice)",
            "drop 3: said twice",
            "drop #3",
            "10:02 is a time",
        ),
        *(f"* 14: {TEXT}", f"**14:** {TEXT}", f"[14 ~31] {TEXT}", f"14:\n{TEXT}", f"14 -> {TEXT}"),
        *(f"21, 25: {TEXT}", f"join 21 + 25: {TEXT}", "<observations>\n* 🔴 x\n</observations>"),
    ],
)
def test_other_lines_are_no_edits(answer: str) -> None:
    assert parse_edits(answer) == []


def test_the_last_edit_of_an_answer_that_was_cut_off_does_not_count() -> None:
    assert parse_edits("drop 3\n14: * half a te", cut_off=True) == [drop((3, 3))]
    assert parse_edits("drop 3, 1", cut_off=True) == []


GOOD = [
    "1: * 🔴 (09:12) User lives in Ghent (was Lyon)",
    "1: User lives in Ghent (was Lyon)",
    "2: * 🟡 (09:14) Quiet cafés near station: 1. Brug (07:00), 2. Opaal (garden)",
    "2: * 🟡 (09:14) two cafés: Brug (07:00), Opaal\n  * -> 14 hits for `cafés gent`",
    "3: * ✅ (00:08) `fx/rates.py` line 42 raises `ValueError`",
    '5: * 🔴 (10:10) User meets Ilse ("thesis dragon") Thu, May 7',
    "4+6: * 🟡 (10:02) User said hello; asked for address of Brug",
    "1+6: * 🔴 (10:02) User lives in Ghent; asked for address of Brug May 5",
    "1+2: * 🔴 User lives in Ghent since 3 May 2026; cafés: Brug, Opaal",
]


@pytest.mark.parametrize("answer", GOOD)
def test_good_edits_count(answer: str) -> None:
    found = checked(answer)
    assert not found.refused
    assert found.counts["edits"] == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("7: * 🔴 short", "there is no such item"),
        ("0: * 🔴 short", "there is no such item"),
        ("1+1: * 🔴 User lives in Ghent", "named twice"),
        ("1: * 🔴 User lives in Brussels", "no 'brussels'"),
        ("1: * 🔴 User lives in Ghent since 2019", "no '2019'"),
        ("1: * 🔴 User lives in Ghent with three dogs", "no '3'"),
        ("1: * 🔴 User lives in Ghent since yesterday", "no 'yesterday'"),
        ("1: * 🔴 User lives in Ghent since May 4", "no 'may 4'"),
        ('1: * 🔴 User "loves" living in Ghent', "no quotation 'loves'"),
        ("1: * 🔴 User lives in `ghent`", "no quotation 'ghent'"),
        ("3: * ✅ `fx/rate.py` line 42 raises", "no 'fx/rate.py'"),
        ("5: * 🔴 User meets Ilse and @dragon on Thursday", "no '@dragon'"),
        ("1: * 🔴 User now lives in Ghent (replaces: Lyon), and this is far longer", "longer"),
        ("1: * 🔴 (09:12)", "not one item"),
        ("1: drop", "nothing of its items"),
        ("1: (removed)", "nothing of its items"),
        ("1: * 🔴 <observations> Ghent", "a tag"),
        ("1: * 🔴 User in Ghent 🔴 Lyon", "a mark within"),
    ],
)
def test_a_bad_edit_is_left_out_with_its_reason(answer: str, reason: str) -> None:
    found = checked(f"{answer}\ndrop 4")
    assert len(found.refused) == 1
    assert reason in found.refused[0]
    assert found.dropped == [4]
    assert not found.replacements


def test_items_of_several_conversations_are_not_joined() -> None:
    log = [group("a", "* of a tail", thread="a"), group("b", "* of b tail", thread="b")]
    assert "several conversations" in checked("1+2: of tail", log).refused[0]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Moved in May", "she will move soon"),
        ("paid 12,50", "paid 1250"),
        ("v2.1 runs", "v2.0 runs"),
        ("from Mar 4", "from Mar 7 to Apr 4"),
        ("wrote to a_b", "wrote to a, b"),
        ("see x.io/a", "see x.io/b"),
        ("said 'no way'", "said there was no other way"),
        ("asked „warum“", "asked why"),
        ("on May 3", "on the 3rd"),
        ("in June 2024", "in June 2025, not 2024"),
    ],
)
def test_what_counts_as_invented(text: str, source: str) -> None:
    assert find_invented(text, [source])


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("3 dogs", "three dogs"),
        ("Ilse's dog", "the dog of Ilse"),
        ("on Dec 4", "on December 4, 2025"),
        ("the user said it doesn’t", "it doesn't"),
        ("Also Anna; Then Bob", "anna, bob"),
        ("p95 840 ms -> 210 ms", "p95 latency fell from 840 ms to 210 ms"),
        ("9–12 of e.g. 12", "9-12 of 12"),
        ("she said “no way…”", "she said 'no way out'"),
        ("Feb 3 Maria served meals", "Maria served meals on Feb 3"),
        ("Apr 2 marathon, May 4 decorated", "marathon on Apr 2; decorated May 4"),
        ("week of Dec 19, 2022", "Dec 19 to 25, 2022"),
    ],
)
def test_what_does_not_count_as_invented(text: str, source: str) -> None:
    assert not find_invented(text, [source])
