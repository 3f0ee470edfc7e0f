"""A working memory's options, what its channel takes, and what a person is told of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NotRequired

import pytest
from typing_extensions import TypedDict

from langgraph_om import ConfigurationError, WorkingMemory
from langgraph_om.core.additions import Advice, list_advice
from langgraph_om.core.forms import MAX_CHARACTERS
from langgraph_om.core.record.record import blank_record
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
        ({"managed_by": "nobody"}, "`managed_by` is 'nobody'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        WorkingMemory(**options)


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


def advise(**fields: Any) -> list[Advice]:
    record: Any = {**blank_record(), **fields}
    return [*list_advice(record, datetime.now(UTC))]


def test_changes_of_the_working_memory_that_nothing_writes() -> None:
    updates = [{"cycle_id": f"c{at}", "resource_id": "ana", "patch": {}} for at in range(5)]
    kept = {"resource_id": "ana", "value": None, "updates": updates, "error": None}
    assert "5 changes" in advise(resource_id="ana", working=kept)[0].text
    assert advise(resource_id="ana", working={**kept, "updates": updates[:2]}) == []
    (advice,) = advise(working={**kept, "updates": [], "error": "`age`: no number"})
    assert "`age`: no number" in advice.text
