"""Edits of the log are read in the forms that models give them, judged one by one, and applied."""

from __future__ import annotations

from collections import Counter

import pytest

from langgraph_om.core.record.record import (
    place_reflection,
    write_range,
)
from langgraph_om.core.reflect.edits import (
    Edit,
    find_spans,
    parse_edits,
)
from langgraph_om.core.reflect.facts import find_invented
from langgraph_om.core.reflect.reflector import EditedLog
from langgraph_om.core.wire import Group
from support.editing import TALK, as_reflection, checked, edited, texts
from support.groups import AT, day_log, group


def cut(text: str) -> list[tuple[str, str]]:
    lines = text.split("\n")
    return [(span.heading, "\n".join(lines[span.start : span.end])) for span in find_spans(text)]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", []),
        ("\n \n", []),
        ("Date: May 3, 2026", []),
        ("* a\n\n* b\n\n\n", ["* a", "* b"]),
        ("  * a\n    * below\n  * b", ["  * a\n    * below", "  * b"]),
        ("  * a\n* b", ["  * a", "* b"]),
        ("* a\nwords that go on\n\n  code\n* b", ["* a\nwords that go on\n\n  code", "* b"]),
        ("words\n* a", ["words", "* a"]),
        ("🔴 a\n(10:02) b\n1. c", ["🔴 a", "(10:02) b", "1. c"]),
        ("* a\n  Date: May 3, 2026\n* b", ["* a\n  Date: May 3, 2026", "* b"]),
    ],
)
def test_every_line_is_a_heading_a_blank_or_in_one_item(text: str, items: list[str]) -> None:
    assert [item for _, item in cut(text)] == items


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
        ("1: * 🔴 User lives in Ghent since June", "no 'jun'"),
        ("1: * 🔴 User lives in Ghent since yesterday", "no 'yesterday'"),
        ("1: * 🔴 User lives in Ghent since May 4", "no 'may 4'"),
        ('1: * 🔴 User "loves" living in Ghent', "no quotation 'loves'"),
        ('1: * 🔴 User lives in Ghent, "so lo', "no quotation 'so lo'"),
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
        ("at 10:45", "at 10:30, 45 people"),
        ("from Mar 4", "from Mar 7 to Apr 4"),
        ("the 2nd", "the second"),
        ("met Will", "they met"),
        ("wrote to a_b", "wrote to a, b"),
        ("see x.io/a", "see x.io/b"),
        ("said 'no way'", "said there was no other way"),
        ("asked „warum“", "asked why"),
        ("half ½", "half"),
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
        ("three dogs", "3 dogs"),
        ("Ilse's dog", "the dog of Ilse"),
        ("on Dec 4", "on December 4, 2025"),
        ("the user said it doesn’t", "it doesn't"),
        ("Also Anna; Then Bob", "anna, bob"),
        ("p95 840 ms -> 210 ms", "p95 latency fell from 840 ms to 210 ms"),
        ("9–12 of e.g. 12", "9-12 of 12"),
        ("red/blue", "red and blue"),
        ("she said “no way…”", "she said 'no way out'"),
        ("Feb 3 Maria served meals", "Maria served meals on Feb 3"),
        ("Apr 2 marathon, May 4 decorated", "marathon on Apr 2; decorated May 4"),
        ("week of Dec 19, 2022", "Dec 19 to 25, 2022"),
    ],
)
def test_what_does_not_count_as_invented(text: str, source: str) -> None:
    assert not find_invented(text, [source])


FIRST, SECOND = (entry["text"] for entry in TALK)


def changes(log: EditedLog) -> list[tuple[list[str], list[str]]]:
    becomes, together = log.list_changes(cycle_id="c", reflected_at=AT)
    return [(ids, [becomes[key]["text"] for key in ids]) for ids in together]


def test_what_is_not_named_stays_byte_for_byte() -> None:
    lines = FIRST.split("\n")
    lines[1] = "* 🔴 (09:12) User lives in Ghent"
    assert texts("1: User lives in Ghent") == ["\n".join(lines), SECOND]
    after = edited("1: User lives in Ghent")
    assert after.groups[1] is TALK[1]
    assert after.tokens == sum(entry["tokens"] for entry in TALK) - 3


def test_the_range_line_names_all_ranges_that_joined_items_came_from() -> None:
    after = edited("1+6: User lives in Ghent; asked for Brug")
    assert after.groups[1]["ranges"] == TALK[1]["ranges"]
    assert write_range(after.groups[1]) == "_range: `t0:t3,t4:t6`_"
    assert write_range(after.groups[0]) == "_range: `t0:t3`_"
    assert changes(after)[0][0] == ["g1", "g2"]


def test_a_group_whose_items_are_gone_keeps_its_range() -> None:
    after = edited("drop 4-6")
    assert (after.groups[1]["text"], after.groups[1]["tokens"]) == ("", 0)
    assert after.groups[1]["ranges"] == TALK[1]["ranges"]
    assert after.edited == Counter(edits=3, dropped=3)


def test_edits_apply_to_the_groups_that_are_still_the_same() -> None:
    log = [group(f"g{at}", day_log(at, f"* one {at}", f"* two {at}"), at, at) for at in range(5)]
    answer = "drop 1\n5+7: one\ndrop 9"
    after = edited(answer, log)
    listed = as_reflection(after)
    assert listed["together"] == [["g0"], ["g2", "g3"], ["g4"]]
    newer = group("new", "* new")

    def placed(*now: Group) -> tuple[list[str], list[str]] | None:
        found = place_reflection(now, listed)
        return found and (found.group_ids, [entry["text"] for entry in found.groups])

    whole = placed(*log, newer)
    assert whole is not None
    assert whole[0] == ["g0", "g1", "g2", "g3", "g4"]
    assert whole[1][1] == log[1]["text"]
    other = group("other", "* otherwise")
    assert placed(log[0], log[1], other, log[3], log[4], newer) == (
        ["g0", "g1", "other", "g3", "g4"],
        [
            day_log(0, "* two 0"),
            log[1]["text"],
            "* otherwise",
            log[3]["text"],
            day_log(4, "* two 4"),
        ],
    )
    assert placed(log[1], log[4]) == (["g4"], [day_log(4, "* two 4")])
    assert placed(log[1], other, newer) is None
