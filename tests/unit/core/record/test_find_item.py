"""How the item that a person means is found."""

from __future__ import annotations

import pytest

from langgraph_om import ItemError
from support.groups import day_log, group
from support.inside import find_item, list_items


def test_an_error_that_quotes_items_steers_no_terminal() -> None:
    text = day_log(0, "* 🔴 User \x9b31mlikes \u202etea", "* 🔴 User has a dog")
    with pytest.raises(ItemError, match="User 31mlikes tea\n"):
        find_item("User", list_items([group("g", text)]))


def test_words_come_before_what_looks_like_an_id() -> None:
    items = list_items([group("a", day_log(0, "* deadbeef is a colour", "* two"))])
    assert find_item("deadbeef", items).words == "deadbeef is a colour"
