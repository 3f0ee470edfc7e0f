"""Fold events into the record: the only code that changes memory, and the channel's reducer.

Rules of this file:

1. Everything that changes memory is an event, and `fold` is where events take effect.
2. `fold` is deterministic, never mutates what it is given, and
   `fold(fold(r, xs), ys) == fold(r, xs + ys)`, so it serves as the reducer of either kind of
   channel.
3. An event that was folded already, or that was computed from memory that has moved on since,
   changes nothing: observations name the cursor they continue, reflections the groups they read.
   The cursor never moves back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langgraph_om.core.record.edits import check_edit
from langgraph_om.core.record.record import (
    HINTS,
    RECORD_VERSION,
    blank_record,
    complete_record,
    find_groups,
    find_newest_observed,
    select_own_groups,
)
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.errors import ConfigurationError


class _Draft(dict[str, Any]):
    """A record being folded: its first level is a copy, deeper values are still shared."""

    owns_counts: bool = False
    """Whether the token counts are a copy too; replaying a long channel copies them once."""


def fold(record: Mapping[str, Any] | None, updates: Sequence[Any]) -> MemoryRecord:
    """Apply updates in order, as the reducer of the `om` channel.

    Args:
        record: The memory so far; empty or `None` for a new thread.
        updates: Each a list of events, one event (a mapping with `type`), or a mapping of record
            keys, which is merged by key (a manual edit).

    Returns:
        The new record; the given one is unchanged.

    Raises:
        ConfigurationError: When an update is none of these.
    """
    draft = _Draft(complete_record(record))
    for update in updates:
        for event in update if isinstance(update, list | tuple) else [update]:
            _apply(draft, event)
    return cast("MemoryRecord", dict(draft))


def fold_one(record: Mapping[str, Any] | None, update: object) -> MemoryRecord:
    """Apply one update, as a plain LangGraph reducer."""
    return fold(record, [update])


def _apply(record: _Draft, event: object) -> None:
    if event is None:
        return
    if not isinstance(event, Mapping):
        msg = (
            f"an update of `om` is {event!r}; pass an event, a mapping of record keys, or "
            f"LangGraph's `Overwrite` to replace the whole record"
        )
        raise ConfigurationError(msg)
    if "type" in event:
        effect = _EFFECTS.get(str(event["type"]))
        if effect is None:
            msg = f"an update of `om` has the unknown event type {event['type']!r}"
            raise ConfigurationError(msg)
        effect(record, event)
        return
    check_edit(event, RECORD_VERSION)
    if record["id"] and event.get("id", record["id"]) != record["id"]:
        return  # the memory of another agent, such as a subagent whose state is merged into this
    record.update(event)
    record.owns_counts = False


# --- Effects: one per event type. Each replaces values, none changes a value in place. -----------


def _open(record: _Draft, event: Mapping[str, Any]) -> None:
    """Start the record of a thread, or give it a new identity (a copied thread, another scope)."""
    if record["thread_id"] != event["thread_id"]:
        record["archived"] = None  # nothing of it is archived under its new id yet
    if event["scope"] == "resource":
        _join(record, event)
    elif record["scope"] == "resource":
        _leave(record)
    for key in ("id", "thread_id", "resource_id", "scope"):
        record[key] = event[key]


def _join(record: _Draft, event: Mapping[str, Any]) -> None:
    """Let the thread take part in a shared log from now on, and send its own observations there."""
    was_shared = record["scope"] == "resource"
    record["observed"] = None  # the shared log says what is observed
    record["outbox"] = []
    record["revision"] = 0
    if was_shared and record["resource_id"] != event["resource_id"]:
        # Log and pending work belong to another resource.
        kept = ("id", "thread_id", "resource_id", "scope", "stamps", "token_cache", "usage")
        record.update({**blank_record(), **{key: record[key] for key in kept}})
    elif record["cursor"]:
        groups = select_own_groups(cast("MemoryRecord", record))
        own = [{**group, "thread_id": event["thread_id"]} for group in groups]
        thread_id = record["thread_id"] = event["thread_id"]
        _add_to_outbox(record, event["id"], kind="join", groups=own, thread_id=thread_id)


def _leave(record: _Draft) -> None:
    """Give the thread a log of its own again, with the observations of its own messages."""
    record["log"] = select_own_groups(cast("MemoryRecord", record))
    record["outbox"], record["others"], record["revision"] = [], [], 0
    pending = record["pending"]
    record["pending"] = {key: job for key, job in pending.items() if key == "observation"}


def _sync(record: _Draft, event: Mapping[str, Any]) -> None:
    """Take over the shared log; the changes that it has taken in or refused are done."""
    bodies = {group["id"]: group for group in [*record["log"], *event["groups"]]}
    record["log"] = [bodies[key] for key in event["order"] if key in bodies]
    record["outbox"] = [change for change in record["outbox"] if change["id"] not in event["sent"]]
    for key in ("generation", "revision", "cursor"):
        record[key] = event[key]
    _set_hints(record, event)


def _set_others(record: _Draft, event: Mapping[str, Any]) -> None:
    """Set what is unobserved in the other threads of the resource."""
    record["others"] = event["others"]


def _set_counts(record: _Draft, event: Mapping[str, Any]) -> None:
    """Set counts and times of window messages, and drop those of messages that left the window."""
    cache = record["token_cache"]
    counts = cache["counts"] if cache["counter"] == event["counter"] else {}
    stamps = record["stamps"]
    if not record.owns_counts:
        counts, stamps, record.owns_counts = dict(counts), dict(stamps), True
    for key in event["gone"]:
        counts.pop(key, None)
        stamps.pop(key, None)
    counts.update(event["counts"])
    record["token_cache"] = {"counter": event["counter"], "counts": counts}
    record["stamps"] = {**event["stamps"], **stamps} if event["stamps"] else stamps
    if "observed" in event:
        record["observed"] = event["observed"]


def _note_step(record: _Draft, event: Mapping[str, Any]) -> None:
    """Note that the Actor goes on, which ends an abort."""
    record["turn"] = {"request": event["request"], "step": event["step"]}
    record["tripwire"] = None


def _finish_cycle(record: _Draft, event: Mapping[str, Any]) -> None:
    effects = {
        "observation": _finish_observation,
        "reflection": _finish_reflection,
        "others": _finish_others,
    }
    effects[event["operation"]](record, event)


def _finish_observation(record: _Draft, event: Mapping[str, Any]) -> None:
    """Add observations to the log; the cursor moves only from where the Observer began."""
    if _extend_log(record, event, [event["group"]]):
        _set_hints(record, event)
        _note_success(record, event)


def _finish_reflection(record: _Draft, event: Mapping[str, Any]) -> None:
    """Replace exactly the groups that a reflection read."""
    if _replace_groups(record, event):
        _set_hints(record, event)
        _note_success(record, event)


def _finish_others(record: _Draft, event: Mapping[str, Any]) -> None:
    """Send observations of other threads' messages to the shared log."""
    known = {item["id"] for item in [*record["outbox"], *record["log"]]}
    sections = [section for section in event["sections"] if section["groups"][0]["id"] not in known]
    for section in sections:
        _add_to_outbox(record, section["groups"][0]["id"], kind="extend", **section)
    if sections:
        _note_success(record, event)


