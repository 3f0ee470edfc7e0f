"""The log as numbered items."""

from __future__ import annotations

import pytest

from langgraph_om.core.reflect.edits import (
    find_spans,
    identifies_by_picture,
    number_items,
    read_head,
    render_items,
)
from support.editing import TALK, numbered
from support.groups import day_log, group
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
