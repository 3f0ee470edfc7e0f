"""Fold events into the record: the only code that changes memory, and the channel's reducer.

Rules of this file, and of the reducers that it imports:

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
from typing import Any, Final, cast, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from langgraph_om.core.record.kept import (
    leave_recalled,
    set_recalled,
    set_values,
)
from langgraph_om.core.record.record import (
    CURSOR_TAIL,
    FIRST_KEYS,
    RESPONSE,
    TASK,
    add_up,
    blank_record,
    check_version,
    complete_record,
    find_groups,
    find_newest_observed,
    forget_wait,
    is_void,
    list_ranges,
    note_asked,
    note_told,
    replace_groups,
    select_valid_counts,
    set_title,
    take_buffered_title,
    take_hints,
)
from langgraph_om.core.record.standing import end_rules, note_tool
from langgraph_om.core.record.steering import do_act, note_acts_told
from langgraph_om.core.wire import (
    OTHERS,
    Archived,
    Attempt,
    BufferingFailed,
    BufferingStart,
    Counted,
    CycleEnded,
    DeletionFound,
    Event,
    Evicted,
    Group,
    JobResult,
    MemoryRecord,
    ObservationActivated,
    ObservationBuffered,
    ObservationEnd,
    ObservationFailed,
    Opened,
    OthersBuffered,
    OthersDescribed,
    OthersEnd,
    PendingJob,
    ReflectionActivated,
    ReflectionBuffered,
    ReflectionEnd,
    Stepped,
    TakenOver,
    Trip,
    Tripped,
    Waived,
    WindowsKnown,
    ZoneKnown,
)
from langgraph_om.errors import ConfigurationError


class Draft(dict[str, Any]):
    """A record being folded: its first level is a copy, deeper values are still shared."""

    owns_counts: bool = False
    """Whether the token counts are a copy too; replaying a long channel copies them once."""


def note_failure(record: MemoryRecord, event: ObservationFailed | BufferingFailed) -> None:
    """Count a failure; the next attempt waits for growth, also after work that was let go."""
    operation = event["operation"]
    former = record["attempts"].get(operation)
    if former is not None and former.get("cycle_id") == event["cycle_id"]:
        return
    facts: Mapping[str, Any] = event
    keys = ("failures", "at_tokens", "retry_at_tokens", "cycle_id", "error")
    attempt = {**_select(event, *keys), "last_message": facts.get("last_message")}
    if facts.get("discarded"):  # what failed before is what there is to say
        attempt["error"] = former.get("error") if former is not None else None
    record["attempts"] = {**record["attempts"], operation: cast("Attempt", attempt)}
    add_usage(record, event)
    _note_wait(record, event)


def note_success(record: MemoryRecord, event: CycleEnded) -> None:
    """Drop earlier failures of an operation that went well, and add what it has cost."""
    reset_attempts(record, event)
    add_usage(record, event)
    _note_wait(record, event)


def _note_wait(record: MemoryRecord, event: CycleEnded) -> None:
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
    if cast("Mapping[str, Any]", event).get("retry_at_tokens") is None:
        return None
    keys = ("failures", "still_large", "at_tokens", "retry_at_tokens")
    return cast("Attempt", _select(event, *keys))


def _select(event: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: event[key] for key in keys}


def add_usage(record: MemoryRecord, event: CycleEnded) -> None:
    """Add what a cycle has cost to what its operation has cost so far."""
    operation, spent = event["operation"], event["usage"]
    if left_out := cast("Mapping[str, Any]", event).get("left_out_tokens"):
        spent = {**spent, "left_out_tokens": left_out}
    total = add_up(record["usage"].get(operation, {}), spent)
    record["usage"] = {**record["usage"], operation: total}


def note_observed(
    record: MemoryRecord,
    event: ObservationEnd | ObservationActivated | OthersEnd | OthersBuffered | TakenOver,
) -> None:
    """Take over what an observation found beside its items, once these are in the log."""
    take_hints(record, event)
    set_values(record, event)
    end_rules(record, event)


def finish_cycle(record: MemoryRecord, event: ObservationEnd | ReflectionEnd | OthersEnd) -> None:
    """Put what a cycle of the turn came to into the log, where that is still as it was then."""
    if event["operation"] == "others":
        note_observed(record, event)
        note_success(record, event)
    elif event["operation"] == "observation":
        if _extend_log(record, event, event["groups"]):
            note_observed(record, event)
            note_success(record, event)
    elif _replace_groups(record, event):
        note_success(record, event)


def activate(record: MemoryRecord, event: ObservationActivated | ReflectionActivated) -> None:
    """Put buffered work into the log, without a model."""
    if event["operation"] == "reflection":
        if _replace_groups(record, event):
            record["reflection"] = None
            reset_attempts(record, event)
        return
    ids = event["chunk_ids"]
    if [chunk["id"] for chunk in record["chunks"][: len(ids)]] != ids:
        return
    if _extend_log(record, event, event["groups"]):
        record["chunks"] = record["chunks"][len(ids) :]
        note_observed(record, event)


def _extend_log(
    record: MemoryRecord,
    event: ObservationEnd | ObservationActivated | TakenOver,
    groups: Sequence[Group],
) -> bool:
    if event["after"] != find_newest_observed(record):
        return False
    observed = record["observed"]
    known = {group["id"] for group in record["log"]}
    if "strays" in event:  # these do not move the cursor, which would tell that they are observed
        is_known = any(group["id"] in known for group in groups)
        is_awaited = observed and list_ranges(groups[0])[0][0] in observed["strays"]
        if observed is not None and (is_known or is_awaited):  # or they are observed for ever
            left = event["strays"]
            edited = [key for key in observed.get("edited", ()) if key in left]
            record["observed"] = {**observed, "strays": left, "edited": edited}
        if is_known or not is_awaited:
            return False
    behind = event.get("before")
    at = find_groups(record["log"], [behind]) if behind else None
    at = len(record["log"]) if at is None else at
    # After a fork the log may have them although the cursor was set back: it has to move on.
    new = [group for group in groups if group["id"] not in known and not is_void(group)]
    before = record["log"][:at]
    record["log"] = [*_join_empty(before, new, event["after"]), *record["log"][at:]]
    if "strays" not in event:
        record["cursor"] = list(event["cursor"])
    return True


def _join_empty(log: list[Group], new: Sequence[Group], after: str | None) -> list[Group]:
    """Add groups to a log; one without a text is joined to such a one right before it.

    So a long small talk, of which nothing is noted, has one group and not one for each observation.
    """
    joined = list(log)
    for group in new:
        before = joined[-1] if joined else None
        if before is None or before["text"] or group["text"] or not _ends_at(before, after):
            joined.append(group)
        else:
            *known, (first, _) = before["ranges"]
            (_, last), *more = group["ranges"]
            joined[-1] = {**before, "ranges": [*known, [first, last], *more]}
        after = joined[-1]["ranges"][-1][1] if joined[-1]["ranges"] else None
    return joined


def _ends_at(group: Group, key: str | None) -> bool:
    return bool(group["ranges"]) and group["ranges"][-1][1] == key


def _replace_groups(record: MemoryRecord, event: ReflectionEnd | ReflectionActivated) -> bool:
    replaced = replace_groups(record["log"], event["group_ids"], event["groups"])
    if replaced is None:
        return False
    record["log"], _ = replaced
    record["generation"] += 1
    return True


def set_counts(record: MemoryRecord, event: Counted) -> None:
    """Set counts and times of window messages, and drop those of messages that left the window."""
    counts = select_valid_counts(record, event["counter"])
    stamps = record["stamps"]
    draft = cast("Draft", record)
    if not draft.owns_counts:
        counts, stamps, draft.owns_counts = dict(counts), dict(stamps), True
    for key in event["gone"]:
        counts.pop(key, None)
        stamps.pop(key, None)
    counts.update(event["counts"])
    if event["counts"] and "waited_ms" in record["turn"]:  # the conversation has gone on
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
    note_acts_told(record)


def note_windows(record: MemoryRecord, event: WindowsKnown) -> None:
    """Note how long a prompt the Actor's models read."""
    record["windows"] = event["windows"]