def _note_failure(record: _Draft, event: Mapping[str, Any]) -> None:
    """Count a failure; the next attempt waits for growth."""
    operation = event["operation"]
    if record["attempts"].get(operation, {}).get("cycle_id") == event["cycle_id"]:
        return
    keys = ("failures", "at_tokens", "retry_at_tokens", "cycle_id", "error")
    attempt = {key: event[key] for key in keys}
    attempt["last_message"] = event.get("last_message")
    record["attempts"] = {**record["attempts"], operation: attempt}
    _add_usage(record, event)


def _start_buffering(record: _Draft, event: Mapping[str, Any]) -> None:
    """Note a background job and what it covers; its state is the executor's to know."""
    record["pending"] = {
        **record["pending"],
        event["operation"]: {key: event[key] for key in ("cycle_id", "at", "tokens", "covers")},
    }


def _end_buffering(record: _Draft, event: Mapping[str, Any]) -> None:
    """Keep a job's result until it is needed."""
    if not _take_pending(record, event):
        return
    if event["operation"] == "others":
        _finish_others(record, event)
        return
    if event["operation"] == "observation":
        record["chunks"] = [*record["chunks"], event["chunk"]]
    else:
        record["reflection"] = event["reflection"]
    _note_success(record, event)


def _fail_buffering(record: _Draft, event: Mapping[str, Any]) -> None:
    """Drop a job that failed, or a result that does not fit the conversation any more."""
    kept = [chunk for chunk in record["chunks"] if chunk["cycle_id"] != event["cycle_id"]]
    dropped = len(kept) < len(record["chunks"])
    record["chunks"] = kept
    if record["reflection"] and record["reflection"]["cycle_id"] == event["cycle_id"]:
        record["reflection"], dropped = None, True
    was_pending = _take_pending(record, event)
    if (was_pending or not dropped) and event.get("failures") is not None:
        _note_failure(record, event)
    elif was_pending and event.get("usage"):
        _add_usage(record, event)


def _take_pending(record: _Draft, event: Mapping[str, Any]) -> bool:
    """Remove this job from the pending ones; return whether it was one of them."""
    operation = event["operation"]
    job = record["pending"].get(operation)
    if job is None or job["cycle_id"] != event["cycle_id"]:
        return False
    record["pending"] = {key: value for key, value in record["pending"].items() if key != operation}
    return True


def _activate(record: _Draft, event: Mapping[str, Any]) -> None:
    """Put buffered work into the log, without a model."""
    if event["operation"] == "reflection":
        if _replace_groups(record, event):
            record["reflection"] = None
            _reset_attempts(record, event)
        return
    ids = event["chunk_ids"]
    if [chunk["id"] for chunk in record["chunks"][: len(ids)]] != ids:
        return
    if _extend_log(record, event, event["groups"]):
        record["chunks"] = record["chunks"][len(ids) :]
        _set_hints(record, event)


