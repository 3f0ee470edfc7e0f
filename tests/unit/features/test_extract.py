"""Values by schema in a record: what becomes of entries, and what a person is shown of them."""

from __future__ import annotations

from typing import Any

from langgraph_om.core.page import list_values
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record


def found(**fields: Any) -> dict[str, Any]:
    return {"value": None, "previous": None, "cycle_id": "c", "at": "2026-03-01", **fields}


def record(**values: Any) -> Any:
    return {**blank_record(), "id": "om", "extracted": values}


def observe(before: Any, *entries: dict[str, Any], after: str | None = None) -> Any:
    group = {"id": "g", "text": "* Tea", "tokens": 2, "ranges": [["m1", "m1"]], "thread_id": "t"}
    end = {
        "type": "observation-end",
        "operation": "observation",
        "cycle_id": "c2",
        "at": "2026-03-02",
        "after": after,
        "cursor": ["m1"],
        "groups": [group],
        "usage": {},
        "found": {"extract": [*entries]},
    }
    return fold(before, [end])


def test_a_failure_leaves_a_value_as_it_is_and_an_answer_ends_it() -> None:
    before = record(Trip=found(value={"to": "Oslo"}))
    failed = observe(before, {"name": "Trip", "error": "no JSON"})
    kept = failed["extracted"]["Trip"]
    assert (kept["value"], kept["error"]) == ({"to": "Oslo"}, "no JSON")
    again = observe({**failed, "cursor": []}, {"name": "Trip"})
    assert again["extracted"]["Trip"]["error"] is None
    assert again["extracted"]["Trip"]["value"] == {"to": "Oslo"}


def test_nothing_changes_where_the_observation_takes_no_effect() -> None:
    before = record(Trip=found(value={"to": "Oslo"}))
    late = observe(before, {"name": "Trip", "patch": {"to": "Cork"}}, after="m0")
    assert late["extracted"] == before["extracted"]


def test_values_are_shown_with_what_went_wrong() -> None:
    (shown,) = list_values(record(Trip=found(value={"to": "Oslo"}, error="no JSON")))
    assert shown.name == "Trip"
    assert "Oslo" in shown.value
    assert "no JSON" in shown.notes[0]
