"""What an operation has cost, how often it failed, and what its next attempt waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langgraph_om.core.wire import (
    Attempt,
    BufferingFailed,
    CycleEnded,
    MemoryRecord,
    ObservationFailed,
    ReflectionActivated,
    Usage,
)


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
