"""The form of a working memory: what it takes, what an error says, and how updates merge."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from langgraph_om.core.forms import (
    InvalidError,
    SchemaForm,
    find_at,
    find_conflicts,
    list_leaves,
    merge,
)


class Task(BaseModel):
    title: str
    done: bool = False


class Tasks(BaseModel):
    tasks: list[Task] = Field(default_factory=list)


class Settings(TypedDict):
    theme: NotRequired[str]
    size: NotRequired[int]


SETTINGS = {
    "type": "object",
    "properties": {"theme": {"type": "string"}, "size": {"type": "integer"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize("schema", [Settings, SETTINGS], ids=["TypedDict", "JSON Schema"])
def test_every_kind_of_schema_names_the_field(schema: Any) -> None:
    form = SchemaForm(schema)
    form.check({"theme": "dark", "size": 3})
    with pytest.raises(InvalidError, match="`size`"):
        form.check({"size": "big"})
    with pytest.raises(InvalidError, match="colour"):
        form.check({"colour": "red"})


def test_no_field_is_required_of_an_update_and_references_resolve() -> None:
    arguments = SchemaForm(Tasks).arguments
    assert set(arguments) == {"type", "properties", "required", "$defs"}
    assert "required" not in arguments["$defs"]["Task"]
    named_so = SchemaForm({"type": "object", "properties": {"required": {"type": "string"}}})
    assert "required" in named_so.arguments["properties"]["memory"]["properties"]


def test_what_no_database_keeps_is_left_out_of_texts_or_refused_by_field() -> None:
    form = SchemaForm({"type": "object"})
    given = r'{"na\u0000me": "a\u0000b", "tags": ["\ud800", "1\r\n2"]}'
    assert form.read_patch(given) == {"name": "ab", "tags": ["\ufffd", "1\n2"]}
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    for wrong, named in (
        ({"a": {"b": float("nan")}}, "`a.b`: nan is no number"),
        ('{"a": [1, -Infinity]}', "`a.1`: -inf is no number"),
        ({"iban": 10**24}, "`iban`: the number is too large"),
        (deep, "`memory`"),
        ('{"a": ' * 60 + "1" + "}" * 60, "more than 50 levels"),
    ):
        with pytest.raises(InvalidError, match=re.escape(named)):
            form.read_patch(wrong)


KEYS = st.sampled_from("abc")
LEAVES = st.integers(0, 3) | st.text("xy", max_size=2) | st.lists(st.integers(0, 2), max_size=2)
VALUES = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, min_size=1), max_leaves=6)
)


@pytest.mark.parametrize(
    ("value", "patch", "merged"),
    [
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": 1}, {"a": None, "b": None}, {}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({}, {"a": {"b": None}}, {"a": {}}),
        ("a text", "another", "another"),
    ],
)
def test_merge(value: Any, patch: Any, merged: Any) -> None:
    former = deepcopy(value)
    assert merge(value, patch) == merged
    assert value == former


@given(VALUES, VALUES)
def test_what_an_update_does_not_name_stays(value: dict[str, Any], patch: dict[str, Any]) -> None:
    merged = merge(value, patch)
    for path, leaf in list_leaves(patch):
        assert find_at(merged, path) == leaf
    named = {path[: n + 1] for path, _ in list_leaves(patch) for n in range(len(path))}
    for path, leaf in list_leaves(value):
        if not any(path[: n + 1] in named for n in range(len(path))):
            assert find_at(merged, path) == leaf


@given(VALUES)
def test_a_conflict_is_what_the_writer_has_not_seen(value: dict[str, Any]) -> None:
    assert find_conflicts(value, None, None) == []
    assert find_conflicts(merge(value, {"a": "new"}), value, value) == []
    changed = merge(value, {"z": 1})
    assert find_conflicts({"z": 2}, value, changed) == [("z",)]
    assert find_conflicts({"z": 1}, value, changed) == []
    assert find_conflicts({"y": 2}, value, changed) == []
