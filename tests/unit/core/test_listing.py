"""Items of the log and the ids by which a person names them."""

from __future__ import annotations

from support.groups import day_log, group
from support.inside import list_items


def test_an_id_stays_the_same_while_day_and_lines_do() -> None:
    [one, other] = list_items([group("a", day_log(0, "* 🔴 one", "* two"))])
    [moved] = list_items([group("b", day_log(0, "* 🔴 one"), 7, 9)])
    assert one.id == moved.id != other.id
    [later] = list_items([group("a", day_log(1, "* 🔴 one"))])
    assert later.id != one.id


def test_an_item_knows_its_day_mark_and_time() -> None:
    [item] = list_items([group("a", day_log(0, "* 🔴 (09:12) said\n  * below"))])
    assert (item.head.mark, item.head.time, str(item.day)) == ("🔴", "09:12", "2026-03-01")
    assert item.words == "said\n  * below"
