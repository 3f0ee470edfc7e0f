"""Keep track of what stands before the answers in the Actor's view, and since when.

The head of a view is all that memory puts before the window: the system message, the reminder, the
live request. It changes with the log, with the window's start, and with the day. An answer that was
made behind another head cannot be sent again with reasoning that its provider has bound to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime

from langchain_core.messages import BaseMessage

from langgraph_om.core.actor.prompt import View, select_instructions
from langgraph_om.core.actor.shown import Shown
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.bound_reasoning import holds_bound_reasoning
from langgraph_om.core.content.message_keys import content_digest, derive_id, key_of
from langgraph_om.core.events import iso
from langgraph_om.core.plan import is_reasoning_under_way
from langgraph_om.core.record.span import Entry, ViewDigest
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import Head, MemoryRecord


def track_head(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    view: View,
    now: datetime,
) -> Head:
    """Return the head of the view that the Actor is given next.

    Args:
        record: The memory of the thread, with the head of the Actor's last call.
        messages: The whole conversation.
        view: What the Actor is shown, as of the day that `choose_day` returns.
        now: The current time.
    """
    shown = view.shown
    parts, lines = _list_parts(messages, view), _list_lines(view)
    is_plain = not (any(parts) or record["cursor"] or lines)
    former, seen = record.get("head"), _count_seen(record, shown)
    before, digest = _digest_view(shown, parts, lines, seen or 0)
    is_same = former is None and is_plain
    if former is not None and seen is not None:
        is_same = before == former["digest"] and (
            is_plain or not _was_answered_elsewhere(shown.entries[seen:])
        )
    known = former["after"] if former is not None else None
    return {
        "after": known if is_same else shown.newest,
        "seen": shown.newest,
        "digest": digest,
        "log": _digest_log(record),
        "as_of": view.day.isoformat(),
        "at": iso(now),
    }


def find_day(record: MemoryRecord, today: date) -> date:
    """Return the day that the dates of a view are relative to; today before the first one."""
    head = record.get("head")
    return date.fromisoformat(head["as_of"]) if head is not None else today


def choose_day(settings: Settings, record: MemoryRecord, window: Window, now: datetime) -> date:
    """Choose the day that relative dates are relative to from now on.

    It moves when the log has changed, and after a pause in which the provider's cache has lost the
    prompt anyway; never while reasoning waits for its tools, which the change would make invalid.
    """
    today, former = now.astimezone(settings.timezone).date(), record.get("head")
    if former is None or former["log"] != _digest_log(record):
        return today
    pause = (now - datetime.fromisoformat(former["at"])).total_seconds()
    if pause > settings.cache_seconds and not is_reasoning_under_way(window):
        return today
    return date.fromisoformat(former["as_of"])


def _digest_log(record: MemoryRecord) -> str:
    """Name the log by its groups, whose texts never change but by hand."""
    return derive_id("log", *[f"{group['id']} {len(group['text'])}" for group in record["log"]])


def _list_parts(messages: Sequence[BaseMessage], view: View) -> list[str]:
    """List what stands before the window."""
    parts = [*view.memory, view.reminder]
    parts += [content_digest(message) for message in select_instructions(messages)]
    parts += [f"{key_of(message)} {content_digest(message)}" for message in view.shown.lead]
    if view.shown.request is None:
        parts += [aside.text for aside in view.asides]
    return parts


def _list_lines(view: View) -> dict[str, str]:
    """List by key what is put before a message of the window.

    What is shown before the live request is no part of the prefix of the answers before it: it
    comes without making their reasoning invalid, and goes with all that was said behind it.
    """
    lines, shown = dict(view.lines), view.shown
    if shown.request is not None and view.asides:
        place = shown.entries[shown.request].key
        asides = [aside.text for aside in view.asides]
        lines[place] = "\x1e".join([*asides, lines.get(place, "")])
    return lines


def _count_seen(record: MemoryRecord, shown: Shown) -> int | None:
    """Count the messages that the Actor's last view had too; `None` when that cannot be told."""
    former = record.get("head")
    if former is None:
        return None
    if former["seen"] is None:
        return 0
    at = shown.find(former["seen"])
    return None if at is None else at + 1


def _digest_view(
    shown: Shown, parts: Sequence[str], lines: Mapping[str, str], seen: int
) -> tuple[str, str]:
    """Digest a view up to the messages that the last one had too, and all of it."""
    known = shown.span.view
    if known is None or known.count > seen or not known.begins(parts, lines, shown.dropped):
        known = ViewDigest.begin(parts, lines, shown.dropped)
    before = known.extend(shown.entries[known.count : seen])
    shown.span.view = whole = before.extend(shown.entries[seen:])
    return before.text, whole.text


def _was_answered_elsewhere(entries: Sequence[Entry]) -> bool:
    """Return whether one of these answers was not made to the Actor's last view.

    That view is followed by its answer; memory was off, or another agent spoke, for all others.
    """
    return any(holds_bound_reasoning(entry.message) for entry in entries[1:])
