"""What memory does, said once: events that are folded into the record and shown on the stream.

An event is a mapping with a `type` and snake_case keys, JSON values only. `to_part` renders it as
the `data-om-*` part of the custom stream; events that only keep the books have no part.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from langgraph_om.core.config.options import Thresholds
from langgraph_om.core.plan import activation_count
from langgraph_om.core.record.chunks import live_chunks
from langgraph_om.core.record.record import MemoryRecord, log_tokens, outward
from langgraph_om.core.record.window import Window

Event = dict[str, Any]
"""A memory event."""

Part = dict[str, Any]
"""A `data-om-*` part: `{"type": ..., "data": {...}}`."""

_CYCLE = {
    "cycle_id": "cycleId",
    "operation": "operationType",
    "record_id": "recordId",
    "thread_id": "threadId",
}
_STARTED = {**_CYCLE, "at": "startedAt", "thread_ids": "threadIds", "config": "config"}
_ENDED = {
    **_CYCLE,
    "at": "completedAt",
    "duration_ms": "durationMs",
    "observations": "observations",
    "usage": "usage",
}
_FAILED = {**_ENDED, "at": "failedAt", "tokens": "tokensAttempted", "error": "error"}

PART_FIELDS: dict[str, dict[str, str]] = {
    "observation-start": {**_STARTED, "tokens": "tokensToObserve"},
    "observation-end": {
        **_ENDED,
        "tokens": "tokensObserved",
        "observation_tokens": "observationTokens",
        "current_task": "currentTask",
        "suggested_response": "suggestedResponse",
    },
    "observation-failed": _FAILED,
    "buffering-start": {**_STARTED, "tokens": "tokensToBuffer"},
    "buffering-end": {
        **_ENDED,
        "tokens": "tokensBuffered",
        "observation_tokens": "bufferedTokens",
    },
    "buffering-failed": _FAILED,
    "activation": {
        **_CYCLE,
        "at": "activatedAt",
        "chunks": "chunksActivated",
        "tokens": "tokensActivated",
        "observation_tokens": "observationTokens",
        "messages": "messagesActivated",
        "generation": "generationCount",
        "observations": "observations",
        "config": "config",
    },
    "thread-update": {
        "cycle_id": "cycleId",
        "thread_id": "threadId",
        "old_title": "oldTitle",
        "new_title": "newTitle",
        "at": "timestamp",
    },
    "tripwire": {
        "reason": "reason",
        "operation": "operationType",
        "record_id": "recordId",
        "thread_id": "threadId",
        "at": "timestamp",
    },
    "view-trimmed": {
        "dropped_messages": "droppedMessages",
        "dropped_tokens": "droppedTokens",
        "limit": "limit",
        "record_id": "recordId",
        "thread_id": "threadId",
    },
}
"""Per event with a part: which key becomes which field. Keys that are `None` are left out."""


def to_part(event: Mapping[str, Any]) -> Part | None:
    """Render an event for the custom stream.

    Returns:
        `{"type": "data-om-...", "data": {...}}`, or `None` for an event without a part.
    """
    kind = event["type"]
    if kind == "status":
        return {"type": "data-om-status", "data": event["data"]}
    names = PART_FIELDS.get(kind)
    if names is None:
        return None
    data = {name: event[key] for key, name in names.items() if event.get(key) is not None}
    if "operationType" in data:
        data["operationType"] = outward(data["operationType"])
    return {"type": f"data-om-{kind}", "data": data}


def iso(moment: datetime) -> str:
    """Write a time as ISO text with milliseconds."""
    return moment.isoformat(timespec="milliseconds")


def status_data(
    record: MemoryRecord, window: Window, thresholds: Thresholds, *, step: int
) -> dict[str, Any]:
    """State both windows: the `data` of `data-om-status`.

    Args:
        record: The memory of the thread.
        window: Its unobserved messages.
        thresholds: The limits in force.
        step: The agent's step since the newest human message, 0-based.
    """
    observations = log_tokens(record)
    return {
        "windows": {
            "active": {
                "messages": {
                    "tokens": window.tokens,
                    "threshold": thresholds.messages_at(observations),
                },
                "observations": {
                    "tokens": observations,
                    "threshold": thresholds.observations_at(window.tokens),
                },
            },
            "buffered": {
                "observations": _buffered_observations(record, window, thresholds),
                "reflection": _buffered_reflection(record),
            },
        },
        "recordId": record["id"],
        "threadId": record["thread_id"],
        "stepNumber": step,
        "generationCount": record["generation"],
    }


def _buffered_observations(
    record: MemoryRecord, window: Window, thresholds: Thresholds
) -> dict[str, Any]:
    live = live_chunks(record, window)
    log = log_tokens(record)
    count = activation_count(live, window.tokens, thresholds, log) if live else 0
    return {
        "chunks": len(live),
        "messageTokens": sum(part.tokens for part in live),
        "projectedMessageRemoval": sum(part.tokens for part in live[:count]),
        "observationTokens": sum(part.chunk["tokens"] for part in live),
        "status": _buffer_status(record, "observation", is_there=bool(live)),
    }


def _buffered_reflection(record: MemoryRecord) -> dict[str, Any]:
    buffered = record["reflection"]
    return {
        "inputObservationTokens": buffered["input_tokens"] if buffered else 0,
        "observationTokens": buffered["tokens"] if buffered else 0,
        "status": _buffer_status(record, "reflection", is_there=buffered is not None),
    }


def _buffer_status(record: MemoryRecord, operation: str, *, is_there: bool) -> str:
    if operation in record["pending"]:
        return "running"
    return "complete" if is_there else "idle"
