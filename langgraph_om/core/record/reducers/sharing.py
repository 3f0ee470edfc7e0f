"""Events that say whose the record is, and what came of the log that threads share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langgraph_om.core.record.record import HINTS, blank_record, select_own_groups
from langgraph_om.core.record.reducers.draft import Draft, add_to_outbox, set_hints
from langgraph_om.core.record.reflections import drop_misfits
from langgraph_om.core.wire import (
    Attempt,
    DeletionFound,
    Group,
    MemoryRecord,
    Opened,
    OthersDescribed,
    Synced,
)
from langgraph_om.core.working.state import forget_updates


def open_record(record: MemoryRecord, event: Opened) -> None:
    """Start the record of a thread, or give it a new identity (a copied thread, another scope)."""
    if record["thread_id"] != event["thread_id"]:
        record["archived"] = None  # nothing of it is archived under its new id yet
        cast("Draft", record).pop("branch", None)
    if (record["thread_id"], record["resource_id"]) != (event["thread_id"], event["resource_id"]):
        for key in ("deletion", "floor", "recalled"):
            cast("Draft", record).pop(key, None)
    if event["scope"] == "resource":
        _join(record, event)
    elif record["scope"] == "resource":
        _leave(record)
    record["id"], record["thread_id"] = event["id"], event["thread_id"]
    record["resource_id"], record["scope"] = event["resource_id"], event["scope"]


def _join(record: MemoryRecord, event: Opened) -> None:
    """Let the thread take part in a shared log from now on, and send its own observations there."""
    was_shared = record["scope"] == "resource"
    record["observed"] = None  # the shared log says what is observed
    record["outbox"] = []
    record["revision"] = 0
    if was_shared and record["resource_id"] != event["resource_id"]:
        # Log and pending work belong to another resource.
        kept = ("id", "thread_id", "resource_id", "scope", "stamps", "token_cache", "usage")
        former: Mapping[str, Any] = record
        blank: Mapping[str, Any] = {**blank_record(), **{key: former[key] for key in kept}}
        record.update(cast("MemoryRecord", blank))
        for key in ("steered", "title", "working"):
            cast("Draft", record).pop(key, None)
    elif record["cursor"]:
        groups = select_own_groups(record)
        own: list[Group] = [{**group, "thread_id": event["thread_id"]} for group in groups]
        thread_id = record["thread_id"] = event["thread_id"]
        add_to_outbox(record, event["id"], kind="join", groups=own, thread_id=thread_id)


def _leave(record: MemoryRecord) -> None:
    """Give the thread a log of its own again, with the observations of its own messages."""
    record["log"] = select_own_groups(record)
    record["outbox"], record["others"], record["revision"] = [], [], 0
    pending = record["pending"]
    record["pending"] = {key: job for key, job in pending.items() if key == "observation"}


def take_over_log(record: MemoryRecord, event: Synced) -> None:
    """Take over the shared log; the changes that it has taken in or refused are done."""
    bodies = {group["id"]: group for group in [*record["log"], *event["groups"]]}
    record["log"] = [bodies[key] for key in event["order"] if key in bodies]
    gone = event.get("gone_acts")
    if gone:
        record["steered"] = [act for act in record.get("steered", ()) if act["id"] not in gone]
    if record["reflection"] is not None:  # what it says of a deleted thread is not kept
        record["reflection"] = drop_misfits(record["log"], record["reflection"])
    record["outbox"] = [change for change in record["outbox"] if change["id"] not in event["sent"]]
    record["generation"], record["revision"] = event["generation"], event["revision"]
    record["cursor"] = event["cursor"]
    set_hints(record, event)
    _set_rest(record, event["rest"])


def _set_rest(record: MemoryRecord, rest: Attempt | None) -> None:
    """Take over what the log's next reflection waits for; a failure of this thread's own stays."""
    own = record["attempts"].get("reflection")
    if own is not None and own["failures"]:
        return
    attempts = dict(record["attempts"])
    attempts.pop("reflection", None)
    if rest is not None:
        attempts["reflection"] = rest
    record["attempts"] = attempts


def set_others(record: MemoryRecord, event: OthersDescribed) -> None:
    """Set what is unobserved in the other threads of the resource."""
    record["others"] = event["others"]


def note_deletion(record: MemoryRecord, event: DeletionFound) -> None:
    """Note how often the thread was deleted; what it had in a shared log then, it has no more."""
    record["deletion"] = event["number"]
    if event["floor"] is None:
        return
    record["floor"] = event["floor"]
    for key in ("recalled", "working"):
        cast("Draft", record).pop(key, None)
    if event["of_resource"]:
        record["chunks"] = [forget_updates(chunk) for chunk in record["chunks"]]
    if record["scope"] != "resource":
        return
    own, is_all = record["thread_id"], event["of_resource"]
    draft = cast("Draft", record)
    for key in ("log", "outbox"):
        draft[key] = [
            item for item in draft[key] if not is_all and item.get("thread_id") not in (None, own)
        ]
    draft.update(cursor=[], chunks=[], reflection=None, pending={}, revision=0)
    record.pop("steered", None)
    record.pop("title", None)
    draft.update(dict.fromkeys(HINTS))
