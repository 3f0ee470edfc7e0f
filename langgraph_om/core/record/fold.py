"""Fold events into the record: the only code that changes memory, and the channel's reducer.

Deterministic, batching-invariant, and idempotent for each cycle; the cursor never moves back.
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
    """A record while it is folded: its first level is a copy, deeper values are still shared."""

    owns_counts: bool = False
    """Whether the token counts are a copy too; replaying a long channel copies them only once."""


def fold(record: Mapping[str, Any] | None, updates: Sequence[Any]) -> MemoryRecord:
    """Apply updates in order; the reducer of the `om` channel.

    Args:
        record: The memory so far; empty or `None` for a new thread.
        updates: Each a list of events, one event (a mapping with `type`), or a mapping of record
            keys, which is merged by key (an edit by hand).

    Returns:
        The new record; the given one is left as it was.

    Raises:
        ConfigurationError: When an update is none of these.
    """
    draft = _Draft(complete_record(record))
    for update in updates:
        for event in update if isinstance(update, list | tuple) else [update]:
            _apply(draft, event)
    return cast("MemoryRecord", dict(draft))


def fold_one(record: Mapping[str, Any] | None, update: object) -> MemoryRecord:
    """Apply one update; `fold` in the form of a plain LangGraph reducer."""
    return fold(record, [update])


def _apply(record: _Draft, event: object) -> None:
    if event is None:
        return
    if not isinstance(event, Mapping):
        msg = (
            f"an update of `om` is {event!r}; write an event, a mapping of record keys, or "
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
    """The thread is looked at for the first time, or under a new identity (a copied thread)."""
    if record["thread_id"] != event["thread_id"]:
        record["archived"] = None  # nothing of it is archived under its new id yet
    if event["scope"] == "resource":
        _join(record, event)
    elif record["scope"] == "resource":
        _leave(record)
    for key in ("id", "thread_id", "resource_id", "scope"):
        record[key] = event[key]


def _join(record: _Draft, event: Mapping[str, Any]) -> None:
    """The thread takes part in a shared log from now on, with what it remembers by itself."""
    was_shared = record["scope"] == "resource"
    record["outbox"] = []
    record["revision"] = 0
    if was_shared and record["resource_id"] != event["resource_id"]:
        # The log is that of somebody else, and so is what is at work.
        kept = ("id", "thread_id", "resource_id", "scope", "stamps", "token_cache", "usage")
        record.update({**blank_record(), **{key: record[key] for key in kept}})
    elif record["cursor"]:
        groups = select_own_groups(cast("MemoryRecord", record))
        own = [{**group, "thread_id": event["thread_id"]} for group in groups]
        thread_id = record["thread_id"] = event["thread_id"]
        _send(record, event["id"], kind="join", groups=own, thread_id=thread_id)


def _leave(record: _Draft) -> None:
    """The thread remembers by itself from now on, with what was observed of its own messages."""
    record["log"] = select_own_groups(cast("MemoryRecord", record))
    record["outbox"], record["others"], record["revision"] = [], [], 0
    pending = record["pending"]
    record["pending"] = {key: job for key, job in pending.items() if key == "observation"}


def _send(record: dict[str, Any], cycle_id: str, **change: Any) -> None:
    """Note a change that the shared log does not have yet; without a thread there is none."""
    if not record["thread_id"]:
        return
    hints = {name: record[name] for name in HINTS}
    item = {"id": cycle_id, "cursor": record["cursor"], "hints": hints, **change}
    record["outbox"] = [*record["outbox"], item]


def _sync(record: _Draft, event: Mapping[str, Any]) -> None:
    """The log is again what the shared one is; changes that it has, or refused, are done."""
    bodies = {group["id"]: group for group in [*record["log"], *event["groups"]]}
    record["log"] = [bodies[key] for key in event["order"] if key in bodies]
    record["outbox"] = [each for each in record["outbox"] if each["id"] not in event["sent"]]
    for key in ("generation", "revision", "cursor"):
        record[key] = event[key]
    _take_hints(record, event)


def _read_others(record: _Draft, event: Mapping[str, Any]) -> None:
    """What the other threads of the resource have that is not observed."""
    record["others"] = event["others"]


def _note_others(record: _Draft, event: Mapping[str, Any]) -> None:
    """Messages of other threads were observed; the shared log takes that in."""
    known = {each["id"] for each in [*record["outbox"], *record["log"]]}
    sections = [each for each in event["sections"] if each["groups"][0]["id"] not in known]
    for section in sections:
        _send(record, section["groups"][0]["id"], kind="extend", **section)
    if sections:
        _note_success(record, event)


def _count(record: _Draft, event: Mapping[str, Any]) -> None:
    """Window messages were counted or first seen; what left the window is forgotten."""
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


def _step(record: _Draft, event: Mapping[str, Any]) -> None:
    """The gate let the Actor go on."""
    record["turn"] = {"request": event["request"], "step": event["step"]}
    record["tripwire"] = None


def _observe(record: _Draft, event: Mapping[str, Any]) -> None:
    """Messages became observed; the cursor moves only from where the Observer began."""
    if _extend_log(record, event, [event["group"]]):
        _take_hints(record, event)
        _note_success(record, event)


def _reflect(record: _Draft, event: Mapping[str, Any]) -> None:
    """A reflection takes the place of exactly the groups it read."""
    if _replace_groups(record, event):
        _take_hints(record, event)
        _note_success(record, event)


def _extend_log(record: dict[str, Any], event: Mapping[str, Any], groups: Sequence[Group]) -> bool:
    known = {group["id"] for group in record["log"]}
    if event["after"] != find_newest_observed(record) or any(
        group["id"] in known for group in groups
    ):
        return False
    record["log"] = [*record["log"], *groups]
    record["cursor"] = list(event["cursor"])
    if record["scope"] == "resource":
        hints = {name: event.get(name) for name in HINTS}
        _send(
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
        _send(record, event["cycle_id"], kind="replace", group_ids=list(read), groups=groups)
    return True


def _take_hints(record: _Draft, event: Mapping[str, Any]) -> None:
    """Take over what was said; what was not said stays as it is."""
    for hint in HINTS:
        if event.get(hint) is not None:
            record[hint] = event[hint]


def _finish(record: _Draft, event: Mapping[str, Any]) -> None:
    effects = {"observation": _observe, "reflection": _reflect, "others": _note_others}
    effects[event["operation"]](record, event)


def _note_success(record: _Draft, event: Mapping[str, Any]) -> None:
    _set_rest(record, event)
    _spend(record, event)


def _set_rest(record: _Draft, event: Mapping[str, Any]) -> None:
    """Forget earlier failures, and wait for growth where the event asks for it."""
    operation = event["operation"]
    attempts = {key: value for key, value in record["attempts"].items() if key != operation}
    if event.get("retry_at_tokens") is not None:
        keys = ("failures", "still_large", "at_tokens", "retry_at_tokens")
        attempts[operation] = {key: event[key] for key in keys}
    record["attempts"] = attempts


def _note_failure(record: _Draft, event: Mapping[str, Any]) -> None:
    """Nothing became observed; the next attempt waits for growth."""
    operation = event["operation"]
    if record["attempts"].get(operation, {}).get("cycle_id") == event["cycle_id"]:
        return
    keys = ("failures", "at_tokens", "retry_at_tokens", "cycle_id", "error")
    attempt = {key: event[key] for key in keys}
    attempt["last_message"] = event.get("last_message")
    record["attempts"] = {**record["attempts"], operation: attempt}
    _spend(record, event)


def _spend(record: _Draft, event: Mapping[str, Any]) -> None:
    usage, spent = record["usage"], event["usage"]
    before = usage.get(event["operation"], {})
    record["usage"] = {
        **usage,
        event["operation"]: {
            **before,
            **{key: before.get(key, 0) + value for key, value in spent.items()},
        },
    }


def _start_buffering(record: _Draft, event: Mapping[str, Any]) -> None:
    """A job runs beside the conversation; the record says what on, the executor how far it is."""
    record["pending"] = {
        **record["pending"],
        event["operation"]: {key: event[key] for key in ("cycle_id", "at", "tokens", "covers")},
    }


def _end_buffering(record: _Draft, event: Mapping[str, Any]) -> None:
    """A job's result is kept until it is needed."""
    if not _was_pending(record, event):
        return
    if event["operation"] == "others":
        _note_others(record, event)
        return
    if event["operation"] == "observation":
        record["chunks"] = [*record["chunks"], event["chunk"]]
    else:
        record["reflection"] = event["reflection"]
    _note_success(record, event)