def waive(record: MemoryRecord, event: Waived) -> None:
    """Note that this turn does no more of an operation."""
    turn = record["turn"]
    waived = {**turn.get("waived", {}), event["operation"]: event["turn"]}
    record["turn"] = {**turn, "waived": waived}


def trip(record: MemoryRecord, event: Tripped) -> None:
    """End the turn without an answer."""
    record["tripwire"] = cast("Trip", _select(event, "operation", "reason", "last_message"))


def start_buffering(record: MemoryRecord, event: BufferingStart) -> None:
    """Note a background job and what it covers; its state is the executor's to know."""
    operation, covers = event["operation"], event["covers"]
    job = cast("PendingJob", _select(event, "cycle_id", "at", "tokens", "covers"))
    record["pending"] = {**record["pending"], operation: job}
    if "turn" in covers:
        waive(record, {"type": "waived", "operation": operation, "turn": covers["turn"]})


def end_buffering(
    record: MemoryRecord, event: ObservationBuffered | ReflectionBuffered | OthersBuffered
) -> None:
    """Keep a job's result until it is needed."""
    if not _take_pending(record, event):
        return
    if event["operation"] == "others":
        note_observed(record, event)
        note_success(record, event)
        return
    if event["operation"] == "observation":
        record["chunks"] = [*record["chunks"], event["chunk"]]
        take_buffered_title(record, event)
    else:
        record["reflection"] = event["reflection"]
    note_success(record, event)


