"""The record as a value, and what events make of it."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.record.fold import fold, fold_one
from langgraph_om.core.record.record import (
    CURSOR_TAIL,
    blank_record,
    complete_record,
)
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from support import groups

# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, 99, "1", None, 1.0, True])
def test_a_record_of_another_form_is_refused(version: object) -> None:
    value = {**blank_record(), "version": version}
    named = rf"`om\.version` is {version!r}.*reads version 1; upgrade"
    for read in (complete_record, lambda found: fold(found, [])):
        with pytest.raises(ConfigurationError, match=named):
            read(value)
    with pytest.raises(ConfigurationError, match=named):
        fold(blank_record(), [value])


@pytest.mark.parametrize("value", [None, {}, {"version": 1}, blank_record()])
def test_a_part_of_a_record_is_completed(value: dict[str, Any] | None) -> None:
    assert complete_record(value) == blank_record()


Event = dict[str, Any]
USAGE = {"calls": 1, "input_tokens": 100, "output_tokens": 10}


# --- Events as cycles write them -----------------------------------------------------------------


def opened(thread: str = "t") -> Event:
    return {
        "type": "opened",
        "id": f"om-{thread}",
        "thread_id": thread,
        "resource_id": "r",
        "scope": "thread",
    }


def counted(
    counts: dict[str, list[Any]], *, gone: tuple[str, ...] = (), counter: str = "mine/1"
) -> Event:
    stamps = dict.fromkeys(counts, "2026-03-02T09:00:00+00:00")
    return {
        "type": "counted",
        "counter": counter,
        "counts": counts,
        "stamps": stamps,
        "gone": list(gone),
    }


def noted(cycle: str, first: str, last: str, tokens: int = 10) -> dict[str, Any]:
    return groups.group(cycle, f"* 🔴 {cycle}", ranges=[[first, last]], tokens=tokens)


def observed(after: str | None, first: int, last: int, **fields: Any) -> Event:
    """Messages `m{first}` to `m{last}` were observed by a cycle that began behind `after`."""
    cycle = f"observe-{after}-{first}-{last}"
    return {
        "type": "observation-end",
        "operation": "observation",
        "cycle_id": cycle,
        "after": after,
        "cursor": [f"m{at}" for at in range(max(0, last - CURSOR_TAIL + 1), last + 1)],
        "groups": [noted(cycle, f"m{first}", f"m{last}")],
        "usage": USAGE,
        **fields,
    }


def reflected(read: list[str], **fields: Any) -> Event:
    """The groups `read` were condensed to one."""
    cycle = derive_id("reflect", *read)
    return {
        "type": "observation-end",
        "operation": "reflection",
        "cycle_id": cycle,
        "group_ids": read,
        "groups": [{**noted(cycle, "m0", "m9", 5), "kind": "reflection"}],
        "usage": USAGE,
        **fields,
    }


def failed(operation: str, failures: int = 1, retry_at: int = 500) -> Event:
    return {
        "type": "observation-failed",
        "operation": operation,
        "cycle_id": f"{operation}-{failures}",
        "error": "no answer",
        "failures": failures,
        "at_tokens": retry_at - 100,
        "retry_at_tokens": retry_at,
        "usage": USAGE,
    }


def stepped(request: str, step: int) -> Event:
    return {"type": "stepped", "request": request, "step": step, "head": HEAD}


HEAD = {"after": None, "seen": "m0", "digest": "d", "log": "", "as_of": "2026-03-02", "at": ""}
TRIPPED: Event = {
    "type": "tripped",
    "operation": "observation",
    "cycle_id": "c",
    "reason": "no answer",
    "last_message": "m3",
}


# --- What each event does ------------------------------------------------------------------------


CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("nothing", [], {}),
    ("None", [None, None], {}),
    ("an empty edit", [{}], {}),
    ("opened", [opened()], {"id": "om-t", "thread_id": "t", "resource_id": "r", "scope": "thread"}),
    (
        "opened again under another name, as in a copied thread",
        [opened("t"), opened("u")],
        {"id": "om-u", "thread_id": "u", "resource_id": "r", "scope": "thread"},
    ),
    (
        "counted",
        [counted({"m0": ["d0", 5]})],
        {
            "token_cache": {"counter": "mine/1", "counts": {"m0": ["d0", 5]}},
            "stamps": {"m0": "2026-03-02T09:00:00+00:00"},
        },
    ),
    (
        "what left the window is forgotten",
        [counted({"m0": ["d0", 5]}), counted({"m1": ["d1", 6]}, gone=("m0",))],
        {
            "token_cache": {"counter": "mine/1", "counts": {"m1": ["d1", 6]}},
            "stamps": {"m1": "2026-03-02T09:00:00+00:00"},
        },
    ),
    (
        "counts of another counter are dropped",
        [counted({"m0": ["d0", 5]}, counter="old"), counted({"m1": ["d1", 6]}, counter="new")],
        {
            "token_cache": {"counter": "new", "counts": {"m1": ["d1", 6]}},
            "stamps": dict.fromkeys(("m0", "m1"), "2026-03-02T09:00:00+00:00"),
        },
    ),
    ("stepped", [stepped("m0", 2)], {"turn": {"request": "m0", "step": 2}, "head": HEAD}),
    (
        "observed",
        [observed(None, 0, 1, hints={"current_task": "Ship it", "suggested_response": None})],
        {
            "log": [noted("observe-None-0-1", "m0", "m1")],
            "cursor": ["m0", "m1"],
            "current_task": "Ship it",
            "usage": {"observation": USAGE},
        },
    ),
    (
        "a hint that was not said stays as it is",
        [
            observed(None, 0, 0, hints={"current_task": "A", "suggested_response": "B"}),
            observed("m0", 1, 1, hints={"current_task": "D"}),
        ],
        {
            "log": [noted("observe-None-0-0", "m0", "m0"), noted("observe-m0-1-1", "m1", "m1")],
            "cursor": ["m0", "m1"],
            "current_task": "D",
            "suggested_response": "B",
            "usage": {"observation": {"calls": 2, "input_tokens": 200, "output_tokens": 20}},
        },
    ),
    (
        "an observation that began elsewhere is passed over",
        [observed(None, 0, 1), observed("m7", 2, 3), observed(None, 0, 3)],
        {
            "log": [noted("observe-None-0-1", "m0", "m1")],
            "cursor": ["m0", "m1"],
            "usage": {"observation": USAGE},
        },
    ),
    (
        "a reflection takes the place of what it read, and newer groups stay",
        [
            observed(None, 0, 0),
            observed("m0", 1, 1),
            observed("m1", 2, 2),
            reflected(["observe-None-0-0", "observe-m0-1-1"]),
        ],
        {
            "log": [
                *reflected(["observe-None-0-0", "observe-m0-1-1"])["groups"],
                noted("observe-m1-2-2", "m2", "m2"),
            ],
            "cursor": ["m0", "m1", "m2"],
            "generation": 1,
            "usage": {
                "observation": {"calls": 3, "input_tokens": 300, "output_tokens": 30},
                "reflection": USAGE,
            },
        },
    ),
    (
        "a reflection of groups that are not there any more is passed over",
        [observed(None, 0, 0), reflected(["gone"]), reflected(["observe-None-0-0", "gone"])],
        {
            "log": [noted("observe-None-0-0", "m0", "m0")],
            "cursor": ["m0"],
            "usage": {"observation": USAGE},
        },
    ),
    (
        "a reflection that is still too large rests until the log has grown",
        [
            observed(None, 0, 0),
            reflected(
                ["observe-None-0-0"], failures=0, still_large=1, at_tokens=60, retry_at_tokens=70
            ),
        ],
        {
            "log": reflected(["observe-None-0-0"])["groups"],
            "cursor": ["m0"],
            "generation": 1,
            "attempts": {"reflection": {"failures": 0, "retry_at_tokens": 70}},
            "usage": {"observation": USAGE, "reflection": USAGE},
        },
    ),
    (
        "failures count up, each operation for itself",
        [failed("observation"), failed("reflection"), failed("observation", 2, 900)],
        {
            "attempts": {
                "observation": {"failures": 2, "retry_at_tokens": 900},
                "reflection": {"failures": 1, "retry_at_tokens": 500},
            },
            "usage": {
                "observation": {"calls": 2, "input_tokens": 200, "output_tokens": 20},
                "reflection": USAGE,
            },
        },
    ),
    (
        "success forgets the failures of its operation",
        [failed("observation"), failed("reflection"), observed(None, 0, 0)],
        {
            "log": [noted("observe-None-0-0", "m0", "m0")],
            "cursor": ["m0"],
            "attempts": {"reflection": {"failures": 1, "retry_at_tokens": 500}},
            "usage": {
                "observation": {"calls": 2, "input_tokens": 200, "output_tokens": 20},
                "reflection": USAGE,
            },
        },
    ),
    (
        "the turn was ended",
        [TRIPPED],
        {"tripwire": {"operation": "observation", "reason": "no answer", "last_message": "m3"}},
    ),
    (
        "the next step clears the tripwire",
        [TRIPPED, stepped("m4", 0)],
        {"turn": {"request": "m4", "step": 0}, "head": HEAD},
    ),
    (
        "what is only shown changes nothing",
        [{"type": kind} for kind in ("observation-start", "status", "view-trimmed")],
        {},
    ),
    (
        "a whole record takes the place of what is there",
        [opened(), {**fold(None, [opened()]), "current_task": "By hand"}],
        {"id": "om-t", "thread_id": "t", "resource_id": "r", "current_task": "By hand"},
    ),
]


@pytest.mark.parametrize(
    ("updates", "changed"),
    [pytest.param(*case, id=name) for name, *case in CASES],
)
def test_what_an_update_changes(updates: list[Any], changed: dict[str, Any]) -> None:
    expected = {**blank_record(), **changed}
    assert plainly(fold(None, updates)) == expected
    assert plainly(fold(blank_record(), [updates])) == expected
    by_one = blank_record()
    for update in updates:
        by_one = fold_one(by_one, update)
    assert plainly(by_one) == expected
    assert plainly(fold(None, [[], updates, [None]])) == expected


def plainly(record: MemoryRecord) -> dict[str, Any]:
    """The record; of attempts only how many failed, and when the next is due."""
    keys = ("failures", "retry_at_tokens")
    attempts = {
        operation: {key: attempt[key] for key in keys}
        for operation, attempt in record["attempts"].items()
    }
    return {**record, "attempts": attempts}


# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("junk", "named"),
    [
        ("hello", "'hello'"),
        (5, "5"),
        ([["nested"]], "['nested']"),
        ({"type": "observed"}, "'observed'"),
        ({"type": None}, "None"),
        ({"log": []}, "'log' alone; change memory by `memory.of(graph, config)`: `.remember"),
        ({**blank_record(), "Log": []}, "'Log'"),
        ({**blank_record(), 1: 2}, "'1'"),
    ],
)
def test_junk_is_refused_by_name_and_changes_nothing(junk: object, named: str) -> None:
    record = fold(None, [observed(None, 0, 0)])
    before = deepcopy(record)
    with pytest.raises(ConfigurationError) as caught:
        fold(record, [junk])
    assert named in str(caught.value)
    assert "`om`" in str(caught.value)
    assert record == before


# --- Laws over random histories ------------------------------------------------------------------


KINDS = (
    *("open", "count", "step", "observe", "observe", "reflect", "fail", "trip", "edit", "none"),
    *("again", "stale"),
)


def _event(draw: st.DrawFn, kind: str, record: MemoryRecord, sent: list[Any]) -> Any:
    """An event as it would be computed from this memory."""
    newest = record["cursor"][-1] if record["cursor"] else None
    next_at = int(newest[1:]) + 1 if newest else 0
    few = draw(st.integers(0, 3))
    operation = draw(st.sampled_from(["observation", "reflection"]))
    ids = [entry["id"] for entry in record["log"]]
    if kind == "again" and sent:
        return draw(st.sampled_from(sent))
    events: dict[str, Any] = {
        "open": opened(draw(st.sampled_from("tu"))),
        "count": counted({f"m{few}": ["d", few]}, gone=(f"m{few + 1}",), counter=f"c{few % 2}"),
        "step": stepped(f"m{few}", few),
        "observe": observed(
            newest, next_at, next_at + few, hints={"current_task": [None, "task"][few % 2]}
        ),
        "reflect": reflected(ids[: max(1, len(ids) - few)] or ["gone"]),
        "fail": failed(operation, few + 1, 100 * few),
        "trip": TRIPPED,
        "edit": {**record, "suggested_response": f"edited {few}"},
    }
    return events.get(kind)


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Updates as a thread sees them, with repeats, and results computed from older memory."""
    record = blank_record()
    past = [record]
    sent: list[Any] = []
    for _ in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(KINDS))
        if kind == "stale":
            stale = draw(st.sampled_from(["observe", "reflect"]))
            event = _event(draw, stale, draw(st.sampled_from(past)), sent)
        else:
            event = _event(draw, kind, record, sent)
        sent.append(event)
        record = fold(record, [event])
        past.append(record)
    return sent


