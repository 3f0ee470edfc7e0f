"""The working memory in a record, where the Observer keeps it: what is known, and what is new.

An observation finds out what changes in it. That waits in the record, which is checkpointed, until
a step of a run writes it to where the memory is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from langgraph_om.core.wire import Chunk, MemoryRecord, ObservedWorking, WorkingRead, WorkingUpdate
from langgraph_om.core.working.merge import Value, merge


def add_updates(record: MemoryRecord, updates: Sequence[WorkingUpdate]) -> None:
    """Keep what an observation found, to be written; an error is kept alone."""
    if not updates:
        return
    kept = _read(record)
    new = [update for update in updates if "patch" in update]
    errors = [update["error"] for update in updates if "error" in update]
    error = errors[-1] if errors else None
    record["working"] = {**kept, "updates": [*kept["updates"], *new], "error": error}


def note_read(record: MemoryRecord, event: WorkingRead) -> None:
    """Note the value that a step has read; what it has written is done."""
    kept = _read(record)
    left = [update for update in kept["updates"] if update["cycle_id"] not in event["written"]]
    error = event["error"] if event["written"] else kept["error"]
    record["working"] = {
        "resource_id": event["resource_id"],
        "value": event["value"],
        "updates": left,
        "error": error,
    }


def forget_updates(chunk: Chunk) -> Chunk:
    """Return a chunk without what it changes in the working memory."""
    if "working" not in chunk:
        return chunk
    return cast("Chunk", {key: value for key, value in chunk.items() if key != "working"})


def find_unwritten(record: MemoryRecord, resource_id: str | None) -> list[WorkingUpdate]:
    """Return what is still to be written; of a thread that was copied, only what is the user's."""
    updates = _read(record)["updates"]
    return [update for update in updates if update["resource_id"] == resource_id]


def find_known(record: MemoryRecord, ahead: Iterable[WorkingUpdate] = ()) -> Value:
    """Return the value that the Observer is shown.

    Args:
        record: The memory of the thread.
        ahead: What observations found that are not activated yet.
    """
    kept = _read(record)
    is_own = kept["resource_id"] == record["resource_id"]
    value: Value = kept["value"] if is_own else None
    for update in [*kept["updates"], *ahead]:
        if "patch" in update and update["resource_id"] == record["resource_id"]:
            value = merge(value, update["patch"])
    return value or None


def _read(record: MemoryRecord) -> ObservedWorking:
    blank: ObservedWorking = {
        "resource_id": record["resource_id"],
        "value": None,
        "updates": [],
        "error": None,
    }
    return record.get("working", blank)
