"""Events that put observations and reflections into the log, made in the turn or activated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langgraph_om.core.additions import added_operations, run_beside
from langgraph_om.core.record.groups import replace_groups
from langgraph_om.core.record.record import (
    find_groups,
    find_newest_observed,
    forget_wait,
)
from langgraph_om.core.wire import (
    Attempt,
    BufferingFailed,
    BufferingStart,
    Counted,
    CycleEnded,
    Group,
    JobResult,
    MemoryRecord,
    ObservationActivated,
    ObservationBuffered,
    ObservationEnd,
    ObservationFailed,
    Opened,
    ReflectionActivated,
    ReflectionBuffered,
    ReflectionEnd,
    Stepped,
    ThreadDeleted,
    Tripped,
    Usage,
    Waived,
    WindowsKnown,
)

# The record while events are folded into it, and what several kinds of events do to it.


class Draft(dict[str, Any]):
    """A record being folded: its first level is a copy, deeper values are still shared."""

    owns_counts: bool = False
    """Whether the token counts are a copy too; replaying a long channel copies them once."""


# What an operation has cost, how often it failed, and what its next attempt waits for.


def note_failure(record: MemoryRecord, event: ObservationFailed | BufferingFailed) -> None:
    """Count a failure; the next attempt waits for growth, also after work that was let go."""
    operation = event["operation"]
    former = record["attempts"].get(operation)
    if former is not None and former.get("cycle_id") == event["cycle_id"]:
        return
    facts: Mapping[str, Any] = event
    attempt: Attempt = {
        "failures": event["failures"],
        "at_tokens": event["at_tokens"],
        "retry_at_tokens": event["retry_at_tokens"],
        "cycle_id": event["cycle_id"],
        "error": event["error"],
    }
    if facts.get("discarded"):  # what failed before is what there is to say
        attempt["error"] = former.get("error") if former is not None else None
    attempt["last_message"] = facts.get("last_message")
    record["attempts"] = {**record["attempts"], operation: attempt}
    add_usage(record, event)
    _note_wait(record, event)


def note_success(record: MemoryRecord, event: CycleEnded) -> None:
    """Drop earlier failures of an operation that went well, and add what it has cost."""
    reset_attempts(record, event)
    add_usage(record, event)
    _note_wait(record, event)


def _note_wait(record: MemoryRecord, event: CycleEnded) -> None:
    """Add the time of a cycle that the turn waited for."""
    took = cast("Mapping[str, Any]", event).get("duration_ms")
    if event["type"].startswith("observation-") and took:
        waited = record["turn"].get("waited_ms", 0) + took
        record["turn"] = {**record["turn"], "waited_ms": waited}


def reset_attempts(record: MemoryRecord, event: CycleEnded | ReflectionActivated) -> None:
    """Drop earlier failures, and wait for growth where the event asks for it."""
    operation = event["operation"]
    attempts = {key: value for key, value in record["attempts"].items() if key != operation}
    rest = find_rest(event)
    if rest is not None:
        attempts[operation] = rest
    record["attempts"] = attempts


def find_rest(event: CycleEnded | ReflectionActivated) -> Attempt | None:
    """Return what the next attempt waits for, where a cycle ended well and says so."""
    said: Mapping[str, Any] = event
    if said.get("retry_at_tokens") is None:
        return None
    keys = ("failures", "still_large", "at_tokens", "retry_at_tokens")
    return cast("Attempt", {key: said[key] for key in keys})


def add_usage(record: MemoryRecord, event: CycleEnded) -> None:
    """Add what a cycle has cost to what its operation has cost so far."""
    operation, spent = event["operation"], dict(cast("Mapping[str, int]", event["usage"]))
    if left_out := cast("Mapping[str, Any]", event).get("left_out_tokens"):
        spent["leftOutTokens"] = left_out
    before = cast("Mapping[str, int]", record["usage"].get(operation, {}))
    total = {**before, **{key: before.get(key, 0) + value for key, value in spent.items()}}
    record["usage"] = {**record["usage"], operation: cast("Usage", total)}


def finish_cycle(record: MemoryRecord, event: ObservationEnd | ReflectionEnd) -> None:
    """Put what a cycle of the turn came to into the log."""
    added = added_operations().get(event["operation"])
    if added is not None:
        added.finish(record, event)
    elif event["operation"] == "observation":
        _finish_observation(record, event)
    else:
        _finish_reflection(record, event)


def _finish_observation(record: MemoryRecord, event: ObservationEnd) -> None:
    """Add observations to the log; the cursor moves only from where the Observer began."""
    if _extend_log(record, event, event["groups"]):
        run_beside("observed", record, event)
        note_success(record, event)


def _finish_reflection(record: MemoryRecord, event: ReflectionEnd) -> None:
    """Replace exactly the groups that a reflection read."""
    if _replace_groups(record, event):
        note_success(record, event)


def activate(record: MemoryRecord, event: ObservationActivated | ReflectionActivated) -> None:
    """Put buffered work into the log, without a model."""
    if event["operation"] == "reflection":
        if _replace_groups(record, event):
            record["reflection"] = None
            reset_attempts(record, event)
        return
    ids = event["chunk_ids"]
    if [chunk["id"] for chunk in record["chunks"][: len(ids)]] != ids:
        return
    if _extend_log(record, event, event["groups"]):
        record["chunks"] = record["chunks"][len(ids) :]
        run_beside("observed", record, event)


def _extend_log(
    record: MemoryRecord, event: ObservationEnd | ObservationActivated, groups: Sequence[Group]
) -> bool:
    if event["after"] != find_newest_observed(record):
        return False
    observed = record["observed"]
    known = {group["id"] for group in record["log"]}
    if "strays" in event:  # these do not move the cursor, which would tell that they are observed
        is_known = any(group["id"] in known for group in groups)
        is_awaited = observed and groups[0]["ranges"][0][0] in observed["strays"]
        if observed is not None and (is_known or is_awaited):  # or they are observed for ever
            record["observed"] = {**observed, "strays": event["strays"]}
        if is_known or not is_awaited:
            return False
    behind = event.get("before")
    at = find_groups(record["log"], [behind]) if behind else None
    at = len(record["log"]) if at is None else at
    # After a fork the log may have them although the cursor was set back: it has to move on.
    new = [group for group in groups if group["id"] not in known]
    before = record["log"][:at]
    is_shared = record["scope"] == "resource"
    added = [*before, *new] if is_shared else _join_empty(before, new, event["after"])
    record["log"] = [*added, *record["log"][at:]]
    record["cursor"] = list(event["cursor"])
    return True


def _join_empty(log: list[Group], new: Sequence[Group], after: str | None) -> list[Group]:
    """Add groups to a log; one without a text is joined to such a one right before it.

    So a long small talk, of which nothing is noted, has one group and not one for each observation.
    """
    joined = list(log)
    for group in new:
        before = joined[-1] if joined else None
        if before is None or before["text"] or group["text"] or not _ends_at(before, after):
            joined.append(group)
        else:
            *known, (first, _) = before["ranges"]
            (_, last), *more = group["ranges"]
            joined[-1] = {**before, "ranges": [*known, [first, last], *more]}
        after = joined[-1]["ranges"][-1][1] if joined[-1]["ranges"] else None
    return joined


def _ends_at(group: Group, key: str | None) -> bool:
    return bool(group["ranges"]) and group["ranges"][-1][1] == key


def _replace_groups(record: MemoryRecord, event: ReflectionEnd | ReflectionActivated) -> bool:
    read = event["group_ids"]
    replaced = replace_groups(record["log"], read, event["groups"])
    if replaced is None:
        return False
    record["log"] = replaced.log
    record["generation"] = record["generation"] + 1
    run_beside("reflected", record, {**event, "groups": replaced.groups})
    return True


# Events of a step: counts, the Actor's turn, what ends it without an answer.


def set_counts(record: MemoryRecord, event: Counted) -> None:
    """Set counts and times of window messages, and drop those of messages that left the window."""
    cache = record["token_cache"]
    counts = cache["counts"] if cache["counter"] == event["counter"] else {}
    stamps = record["stamps"]
    draft = cast("Draft", record)
    if not draft.owns_counts:
        counts, stamps, draft.owns_counts = dict(counts), dict(stamps), True
    for key in event["gone"]:
        counts.pop(key, None)
        stamps.pop(key, None)
    counts.update(event["counts"])
    if event["counts"]:  # the conversation has gone on
        forget_wait(record)
    record["token_cache"] = {"counter": event["counter"], "counts": counts}
    record["stamps"] = {**event["stamps"], **stamps} if event["stamps"] else stamps
    if "observed" in event:
        record["observed"] = event["observed"]


def note_step(record: MemoryRecord, event: Stepped) -> None:
    """Note that the Actor goes on, which ends an abort."""
    record["turn"] = {**record["turn"], "request": event["request"], "step": event["step"]}
    record["head"] = event["head"]
    record["tripwire"] = None
    run_beside("stepped", record, event)


def note_windows(record: MemoryRecord, event: WindowsKnown) -> None:
    """Note how long a prompt the Actor's models read."""
    record["windows"] = event["windows"]


