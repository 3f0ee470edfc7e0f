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

from langgraph_om.core.items.protect import keep_protected
from langgraph_om.core.items.steer import steer
from langgraph_om.core.record.edits import check_edit
from langgraph_om.core.record.record import (
    HINTS,
    blank_record,
    complete_record,
    find_groups,
    find_newest_observed,
    select_own_groups,
)
from langgraph_om.core.titles.state import is_named, read_title_state
from langgraph_om.core.upgrade import upgrade_event, upgrade_record
from langgraph_om.core.wire import (
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
    LogChange,
    MemoryRecord,
    ObservationActivated,
    ObservationBuffered,
    ObservationEnd,
    ObservationFailed,
    Opened,
    OthersBuffered,
    OthersDescribed,
    OthersEnd,
    Recalled,
    ReflectionActivated,
    ReflectionBuffered,
    ReflectionEnd,
    Steered,
    SteeredItem,
    Stepped,
    Synced,
    TitleAsked,
    Titled,
    TitleState,
    TitleWords,
    Tripped,
    Usage,
    Waived,
)
from langgraph_om.core.working.merge import merge
from langgraph_om.core.working.state import add_updates, forget_updates, note_read
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
    draft = cast("MemoryRecord", _Draft(complete_record(record)))
    for update in updates:
        for event in update if isinstance(update, list | tuple) else [update]:
            _apply(draft, event)
    return cast("MemoryRecord", dict(draft))


def fold_one(record: Mapping[str, Any] | None, update: object) -> MemoryRecord:
    """Apply one update, as a plain LangGraph reducer."""
    return fold(record, [update])


def _apply(record: MemoryRecord, event: object) -> None:
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
        effect(record, upgrade_event(event))
        return
    event = upgrade_record(event)
    check_edit(event)
    if record["id"] and event.get("id", record["id"]) != record["id"]:
        return  # the memory of another agent, such as a subagent whose state is merged into this
    record.update(cast("MemoryRecord", event))
    cast("_Draft", record).owns_counts = False


# --- Effects: one per event type. Each replaces values, none changes a value in place. -----------


def _open(record: MemoryRecord, event: Opened) -> None:
    """Start the record of a thread, or give it a new identity (a copied thread, another scope)."""
    if record["thread_id"] != event["thread_id"]:
        record["archived"] = None  # nothing of it is archived under its new id yet
    if (record["thread_id"], record["resource_id"]) != (event["thread_id"], event["resource_id"]):
        for key in ("deletion", "floor", "recalled"):
            cast("_Draft", record).pop(key, None)
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
            cast("_Draft", record).pop(key, None)
    elif record["cursor"]:
        groups = select_own_groups(record)
        own: list[Group] = [{**group, "thread_id": event["thread_id"]} for group in groups]
        thread_id = record["thread_id"] = event["thread_id"]
        _add_to_outbox(record, event["id"], kind="join", groups=own, thread_id=thread_id)


def _leave(record: MemoryRecord) -> None:
    """Give the thread a log of its own again, with the observations of its own messages."""
    record["log"] = select_own_groups(record)
    record["outbox"], record["others"], record["revision"] = [], [], 0
    pending = record["pending"]
    record["pending"] = {key: job for key, job in pending.items() if key == "observation"}


def _sync(record: MemoryRecord, event: Synced) -> None:
    """Take over the shared log; the changes that it has taken in or refused are done."""
    bodies = {group["id"]: group for group in [*record["log"], *event["groups"]]}
    record["log"] = [bodies[key] for key in event["order"] if key in bodies]
    record["outbox"] = [change for change in record["outbox"] if change["id"] not in event["sent"]]
    record["generation"], record["revision"] = event["generation"], event["revision"]
    record["cursor"] = event["cursor"]
    _set_hints(record, event)
    if "rest" in event:
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


def _set_others(record: MemoryRecord, event: OthersDescribed) -> None:
    """Set what is unobserved in the other threads of the resource."""
    record["others"] = event["others"]


def _set_counts(record: MemoryRecord, event: Counted) -> None:
    """Set counts and times of window messages, and drop those of messages that left the window."""
    cache = record["token_cache"]
    counts = cache["counts"] if cache["counter"] == event["counter"] else {}
    stamps = record["stamps"]
    draft = cast("_Draft", record)
    if not draft.owns_counts:
        counts, stamps, draft.owns_counts = dict(counts), dict(stamps), True
    for key in event["gone"]:
        counts.pop(key, None)
        stamps.pop(key, None)
    counts.update(event["counts"])
    record["token_cache"] = {"counter": event["counter"], "counts": counts}
    record["stamps"] = {**event["stamps"], **stamps} if event["stamps"] else stamps
    if "observed" in event:
        record["observed"] = event["observed"]


