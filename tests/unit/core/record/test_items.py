"""Items of the log: their ids, and how the one that a person means is found."""

from __future__ import annotations

import pytest

from langgraph_om import ItemError
from support.groups import day_log, group
from support.inside import find_item, list_items


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


def test_an_error_that_quotes_items_steers_no_terminal() -> None:
    text = day_log(0, "* 🔴 User \x9b31mlikes \u202etea", "* 🔴 User has a dog")
    with pytest.raises(ItemError, match="User 31mlikes tea\n"):
        find_item("User", list_items([group("g", text)]))


def test_words_come_before_what_looks_like_an_id() -> None:
    items = list_items([group("a", day_log(0, "* deadbeef is a colour", "* two"))])
    assert find_item("deadbeef", items).words == "deadbeef is a colour"
