"""Note what a step has written and read of a working memory that the Observer keeps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from langgraph_om.core.events import iso
from langgraph_om.core.wire import Event, Extracted, MemoryRecord, WorkingRead, WorkingUpdate
from langgraph_om.core.working.late import Joined
from langgraph_om.core.working.merge import WORKING_NAME


def note_working(
    record: MemoryRecord,
    resource_id: str | None,
    joined: Joined,
    updates: Sequence[WorkingUpdate],
    now: datetime,
) -> list[Event]:
    """Return the events that keep what was read in the record, and tell of what was written.

    Args:
        record: The memory of the thread.
        resource_id: Whose run it is.
        joined: What was written and read.
        updates: What was to be written.
        now: The current time.
    """
    kept = record.get("working")
    is_known = kept is not None and (kept["resource_id"], kept["value"]) == (
        resource_id,
        joined.value,
    )
    if is_known and not updates:
        return []
    read: WorkingRead = {
        "type": "working-read",
        "resource_id": resource_id,
        "value": joined.value,
        "written": [update["cycle_id"] for update in updates],
        "error": joined.error,
    }
    if not updates:
        return [read]
    told: Extracted = {
        "type": "extracted",
        "operation": "observation",
        "cycle_id": updates[-1]["cycle_id"],
        "at": iso(now),
        "record_id": record["id"],
        "thread_id": record["thread_id"],
        "resource_id": resource_id,
        "tokens": 0,
        "name": WORKING_NAME,
    }
    events: list[Event] = [read]
    if joined.value != joined.previous:
        events.append({**told, "value": joined.value, "previous": joined.previous})
    if joined.error is not None:
        events.append({**told, "error": joined.error})
    return events