def _trip(record: _Draft, event: Mapping[str, Any]) -> None:
    """End the turn without an answer."""
    keys = ("operation", "reason", "last_message")
    record["tripwire"] = {key: event[key] for key in keys}


def _note_archived(record: _Draft, event: Mapping[str, Any]) -> None:
    """Note up to where the archive has the conversation."""
    record["archived"] = event["last"]


def _note_evicted(record: _Draft, event: Mapping[str, Any]) -> None:
    """Note up to where observed messages were removed from the conversation."""
    record["evicted"] = event["last"]
    observed, gone = record["observed"], len(event.get("ids", ()))
    if observed is not None:
        places = {key: observed[key] - gone for key in ("index", "count")}
        record["observed"] = {**observed, **places}


def _ignore(record: _Draft, event: Mapping[str, Any]) -> None:
    """Change nothing; the event is only streamed."""


_EFFECTS: dict[str, Callable[[_Draft, Mapping[str, Any]], None]] = {
    "opened": _open,
    "counted": _set_counts,
    "stepped": _note_step,
    "observation-end": _finish_cycle,
    "observation-failed": _note_failure,
    "buffering-start": _start_buffering,
    "buffering-end": _end_buffering,
    "buffering-failed": _fail_buffering,
    "activation": _activate,
    "observation-start": _ignore,
    "thread-update": _ignore,
    "status": _ignore,
    "view-trimmed": _ignore,
    "tripped": _trip,
    "archived": _note_archived,
    "evicted": _note_evicted,
    "tripwire": _ignore,
    "synced": _sync,
    "others": _set_others,
}

FOLDED_TYPES = frozenset(kind for kind, effect in _EFFECTS.items() if effect is not _ignore)
"""The event types that change memory and therefore go into the channel."""


# --- What several effects do ---------------------------------------------------------------------


def _extend_log(record: dict[str, Any], event: Mapping[str, Any], groups: Sequence[Group]) -> bool:
    known = {group["id"] for group in record["log"]}
    if event["after"] != find_newest_observed(record) or any(
        group["id"] in known for group in groups
    ):
        return False
    before = find_groups(record["log"], [event["before"]]) if event.get("before") else None
    at = len(record["log"]) if before is None else before
    record["log"] = [*record["log"][:at], *groups, *record["log"][at:]]
    record["cursor"] = list(event["cursor"])
    if record["observed"] is not None and event.get("strays") is not None:
        record["observed"] = {**record["observed"], "strays": event["strays"]}
    if record["scope"] == "resource":
        hints = {name: event.get(name) for name in HINTS}
        _add_to_outbox(
            record,
            event["cycle_id"],
            kind="extend",
            thread_id=record["thread_id"],
            after=event["after"],
            groups=list(groups),
            hints=hints,
        )
    return True


def _replace_groups(record: _Draft, event: Mapping[str, Any]) -> bool:
    read = event["group_ids"]
    start = find_groups(record["log"], read)
    if start is None:
        return False
    log = record["log"]
    record["log"] = [*log[:start], *event["groups"], *log[start + len(read) :]]
    record["generation"] = record["generation"] + 1
    if record["scope"] == "resource":
        groups = list(event["groups"])
        _add_to_outbox(
            record, event["cycle_id"], kind="replace", group_ids=list(read), groups=groups
        )
    return True


def _add_to_outbox(record: dict[str, Any], cycle_id: str, **change: Any) -> None:
    """Note a change that the shared log does not have yet; without a thread id there is none."""
    if not record["thread_id"]:
        return
    hints = {name: record[name] for name in HINTS}
    item = {"id": cycle_id, "cursor": record["cursor"], "hints": hints, **change}
    record["outbox"] = [*record["outbox"], item]


def _set_hints(record: _Draft, event: Mapping[str, Any]) -> None:
    """Take over the hints that the event has; the others stay."""
    for hint in HINTS:
        if event.get(hint) is not None:
            record[hint] = event[hint]


def _note_success(record: _Draft, event: Mapping[str, Any]) -> None:
    _reset_attempts(record, event)
    _add_usage(record, event)


def _reset_attempts(record: _Draft, event: Mapping[str, Any]) -> None:
    """Drop earlier failures, and wait for growth where the event asks for it."""
    operation = event["operation"]
    attempts = {key: value for key, value in record["attempts"].items() if key != operation}
    if event.get("retry_at_tokens") is not None:
        keys = ("failures", "still_large", "at_tokens", "retry_at_tokens")
        attempts[operation] = {key: event[key] for key in keys}
    record["attempts"] = attempts


def _add_usage(record: _Draft, event: Mapping[str, Any]) -> None:
    usage, spent = record["usage"], event["usage"]
    before = usage.get(event["operation"], {})
    record["usage"] = {
        **usage,
        event["operation"]: {
            **before,
            **{key: before.get(key, 0) + value for key, value in spent.items()},
        },
    }
