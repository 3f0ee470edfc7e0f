"""A working memory: its options, what waits in the record, and updates that come late."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from langgraph_om import ConfigurationError, WorkingMemory
from langgraph_om.core.additions import Advice, list_advice
from langgraph_om.core.forms import MAX_CHARACTERS, SchemaForm, TemplateForm
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.features.working.memory import (
    PATCH,
    choose_form,
    fold_state_value,
    read_state_value,
)
from langgraph_om.features.working.record import find_known, find_unwritten, merge_late


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


def update(number: int, user: str = "ana", **patch: Any) -> Any:
    return {"cycle_id": f"c{number}", "resource_id": user, "known": None, "patch": patch}


def record(**more: Any) -> Any:
    opened = {"type": "opened", "id": "om-1", "thread_id": "t", "scope": "thread"}
    return fold({**blank_record(), **more}, [{**opened, "resource_id": "ana"}])


READ = {"type": "working-read", "resource_id": "ana", "error": None}


def test_what_was_found_waits_until_a_step_has_written_it() -> None:
    waiting = record(
        working={
            "resource_id": "ana",
            "value": {"name": "Ana"},
            "updates": [update(1, city="Cork"), update(2, city="Oslo")],
            "error": None,
        }
    )
    assert find_known(waiting) == {"name": "Ana", "city": "Oslo"}
    assert find_known(waiting, [update(3, name=None)]) == {"city": "Oslo"}
    written = fold(waiting, [[{**READ, "value": {"city": "Oslo"}, "written": ["c1"]}]])
    assert written["working"]["updates"] == [update(2, city="Oslo")]
    assert written["working"]["value"] == {"city": "Oslo"}


def test_what_is_another_users_is_neither_written_nor_shown() -> None:
    own = record(
        working={
            "resource_id": "bo",
            "value": {"name": "Bo"},
            "updates": [update(1, "bo", city="Cork"), update(2, city="Oslo")],
            "error": None,
        }
    )
    assert find_unwritten(own, "ana") == [update(2, city="Oslo")]
    assert find_known(own) == {"city": "Oslo"}


def test_what_waits_goes_with_the_user() -> None:
    state = {"resource_id": "ana", "value": None, "updates": [update(1, city="Cork")]}
    chunk = {"id": "k", "groups": [], "found": {"working": [update(2, city="Oslo")]}}
    floor = {"message": "m", "starts": []}
    gone = {"type": "deletion", "number": 1, "floor": floor, "of_resource": True}
    left = fold(record(working={**state, "error": None}, chunks=[chunk]), [[gone]])
    assert "working" not in left
    assert left["chunks"] == []


class Inner(BaseModel):
    tone: str | None = None
    dates: list[str] | None = None


class Profile(BaseModel):
    name: str | None = None
    age: int | None = Field(default=None, le=150)
    likes: list[str] | None = None
    inner: Inner | None = None


JSON = SchemaForm(Profile)
TEXT = TemplateForm("- Name:\n- City:")


@pytest.mark.parametrize(
    ("current", "patch", "known", "merged", "named"),
    [
        pytest.param(None, {"name": "Ana"}, None, {"name": "Ana"}, "", id="first"),
        pytest.param(
            {"name": "Ana"}, {"name": "Bo"}, {"name": "Ana"}, {"name": "Bo"}, "", id="seen"
        ),
        pytest.param(
            {"name": "Cy", "age": 3},
            {"name": "Bo", "age": 4},
            {"name": "Ana", "age": 3},
            {"name": "Cy", "age": 4},
            "`name`",
            id="a value that was not seen stays",
        ),
        pytest.param(
            {"name": "Cy"}, {"name": None}, {"name": "Ana"}, {"name": "Cy"}, "`name`", id="delete"
        ),
        pytest.param(
            {"likes": ["tea", "rye"]},
            {"likes": ["tea", "walks"]},
            {"likes": ["tea"]},
            {"likes": ["tea", "rye", "walks"]},
            "",
            id="lists are joined",
        ),
        pytest.param(
            {"likes": ["rye"]},
            {"likes": ["tea", "walks"]},
            {"likes": ["tea"]},
            {"likes": ["rye", "walks"]},
            "",
            id="an item that went stays away",
        ),
        pytest.param(
            {"inner": {"tone": "brief", "dates": ["b"]}},
            {"inner": {"tone": "kind", "dates": ["a"]}},
            {},
            {"inner": {"tone": "brief", "dates": ["b", "a"]}},
            "`inner.tone`",
            id="below the top",
        ),
        pytest.param({"age": 3}, {"age": 200}, {"age": 3}, {"age": 3}, "`age`", id="invalid"),
    ],
)
def test_nothing_unseen_is_replaced(
    current: Any, patch: Any, known: Any, merged: Any, named: str
) -> None:
    value, error = merge_late(JSON, current, patch, known)
    assert value == merged
    assert named in (error or "")
    assert bool(error) == bool(named)


@pytest.mark.parametrize(
    ("current", "patch", "known", "merged"),
    [
        pytest.param(None, "- Name: Ana\n- City:", None, "- Name: Ana\n- City:", id="first"),
        pytest.param(
            "- Name: Ana\n- City: Cork",
            "- Name: Ana\n- City:\n- Works in Oslo",
            "- Name: Ana\n- City:",
            "- Name: Ana\n- City: Cork\n\n- Works in Oslo",
            id="new lines are added",
        ),
        pytest.param(
            "- Name: Bo\n- City:",
            "- Name: Ana\n- City:",
            None,
            "- Name: Bo\n- City:\n\n- Name: Ana",
            id="both wrote first",
        ),
        pytest.param(
            None,
            "- Name: Ana\n- City: Cork",
            "- Name: Ana\n- City:",
            "- Name:\n- City:\n\n- City: Cork",
            id="what was emptied meanwhile stays so",
        ),
    ],
)
def test_lines_of_texts_are_joined(current: Any, patch: str, known: Any, merged: str) -> None:
    assert merge_late(TEXT, current, patch, known) == (merged, None)


@pytest.mark.parametrize(
    ("form", "current", "patch", "known"),
    [
        (JSON, {"likes": ["rye"], "name": "Cy"}, {"likes": ["tea"], "name": "Bo"}, {"name": "A"}),
        (JSON, None, {"likes": ["tea"]}, {"likes": ["rye"]}),
        (TEXT, "- Name: Bo", "- Name: Ana", None),
        (TEXT, None, "- Name: Ana", "- Name: Bo"),
    ],
)
def test_the_same_once_more_changes_nothing(
    form: Any, current: Any, patch: Any, known: Any
) -> None:
    once, _ = merge_late(form, current, patch, known)
    assert merge_late(form, once, patch, known)[0] == once
