"""The memory of one thread as plain JSON values, and `fold`, the only code that changes it.

Rules of this file:

1. Everything that changes memory is an event, and `fold` is where events take effect.
2. `fold` is deterministic, never mutates what it is given, and
   `fold(fold(r, xs), ys) == fold(r, xs + ys)`, so it serves as the reducer of either kind of
   channel.
3. An event that was folded already, or that was computed from memory that has moved on since,
   changes nothing: observations name the cursor they continue, reflections the groups they read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from langgraph_om.core.record.edits import check_edit
from langgraph_om.errors import ConfigurationError

RECORD_VERSION = 1
"""Version of the record's form; a record of a later version is refused, never guessed at."""

HINTS = ("current_task", "suggested_response", "thread_title")
"""What an observation may say beside its items."""

CURSOR_TAIL = 16
"""How many of the newest observed message ids the cursor keeps, in case some are removed."""


class Group(TypedDict):
    """One immutable entry of the observation log."""

    id: str
    """The cycle that wrote it."""
    kind: Literal["observation", "reflection"]
    ranges: list[list[str]]
    """First and last message id of each covered run of messages, inclusive, in message order."""
    thread_id: str | None
    observed_at: str
    """ISO time at which the model answered."""
    text: str
    """Dated items; empty when the messages held nothing worth noting."""
    tokens: int


class MemoryRecord(TypedDict, total=False):
    """All that is remembered of one thread; the value of the `om` channel."""

    version: int
    id: str
    thread_id: str
    resource_id: str | None
    scope: str
    generation: int
    """How many reflections have replaced the log."""
    log: list[Group]
    cursor: list[str]
    """Ids of the newest observed messages, newest last."""
    chunks: list[dict[str, Any]]
    reflection: dict[str, Any] | None
    pending: dict[str, Any]
    current_task: str | None
    suggested_response: str | None
    thread_title: str | None
    stamps: dict[str, str]
    """First-seen ISO times of window messages that carry no time themselves."""
    token_cache: dict[str, Any]
    """`counter` (identity) and `counts` (`{message id: [content digest, tokens]}`) of the window.
    """
    turn: dict[str, Any]
    """`request` (id of the newest human message) and `step` (0-based since that message)."""
    attempts: dict[str, Any]
    """Per operation: `failures` in a row, the size `at_tokens` and the size `retry_at_tokens` to
    reach before the next attempt, of the last failure `cycle_id` and `error`, and how often in a
    row a reflection left the log `still_large`."""
    usage: dict[str, Any]
    """Per operation: `calls`, `inputTokens`, `outputTokens` so far."""
    others: list[dict[str, Any]]
    """With a shared log, the other threads of the resource that have unobserved messages."""
    revision: int
    """The revision of the shared log that `log` is a copy of; 0 in thread scope."""
    outbox: list[dict[str, Any]]
    """Changes of the log that the shared one does not have yet, oldest first."""
    tripwire: NotRequired[dict[str, Any] | None]
    """Why the turn was ended, and the last message id then; `None` in normal operation."""
    archived: str | None
    """The last message that the archive has; `None` without an archive."""
    evicted: str | None
    """The last message that was removed from the conversation because the archive has it."""


def blank_record() -> MemoryRecord:
    """Return the memory of a thread that was never looked at.

    What a person wants to read of a state comes first, the bookkeeping last.
    """
    return {
        "log": [],
        "current_task": None,
        "suggested_response": None,
        "thread_title": None,
        "chunks": [],
        "reflection": None,
        "pending": {},
        "attempts": {},
        "usage": {},
        "generation": 0,
        "tripwire": None,
        "thread_id": "",
        "resource_id": None,
        "scope": "thread",
        "id": "",
        "version": RECORD_VERSION,
        "others": [],
        "revision": 0,
        "outbox": [],
        "turn": {"request": None, "step": -1},
        "archived": None,
        "evicted": None,
        "cursor": [],
        "stamps": {},
        "token_cache": {"counter": "", "counts": {}},
    }


