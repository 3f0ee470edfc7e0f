"""Name the events, and render them as parts of the custom stream.

An event is a mapping with a `type` and snake_case keys, JSON values only. It is folded into the
record, and `to_part` renders it as a `data-om-*` part; events that are bookkeeping have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, cast

from langgraph_om.core.wire import CycleEnded, CycleStarted, Event, Operation, Part


def name_field(key: str) -> str:
    """Return the field of a part that a key of an event becomes: `cycle_id` is `cycleId`."""
    first, *rest = key.split("_")
    return first + "".join(map(str.title, rest))


def name_fields(*keys: str) -> dict[str, str]:
    """Return the fields of a part that keys of an event become."""
    return {key: "timestamp" if key == "at" else name_field(key) for key in keys}


_CYCLE = {
    **name_fields("cycle_id", "operation", "record_id", "thread_id"),
    "operation": "operationType",
}
_STARTED = {**_CYCLE, "at": "startedAt", **name_fields("thread_ids", "config")}
_ENDED = {**_CYCLE, "at": "completedAt", **name_fields("duration_ms", "observations", "usage")}
_WRITTEN = name_fields("edits", "dropped", "joined", "shortened", "left_out_tokens")
_FAILED = {**_ENDED, "at": "failedAt", "tokens": "tokensAttempted", "error": "error"}

PART_FIELDS: dict[str, dict[str, str]] = {
    "observation-start": {**_STARTED, "tokens": "tokensToObserve"},
    "observation-end": {
        **_ENDED,
        "tokens": "tokensObserved",
        "observation_tokens": "observationTokens",
        **_WRITTEN,
        **name_fields("current_task", "suggested_response"),
    },
    "observation-failed": _FAILED,
    "buffering-start": {**_STARTED, "tokens": "tokensToBuffer"},
    "buffering-end": {
        **_ENDED,
        "tokens": "tokensBuffered",
        "observation_tokens": "bufferedTokens",
        **_WRITTEN,
    },
    "buffering-failed": {**_FAILED, **name_fields("discarded", "reason")},
    "activation": {
        **_CYCLE,
        "at": "activatedAt",
        "chunks": "chunksActivated",
        "tokens": "tokensActivated",
        "observation_tokens": "observationTokens",
        "messages": "messagesActivated",
        "generation": "generationCount",
        **name_fields("observations", "config", "triggered_by", "last_activity_at"),
        **name_fields("ttl_expired_ms", "previous_model", "current_model"),
    },
    "thread-update": name_fields("cycle_id", "thread_id", "old_title", "new_title", "at"),
    "standing": name_fields("cycle_id", "thread_id", "change", "words", "by", "at"),
    "steering": name_fields("id", "action", "at", "before", "after", "record_id", "thread_id"),
    "recalled": {
        "request": "messageId",
        **name_fields("hits", "tokens", "error", "record_id", "thread_id", "at"),
    },
    "extracted": name_fields("cycle_id", "thread_id", "name", "value", "previous", "error", "at"),
    "tripwire": {
        **name_fields("reason", "operation", "record_id", "thread_id", "at"),
        "operation": "operationType",
    },
    "view-trimmed": name_fields(
        *("dropped_messages", "dropped_tokens", "previewed_messages", "dropped_observations"),
        *("limit", "record_id", "thread_id"),
    ),
}
"""Per event with a part: the field that each key becomes. Keys that are `None` are left out."""


_NESTED = ("hits", "messages", "usage")
"""Keys of an event that hold mappings of ours, whose keys are renamed likewise."""


def _rename(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name_field(key): each for key, each in value.items()}
    return [*map(_rename, value)] if isinstance(value, list) else value


def to_part(event: Event) -> Part | None:
    """Render an event for the custom stream.

    Returns:
        `{"type": "data-om-...", "data": {...}}`, or `None` for an event without a part.
    """
    if event["type"] == "status":
        return {"type": "data-om-status", "data": event["data"]}
    kind, fields = event["type"], cast("Mapping[str, Any]", event)
    names = PART_FIELDS.get(kind)
    if names is None:
        return None
    if kind == "observation-end":
        fields = {**fields.get("hints", {}), **fields}
    data = {
        name: _rename(fields[key]) if key in _NESTED else fields[key]
        for key, name in names.items()
        if fields.get(key) is not None
    }
    if kind in ("observation-end", "buffering-end"):
        data |= _tell_values(fields)
    if "operationType" in data:
        data["operationType"] = public_operation(data["operationType"])
    return {"type": f"data-om-{kind}", "data": data}


def _tell_values(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with the values that a cycle found, and those that it could not tell."""
    entries = [
        entry
        for found_by in (event, event.get("chunk") or {})
        for entry in found_by.get("found", {}).get("extract", ())
    ]
    found = {item["name"]: item["value"] for item in entries if "value" in item}
    failed = [{"name": item["name"], "error": item["error"]} for item in entries if "error" in item]
    told = {"extractedValues": found, "extractionFailures": failed}
    return {name: value for name, value in told.items() if value}


def iso(moment: datetime) -> str:
    """Return a time as ISO text with milliseconds."""
    return moment.isoformat(timespec="milliseconds")


def describe_cycle(event: CycleStarted | CycleEnded) -> dict[str, Any]:
    """Say which cycle an event is of, for traces and hooks."""
    return {
        "operation": public_operation(event["operation"]),
        "trigger": "buffer" if event["type"].startswith("buffering") else "turn",
        "cycle_id": event["cycle_id"],
        "record_id": event["record_id"],
        "thread_id": event["thread_id"],
        "resource_id": event["resource_id"],
    }


def public_operation(operation: Operation) -> Literal["observation", "reflection"]:
    """Return an operation as users see it: one of these two."""
    return "reflection" if operation == "reflection" else "observation"