def fail_buffering(record: MemoryRecord, event: BufferingFailed) -> None:
    """Drop a job that failed, or a result that does not fit the conversation any more."""
    kept = [chunk for chunk in record["chunks"] if chunk["cycle_id"] != event["cycle_id"]]
    dropped = len(kept) < len(record["chunks"])
    record["chunks"] = kept
    if record["reflection"] and record["reflection"]["cycle_id"] == event["cycle_id"]:
        record["reflection"], dropped = None, True
    was_pending = _take_pending(record, event)
    if (was_pending or not dropped) and event.get("failures") is not None:
        note_failure(record, event)
    elif was_pending and event.get("usage"):
        add_usage(record, event)


def _take_pending(record: MemoryRecord, event: JobResult) -> bool:
    operation = event["operation"]
    job = record["pending"].get(operation)
    if job is None or job["cycle_id"] != event["cycle_id"]:
        return False
    record["pending"] = {key: value for key, value in record["pending"].items() if key != operation}
    return True


def open_record(record: MemoryRecord, event: Opened) -> None:
    """Start the record of a thread, or give it a new identity (a copied thread, another scope)."""
    _begin_anew(record, event)
    record.pop("others", None)  # they may be another user's, and so may what a job finds of them
    record["pending"] = {key: job for key, job in record["pending"].items() if key != OTHERS}
    note_tool(record, event)
    leave_recalled(record, event)
    record["id"], record["thread_id"] = event["id"], event["thread_id"]
    record["resource_id"], record["scope"] = event["resource_id"], event["scope"]


def note_zone(record: MemoryRecord, event: ZoneKnown) -> None:
    """Note in which zone the user is."""
    record["timezone"] = event["timezone"]


def note_deletion(record: MemoryRecord, event: DeletionFound) -> None:
    """Note how often the thread was deleted, and forget what it had then."""
    if not _note_number(record, event):
        return
    record.pop("pinned", None)  # and what was found, as that may be deleted
    record.pop("recalled", None)


def note_others(record: MemoryRecord, event: OthersDescribed) -> None:
    """Note what is known and unobserved in the user's other threads."""
    record["others"] = event["others"]


def take_over(record: MemoryRecord, event: TakenOver) -> None:
    """Put what another thread observed of this one into the log, where it is still as it was."""
    if _extend_log(record, event, event["groups"]):
        note_observed(record, event)