RECORD_KEYS = frozenset(blank_record())


def derive_id(prefix: str, *parts: object) -> str:
    """Name something by its content, so that repeating the work repeats the name."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(str(part).encode("utf-8", "surrogatepass"))
        digest.update(b"\x1f")
    return f"{prefix}-{digest.hexdigest()}"


def outward(operation: str) -> str:
    """Name an operation for those who look on: to observe other threads is to observe."""
    return "observation" if operation == "others" else operation


def log_tokens(record: MemoryRecord) -> int:
    """Count the tokens of the observation log."""
    return sum(group["tokens"] for group in record["log"])


def failures_of(record: MemoryRecord, operation: str) -> int:
    """Count the failures in a row of an operation."""
    count: int = record["attempts"].get(operation, {}).get("failures", 0)
    return count


def newest_observed(record: Mapping[str, Any]) -> str | None:
    """Return the id of the newest observed message, as the cursor knows it."""
    cursor: list[str] = record["cursor"]
    return cursor[-1] if cursor else None


def valid_counts(record: MemoryRecord, counter: str) -> dict[str, list[Any]]:
    """Return the cached token counts that a counter of this identity made."""
    cache = record["token_cache"]
    counts: dict[str, list[Any]] = cache["counts"]
    return counts if cache["counter"] == counter else {}


def readable(value: object) -> MemoryRecord:
    """Complete what the channel holds (`None`, `{}` or a record) to a whole record.

    Raises:
        ConfigurationError: When it is no mapping, or was written by a later version.
    """
    if not value:
        return blank_record()
    if not isinstance(value, Mapping):
        msg = f"`om` is {type(value).__name__}; it must be a memory record (a mapping) or absent"
        raise ConfigurationError(msg)
    version = value.get("version", RECORD_VERSION)
    if not isinstance(version, int) or version > RECORD_VERSION:
        msg = (
            f"`om.version` is {version!r}, this package reads records up to version "
            f"{RECORD_VERSION}; upgrade langgraph-om"
        )
        raise ConfigurationError(msg)
    unknown = sorted(set(map(str, value)) - RECORD_KEYS)
    if unknown:
        msg = f"`om` has the key {unknown[0]!r}, which is no key of a memory record"
        raise ConfigurationError(msg)
    if len(value) == len(RECORD_KEYS):
        return cast("MemoryRecord", value)
    return cast("MemoryRecord", {**blank_record(), **value})


def log_owner(record: MemoryRecord) -> str:
    """Name whose log it is: threads that share one name what they do to it alike."""
    is_shared = record["scope"] == "resource"
    return f"{record['resource_id']}" if is_shared else record["id"]


def own_groups(record: MemoryRecord) -> list[Group]:
    """Return the groups of a log that are about the record's own conversation."""
    if record["scope"] != "resource":
        return record["log"]
    return [group for group in record["log"] if group["thread_id"] == record["thread_id"]]


def position_of_groups(log: Sequence[Group], ids: Sequence[str]) -> int | None:
    """Tell where a run of groups stands in a log; `None` when it does not stand there any more."""
    present = [group["id"] for group in log]
    if not ids or ids[0] not in present:
        return None
    start = present.index(ids[0])
    return start if present[start : start + len(ids)] == list(ids) else None


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
    draft = _Draft(readable(record))
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


def _opened(record: _Draft, event: Mapping[str, Any]) -> None:
    """The thread is looked at for the first time, or under a new identity (a copied thread)."""
    if record["thread_id"] != event["thread_id"]:
        record["archived"] = None  # nothing of it is archived under its new id yet
    if event["scope"] == "resource":
        _join(record, event)
    elif record["scope"] == "resource":
        _part(record)
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
        groups = own_groups(cast("MemoryRecord", record))
        own = [{**group, "thread_id": event["thread_id"]} for group in groups]
        thread_id = record["thread_id"] = event["thread_id"]
        _send(record, event["id"], kind="join", groups=own, thread_id=thread_id)


