"""Events of background jobs: begun, ended, failed. What they made waits in the record."""

from __future__ import annotations

from langgraph_om.core.record.reducers.attempts import add_usage, note_failure, note_success
from langgraph_om.core.record.reducers.draft import set_hints
from langgraph_om.core.record.reducers.log import finish_others
from langgraph_om.core.record.reducers.step import waive
from langgraph_om.core.wire import (
    BufferingFailed,
    BufferingStart,
    JobResult,
    MemoryRecord,
    ObservationBuffered,
    OthersBuffered,
    ReflectionBuffered,
)


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


def end_buffering(
    record: MemoryRecord, event: ObservationBuffered | ReflectionBuffered | OthersBuffered
) -> None:
    """Keep a job's result until it is needed."""
    if not _take_pending(record, event):
        return
    if event["operation"] == "others":
        finish_others(record, event)
        return
    if event["operation"] == "observation":
        record["chunks"] = [*record["chunks"], event["chunk"]]
        set_hints(record, {"thread_title": event["chunk"]["thread_title"]})
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
