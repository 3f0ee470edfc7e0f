"""The working memory in a record: what waits, what is known, and whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.features.working.record import find_known, find_unwritten


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


@pytest.mark.needs("archive")
def test_what_waits_goes_with_the_user() -> None:
    state = {"resource_id": "ana", "value": None, "updates": [update(1, city="Cork")]}
    chunk = {"id": "k", "groups": [], "found": {"working": [update(2, city="Oslo")]}}
    floor = {"message": "m", "starts": []}
    gone = {"type": "deletion", "number": 1, "floor": floor, "of_resource": True}
    left = fold(record(working={**state, "error": None}, chunks=[chunk]), [[gone]])
    assert "working" not in left
    assert left["chunks"] == [{"id": "k", "groups": []}]
