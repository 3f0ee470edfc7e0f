"""Keep track of what stands before the answers in the Actor's view, and since when.

The head of a view is all that memory puts before the window: the system message, the reminder, the
live request. It changes with the log, with the window's start, and with the day. An answer that was
made behind another head cannot be sent again with reasoning that its provider has bound to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date

from langchain_core.messages import BaseMessage

from langgraph_om.core.actor.prompt import (
    choose_reminder,
    count_extra,
    render_memory,
    select_instructions,
)
from langgraph_om.core.actor.shown import Shown, count_left_out, select_shown
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.bound_reasoning import holds_bound_reasoning
from langgraph_om.core.content.message_keys import content_digest, key_of
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.record.window import Entry, Window
from langgraph_om.core.wire import Head, MemoryRecord


def track_head(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    today: date,
) -> Head:
    """Return the head of the view that the Actor is given next.

    Args:
        settings: The settings in force.
        record: The memory of the thread, with the head of the Actor's last call.
        messages: The whole conversation.
        window: Its unobserved messages.
        today: The day that relative dates are relative to.
    """
    limit, guide = settings.max_input_tokens, settings.guide
    show_id = settings.show_id if settings.scope == "resource" else None
    extra = count_extra(record, guide) if limit is not None else 0
    dropped = count_left_out(window, log_tokens(record), limit, extra=extra)
    shown = select_shown(messages, window, dropped)
    instructions = select_instructions(messages)
    texts = render_memory(record, today, guide=guide, show_id=show_id)
    parts = [*texts, choose_reminder(record, dropped)]
    parts += [content_digest(message) for message in instructions]
    parts += [f"{key_of(message)} {content_digest(message)}" for message in shown.lead]
    is_plain = not (any(parts) or record["cursor"])
    digest = hashlib.blake2b("\x1f".join(parts).encode("utf-8", "surrogatepass"), digest_size=8)
    former, seen = record.get("head"), _count_seen(record, shown)
    is_same = former is None and is_plain
    _add_messages(digest, shown.entries[: seen or 0])
    if former is not None and seen is not None:
        is_same = digest.hexdigest() == former["digest"] and (
            is_plain or not _was_answered_elsewhere(shown.entries[seen:])
        )
    _add_messages(digest, shown.entries[seen or 0 :])
    known = former["after"] if former is not None else None
    after = known if is_same else shown.newest
    return {"after": after, "seen": shown.newest, "digest": digest.hexdigest()}


def _count_seen(record: MemoryRecord, shown: Shown) -> int | None:
    """Count the messages that the Actor's last view had too; `None` when that cannot be told."""
    former = record.get("head")
    if former is None:
        return None
    if former["seen"] is None:
        return 0
    for at in range(len(shown.entries) - 1, -1, -1):
        if shown.entries[at].key == former["seen"]:
            return at + 1
    return None


def _add_messages(digest: hashlib.blake2b, entries: Sequence[Entry]) -> None:
    text = "".join([f"\x1f{entry.key} {entry.digest}" for entry in entries])
    digest.update(text.encode("utf-8", "surrogatepass"))


def _was_answered_elsewhere(entries: Sequence[Entry]) -> bool:
    """Return whether one of these answers was not made to the Actor's last view.

    That view is followed by its answer; memory was off, or another agent spoke, for all others.
    """
    return any(holds_bound_reasoning(entry.message) for entry in entries[1:])