def waive(record: MemoryRecord, event: Waived) -> None:
    """Note that this turn does no more of an operation."""
    turn = record["turn"]
    waived = {**turn.get("waived", {}), event["operation"]: event["turn"]}
    record["turn"] = {**turn, "waived": waived}


def trip(record: MemoryRecord, event: Tripped) -> None:
    """End the turn without an answer."""
    record["tripwire"] = {
        "operation": event["operation"],
        "reason": event["reason"],
        "last_message": event["last_message"],
    }


# Events of background jobs: begun, ended, failed. What they made waits in the record.


def start_buffering(record: MemoryRecord, event: BufferingStart) -> None:
    """Note a background job and what it covers; its state is the executor's to know."""
    record["pending"] = {
        **record["pending"],
        event["operation"]: {
            "cycle_id": event["cycle_id"],
            "at": event["at"],
            "tokens": event["tokens"],
            "covers": event["covers"],
        },
    }
    if "turn" in event["covers"]:
        operation, turn = event["operation"], event["covers"]["turn"]
        waive(record, {"type": "waived", "operation": operation, "turn": turn})


def end_buffering(record: MemoryRecord, event: ObservationBuffered | ReflectionBuffered) -> None:
    """Keep a job's result until it is needed."""
    if not _take_pending(record, event):
        return
    added = added_operations().get(event["operation"])
    if added is not None:
        added.finish(record, event)
        return
    if event["operation"] == "observation":
        record["chunks"] = [*record["chunks"], event["chunk"]]
        run_beside("buffered", record, event)
    else:
        record["reflection"] = event["reflection"]
    note_success(record, event)


