"""What a model writes into a call of recall, and the option that switches it on."""

from __future__ import annotations

import re
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from support.examples import examples
from support.inside import UserArguments
from support.recall_talk import TALK, ask, entries_of, hit_of, look, read_talk, shelf


@pytest.mark.parametrize(("written", "used"), [(1, 1), (20, 20), (999, 20)])
def test_limit_is_read_and_stated(written: object, used: int) -> None:
    answer = ask([HumanMessage("hi")] * 30, limit=written)
    assert (answer["limit"], answer["count"]) == (used, used)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": "read"}, ["`mode`", '"read"', "'search'"]),
        ({"mode": "threads"}, ["`mode`", "'messages' or 'search'"]),
        ({"detail": "full"}, ["`detail`", "'low' or 'high'"]),
        ({"page": "two"}, ["`page`", '"two"', "integer"]),
        ({"page": 1.5}, ["`page`", "1.5"]),
        ({"limit": [3]}, ["`limit`", "[3]", "integer"]),
        ({"part_index": -1, "cursor": "m1"}, ["no part -1", "parts 0 to 0"]),
        ({"part_index": 0}, ["`part_index`", "`cursor`"]),
        ({"part_index": 9, "cursor": "m2"}, ["no part 9", "parts 0 to 2"]),
        ({"part_index": 0, "cursor": "m5"}, ["nothing to show"]),
        ({"part_index": 0, "cursor": "m1", "char_offset": 900}, ["`char_offset`", "less than 27"]),
        ({"char_offset": 5, "cursor": "m1"}, ["`char_offset`", "`part_index`"]),
        ({"cursor": "m99"}, ["`cursor`", "no such message"]),
        ({"cursor": {"id": 1}}, ["`cursor`", "string"]),
        ({"thread_id": "t1"}, ['"thread_id"', "no argument"]),
        ({"mode": "search"}, ["`query`", "missing"]),
        ({"mode": "search", "query": "x", "page": -1}, ["`page`", "0 or more"]),
        ({"mode": "search", "query": "x", "cursor": "m1"}, ["`cursor`", "'messages'"]),
        ({"query": "x"}, ["`query`", "'search'"]),
        ({"before": "2026-01-01"}, ["`before`", "'threads'"]),
        ({"mode": "search", "query": "x", "before": "soon"}, ["`before`", "'soon'", "2026-03-15"]),
        ({"mode": "search", "query": "x", "after": 20260101}, ["`after`", "20260101"]),
        ({"thread": "t1"}, ['"thread"', "no argument"]),
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


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        ("m1:m4", ["m1", "m4"]),
        ("_range: `m1:m4`_", ["m1", "m4"]),
        ("m1:m2,m6:m8", ["m1", "m2", "m6", "m8"]),
        ("run:1:run:5", ["run:1", "run:5"]),
    ],
)
def test_range_as_cursor_gets_a_hint(written: str, ids: list[str]) -> None:
    more = [(key, TALK[1], None) for key in ("run:1", "run:5")]
    answer = look(read_talk([*entries_of(TALK), *more]), {"cursor": written})
    assert set(answer) == {"hint"}
    assert re.findall(r'"([^"]+)" with page', answer["hint"]) == ids


# --- Laws ----------------------------------------------------------------------------------------


likely = st.sampled_from(
    [
        *("messages", "threads", "search", "low", "high", "m1", "x0", "t2", "current", "1", "-2"),
        *("m1:m4", ":", ",:", "a:b:c", "9" * 5000, "2026-03-15", "0001-01-01", "9999-12-31T23:59"),
        *("\ud83d", "\x00", "x" * 100_000, 10**400, -1, 0, 1, 2, 1e308, object()),
    ]
)

argument_names = st.sampled_from([*UserArguments.model_fields]) | st.text(max_size=5)


@examples(250)
@given(
    st.dictionaries(argument_names, likely | junk, max_size=5),
    st.sampled_from(["thread", "resource"]),
)
def test_nothing_a_model_writes_raises(
    arguments: dict[str, Any], scope: Literal["thread", "resource"]
) -> None:
    hits = [hit_of("t2", "g", 0.5, "text", "x0")]
    answer = look(shelf(hits), arguments, scope, timezone=ZoneInfo("Pacific/Auckland"))
    names = {"error", "hint", "messages", "threads", "results", "text"}
    assert len(names & set(answer)) == 1
