"""Fold events into the record: the only code that changes memory, and the channel's reducer.

Rules of this file, and of the reducers of each type of event, in `reducers`:

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

from langgraph_om.core.record.edits import check_edit, estimate_edited
from langgraph_om.core.record.record import check_version, complete_record
from langgraph_om.core.record.reducers.attempts import note_failure
from langgraph_om.core.record.reducers.draft import Draft
from langgraph_om.core.record.reducers.jobs import end_buffering, fail_buffering, start_buffering
from langgraph_om.core.record.reducers.log import activate, finish_cycle
from langgraph_om.core.record.reducers.sharing import (
    note_deletion,
    open_record,
    set_others,
    take_over_log,
)
from langgraph_om.core.record.reducers.steering import steer_log
from langgraph_om.core.record.reducers.step import (
    note_archived,
    note_evicted,
    note_step,
    set_counts,
    set_recalled,
    trip,
    waive,
)
from langgraph_om.core.record.reducers.titles import ask_title, name_by_hand, note_words, set_title
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.core.working.state import note_read
from langgraph_om.errors import ConfigurationError


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
    draft = cast("MemoryRecord", Draft(complete_record(record)))
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
        reducer = _REDUCERS.get(str(event["type"]))
        if reducer is None:
            msg = f"an update of `om` has the unknown event type {event['type']!r}"
            raise ConfigurationError(msg)
        reducer(record, event)
        return
    check_version("`om.version`", event)
    check_edit(event)
    if record["id"] and event.get("id", record["id"]) != record["id"]:
        return  # the memory of another agent, such as a subagent whose state is merged into this
    if "log" in event:
        event = {**event, "log": estimate_edited(record["log"], event["log"])}
    if "thread_title" in event and "title" not in event:
        name_by_hand(record, event["thread_title"])
    record.update(cast("MemoryRecord", event))
    cast("Draft", record).owns_counts = False


def _ignore(record: MemoryRecord, event: Event) -> None:
    """Change nothing; the event is only streamed."""


_REDUCERS: dict[str, Callable[[MemoryRecord, Any], None]] = {
    "opened": open_record,
    "counted": set_counts,
    "stepped": note_step,
    "observation-end": finish_cycle,
    "observation-failed": note_failure,
    "buffering-start": start_buffering,
    "buffering-end": end_buffering,
    "buffering-failed": fail_buffering,
    "activation": activate,
    "observation-start": _ignore,
    "thread-update": _ignore,
    "extracted": _ignore,
    "working-read": note_read,
    "status": _ignore,
    "view-trimmed": _ignore,
    "tripped": trip,
    "archived": note_archived,
    "evicted": note_evicted,
    "recalled": set_recalled,
    "deletion": note_deletion,
    "tripwire": _ignore,
    "steered": steer_log,
    "title-words": note_words,
    "title-asked": ask_title,
    "titled": set_title,
    "steering": _ignore,
    "synced": take_over_log,
    "others": set_others,
    "waived": waive,
}

FOLDED_TYPES = frozenset(kind for kind, reducer in _REDUCERS.items() if reducer is not _ignore)
"""The event types that change memory and therefore go into the channel."""
