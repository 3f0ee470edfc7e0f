"""Events of the thread's title: asked for, answered, or given by a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from langgraph_om.core.record.reducers.draft import add_to_outbox
from langgraph_om.core.titles.state import is_named, read_title_state
from langgraph_om.core.wire import MemoryRecord, TitleAsked, Titled, TitleState, TitleWords, Usage


def note_words(record: MemoryRecord, event: TitleWords) -> None:
    """Note what lists show until there is a title."""
    record["title"] = {**read_title_state(record), "words": event["words"]}


def ask_title(record: MemoryRecord, event: TitleAsked) -> None:
    """Note that a title is asked for."""
    state = read_title_state(record)
    tries = state.get("tries", 0) + (state.get("cycle_id") != event["cycle_id"])
    record["title"] = {**state, "cycle_id": event["cycle_id"], "tries": tries}


def set_title(record: MemoryRecord, event: Titled) -> None:
    """Set the title, which a model's answer never does over one that is there."""
    state = read_title_state(record)
    if event["by"] == "person":
        if state.get("id") != event["id"]:
            _set_by_person(record, state, event)
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


def name_by_hand(record: MemoryRecord, title: str | None) -> None:
    """Take an edited title for a person's, which memory never changes; `None` gives it back."""
    if title != record["thread_title"]:
        by: Literal["person"] | None = "person" if title is not None else None
        record["title"] = {**read_title_state(record), "by": by, "cycle_id": None, "tries": 0}


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
    if record["scope"] == "resource":
        thread_id = record["thread_id"]
        named: dict[str, Any] = {"thread_id": thread_id, "title": title, "groups": []}
        add_to_outbox(record, event["id"], kind="title", **named)
