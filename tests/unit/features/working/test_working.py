"""A working memory: its options, and what a channel of the state holds."""

from __future__ import annotations

import re
from typing import Any, NotRequired

import pytest
from typing_extensions import TypedDict

from langgraph_om import ConfigurationError, WorkingMemory
from langgraph_om.core.forms import MAX_CHARACTERS
from langgraph_om.features.working.memory import (
    PATCH,
    choose_form,
    fold_state_value,
    read_state_value,
)


class Settings(TypedDict):
    theme: NotRequired[str]
    size: NotRequired[int]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"template": "a", "schema": Settings}, "`template` and `schema` are both given"),
        ({"template": "  "}, "`template` is '  '"),
        ({"template": Settings}, "`template` is"),
        ({"template": "x" * (MAX_CHARACTERS + 1)}, f"has {MAX_CHARACTERS + 1} characters"),
        ({"schema": int}, "describes no object"),
        ({"schema": object()}, "pass a pydantic model"),
        ({"schema": {"type": "objet"}}, "no valid JSON Schema"),
        ({"schema": {"type": "array"}}, "describes no object"),
        ({"scope": "user"}, "`scope` is 'user'"),
        ({"read_only": "yes"}, "`read_only` is 'yes'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        WorkingMemory(**options)


def test_a_program_merges_an_update_as_the_tool_does() -> None:
    working = WorkingMemory(scope="thread", schema=Settings)
    assert working.merge({"theme": "dark", "size": 3}, {"size": None}) == {"theme": "dark"}
    assert working.merge(None, {"size": 4}) == {"size": 4}
    with pytest.raises(ConfigurationError, match="size"):
        working.merge({"theme": "dark"}, {"size": "large"})
    text = WorkingMemory(scope="thread", template="# User")
    assert text.merge("- Name: Ana", "- Name: Bo") == "- Name: Bo"
    with pytest.raises(ConfigurationError, match="whole text"):
        text.merge("- Name: Ana", 3)


def test_without_either_there_is_a_template_of_ours() -> None:
    text = choose_form(None, None).write(None)
    assert "- Name:" in text
    assert len(text) < 500


def test_a_channel_takes_values_and_patches() -> None:
    first = fold_state_value({}, {PATCH: {"a": 1}})
    assert fold_state_value(first, {PATCH: {"b": 2}}) == {"a": 1, "b": 2}
    assert fold_state_value(first, {"c": 3}) == {"c": 3}
    assert fold_state_value({PATCH: {"a": 1}}, {PATCH: {"b": 2}}) == {"a": 1, "b": 2}
    assert fold_state_value(first, {PATCH: {"a": None}}) == {}
    assert read_state_value({PATCH: {"a": 1}}) == {"a": 1}
    assert [read_state_value(blank) for blank in ({}, "", None)] == [None] * 3
