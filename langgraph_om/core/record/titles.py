"""What a record knows of the title of its thread, and of hints: current task, suggested response.

`thread_title` is the title; `title` notes where it comes from. A title that a person set is changed
by nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph_om.core.record.record import RESPONSE, TASK, TITLE, add_up
from langgraph_om.core.wire import (
    MemoryRecord,
    ObservationBuffered,
    TitleAsked,
    Titled,
    TitleState,
    TitleWords,
)


def is_named(record: MemoryRecord) -> bool:
    """Return whether a person set the thread's title."""
    return record.get("title", {}).get("by") == "person"


def note_words(record: MemoryRecord, event: TitleWords) -> None:
    """Note what lists show until there is a title."""
    record["title"] = {**record.get("title", {}), "words": event["words"]}


def note_asked(record: MemoryRecord, event: TitleAsked) -> None:
    """Note that a title is asked for."""
    state = record.get("title", {})
    tries = state.get("tries", 0) + (state.get("cycle_id") != event["cycle_id"])
    record["title"] = {**state, "cycle_id": event["cycle_id"], "tries": tries}


def set_title(record: MemoryRecord, event: Titled) -> None:
    """Set the title, which a model's answer never does over one that is there."""
    state = record.get("title", {})
    if event["by"] == "person":
        if state.get("id") != event["id"]:
            _set_by_person(record, state, event)
        return
    if state.get("cycle_id") != event["id"]:
        return
    state = {**state, "cycle_id": None}
    if "usage" in event:
        state["usage"] = add_up(state.get("usage", {}), event["usage"])
    if event["title"] is not None and record["thread_title"] is None and not is_named(record):
        record["thread_title"] = event["title"]
        state = {**state, "by": "memory", "at": event["at"]}
    record["title"] = state


def _set_by_person(record: MemoryRecord, state: TitleState, event: Titled) -> None:
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


def take_hints(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take over what the Observer stated; the rest stays, and so does a person's title."""
    stated = event.get("hints", {})
    if stated.get(TASK) is not None:
        record[TASK] = stated[TASK] or None
    if stated.get(RESPONSE) is not None:
        record[RESPONSE] = stated[RESPONSE] or None
    _suggest(record, stated)


def take_buffered_title(record: MemoryRecord, event: ObservationBuffered) -> None:
    """Take over a title before its observations take effect, which need not tell of it again."""
    _suggest(record, event["chunk"]["hints"])
    *others, chunk = record["chunks"]
    left = {name: hint for name, hint in chunk["hints"].items() if name != TITLE}
    record["chunks"] = [*others, {**chunk, "hints": left}]


def _suggest(record: MemoryRecord, stated: Mapping[str, str | None]) -> None:
    if stated.get(TITLE) and not is_named(record):
        record["thread_title"] = stated[TITLE]


def note_title_told(record: MemoryRecord) -> None:
    """Note that the stream was told of the title."""
    state = record.get("title")
    if state is not None and state.get("is_new"):
        record["title"] = {**state, "is_new": False}
