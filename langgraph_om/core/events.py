"""Render events as parts of the custom stream.

An event is a mapping with a `type` and snake_case keys, JSON values only. It is folded into the
record, and `to_part` renders it as a part of `langgraph_om/parts.py`; bookkeeping has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, cast, get_args, get_type_hints

from langgraph_om.core.wire import CycleEnded, CycleStarted, Event, Operation
from langgraph_om.parts import Part

_KEYS = {
    "operationType": "operation",
    **dict.fromkeys(("startedAt", "completedAt", "failedAt", "activatedAt", "timestamp"), "at"),
    **dict.fromkeys(("tokensToObserve", "tokensObserved", "tokensAttempted"), "tokens"),
    **dict.fromkeys(("tokensToBuffer", "tokensBuffered", "tokensActivated"), "tokens"),
    "bufferedTokens": "observation_tokens",
    "chunksActivated": "chunks",
    "messagesActivated": "messages",
    "generationCount": "generation",
    "messageId": "request",
}
"""Fields that have another name than their key of an event; `cycleId` is `cycle_id`, and so on."""

_CAPITAL = re.compile("[A-Z]")


def _read_fields(part: type) -> tuple[str, dict[str, str]]:
    """Return the type of a part, and the key of an event that each field of its data comes from."""
    types = get_type_hints(part)
    fields = types["data"].__annotations__
    keys = {each: _KEYS.get(each) or _CAPITAL.sub(r"_\g<0>", each).lower() for each in fields}
    return get_args(types["type"])[0], keys


_FIELDS = dict(map(_read_fields, get_args(Part)))


def _rename(value: Any) -> Any:
    """Rename the keys of mappings of ours: `thread_id` is `threadId`."""
    if isinstance(value, Mapping):
        return {_name_field(key): each for key, each in value.items()}
    return [*map(_rename, value)] if isinstance(value, list) else value


def _name_field(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(map(str.title, rest))


def to_part(event: Event) -> Part | None:
    """Render an event for the custom stream.

    Returns:
        `{"type": "data-om-...", "data": {...}}`, or `None` for an event without a part. Fields
        that are `None` are left out.
    """
    if event["type"] == "status":
        return {"type": "data-om-status", "data": event["data"]}
    kind = f"data-om-{event['type']}"
    if kind not in _FIELDS:
        return None
    told: Mapping[str, Any] = event
    told = {**told.get("hints", {}), **told, **_tell_values(told)}
    data = {
        field: _rename(told[key]) if key in ("hits", "usage") else told[key]
        for field, key in _FIELDS[kind].items()
        if told.get(key) is not None
    }
    if "operationType" in data:
        data["operationType"] = public_operation(data["operationType"])
    return cast("Part", {"type": kind, "data": data})


def _tell_values(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with the values that a cycle found, and those that it could not tell."""
    entries = [
        entry
        for found_by in (event, event.get("chunk") or {})
        for entry in found_by.get("found", {}).get("extract", ())
    ]
    found = {item["name"]: item["value"] for item in entries if "value" in item}
    failed = [{"name": item["name"], "error": item["error"]} for item in entries if "error" in item]
    told = {"extracted_values": found, "extraction_failures": failed}
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