def _fail_buffering(record: _Draft, event: Mapping[str, Any]) -> None:
    """A job came to nothing, or its result does not fit the conversation any more."""
    kept = [chunk for chunk in record["chunks"] if chunk["cycle_id"] != event["cycle_id"]]
    dropped = len(kept) < len(record["chunks"])
    record["chunks"] = kept
    if record["reflection"] and record["reflection"]["cycle_id"] == event["cycle_id"]:
        record["reflection"], dropped = None, True
    was_pending = _was_pending(record, event)
    if (was_pending or not dropped) and event.get("failures") is not None:
        _note_failure(record, event)
    elif was_pending and event.get("usage"):
        _spend(record, event)


def _was_pending(record: _Draft, event: Mapping[str, Any]) -> bool:
    """Return whether this job is the pending one, and take it off."""
    operation = event["operation"]
    job = record["pending"].get(operation)
    if job is None or job["cycle_id"] != event["cycle_id"]:
        return False
    record["pending"] = {key: value for key, value in record["pending"].items() if key != operation}
    return True


def _activate(record: _Draft, event: Mapping[str, Any]) -> None:
    """Buffered work takes effect, without a model."""
    if event["operation"] == "reflection":
        if _replace_groups(record, event):
            record["reflection"] = None
            _set_rest(record, event)
        return
    ids = event["chunk_ids"]
    if [chunk["id"] for chunk in record["chunks"][: len(ids)]] != ids:
        return
    if _extend_log(record, event, event["groups"]):
        record["chunks"] = record["chunks"][len(ids) :]
        _take_hints(record, event)


def _trip(record: _Draft, event: Mapping[str, Any]) -> None:
    """The turn ends without an answer."""
    keys = ("operation", "reason", "last_message")
    record["tripwire"] = {key: event[key] for key in keys}


def _note_archived(record: _Draft, event: Mapping[str, Any]) -> None:
    """The archive has the conversation up to here."""
    record["archived"] = event["last"]


def _note_evicted(record: _Draft, event: Mapping[str, Any]) -> None:
    """Observed messages left the conversation; the archive has them."""
    record["evicted"] = event["last"]


def _ignore(record: _Draft, event: Mapping[str, Any]) -> None:
    """Something to show on the stream that changes no memory."""


_EFFECTS: dict[str, Callable[[_Draft, Mapping[str, Any]], None]] = {
    "opened": _open,
    "counted": _count,
    "stepped": _step,
    "observation-end": _finish,
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
    "others": _read_others,
}

FOLDED_TYPES = frozenset(kind for kind, effect in _EFFECTS.items() if effect is not _ignore)
"""The types of event that change memory, and are worth a place in a checkpoint."""