def _part(record: _Draft) -> None:
    """The thread remembers by itself from now on, with what was observed of its own messages."""
    record["log"] = own_groups(cast("MemoryRecord", record))
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


def _synced(record: _Draft, event: Mapping[str, Any]) -> None:
    """The log is again what the shared one is; changes that it has, or refused, are done."""
    bodies = {group["id"]: group for group in [*record["log"], *event["groups"]]}
    record["log"] = [bodies[key] for key in event["order"] if key in bodies]
    record["outbox"] = [each for each in record["outbox"] if each["id"] not in event["sent"]]
    for key in ("generation", "revision", "cursor"):
        record[key] = event[key]
    _take_hints(record, event)


def _others_read(record: _Draft, event: Mapping[str, Any]) -> None:
    """What the other threads of the resource have that is not observed."""
    record["others"] = event["others"]


def _others_observed(record: _Draft, event: Mapping[str, Any]) -> None:
    """Messages of other threads were observed; the shared log takes that in."""
    known = {each["id"] for each in [*record["outbox"], *record["log"]]}
    sections = [each for each in event["sections"] if each["groups"][0]["id"] not in known]
    for section in sections:
        _send(record, section["groups"][0]["id"], kind="extend", **section)
    if sections:
        _succeeded(record, event)


def _counted(record: _Draft, event: Mapping[str, Any]) -> None:
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


def _stepped(record: _Draft, event: Mapping[str, Any]) -> None:
    """The gate let the Actor go on."""
    record["turn"] = {"request": event["request"], "step": event["step"]}
    record["tripwire"] = None


def _observed(record: _Draft, event: Mapping[str, Any]) -> None:
    """Messages became observed; the cursor moves only from where the Observer began."""
    if _extend_log(record, event, [event["group"]]):
        _take_hints(record, event)
        _succeeded(record, event)


def _reflected(record: _Draft, event: Mapping[str, Any]) -> None:
    """A reflection takes the place of exactly the groups it read."""
    if _replace_groups(record, event):
        _take_hints(record, event)
        _succeeded(record, event)


def _extend_log(record: dict[str, Any], event: Mapping[str, Any], groups: Sequence[Group]) -> bool:
    known = {group["id"] for group in record["log"]}
    if event["after"] != newest_observed(record) or any(group["id"] in known for group in groups):
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
    start = position_of_groups(record["log"], read)
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


def _finished(record: _Draft, event: Mapping[str, Any]) -> None:
    effects = {"observation": _observed, "reflection": _reflected, "others": _others_observed}
    effects[event["operation"]](record, event)


def _succeeded(record: _Draft, event: Mapping[str, Any]) -> None:
    _rest_until(record, event)
    _spent(record, event)


def _rest_until(record: _Draft, event: Mapping[str, Any]) -> None:
    """Forget earlier failures, and wait for growth where the event asks for it."""
    operation = event["operation"]
    attempts = {key: value for key, value in record["attempts"].items() if key != operation}
    if event.get("retry_at_tokens") is not None:
        keys = ("failures", "still_large", "at_tokens", "retry_at_tokens")
        attempts[operation] = {key: event[key] for key in keys}
    record["attempts"] = attempts


def _failed(record: _Draft, event: Mapping[str, Any]) -> None:
    """Nothing became observed; the next attempt waits for growth."""
    operation = event["operation"]
    if record["attempts"].get(operation, {}).get("cycle_id") == event["cycle_id"]:
        return
    keys = ("failures", "at_tokens", "retry_at_tokens", "cycle_id", "error")
    attempt = {key: event[key] for key in keys}
    attempt["last_message"] = event.get("last_message")
    record["attempts"] = {**record["attempts"], operation: attempt}
    _spent(record, event)


def _spent(record: _Draft, event: Mapping[str, Any]) -> None:
    usage, spent = record["usage"], event["usage"]
    before = usage.get(event["operation"], {})
    record["usage"] = {
        **usage,
        event["operation"]: {
            **before,
            **{key: before.get(key, 0) + value for key, value in spent.items()},
        },
    }


