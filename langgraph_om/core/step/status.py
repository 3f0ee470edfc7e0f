"""The status of both windows, and the notice of a trimmed view."""

from __future__ import annotations

from typing import Literal

from langgraph_om.core.actor.prompt import count_extra
from langgraph_om.core.actor.shown import count_left_out
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.plan import count_to_activate, select_ready_chunks
from langgraph_om.core.record.chunks import select_live_chunks
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import (
    BufferedObservations,
    MemoryRecord,
    Operation,
    ReflectionState,
    StatusData,
    ViewTrimmed,
)


def build_status(
    record: MemoryRecord, window: Window, thresholds: Thresholds, *, step: int
) -> StatusData:
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
                "observations": _sum_buffered(record, window, thresholds),
                "reflection": _describe_reflection(record),
            },
        },
        "recordId": record["id"],
        "threadId": record["thread_id"],
        "stepNumber": step,
        "generationCount": record["generation"],
    }


def _sum_buffered(
    record: MemoryRecord, window: Window, thresholds: Thresholds
) -> BufferedObservations:
    live = select_live_chunks(record, window)
    log = log_tokens(record)
    ready = select_ready_chunks(live, window, thresholds)
    count = count_to_activate(ready, window.tokens, thresholds, log) if ready else 0
    return {
        "chunks": len(live),
        "messageTokens": sum(part.tokens for part in live),
        "projectedMessageRemoval": sum(part.tokens for part in live[:count]),
        "observationTokens": sum(part.chunk["tokens"] for part in live),
        "status": _read_buffer_status(record, "observation", is_there=bool(live)),
    }


def _describe_reflection(record: MemoryRecord) -> ReflectionState:
    buffered = record["reflection"]
    return {
        "inputObservationTokens": buffered["input_tokens"] if buffered else 0,
        "observationTokens": buffered["tokens"] if buffered else 0,
        "status": _read_buffer_status(record, "reflection", is_there=buffered is not None),
    }


def _read_buffer_status(
    record: MemoryRecord, operation: Operation, *, is_there: bool
) -> Literal["idle", "running", "complete"]:
    if operation in record["pending"]:
        return "running"
    return "complete" if is_there else "idle"


def build_trim_notice(
    settings: Settings, record: MemoryRecord, window: Window, working: str = ""
) -> list[ViewTrimmed]:
    """Say when the Actor's view has to leave messages out to keep to `max_input_tokens`."""
    limit = settings.max_input_tokens
    if limit is None:
        return []
    extra = count_extra(record, settings.guide, working)
    dropped = count_left_out(window, log_tokens(record), limit, extra=extra)
    left_out = [entry for entry in window.entries[:dropped] if entry.key != window.request]
    if not left_out:
        return []
    return [
        {
            "type": "view-trimmed",
            "dropped_messages": len(left_out),
            "dropped_tokens": sum(entry.tokens for entry in left_out),
            "limit": limit,
            "record_id": record["id"],
            "thread_id": record["thread_id"],
        }
    ]
