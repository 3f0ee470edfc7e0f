"""What a step exchanges with a shared log and reads of other threads, told by its calls."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.archive.types import ThreadEnd
from langgraph_om.core.config.settings import Parts
from langgraph_om.core.effects import Storage
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.sharing import (
    complete_log,
    make_blank_log,
)
from langgraph_om.core.record.window import open_window
from langgraph_om.core.wire import MemoryRecord, SharedLog
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.shared_log import SharedLogs
from langgraph_om.features.shared_log.exchange import (
    MAX_COMMITS,
    drop_deleted_threads,
    exchange,
    find_left_behind,
    rewind_if_forked,
)
from langgraph_om.features.shared_log.threads import (
    claim_reflection,
    read_other_threads,
    read_other_threads_if_possible,
)
from support import groups
from support.driving import FlowRun, drive
from support.edits import edited
from support.groups import group
from support.storage_calls import (
    DOWN,
    NOW,
    PLACE,
    SAID_ONCE,
    SETTINGS,
    calls,
    opened,
    said,
    warnings,
)

# --- The shared log ------------------------------------------------------------------------------

SHARING = replace(SETTINGS, parts=Parts(sharing=SharedLogs()))


def group_of(thread: str, key: str, *, first: str, last: str) -> dict[str, Any]:
    return groups.group(key, f"noted in {thread}", thread=thread, ranges=[[first, last]], tokens=3)


def extension(thread: str, key: str) -> dict[str, Any]:
    return {
        "id": key,
        "kind": "extend",
        "thread_id": thread,
        "after": None,
        "cursor": [f"{key}-last"],
        "groups": [group_of(thread, key, first=f"{key}-first", last=f"{key}-last")],
        "hints": {"current_task": None, "suggested_response": None, "thread_title": None},
    }


def exchanging(record: MemoryRecord, answers: Any, *, is_new_turn: bool = False) -> FlowRun[Any]:
    messages = said("h1")
    window = open_window(record, messages, SHARING.counter)
    turn = {"request": None if is_new_turn else window.request, "step": 0}
    record = cast("MemoryRecord", {**record, "turn": turn})
    return drive(exchange(SHARING, record, messages, window, NOW), answers)


def test_a_log_that_did_not_change_is_not_read() -> None:
    run = exchanging(opened("resource", revision=4), [4])
    assert calls(run) == ["record_revision"]
    assert run.result[1] == []


def test_changes_are_committed_on_top_of_what_others_committed_meanwhile() -> None:
    record = opened("resource", outbox=[extension("t", "g1")])
    theirs: SharedLog = {
        "generation": 0,
        "log": [cast("Any", group_of("work", "g0", first="w1", last="w2"))],
        "threads": {"work": {"cursor": ["w2"], "hints": {}}},
    }
    answers = [nullcontext(), (None, 0), {}, False, (theirs, 1), {}, True]
    answers += [None, theirs, [], []]
    run = exchanging(record, answers)
    commits = [each for each in run.effects if getattr(each, "method", "") == "commit_record"]
    assert [each.options["expected"] for each in commits] == [0, 1]
    assert [group["id"] for group in commits[1].arguments[1]["log"]] == ["g0", "g1"]
    synced, events, _ = run.result
    assert [event["type"] for event in events] == ["synced"]
    assert (synced["revision"], synced["outbox"]) == (2, [])


def test_a_log_that_was_lost_is_joined_with_what_was_seen_of_the_thread() -> None:
    """Of which nothing is in the log, as it was forgotten; a new log begins with a blank one."""
    record = opened("resource", revision=1, cursor=["m1", "m2"])
    answers = [nullcontext(), (None, 0), {}, True, True, (make_blank_log(), 1), {}, False, True]
    run = exchanging(record, [*answers, None, None, [], []], is_new_turn=True)
    blank, joined = (
        each.arguments[1] for each in run.effects if getattr(each, "method", "") == "commit_record"
    )
    assert blank == make_blank_log()
    assert joined["threads"]["t"]["cursor"] == ["m1", "m2"]


def test_a_log_that_changes_all_the_time_is_left_for_the_next_step() -> None:
    record = opened("resource", outbox=[extension("t", "g1")])
    run = exchanging(record, [nullcontext(), *[(None, 0), {}, False] * MAX_COMMITS])
    assert run.result[1] == []
    assert run.result[0]["outbox"] == record["outbox"]
    [warning] = warnings(run)
    assert "changed 50 times" in warning


def test_a_log_that_cannot_be_reached_leaves_the_thread_with_its_copy() -> None:
    run = exchanging(opened("resource"), [DOWN, PLACE], is_new_turn=True)
    assert run.result[1] == []
    [warning] = warnings(run)
    assert warning.endswith(f"the thread goes on with its copy: the disk is full {SAID_ONCE}")


def test_what_was_observed_of_deleted_threads_is_dropped() -> None:
    changes = [extension("t", "g1"), extension("gone", "g2"), extension("work", "g3")]
    run = drive(drop_deleted_threads(opened("resource"), changes), [set(), {"g3-last"}])
    assert [[change["id"] for change in part] for part in run.result] == [["g1", "g3"], ["g2"]]


def test_a_fork_goes_on_from_its_own_last_message() -> None:
    log: SharedLog = {
        "generation": 0,
        "log": [
            cast("Any", group_of("t", "g1", first="h1", last="a1")),
            cast("Any", group_of("t", "g2", first="h2", last="a2")),
        ],
        "threads": {"t": {"cursor": ["h1", "a1", "h2", "a2"], "hints": {}}},
    }
    whole = said("h1", "a1", "h2", "a2", "h3")
    assert rewind_if_forked(log, opened("resource"), whole, SHARING.counter) == log
    forked = said("h1", "a1", "h9")
    rewound = rewind_if_forked(log, opened("resource"), forked, SHARING.counter)
    assert rewound["threads"]["t"]["cursor"] == ["h1", "a1"]


def test_a_fork_with_messages_that_were_left_behind_goes_on_from_its_cursor() -> None:
    groups = [
        cast("Any", group_of("t", "g1", first="a1", last="a1")),
        cast("Any", group_of("t", "g2", first="h2", last="x")),  # goes on in the other branch
    ]
    log: SharedLog = {
        "generation": 0,
        "log": groups,
        "threads": {"t": {"cursor": ["x"], "hints": {}}},
    }
    part: Any = {"last": "a2", "index": 3, "count": 4, "strays": ["h1"]}
    cursor = ["h1", "a1", "h2", "a2"]
    record = opened("resource", log=groups, cursor=cursor, observed=part)
    forked = said("h1", "a1", "h2", "a2", "h9")
    rewound = rewind_if_forked(log, record, forked, SHARING.counter)
    assert rewound["threads"]["t"]["cursor"] == cursor


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        ([("h1", "x")], [("h1", "x")]),
        ([("h1", "a1"), ("h2", "x")], [("h1", "x")]),  # joined, as where there are many
    ],
)
def test_a_fork_keeps_what_it_knows_as_observed_after_a_reflection(
    own: list[tuple[str, str]], kept: list[tuple[str, str]]
) -> None:
    groups = [group_of("t", f"g{at}", first=a, last=b) for at, (a, b) in enumerate(own)]
    reflected = {**groups[0], "id": "r1", "kind": "reflection", "ranges": [*map(list, kept)]}
    log: SharedLog = {
        "generation": 1,
        "log": [cast("Any", reflected)],
        "threads": {"t": {"cursor": ["h1"], "hints": {}}},  # a fork from before knew no more
    }
    cursor = ["h1", "a1", "h2", "a2"]  # `x` is in another fork
    record = opened("resource", log=groups, cursor=cursor)
    rewound = rewind_if_forked(log, record, said(*cursor, "h9"), SHARING.counter)
    assert rewound["threads"]["t"]["cursor"] == cursor


@pytest.mark.parametrize("newest", ["z", "h1"])
@pytest.mark.parametrize("ends", [("h3", "y"), ("y", "h3")])
def test_in_a_fork_all_is_observed_up_to_where_a_range_begins_or_ends(
    ends: tuple[str, str], newest: str
) -> None:
    """Messages were removed in the fork, or are in another one; what it observed was not sent."""
    first, last = ends
    log: SharedLog = {
        "generation": 0,
        "log": [
            cast("Any", group_of("t", "g1", first="h1", last="x")),
            cast("Any", group_of("t", "g2", first=first, last=last)),
        ],
        "threads": {"t": {"cursor": [newest], "hints": {}}},
    }
    unsent = cast("Any", group_of("t", "g3", first="h1", last="a1"))
    change = {**extension("t", "g3"), "groups": [unsent]}
    record = opened("resource", log=[unsent], cursor=["h1", "a1"], outbox=[change])
    forked = said("h1", "a1", "h2", "a2", "h3", "a3", "h9")
    rewound = rewind_if_forked(log, record, forked, SHARING.counter)
    assert rewound["threads"]["t"]["cursor"] == ["h1", "a1", "h2", "a2", "h3"]


def test_a_fork_does_not_keep_what_the_log_lost() -> None:
    log: SharedLog = {
        "generation": 1,
        "log": [cast("Any", group_of("t", "g1", first="h1", last="h1"))],
        "threads": {"t": {"cursor": ["h1"], "hints": {}}},
    }
    cursor = ["h1", "a1", "h2", "a2"]
    record = opened("resource", log=[group_of("t", "g0", first="h1", last="x")], cursor=cursor)
    assert rewind_if_forked(log, record, said(*cursor, "h9"), SHARING.counter) == log


def test_a_fork_without_the_message_before_what_is_unsent_keeps_what_was_sent() -> None:
    sent = cast("Any", group_of("t", "g1", first="h1", last="x"))  # which was removed here
    unsent = cast("Any", group_of("t", "g2", first="h2", last="a2"))
    log: SharedLog = {
        "generation": 0,
        "log": [sent],
        "threads": {"t": {"cursor": ["x", "y"], "hints": {}}},
    }
    change = {**extension("t", "g2"), "after": "x", "groups": [unsent]}
    cursor = ["h1", "a1", "h2", "a2"]
    record = opened("resource", log=[sent, unsent], cursor=cursor, outbox=[change])
    rewound = rewind_if_forked(log, record, said(*cursor, "h9"), SHARING.counter)
    assert rewound["threads"]["t"]["cursor"] == ["h1", "a1"]


@pytest.mark.parametrize(
    ("ranges", "missed"),
    [
        ([["t1", "t2"]], {"t0", "t3", "t4", "t5"}),
        # What another branch had at one end is gone here: the next range bounds it.
        ([["t0", "gone"], ["t3", "t3"]], {"t4", "t5"}),
        ([["t1", "t1"], ["gone", "t3"]], {"t0", "t4", "t5"}),
        ([["t2", "gone"]], {"t0", "t1"}),
        ([["gone", "t2"]], {"t3", "t4", "t5"}),
        # Both ends are gone, and the cursor that this range left names what was before.
        ([["gone", "named"]], {"t1", "t2", "t3", "t4", "t5"}),
    ],
)
def test_what_a_shared_cursor_went_past_is_told_from_what_its_ranges_cover(
    ranges: list[list[str]], missed: set[str]
) -> None:
    said: list[BaseMessage] = [HumanMessage("word", id=f"t{at}") for at in range(6)]
    log: Any = [{**group("g", "* said"), "ranges": ranges}]
    record = edited(None, {"thread_id": "t", "log": log})
    waiting = {str(message.id) for message in said}
    found = find_left_behind(record, said, 6, waiting, ["t0", "named"])
    assert set(found) == missed


# --- Other threads -------------------------------------------------------------------------------


@dataclass
class Row:
    """A message or a thread as an archive returns it."""

    id: str = ""
    title: str | None = None
    updated: datetime = NOW
    key: str = ""
    message: Any = None
    position: int = 0
    at: datetime | None = None
    is_current: bool = True


def test_only_threads_with_news_are_read() -> None:
    log = {"generation": 0, "log": [], "threads": {"quiet": {"cursor": ["q1"], "hints": {}}}}
    rows = [Row("t"), Row("quiet"), Row("work"), Row("told")]
    ends = [ThreadEnd(cast("Any", row), 0) for row in rows]
    told = [Row(key="w1", message=HumanMessage("hello", id="w1"))]
    answers = [log, ends, [(None,), None, None], told, None, [], None]
    run = drive(read_other_threads(SHARING, opened("resource")), answers)
    assert [thread.thread_id for thread in run.result[0]] == ["work"]
    [known] = [effect for effect in run.effects if effect.method == "recall_reads"]
    assert known.arguments == ([(ends[1], "q1"), (ends[2], None), (ends[3], None)],)
    assert run.effects[-1] == Storage("remember_read", ((ends[3], None), None, 0))


def test_nothing_is_read_of_a_thread_that_is_observed_to_its_end() -> None:
    log = {"generation": 0, "log": [], "threads": {"told": {"cursor": ["q1"], "hints": {}}}}
    ends = [ThreadEnd(cast("Any", Row("told")), 0, "q1")]
    run = drive(read_other_threads(SHARING, opened("resource")), [log, ends, [None]])
    assert run.result[0] == []


def test_threads_that_cannot_be_read_are_none() -> None:
    run = drive(read_other_threads_if_possible(SHARING, opened("resource")), [DOWN, PLACE])
    assert run.result == []
    text = "thread 't': other threads cannot be read: the disk is full"
    assert warnings(run) == [f"{text} {SAID_ONCE}"]


@pytest.mark.parametrize("version", [0, 2, 99, "1", None, 1.0, True])
def test_a_log_of_another_form_is_refused(version: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"shared log is {version!r}.*version 1; upgrade"):
        complete_log({**make_blank_log(), "version": version})


def record() -> MemoryRecord:
    known: Any = {"id": "r", "thread_id": "t", "resource_id": "ada", "revision": 7, "generation": 2}
    return {**blank_record(), **known}


@pytest.mark.parametrize(
    ("shared", "is_claimed"), [({"generation": 2}, True), ({"generation": 3}, False), (DOWN, False)]
)
def test_a_log_is_condensed_unless_another_thread_did_so(shared: Any, is_claimed: Any) -> None:
    """What others added since does not matter: where many write, somebody always did."""
    run = drive(claim_reflection(record(), "blocking"), ["mine", shared, None, None])
    assert run.result is is_claimed
    released = [effect.method for effect in run.effects].count("release")
    assert released == (0 if is_claimed else 2)


def test_nothing_is_done_while_another_thread_is_at_it() -> None:
    assert not drive(claim_reflection(record(), "ahead"), ["taken"]).result
    assert not drive(claim_reflection(record(), "ahead"), [DOWN]).result