def _buffering_started(record: _Draft, event: Mapping[str, Any]) -> None:
    """A job runs beside the conversation; the record says what on, the executor how far it is."""
    record["pending"] = {
        **record["pending"],
        event["operation"]: {key: event[key] for key in ("cycle_id", "at", "tokens", "covers")},
    }


def _buffering_ended(record: _Draft, event: Mapping[str, Any]) -> None:
    """A job's result is kept until it is needed."""
    if not _was_pending(record, event):
        return
    if event["operation"] == "others":
        _others_observed(record, event)
        return
    if event["operation"] == "observation":
        record["chunks"] = [*record["chunks"], event["chunk"]]
    else:
        record["reflection"] = event["reflection"]
    _succeeded(record, event)


def _buffering_failed(record: _Draft, event: Mapping[str, Any]) -> None:
    """A job came to nothing, or its result does not fit the conversation any more."""
    kept = [chunk for chunk in record["chunks"] if chunk["cycle_id"] != event["cycle_id"]]
    dropped = len(kept) < len(record["chunks"])
    record["chunks"] = kept
    if record["reflection"] and record["reflection"]["cycle_id"] == event["cycle_id"]:
        record["reflection"], dropped = None, True
    was_pending = _was_pending(record, event)
    if (was_pending or not dropped) and event.get("failures") is not None:
        _failed(record, event)
    elif was_pending and event.get("usage"):
        _spent(record, event)


def _was_pending(record: _Draft, event: Mapping[str, Any]) -> bool:
    """Tell whether this job is the pending one, and take it off."""
    operation = event["operation"]
    job = record["pending"].get(operation)
    if job is None or job["cycle_id"] != event["cycle_id"]:
        return False
    record["pending"] = {key: value for key, value in record["pending"].items() if key != operation}
    return True


def _activated(record: _Draft, event: Mapping[str, Any]) -> None:
    """Buffered work takes effect, without a model."""
    if event["operation"] == "reflection":
        if _replace_groups(record, event):
            record["reflection"] = None
            _rest_until(record, event)
        return
    ids = event["chunk_ids"]
    if [chunk["id"] for chunk in record["chunks"][: len(ids)]] != ids:
        return
    if _extend_log(record, event, event["groups"]):
        record["chunks"] = record["chunks"][len(ids) :]
        _take_hints(record, event)


def _tripped(record: _Draft, event: Mapping[str, Any]) -> None:
    """The turn ends without an answer."""
    keys = ("operation", "reason", "last_message")
    record["tripwire"] = {key: event[key] for key in keys}


def _archived(record: _Draft, event: Mapping[str, Any]) -> None:
    """The archive has the conversation up to here."""
    record["archived"] = event["last"]


def _evicted(record: _Draft, event: Mapping[str, Any]) -> None:
    """Observed messages left the conversation; the archive has them."""
    record["evicted"] = event["last"]


def _nothing(record: _Draft, event: Mapping[str, Any]) -> None:
    """Something to show on the stream that changes no memory."""


_EFFECTS: dict[str, Callable[[_Draft, Mapping[str, Any]], None]] = {
    "opened": _opened,
    "counted": _counted,
    "stepped": _stepped,
    "observation-end": _finished,
    "observation-failed": _failed,
    "buffering-start": _buffering_started,
    "buffering-end": _buffering_ended,
    "buffering-failed": _buffering_failed,
    "activation": _activated,
    "observation-start": _nothing,
    "thread-update": _nothing,
    "status": _nothing,
    "view-trimmed": _nothing,
    "tripped": _tripped,
    "archived": _archived,
    "evicted": _evicted,
    "tripwire": _nothing,
    "synced": _synced,
    "others": _others_read,
}

FOLDED_TYPES = frozenset(kind for kind, effect in _EFFECTS.items() if effect is not _nothing)
"""The types of event that change memory, and are worth a place in a checkpoint."""
