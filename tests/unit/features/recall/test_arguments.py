"""What a model writes into a call of recall, and the option that switches it on."""

from __future__ import annotations

import re
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langgraph_om.features.recall.answer import recall
from langgraph_om.features.recall.arguments import RECALL_ARGUMENTS
from langgraph_om.reading import RecallHit, RecallThread, StateSource
from support.counters import COUNTER
from support.examples import examples
from support.recall_talk import TALK, ask, entries_of, keys_in, scope_of, shelf, within_budget


@pytest.mark.parametrize(("written", "used"), [(1, 1), ("2", 2), (3.0, 3), (20, 20), (999, 20)])
def test_limit_is_read_and_stated(written: object, used: int) -> None:
    answer = ask([HumanMessage("hi")] * 30, limit=written)
    assert (answer["limit"], answer["count"]) == (used, used)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": "read"}, ["`mode`", '"read"', '"threads"']),
        ({"mode": 3}, ["`mode`", "3"]),
        ({"detail": "full"}, ["`detail`", '"low" or "high"']),
        ({"page": "two"}, ["`page`", '"two"', "whole number"]),
        ({"page": 1.5}, ["`page`", "1.5"]),
        ({"page": True}, ["`page`", "true"]),
        ({"page": 10**30}, ["`page`", "from -1000 to 1000"]),
        ({"page": float("inf")}, ["`page`", "Infinity"]),
        ({"limit": 0}, ["`limit`", "0", "from 1 to 20"]),
        ({"limit": [3]}, ["`limit`", "[3]"]),
        ({"part_index": -1, "cursor": "m1"}, ["`part_index`", "-1", "0 or more"]),
        ({"part_index": 0}, ["`part_index`", "`cursor`"]),
        ({"part_index": 9, "cursor": "m2"}, ["`part_index`", "9", "0 to 2"]),
        ({"part_index": 0, "cursor": "m5"}, ["m5", "nothing to show"]),
        ({"part_index": 0, "cursor": "m1", "char_offset": 900}, ["`char_offset`", "27 characters"]),
        ({"char_offset": 5, "cursor": "m1"}, ["`char_offset`", "`part_index`"]),
        ({"cursor": "m99"}, ["`cursor`", '"m99"', "no such message"]),
        ({"cursor": {"id": 1}}, ["`cursor`", "a text"]),
        ({"thread_id": "t2"}, ["`thread_id`", '"t2"', "no such conversation"]),
        ({"mode": "search"}, ["`query`", "missing"]),
        ({"mode": "search", "query": "x", "page": -1}, ["`page`", "-1", "from page 1"]),
        ({"mode": "search", "query": "x", "cursor": "m99"}, ["`cursor`", "no such message"]),
        ({"query": "x"}, ["`query`", '"x"', '"search"']),
        ({"role": "user"}, ["`role`", '"search"']),
        ({"mode": "threads", "tool_name": "x"}, ["`tool_name`", '"search"']),
        ({"before": "2026-01-01"}, ["`before`", '"threads"']),
        ({"mode": "threads", "before": "soon"}, ["`before`", '"soon"', "2026-03-15"]),
        ({"mode": "threads", "after": 20260101}, ["`after`", "20260101"]),
        ({"mode": "threads", "page": -1}, ["`page`", "-1"]),
        ({"mode": "threads", "cursor": "m1"}, ["`cursor`", '"messages"']),
        ({"thread": "t1"}, ['"thread"', "`thread_id`"]),
    ],
)
def test_what_is_wrong_is_named_with_what_to_write(
    arguments: dict[str, Any], words: list[str]
) -> None:
    answer = ask(TALK, **arguments)
    assert set(answer) == {"error"}
    for word in words:
        assert word in answer["error"]


# --- Laws ----------------------------------------------------------------------------------------


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def test_arguments_that_are_no_object_are_answered() -> None:
    source = StateSource("t1", [])
    for junk in (None, "m1", ["m1"], 3):
        assert "error" in recall(junk, source, scope_of(), COUNTER)  # type: ignore[arg-type]


def test_empty_arguments_count_as_left_out() -> None:
    assert ask(TALK, query="", cursor=None, thread_id=" ", before="") == ask(TALK)


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        ("m1:m4", ["m1", "m4"]),
        ("`m1:m4`", ["m1", "m4"]),
        ("_range: `m1:m4`_", ["m1", "m4"]),
        ("m1:m2,m6:m8", ["m1", "m2", "m6", "m8"]),
        ("run:1:run:5", ["run:1", "run:5"]),
        ("x:m1:m4", ["x", "m1:m4"]),
    ],
)
def test_range_as_cursor_gets_a_hint(written: str, ids: list[str]) -> None:
    entries = [*entries_of(TALK), ("x", TALK[1], None), ("m1:m4", TALK[1], None)]
    known = entries if written.startswith("x") else entries[:-2]
    answer = recall({"cursor": written}, StateSource("t1", known), scope_of(), COUNTER)
    assert set(answer) == {"hint"}
    assert re.findall(r'"([^"]+)" with page', answer["hint"]) == ids


def test_range_that_is_an_id_is_an_id() -> None:
    source = StateSource("t1", [*entries_of(TALK), ("m1:m4", HumanMessage("x"), None)])
    assert keys_in(recall({"cursor": "m1:m4"}, source, scope_of(), COUNTER)) == ["m1:m4"]


# --- Laws ----------------------------------------------------------------------------------------


likely = st.sampled_from(
    [
        *("messages", "threads", "search", "low", "high", "m1", "x0", "t2", "current", "1", "-2"),
        *("m1:m4", ":", ",:", "a:b:c", "9" * 5000, "2026-03-15", "0001-01-01", "9999-12-31T23:59"),
        *("\ud83d", "\x00", "x" * 100_000, 10**400, -1, 0, 1, 2, 1e308, object()),
    ]
)

argument_names = st.sampled_from([*RECALL_ARGUMENTS]) | st.text(max_size=5)


@examples(250)
@given(
    st.dictionaries(argument_names, likely | junk, max_size=5),
    st.sampled_from(["thread", "resource"]),
)
def test_nothing_a_model_writes_raises(
    arguments: dict[str, Any], scope: Literal["thread", "resource"]
) -> None:
    hits = [RecallHit(RecallThread("t2"), "g", 0.5, "text", "x0")]
    where = scope_of(scope, timezone=ZoneInfo("Pacific/Auckland"))
    answer = within_budget(recall(arguments, shelf(hits), where, COUNTER))
    names = {"error", "hint", "messages", "threads", "results", "text"}
    assert len(names & set(answer)) == 1
