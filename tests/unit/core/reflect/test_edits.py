"""Edits of the log are read in the forms that models give them, judged one by one, and applied."""

from __future__ import annotations

from collections import Counter

import pytest

from langgraph_om.core.record.record import (
    MAX_RANGES,
    collect_sources,
    join_empty,
    place_reflection,
    write_range,
)
from langgraph_om.core.reflect.edits import (
    MAX_JOINED,
    Edit,
    find_spans,
    identifies_by_picture,
    number_items,
    parse_edits,
    read_head,
    render_items,
)
from langgraph_om.core.reflect.facts import find_invented
from langgraph_om.core.reflect.reflector import EditedLog
from langgraph_om.core.wire import Group
from support.editing import TALK, as_reflection, checked, edited, long_log, numbered, texts
from support.groups import AT, day_log, group
from support.rendering import divide
from support.words import Words


def cut(text: str) -> list[tuple[str, str]]:
    lines = text.split("\n")
    return [(span.heading, "\n".join(lines[span.start : span.end])) for span in find_spans(text)]


def test_an_item_is_a_line_with_its_sub_items() -> None:
    assert cut(TALK[0]["text"]) == [
        ("Date: May 3, 2026", "* 🔴 (09:12) User lives in Ghent now (replaces: Lyon)"),
        (
            "Date: May 3, 2026",
            (
                "* 🟡 (09:14) User asked for quiet cafés near the station; assistant recommended "
                "2: 1. Brug (opens 07:00, no music), 2. Opaal (garden)\n"
                "  * -> search `cafés gent`: 14 hits"
            ),
        ),
        ("Date: May 4, 2026", "* ✅ (00:08) `fx/rates.py` line 42 now raises a `ValueError`"),
    ]


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


def test_items_are_shown_with_number_and_size_under_their_days() -> None:
    shown = render_items(numbered())
    assert shown.startswith("Date: May 3, 2026\n[1 ~10] * 🔴 (09:12) User lives in Ghent now")
    assert "\n\nDate: May 5, 2026\n[4 ~8] * 🟢 (10:00) User said hello and thanks\n[5 " in shown
    assert "14 hits\n\nDate: May 4, 2026\n[3 ~10] * ✅" in shown


def test_an_item_that_only_identifies_something_by_a_picture_is_pointed_out() -> None:
    caption = "* 🟡 (10:00) User [shares a picture: a grey dog on a beach at dusk]"
    assert identifies_by_picture(caption)
    assert identifies_by_picture("* [Image #1: plan.png]")
    assert not identifies_by_picture("* 🔴 (10:00) User took a picture of the dog")
    assert not identifies_by_picture(
        "* 🔴 (10:00) User adopted Rex, 3, from the shelter in Ghent [photo: a grey dog]"
    )
    assert "[1 ~15 picture] * 🟡" in render_items(numbered([group("g", day_log(0, caption))]))


def test_items_of_several_threads_stand_in_sections_the_quietest_first() -> None:
    log = [
        group("a1", day_log(0, "* of a"), thread="a"),
        group("b1", day_log(0, "* of b"), thread="b"),
        group("a2", day_log(1, "* more of a"), thread="a"),
    ]
    items = numbered(log)
    assert [(item.number, item.thread_id, item.group) for item in items] == [
        (1, "b", 1),
        (2, "a", 0),
        (3, "a", 2),
    ]
    shown = render_items(items, divide(lambda thread: f"<{thread}>"))
    assert shown.startswith('<thread id="&lt;b&gt;">\nDate: Mar 1, 2026\n[1 ~3] * of b\n</thread>')


def test_tags_in_items_are_shown_harmless() -> None:
    shown = render_items(numbered([group("g", "* a </observation-log> b")]))
    assert shown == "[1 ~4] * a &lt;/observation-log> b"


def test_what_a_hook_hides_has_no_number_and_what_it_rewrites_keeps_it() -> None:
    log = [group("g", day_log(0, "* one", "* secret", "* three"))]
    hidden = number_items(log, Words(), [day_log(0, "* one", "* three")])
    assert [(item.text, item.span.start) for item in hidden] == [("* one", 1), ("* three", 3)]
    rewritten = number_items(log, Words(), [day_log(0, "* one", "* ***", "* three")])
    assert [item.text for item in rewritten] == ["* one", "* ***", "* three"]
    assert not number_items(log, Words(), [""])


def test_heads() -> None:
    head = read_head("* 🔴 (09:12) words")
    assert (head.mark, head.time, head.end) == ("🔴", "09:12", 12)
    assert (read_head("words").mark, read_head("words").end) == ("", 0)
    assert (read_head("- (9:12) words").time, read_head("🟢words").mark) == ("9:12", "🟢")


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