# What the archive has: `archived` is the last message there, `evicted` the last one that was
# removed since; and what was deleted of it.


def note_archived(record: MemoryRecord, event: Archived) -> None:
    """Note up to where the archive has the conversation."""
    record["archived"] = event["last"]
    if event["branch"] is not None:
        record["branch"] = event["branch"]


def note_evicted(record: MemoryRecord, event: Evicted) -> None:
    """Note up to where observed messages were removed; what comes back changes nothing."""
    ids, former = event["ids"], record.get("evicted")
    if former == event["last"]:
        return
    record["evicted"] = event["last"]
    observed = record["observed"]
    if observed is not None:
        new = len(ids) - (ids.index(former) + 1 if former in ids else 0)
        record["observed"] = {
            **observed,
            "index": observed["index"] - new,
            "count": observed["count"] - new,
        }
    if event["tokens"]:
        record["evicted_tokens"] = record.get("evicted_tokens", 0) + event["tokens"]


def _note_number(record: MemoryRecord, event: DeletionFound) -> bool:
    """Note how often the thread was deleted; return whether what it had is to be forgotten."""
    if event["prunings"] != record.get("prunings", 0):
        record["prunings"] = event["prunings"]
        if record["log"] and record["log"][-1]["id"] in event["gone"]:
            record[TASK] = record[RESPONSE] = None  # they were written with it
        record["log"] = [group for group in record["log"] if group["id"] not in event["gone"]]
    is_news = event["number"] != record.get("deletion", 0)
    record["deletion"] = event["number"]
    if event["floor"] is None:
        return False
    record["floor"] = event["floor"]
    if is_news:
        _forget_all(record, event["floor"]["messages"])
    return is_news  # or what it had then has another end by now


_IDENTITY: Final = ("thread_id", "resource_id", "scope", "id", "version", "generation", "usage")
_PLACE: Final = ("turn", "head", "stamps", "token_cache", "windows")
_DELETED: Final = ("deletion", "prunings", "floor")
_KEPT: Final = frozenset({*_IDENTITY, *_PLACE, *_DELETED})
"""What a record keeps when its thread is deleted: whose it is, and where the conversation is."""


def _forget_all(record: MemoryRecord, said: list[str]) -> None:
    """Forget what memory has of a thread; what was said before is not observed again."""
    draft = cast("dict[str, Any]", record)
    for key in draft.keys() - _KEPT:
        del draft[key]
    for key, value in blank_record().items():
        draft.setdefault(key, value)
    record["cursor"] = said[-CURSOR_TAIL:]


def _begin_anew(record: MemoryRecord, event: Opened) -> None:
    """Forget what the archive has of another thread, and what was deleted of another resource."""
    gone: tuple[str, ...] = ()
    if record["thread_id"] != event["thread_id"]:  # nothing is archived under its new id yet
        gone = ("archived", "branch", *_DELETED)
    elif record["resource_id"] != event["resource_id"]:
        if record.get("archived") is None:
            gone = ("deletion", "floor")
        else:
            record["deletion"] = None
    for key in gone:
        cast("dict[str, Any]", record).pop(key, None)


# A record that somebody puts in force again, such as one of the history: whether it can be read.


def check_record(record: Mapping[Any, Any]) -> None:
    """Refuse a record that cannot be read; keys that are not of this version are passed over.

    Raises:
        ConfigurationError: For a value of another type, or a missing part.
    """
    for key, value in record.items():
        if key not in _TYPES:
            continue
        try:
            TypeAdapter(_TYPES[key]).validate_python(value, strict=True)
        except ValidationError as error:
            raise _explain(key, value, error) from None


_TYPES: Final = get_type_hints(MemoryRecord)


def _explain(key: str, value: object, error: ValidationError) -> ConfigurationError:
    """Return an error that names the part of the value that is wrong, and what to pass."""
    problem = error.errors(include_url=False, include_context=False)[0]
    path = "".join(f"[{step!r}]" for step in problem["loc"] if step not in _branches())
    is_missing = problem["type"] == "missing"
    found = "is missing" if is_missing else f"is {(problem['input'] if path else value)!r}"
    msg = f"`om.{key}{path}` {found} ({problem['msg']}); pass a record as memory wrote it"
    return ConfigurationError(msg)


