"""Merging updates: deeply, with `None` to delete, and never at the cost of another leaf."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.forms import find_at, find_conflicts, list_leaves, merge

KEYS = st.sampled_from("abc")
LEAVES = st.integers(0, 3) | st.text("xy", max_size=2) | st.lists(st.integers(0, 2), max_size=2)
VALUES = st.dictionaries(
    KEYS,
    st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, min_size=1), max_leaves=6),
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