def _note_step(record: MemoryRecord, event: Stepped) -> None:
    """Note that the Actor goes on, which ends an abort."""
    record["turn"] = {**record["turn"], "request": event["request"], "step": event["step"]}
    if "head" in event:
        record["head"] = event["head"]
    record["tripwire"] = None
    if any(act["is_new"] for act in record.get("steered", ())):  # the step has told of them
        told = [cast("SteeredItem", {**act, "is_new": False}) for act in record["steered"]]
        record["steered"] = told
    if record.get("title", {}).get("is_new"):
        record["title"] = {**record["title"], "is_new": False}


def _waive(record: MemoryRecord, event: Waived) -> None:
    """Note that this turn does no more of an operation."""
    turn = record["turn"]
    waived = {**turn.get("waived", {}), event["operation"]: event["turn"]}
    record["turn"] = {**turn, "waived": waived}


def _finish_cycle(record: MemoryRecord, event: ObservationEnd | ReflectionEnd | OthersEnd) -> None:
    if event["operation"] == "observation":
        _finish_observation(record, event)
    elif event["operation"] == "reflection":
        _finish_reflection(record, event)
    else:
        _finish_others(record, event)


def _finish_observation(record: MemoryRecord, event: ObservationEnd) -> None:
    """Add observations to the log; the cursor moves only from where the Observer began."""
    if _extend_log(record, event, event["groups"]):
        _set_hints(record, event)
        _set_extracted(record, event)
        add_updates(record, event.get("working", []))
        _note_success(record, event)


def _finish_reflection(record: MemoryRecord, event: ReflectionEnd) -> None:
    """Replace exactly the groups that a reflection read."""
    if _replace_groups(record, event):
        _set_hints(record, event)
        _note_success(record, event)


def _finish_others(record: MemoryRecord, event: OthersEnd | OthersBuffered) -> None:
    """Send observations of other threads' messages to the shared log."""
    known = {item["id"] for item in [*record["outbox"], *record["log"]]}
    sections = [section for section in event["sections"] if section["groups"][0]["id"] not in known]
    for section in sections:
        _add_to_outbox(record, section["groups"][0]["id"], kind="extend", **section)
    if sections:
        add_updates(record, event.get("working", []))
        _note_success(record, event)


def _note_failure(record: MemoryRecord, event: ObservationFailed | BufferingFailed) -> None:
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
    _add_usage(record, event)


def _start_buffering(record: MemoryRecord, event: BufferingStart) -> None:
    """Note a background job and what it covers; its state is the executor's to know."""
    record["pending"] = {
        **record["pending"],
        event["operation"]: {
            "cycle_id": event["cycle_id"],
            "at": event["at"],
            "tokens": event["tokens"],
            "covers": event["covers"],
        },
    }
    if "turn" in event["covers"]:
        operation, turn = event["operation"], event["covers"]["turn"]
        _waive(record, {"type": "waived", "operation": operation, "turn": turn})


def _end_buffering(
    record: MemoryRecord, event: ObservationBuffered | ReflectionBuffered | OthersBuffered
) -> None:
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


def _fail_buffering(record: MemoryRecord, event: BufferingFailed) -> None:
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


def _take_pending(record: MemoryRecord, event: JobResult) -> bool:
    """Remove this job from the pending ones; return whether it was one of them."""
    operation = event["operation"]
    job = record["pending"].get(operation)
    if job is None or job["cycle_id"] != event["cycle_id"]:
        return False
    record["pending"] = {key: value for key, value in record["pending"].items() if key != operation}
    return True


def _activate(record: MemoryRecord, event: ObservationActivated | ReflectionActivated) -> None:
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
        _set_extracted(record, event)
        add_updates(record, event.get("working", []))


def _trip(record: MemoryRecord, event: Tripped) -> None:
    """End the turn without an answer."""
    record["tripwire"] = {
        "operation": event["operation"],
        "reason": event["reason"],
        "last_message": event["last_message"],
    }


def _note_archived(record: MemoryRecord, event: Archived) -> None:
    """Note up to where the archive has the conversation."""
    record["archived"] = event["last"]


def _set_recalled(record: MemoryRecord, event: Recalled) -> None:
    """Keep what was found for the live request, in the place of what was found before."""
    record["recalled"] = {
        "request": event["request"],
        "digest": event["digest"],
        "text": event["text"],
        "tokens": event["tokens"],
    }