def _branches() -> frozenset[str]:
    """Return what pydantic puts into a path for types of a union: no places in the value."""
    lists = (get_args(kind)[0] for kind in _TYPES.values() if get_origin(kind) is list)
    kinds = (kind for entry in lists for kind in get_args(entry) if is_typeddict(kind))
    return frozenset(kind.__name__ for kind in kinds)


def fold(record: Mapping[str, Any] | None, updates: Sequence[Any]) -> MemoryRecord:
    """Apply updates in order, as the reducer of the `om` channel.

    Args:
        record: The memory so far; empty or `None` for a new thread.
        updates: Each a list of events, one event (a mapping with `type`), or a whole record.

    Returns:
        The new record; the given one is unchanged.

    Raises:
        ConfigurationError: When an update is none of these.
    """
    events: list[Any] = []
    for update in updates:
        events += update if isinstance(update, list | tuple) else [update]
    return fold_events(complete_record(record), events)


def fold_events(record: MemoryRecord, events: Sequence[Event]) -> MemoryRecord:
    """Apply events in order to a record that is complete; the given one is unchanged."""
    draft = cast("MemoryRecord", Draft(record))
    for event in events:
        _apply(draft, event)
    return cast("MemoryRecord", dict(draft))


def fold_one(record: Mapping[str, Any] | None, update: object) -> MemoryRecord:
    """Apply one update, as a plain LangGraph reducer."""
    return fold(record, [update])


def _apply(record: MemoryRecord, event: object) -> None:
    if event is None or event == {}:
        return
    if not isinstance(event, Mapping):
        msg = f"an update of `om` is {event!r}; {_CALLS}"
        raise ConfigurationError(msg)
    if "type" in event:
        kind = str(event["type"])
        if kind in _REDUCERS:
            _REDUCERS[kind](record, event)
        elif kind not in _STREAMED:
            msg = f"an update of `om` has the unknown event type {event['type']!r}"
            raise ConfigurationError(msg)
        return
    check_version("`om.version`", event)
    if not event.keys() >= FIRST_KEYS:
        named = ", ".join(repr(str(key)) for key in event)
        msg = f"an update of `om` has only the keys {named}; {_CALLS}"
        raise ConfigurationError(msg)
    check_record(complete_record(event))
    if record["id"] and event["id"] != record["id"]:
        return  # the memory of another agent, such as a subagent whose state is merged into this
    record.update(cast("MemoryRecord", event))
    cast("Draft", record).owns_counts = False


_CALLS: Final = (
    "change memory by `memory.of(graph, config)`: `.remember(text)`, `.correct(item, text)`, "
    "`.forget(item)`, `.set_title(text)` and others, or pass a whole record, such as one of its "
    "`.history()`"
)


_REDUCERS: dict[str, Callable[[MemoryRecord, Any], None]] = {
    "opened": open_record,
    "zone-known": note_zone,
    "counted": set_counts,
    "stepped": note_step,
    "windows": note_windows,
    "observation-end": finish_cycle,
    "observation-failed": note_failure,
    "buffering-start": start_buffering,
    "buffering-end": end_buffering,
    "buffering-failed": fail_buffering,
    "activation": activate,
    "tripped": trip,
    "waived": waive,
    "archived": note_archived,
    "deletion": note_deletion,
    "evicted": note_evicted,
    "others": note_others,
    "taken-over": take_over,
    "steered": do_act,
    "titled": set_title,
    "title-asked": note_asked,
    "thread-update": note_told,
    "recalled": set_recalled,
}
_STREAMED = frozenset(
    {"observation-start", "extracted", "status", "view-trimmed", "tripwire"}
    | {"standing", "steering"}
)


def is_folded(event: Event) -> bool:
    """Return whether an event changes memory and therefore goes into the channel."""
    return event["type"] in _REDUCERS