@given(histories(), st.data())
def test_it_does_not_matter_how_updates_are_batched(sent: list[Any], data: st.DataObject) -> None:
    whole = fold(None, sent)
    cut = data.draw(st.integers(0, len(sent)))
    assert fold(fold(None, sent[:cut]), sent[cut:]) == whole
    assert fold(fold(None, [sent[:cut]]), [sent[cut:]]) == whole
    assert fold(None, [sent[:cut], sent[cut:]]) == whole


@given(histories())
def test_what_holds_after_each_update(sent: list[Any]) -> None:
    record, newest = blank_record(), -1
    for event in sent:
        before, event_before = deepcopy(record), deepcopy(event)
        after = fold(record, [event])
        assert (record, event) == (before, event_before), "what is given is never changed"
        record = after
        reached = int(record["cursor"][-1][1:]) if record["cursor"] else -1
        assert reached >= newest, "the cursor never moves back"
        newest = reached
        ids = [entry["id"] for entry in record["log"]]
        assert len(ids) == len(set(ids)), "a group stands in the log once"
        read = json.loads(json.dumps(record))
        assert read == complete_record(read) == record, "a record is plain JSON"
    for event in sent:
        if event and event.get("type") == "observation-end":
            assert fold(record, [event]) == record, "a cycle takes effect once"


def test_a_failure_that_is_told_twice_counts_once() -> None:
    once = fold(None, [failed("observation")])
    assert fold(once, [failed("observation")]) == once
    assert once["usage"]["observation"]["calls"] == 1
