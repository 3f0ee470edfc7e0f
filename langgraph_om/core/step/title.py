"""Whether a thread's title is to be asked for, and what came of asking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import (
    content_digest,
    derive_id,
    is_conversation,
    keyed_messages,
)
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.titles.question import TitleJob
from langgraph_om.core.effects import EffectFlow, PeekJobs
from langgraph_om.core.events import iso
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.span import Entry
from langgraph_om.core.titles.state import find_words, read_title_state
from langgraph_om.core.wire import Event, MemoryRecord, Titled

MAX_TRIES: Final = 3
"""How often a title is asked for until a person takes it up again, or the Observer has one."""


def note_words(
    settings: Settings, record: MemoryRecord, messages: Sequence[BaseMessage]
) -> list[Event]:
    """Return the event with what lists show until there is a title, once."""
    if settings.titles is None or "words" in read_title_state(record):
        return []
    words = find_words(messages)
    return [{"type": "title-words", "words": words}] if words else []


def take_in_title(
    settings: Settings, record: MemoryRecord, now: datetime
) -> EffectFlow[list[Event]]:
    """Take in what came of the question that is under way; nothing while it is."""
    cycle_id = read_title_state(record).get("cycle_id")
    if cycle_id is None:
        return []
    states: Mapping[str, Any] = yield PeekJobs({"title": cycle_id})
    found = states["title"]
    if found == "running":
        return []
    if not isinstance(found, Mapping) or found.get("type") != "titled":
        error = "lost: the question is not known here, it ended with its process"
        found = {"type": "titled", "by": "memory", "title": None, "at": iso(now), "error": error}
    return tell_title(settings, record, cast("Titled", {**found, "id": cycle_id}), now)


def tell_title(
    settings: Settings, record: MemoryRecord, found: Titled, now: datetime
) -> list[Event]:
    """Return the event with what came of a question, and the one that shows it."""
    before, after = record["thread_title"], fold(record, [found])["thread_title"]
    if after is None or after == before:
        return [found]
    info = CycleInfo(settings, record, "observation", found["id"], 0, now)
    return [found, info.event("thread-update", now, old_title=before, new_title=after)]


def tell_of_person(settings: Settings, record: MemoryRecord, now: datetime) -> list[Event]:
    """Return the event that shows the title that a person has set since the last step."""
    state, title = read_title_state(record), record["thread_title"]
    if not state.get("is_new") or title is None:
        return []
    info = CycleInfo(settings, record, "observation", state["id"], 0, now)
    return [info.event("thread-update", now, old_title=state["before"], new_title=title)]


def describe_title(
    settings: Settings, record: MemoryRecord, messages: Sequence[BaseMessage], now: datetime
) -> TitleJob | None:
    """Return the question for the title, where it is time to ask it.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        messages: The whole conversation.
        now: The current time.
    """
    state = read_title_state(record)
    is_under_way, tries = state.get("cycle_id") is not None, state.get("tries", 0)
    if settings.titles is None or record["thread_title"] is not None:
        return None
    if is_under_way or tries >= MAX_TRIES:
        return None
    exchange = find_exchange(messages)
    if not exchange:
        return None
    parts = (f"{entry.key}:{entry.digest}" for entry in exchange)
    cycle_id = derive_id("title", record["id"], tries, state.get("id"), *parts)
    # Only what names the conversation: the job may be at work for a while.
    named = {key: record[key] for key in ("id", "thread_id", "resource_id", "scope")}
    whose = cast("MemoryRecord", {**blank_record(), **named})
    return TitleJob(settings, whose, cycle_id, exchange, now)


def find_exchange(messages: Sequence[BaseMessage]) -> list[Entry]:
    """Return the first user message and the first answer to it; nothing before there is one."""
    found: list[Entry] = []
    for key, message in keyed_messages(messages):
        if not is_conversation(message) or message.type != ("ai" if found else "human"):
            continue
        if found and (getattr(message, "tool_calls", None) or not message.text.strip()):
            continue
        found.append(Entry(key, message, content_digest(message), 0))
        if len(found) == len(("user", "assistant")):
            return found
    return []