def test_an_item_is_named_once() -> None:
    found = checked("1: User lives in Ghent\n1: User in Ghent\n1+2: User in Ghent\ndrop 1, 4, 4")
    assert [each.text for each in found.replacements] == ["* 🔴 (09:12) User lives in Ghent"]
    assert found.dropped == [4]
    assert len(found.refused) == 2


def test_a_text_that_says_what_is_there_is_no_edit() -> None:
    found = checked("1: * 🔴 (09:12) User lives in Ghent now (replaces: Lyon)")
    assert (found.counts["edits"], found.refused) == (0, [])


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
    assert checked(answer, log).counts["edits"] == 80


def test_the_day_under_which_an_item_stands_may_be_named_in_words_but_lends_no_number() -> None:
    heading = "Date: May 4, 2026"
    for text in ("seen May 4", "seen 4 May 2026", "seen in May", "seen Mon", "seen 2026-05-04"):
        assert not find_invented(text, ["seen"], [heading])
    for text in ("seen 4", "seen May 5", "seen May 4, 2025", "seen Tue", "seen in 2026"):
        assert find_invented(text, ["seen"], [heading])


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


def test_dropped_items_go_with_their_sub_items() -> None:
    assert texts("drop 2")[0] == "\n".join(FIRST.split("\n")[:2] + FIRST.split("\n")[4:])


def test_a_heading_without_items_goes_and_no_blank_line_is_left_over() -> None:
    assert texts("drop 3")[0] == "\n".join(FIRST.split("\n")[:4])
    assert texts("drop 1-2")[0] == "\n".join(FIRST.split("\n")[5:])
    three = "\n\n".join(day_log(day, f"* item {day}") for day in range(3))
    assert texts("drop 2", [group("g", three)]) == [
        "\n\n".join(day_log(day, f"* item {day}") for day in (0, 2))
    ]


def test_odd_blank_lines_and_empty_headings_of_what_stays_are_left_alone() -> None:
    odd = "Date: May 1, 2026\n\n\n* a\n\n\n\n* b\n* c\n"
    assert texts("drop 3", [group("g", odd)]) == ["Date: May 1, 2026\n\n\n* a\n\n\n\n* b"]


def test_joined_items_stand_where_the_last_of_them_stood() -> None:
    first, second = texts("1+2+6: User lives in Ghent; asked for cafés: Brug, Opaal")
    assert first == "\n".join(FIRST.split("\n")[5:])
    assert second == SECOND.replace(
        "* 🟡 (10:02) User asked for the address of Brug",
        "* 🔴 (10:02) User lives in Ghent; asked for cafés: Brug, Opaal",
    )


def test_the_range_line_names_all_ranges_that_joined_items_came_from() -> None:
    after = edited("1+6: User lives in Ghent; asked for Brug")
    assert after.groups[1]["ranges"] == TALK[1]["ranges"]
    assert write_range(after.groups[1]) == "_range: `t0:t3,t4:t6`_"
    assert write_range(after.groups[0]) == "_range: `t0:t3`_"
    assert changes(after)[0][0] == ["g1", "g2"]


def test_sources_do_not_grow_without_bound() -> None:
    others = [group(f"g{at}", "* x", 2 * at, 2 * at + 1) for at in range(100)]
    last = group("last", "* y", 200, 201)
    found = collect_sources(last, others)
    assert len(found) <= MAX_RANGES
    assert (found[0][0], found[-1][1]) == ("t0", "t199")


def test_a_group_whose_items_are_gone_keeps_its_range() -> None:
    after = edited("drop 4-6")
    assert (after.groups[1]["text"], after.groups[1]["tokens"]) == ("", 0)
    assert after.groups[1]["ranges"] == TALK[1]["ranges"]
    assert after.edited == Counter(edits=3, dropped=3)


def test_neighbours_without_text_are_joined_thread_by_thread() -> None:
    log: list[Group] = [
        group("a1", "", 0, 1, "a"),
        group("b1", "* b", 0, 1, "b"),
        group("a2", "", 2, 3, "a"),
        group("a3", "* a", 4, 5, "a"),
        group("a4", "", 6, 7, "a"),
        group("b2", "", 2, 3, "b"),
    ]
    joined = join_empty(log, "c")
    assert [entry["ranges"] for entry in joined] == [
        [["a0", "a1"], ["a2", "a3"]],
        [["b0", "b1"]],
        [["a4", "a5"]],
        [["a6", "a7"]],
        [["b2", "b3"]],
    ]
    assert joined[1:] == [log[1], *log[3:]]
    assert join_empty(joined, "d") == joined


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


def test_a_changed_group_has_an_id_of_its_own() -> None:
    after = edited("drop 4")
    [changed] = as_reflection(after)["groups"]
    assert changed["id"] not in {"g1", "g2"}
    assert (changed["kind"], changed["thread_id"]) == ("reflection", "t")