def _note_deletion(record: MemoryRecord, event: DeletionFound) -> None:
    """Note how often the thread was deleted; what it had in a shared log then, it has no more."""
    record["deletion"] = event["number"]
    if event["floor"] is None:
        return
    record["floor"] = event["floor"]
    for key in ("recalled", "working"):
        cast("_Draft", record).pop(key, None)
    if event["of_resource"]:
        record["chunks"] = [forget_updates(chunk) for chunk in record["chunks"]]
    if record["scope"] != "resource":
        return
    own, is_all = record["thread_id"], event["of_resource"]
    draft = cast("_Draft", record)
    for key in ("log", "outbox"):
        draft[key] = [
            item for item in draft[key] if not is_all and item.get("thread_id") not in (None, own)
        ]
    draft.update(cursor=[], chunks=[], reflection=None, pending={}, revision=0)
    record.pop("steered", None)
    record.pop("title", None)
    draft.update(dict.fromkeys(HINTS))


def _note_evicted(record: MemoryRecord, event: Evicted) -> None:
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
    tokens = event.get("tokens")
    if tokens:
        record["evicted_tokens"] = record.get("evicted_tokens", 0) + tokens


def _steer(record: MemoryRecord, event: Steered) -> None:
    """Do to the log what a person wants."""
    acts = record.get("steered", [])
    if any(act["id"] == event["id"] for act in acts):
        return
    thread_id = record["thread_id"]
    done = steer(record["log"], record["chunks"], acts, event, thread_id=thread_id)
    record["log"], record["chunks"], record["steered"] = done.log, done.chunks, done.acts
    if record["scope"] == "resource":
        act, replaced, groups = done.acts[-1], done.replaced, done.groups
        whole = {"before": act["before"], "after": act["after"]}
        _add_to_outbox(record, event["id"], kind="steer", replaced=replaced, groups=groups, **whole)


def _note_words(record: MemoryRecord, event: TitleWords) -> None:
    """Note what lists show until there is a title."""
    record["title"] = {**read_title_state(record), "words": event["words"]}


def _ask_title(record: MemoryRecord, event: TitleAsked) -> None:
    """Note that a title is asked for."""
    state = read_title_state(record)
    tries = state.get("tries", 0) + (state.get("cycle_id") != event["cycle_id"])
    record["title"] = {**state, "cycle_id": event["cycle_id"], "tries": tries}


def _title(record: MemoryRecord, event: Titled) -> None:
    """Set the title, which a model's answer never does over one that is there."""
    state = read_title_state(record)
    if event["by"] == "person":
        if state.get("id") != event["id"]:
            _title_by_person(record, state, event)
        return
    if state.get("cycle_id") != event["id"]:
        return
    state = {**state, "cycle_id": None}
    if "usage" in event:
        before = cast("Mapping[str, int]", state.get("usage", {}))
        spent = cast("Mapping[str, int]", event["usage"])
        total = {key: before.get(key, 0) + value for key, value in spent.items()}
        state["usage"] = cast("Usage", total)
    if event["title"] is not None and record["thread_title"] is None and not is_named(record):
        record["thread_title"] = event["title"]
        state = {**state, "by": "memory", "at": event["at"]}
    record["title"] = state


def _title_by_person(record: MemoryRecord, state: TitleState, event: Titled) -> None:
    before, title = record["thread_title"], event["title"]
    record["thread_title"] = title
    record["title"] = {
        **state,
        "by": "person" if title is not None else None,
        "id": event["id"],
        "at": event["at"],
        "before": before,
        "is_new": title != before,
        "cycle_id": None,
        "tries": 0,
    }
    if record["scope"] == "resource":
        thread_id = record["thread_id"]
        named: dict[str, Any] = {"thread_id": thread_id, "title": title, "groups": []}
        _add_to_outbox(record, event["id"], kind="title", **named)


def _ignore(record: MemoryRecord, event: Event) -> None:
    """Change nothing; the event is only streamed."""


_EFFECTS: dict[str, Callable[[MemoryRecord, Any], None]] = {
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
    "extracted": _ignore,
    "working-read": note_read,
    "status": _ignore,
    "view-trimmed": _ignore,
    "tripped": _trip,
    "archived": _note_archived,
    "evicted": _note_evicted,
    "recalled": _set_recalled,
    "deletion": _note_deletion,
    "tripwire": _ignore,
    "steered": _steer,
    "title-words": _note_words,
    "title-asked": _ask_title,
    "titled": _title,
    "steering": _ignore,
    "synced": _sync,
    "others": _set_others,
    "waived": _waive,
}

FOLDED_TYPES = frozenset(kind for kind, effect in _EFFECTS.items() if effect is not _ignore)
"""The event types that change memory and therefore go into the channel."""


