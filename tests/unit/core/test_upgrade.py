"""What a former version of the package wrote is read as if this one had written it."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record, complete_record
from langgraph_om.core.record.shared_log import complete_log, make_blank_log
from langgraph_om.core.upgrade import RECORD_VERSION
from langgraph_om.errors import ConfigurationError
from support.former import Case, former

NEXT = RECORD_VERSION + 1


def ahead(record: Any) -> list[dict[str, Any]]:
    return [group for chunk in record["chunks"] for group in chunk["groups"]]


# --- A record -------------------------------------------------------------------------------------


def test_chunks_of_version_1_become_the_groups_that_they_were_going_to_be() -> None:
    old = former("thread")
    assert old["version"] == 1
    assert len(old["chunks"]) == 2
    record = complete_record(old)
    assert record["version"] == RECORD_VERSION == 2
    assert ahead(record) == [
        {
            "id": chunk["id"],
            "kind": "observation",
            "ranges": chunk["ranges"],
            "thread_id": chunk["thread_id"],
            "observed_at": chunk["created_at"],
            "text": chunk["text"],
            "tokens": chunk["tokens"],
        }
        for chunk in old["chunks"]
    ]
    assert not {"ranges", "thread_id", "text"} & record["chunks"][0].keys()


@pytest.mark.parametrize("case", ["thread", "blocking", "resource"])
def test_all_else_of_a_record_stays_and_reading_it_twice_changes_nothing(case: Case) -> None:
    old = former(case)
    record = complete_record(old)
    changed = {"version", "chunks"}
    assert {key: value for key, value in record.items() if key not in changed} == {
        key: value for key, value in old.items() if key not in changed
    }
    assert old == former(case), "what is given stays as it is"
    assert complete_record(record) == record
    assert fold(old, []) == record


@pytest.mark.parametrize("case", ["thread", "blocking"])
def test_events_that_a_channel_has_kept_are_replayed(case: Case) -> None:
    events = former(case, "events")
    assert any("group" in event or "chunk" in event for event in events)
    expected = complete_record(former(case))
    assert fold(None, [events]) == expected
    assert fold({"version": 1}, [events]) == expected


def test_a_job_that_began_before_the_upgrade_is_taken_in() -> None:
    events = former("thread", "events")
    last = max(at for at, event in enumerate(events) if event["type"] == "buffering-end")
    record = fold(None, [events[:last]])
    assert record["pending"]
    chunk = fold(record, [events[last]])["chunks"][-1]
    assert chunk["groups"][0]["text"] == events[last]["chunk"]["text"]


# --- By hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [{}, {"version": 1}, {"version": 2}])
def test_an_edit_may_carry_what_either_version_wrote(version: dict[str, int]) -> None:
    edit = {"chunks": former("thread")["chunks"], "current_task": "Walk", **version}
    record = fold(blank_record(), [edit])
    assert record["version"] == RECORD_VERSION
    assert ahead(record) == ahead(complete_record(former("thread")))
    assert fold(blank_record(), [{**edit, "chunks": record["chunks"]}]) == record


def test_a_whole_record_of_version_1_may_be_put_back() -> None:
    assert fold(blank_record(), [former("thread")]) == complete_record(former("thread"))


@pytest.mark.parametrize("version", [0, NEXT, "2", True])
def test_an_edit_of_an_unknown_version_is_refused_by_its_name(version: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"`om\.version` is {version!r}.*version 2"):
        fold(blank_record(), [{"version": version}])


def test_a_record_of_a_later_version_is_refused_by_its_name() -> None:
    later = {**blank_record(), "version": NEXT, "something": "new"}
    with pytest.raises(ConfigurationError, match=r"`om\.version` is 3.*upgrade langgraph-om"):
        complete_record(later)


# --- The shared log -------------------------------------------------------------------------------


def test_a_shared_log_of_version_1_is_read() -> None:
    old = former("resource", "log")
    assert "version" not in old
    assert complete_log(old) == {**old, "version": RECORD_VERSION}
    assert complete_log(None) == make_blank_log()
    assert complete_log(complete_log(old)) == complete_log(old)


def test_a_shared_log_of_a_later_version_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigurationError, match=r"shared log is 3.*upgrade langgraph-om"):
        complete_log({**make_blank_log(), "version": NEXT})