def fail_buffering(record: MemoryRecord, event: BufferingFailed) -> None:
    """Drop a job that failed, or a result that does not fit the conversation any more."""
    kept = [chunk for chunk in record["chunks"] if chunk["cycle_id"] != event["cycle_id"]]
    dropped = len(kept) < len(record["chunks"])
    record["chunks"] = kept
    if record["reflection"] and record["reflection"]["cycle_id"] == event["cycle_id"]:
        record["reflection"], dropped = None, True
    was_pending = _take_pending(record, event)
    if (was_pending or not dropped) and event.get("failures") is not None:
        note_failure(record, event)
    elif was_pending and event.get("usage"):
        add_usage(record, event)


def _take_pending(record: MemoryRecord, event: JobResult) -> bool:
    """Remove this job from the pending ones; return whether it was one of them."""
    operation = event["operation"]
    job = record["pending"].get(operation)
    if job is None or job["cycle_id"] != event["cycle_id"]:
        return False
    record["pending"] = {key: value for key, value in record["pending"].items() if key != operation}
    return True


# Events that say whose the record is, and what was deleted of it.


def open_record(record: MemoryRecord, event: Opened) -> None:
    """Start the record of a thread, or give it a new identity (a copied thread, another scope)."""
    run_beside("opened", record, event)
    record["id"], record["thread_id"] = event["id"], event["thread_id"]
    record["resource_id"], record["scope"] = event["resource_id"], event["scope"]


def forget_deleted(record: MemoryRecord, event: ThreadDeleted) -> None:
    """Forget what the thread had when it was deleted."""
    run_beside("deleted", record, event)
