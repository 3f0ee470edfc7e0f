"""Edits are judged one by one; a reflection invents nothing."""

from __future__ import annotations

import pytest

from langgraph_om.core.reflect.edits import MAX_JOINED
from langgraph_om.core.reflect.facts import find_invented
from support.editing import checked, long_log
from support.groups import day_log, group

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
    assert found.count == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("7: * 🔴 short", "there is no such item"),
        ("0: * 🔴 short", "there is no such item"),
        ("1+1: * 🔴 User lives in Ghent", "named twice"),
        ("1: * 🔴 User lives in Brussels", "no name 'brussels'"),
        ("1: * 🔴 User lives in Ghent since 2019", "no number '2019'"),
        ("1: * 🔴 User lives in Ghent with three dogs", "no number '3'"),
        ("1: * 🔴 User lives in Ghent since June", "no date 'jun'"),
        ("1: * 🔴 User lives in Ghent since yesterday", "no date 'yesterday'"),
        ("1: * 🔴 User lives in Ghent since May 4", "no number '4'"),
        ('1: * 🔴 User "loves" living in Ghent', "no quotation 'loves'"),
        ('1: * 🔴 User lives in Ghent, "so lo', "no quotation 'so lo'"),
        ("1: * 🔴 User lives in `ghent`", "no quotation 'ghent'"),
        ("3: * ✅ `fx/rate.py` line 42 raises", "no name 'fx/rate.py'"),
        ("5: * 🔴 User meets Ilse and @dragon on Thursday", "no name '@dragon'"),
        ("1: * 🔴 User now lives in Ghent (replaces: Lyon), and this is far longer", "longer"),
        ("1: * 🔴 (09:12)", "not one item"),
        ("1:", "not one item"),
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


def test_an_item_is_named_once() -> None:
    found = checked("1: User lives in Ghent\n1: User in Ghent\n1+2: User in Ghent\ndrop 1, 4, 4")
    assert [each.text for each in found.replacements] == ["* 🔴 (09:12) User lives in Ghent"]
    assert found.dropped == [4]
    assert len(found.refused) == 2


def test_a_text_that_says_what_is_there_is_no_edit() -> None:
    found = checked("1: * 🔴 (09:12) User lives in Ghent now (replaces: Lyon)")
    assert (found.count, found.refused) == (0, [])


def test_items_of_several_conversations_are_not_joined() -> None:
    log = [group("a", "* of a tail", thread="a"), group("b", "* of b tail", thread="b")]
    assert "several conversations" in checked("1+2: of tail", log).refused[0]


def test_far_numbers_cost_nothing() -> None:
    found = checked("drop 1-999999999, 5\n1-999999999: x\n" + "drop 2-999999999\n" * 1000)
    assert found.dropped == [1, 2, 3, 4, 5, 6]
    assert f"more than {MAX_JOINED}" in found.refused[0]


@pytest.mark.parametrize(
    ("marks", "wanted", "chosen"),
    [
        (("🟡", "🔴"), "🟡", "🔴"),
        (("🔴", "🟡"), "🟢", "🔴"),
        (("🔴", "✅"), "✅", "✅"),
        (("🔴", "✅"), "🔴", "🔴"),
        (("🔴", "✅"), "", "✅"),
        (("🟢", "🟡"), "🔴", "🟡"),
        (("", "🟢"), "", "🟢"),
    ],
)
def test_a_joined_item_has_the_stronger_mark(
    marks: tuple[str, str], wanted: str, chosen: str
) -> None:
    log = [group("g", "\n".join(f"* {mark} the same words" for mark in marks))]
    assert (
        checked(f"1+2: * {wanted} the words", log).replacements[0].text == f"* {chosen} the words"
    )


def test_a_joined_item_has_the_earliest_time_of_its_day() -> None:
    log = [
        group("a", day_log(0, "* (08:00) old words")),
        group("b", day_log(1, "* (10:00) new words", "* (9:30) more words", "* no time")),
    ]
    texts = {
        answer: checked(answer, log).replacements[0].text
        for answer in ("1+3: * (08:00) words", "2+3: words", "2+4: words", "1: words")
    }
    assert list(texts.values()) == [
        "* (9:30) words",
        "* (9:30) words",
        "* words",
        "* (08:00) words",
    ]


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


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Maria left on 4 March", "Maria left on 3 March"),
        ("3 Mar", "Feb 3 Maria"),
        ("Dec 19, 2021", "Dec 19 to 25, 2022"),
        ("juli 3", "juni 3"),
        ("flight 3 augusti", "flight 3 septembri"),
    ],
)
def test_a_name_that_begins_like_a_month_hides_no_invented_date(text: str, source: str) -> None:
    assert find_invented(text, [source])


def test_whole_logs_are_checked() -> None:
    log = long_log(20)
    answer = "\n".join(
        f"{at + 1}: User asked Person{at // 8} about subject {at}; takes a while"
        for at in range(0, 160, 2)
    )
    assert checked(answer, log).count == 80


def test_the_day_under_which_an_item_stands_may_be_named_in_words_but_lends_no_number() -> None:
    heading = "Date: May 4, 2026"
    for text in ("seen May 4", "seen 4 May 2026", "seen in May", "seen Mon", "seen 2026-05-04"):
        assert not find_invented(text, ["seen"], [heading])
    for text in ("seen 4", "seen May 5", "seen May 4, 2025", "seen Tue", "seen in 2026"):
        assert find_invented(text, ["seen"], [heading])
