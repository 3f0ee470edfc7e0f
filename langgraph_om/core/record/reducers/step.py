"""Events of a step: counts, the Actor's turn, what is archived, removed or recalled."""

from __future__ import annotations

from typing import cast

from langgraph_om.core.record.record import forget_wait
from langgraph_om.core.record.reducers.draft import Draft
from langgraph_om.core.wire import (
    Archived,
    Counted,
    Evicted,
    MemoryRecord,
    Recalled,
    SteeredItem,
    Stepped,
    Tripped,
    Waived,
)


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
    if any(act["is_new"] for act in record.get("steered", ())):  # the step has told of them
        told = [cast("SteeredItem", {**act, "is_new": False}) for act in record["steered"]]
        record["steered"] = told
    if record.get("title", {}).get("is_new"):
        record["title"] = {**record["title"], "is_new": False}


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


def note_archived(record: MemoryRecord, event: Archived) -> None:
    """Note up to where the archive has the conversation."""
    record["archived"] = event["last"]
    if event["branch"] is not None:
        record["branch"] = event["branch"]


def note_evicted(record: MemoryRecord, event: Evicted) -> None:
    """Note up to where observed messages were removed; what comes back changes nothing."""
    ids, former = event["ids"], record["evicted"]
    if former == event["last"]:
        return
    record["evicted"] = event["last"]
    observed = record["observed"]
    if observed is not None:
        new = len(ids) - (ids.index(former) + 1 if former in ids else 0)
        index, count = (observed[key] - new for key in ("index", "count"))
        record["observed"] = {**observed, "index": index, "count": count}
    if event["tokens"]:
        record["evicted_tokens"] = record.get("evicted_tokens", 0) + event["tokens"]


def set_recalled(record: MemoryRecord, event: Recalled) -> None:
    """Keep what was found for the live request, in the place of what was found before."""
    record["recalled"] = {
        "request": event["request"],
        "digest": event["digest"],
        "text": event["text"],
        "tokens": event["tokens"],
    }
