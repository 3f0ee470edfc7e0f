"""The form of a working memory: what it takes, what an error says, and how updates merge."""

from __future__ import annotations

import re
import sys
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from langgraph_om import ConfigurationError
from langgraph_om.core.forms import (
    MAX_CHARACTERS,
    InvalidError,
    SchemaForm,
    TemplateForm,
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


@dataclass
class Trip:
    goal: str = ""
    nights: int = 0


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


def test_a_dataclass_is_a_schema() -> None:
    SchemaForm(Trip).check({"goal": "Bergen"})
    with pytest.raises(InvalidError, match="`nights`"):
        SchemaForm(Trip).check({"nights": "many"})


def test_an_item_of_a_list_is_named_by_its_place() -> None:
    with pytest.raises(InvalidError, match=re.escape("`tasks.1.title`: Field required")):
        SchemaForm(Tasks).check({"tasks": [{"title": "Milk"}, {"done": True}]})


def test_no_field_is_required_of_an_update_and_references_resolve() -> None:
    arguments = SchemaForm(Tasks).arguments
    assert set(arguments) == {"type", "properties", "required", "$defs"}
    assert "required" not in arguments["$defs"]["Task"]
    named_so = SchemaForm({"type": "object", "properties": {"required": {"type": "string"}}})
    assert "required" in named_so.arguments["properties"]["memory"]["properties"]


@pytest.mark.parametrize("form", [TemplateForm("a"), SchemaForm(Settings)])
def test_what_is_too_long_is_refused_with_both_sizes(form: Any) -> None:
    whole = "x" * (MAX_CHARACTERS + 1)
    with pytest.raises(InvalidError, match=rf"\d{{5}} characters, and {MAX_CHARACTERS} is"):
        form.check(whole if not isinstance(form, SchemaForm) else {"theme": whole})


def test_json_written_as_a_text_is_read() -> None:
    assert SchemaForm(Settings).read_patch('{"size": 3}') == {"size": 3}
    for value in ("[1]", "{", 3, None, {"size": object()}):
        with pytest.raises(InvalidError, match="`memory`"):
            SchemaForm(Settings).read_patch(value)


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


def test_json_schema_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema.exceptions", None)
    with pytest.raises(ConfigurationError, match=re.escape("'langgraph-om[jsonschema]'")):
        SchemaForm(SETTINGS)


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
