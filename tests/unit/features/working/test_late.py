"""An update of a value that somebody else has changed since its writer saw it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from langgraph_om.core.forms import SchemaForm, TemplateForm
from langgraph_om.features.working.record import merge_late


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