# --- What several effects do ---------------------------------------------------------------------


def _extend_log(
    record: MemoryRecord, event: ObservationEnd | ObservationActivated, groups: Sequence[Group]
) -> bool:
    if event["after"] != find_newest_observed(record):
        return False
    observed = record["observed"]
    known = {group["id"] for group in record["log"]}
    if "strays" in event:  # these do not move the cursor, which would tell that they are observed
        is_known = any(group["id"] in known for group in groups)
        is_awaited = observed and groups[0]["ranges"][0][0] in observed["strays"]
        if observed is not None and (is_known or is_awaited):  # or they are observed for ever
            record["observed"] = {**observed, "strays": event["strays"]}
        if is_known or not is_awaited:
            return False
    behind = event.get("before")
    at = find_groups(record["log"], [behind]) if behind else None
    at = len(record["log"]) if at is None else at
    # After a fork the log may have them although the cursor was set back: it has to move on.
    new = [group for group in groups if group["id"] not in known]
    record["log"] = [*record["log"][:at], *new, *record["log"][at:]]
    record["cursor"] = list(event["cursor"])
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


def _replace_groups(record: MemoryRecord, event: ReflectionEnd | ReflectionActivated) -> bool:
    read = event["group_ids"]
    start = find_groups(record["log"], read)
    if start is None:
        return False
    log = record["log"]
    groups = keep_protected(log[start : start + len(read)], event["groups"])
    record["log"] = [*log[:start], *groups, *log[start + len(read) :]]
    record["generation"] = record["generation"] + 1
    if record["scope"] == "resource":
        waits: dict[str, Any] = {}
        if (rest := _find_rest(event)) is not None:
            waits["rest"] = rest
        _add_to_outbox(
            record, event["cycle_id"], kind="replace", group_ids=list(read), groups=groups, **waits
        )
    return True


def _add_to_outbox(record: MemoryRecord, cycle_id: str, **change: Any) -> None:
    """Note a change that the shared log does not have yet; without a thread id there is none."""
    if not record["thread_id"]:
        return
    hints = {name: record[name] for name in HINTS}
    item = {"id": cycle_id, "cursor": record["cursor"], "hints": hints, **change}
    record["outbox"] = [*record["outbox"], cast("LogChange", item)]


def _set_hints(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take over the hints that the event has; the others stay, and so does a person's title."""
    for hint in HINTS:
        if event.get(hint) is not None and not (hint == "thread_title" and is_named(record)):
            record[hint] = event[hint]


def _set_extracted(record: MemoryRecord, event: ObservationEnd | ObservationActivated) -> None:
    """Merge what was found into the values; a failure is noted, and leaves its value as it is."""
    values = dict(record.get("extracted", {}))
    for item in event.get("extracted", []):
        former = values.get(item["name"])
        value, previous = (former["value"], former["previous"]) if former else (None, None)
        if former and "patch" not in item and "error" not in item:
            values[item["name"]] = {**former, "error": None}
            continue
        if "patch" in item:
            value, previous = merge(value, item["patch"]), value
        values[item["name"]] = {
            "value": value,
            "previous": previous,
            "cycle_id": event["cycle_id"],
            "at": event["at"],
            "error": item.get("error"),
        }
    if values:
        record["extracted"] = values


def _note_success(record: MemoryRecord, event: CycleEnded) -> None:
    _reset_attempts(record, event)
    _add_usage(record, event)


def _reset_attempts(record: MemoryRecord, event: CycleEnded | ReflectionActivated) -> None:
    """Drop earlier failures, and wait for growth where the event asks for it."""
    operation = event["operation"]
    attempts = {key: value for key, value in record["attempts"].items() if key != operation}
    rest = _find_rest(event)
    if rest is not None:
        attempts[operation] = rest
    record["attempts"] = attempts


def _find_rest(event: CycleEnded | ReflectionActivated) -> Attempt | None:
    """Return what the next attempt waits for, where a cycle ended well and says so."""
    said: Mapping[str, Any] = event
    if said.get("retry_at_tokens") is None:
        return None
    keys = ("failures", "still_large", "at_tokens", "retry_at_tokens")
    return cast("Attempt", {key: said[key] for key in keys})


def _add_usage(record: MemoryRecord, event: CycleEnded) -> None:
    operation, spent = event["operation"], cast("Mapping[str, int]", event["usage"])
    before = cast("Mapping[str, int]", record["usage"].get(operation, {}))
    total = {**before, **{key: before.get(key, 0) + value for key, value in spent.items()}}
    record["usage"] = {**record["usage"], operation: cast("Usage", total)}
