"""Find the window of unobserved messages, and count its tokens.

The window is found from the message ids in the record's cursor, so that the cost grows with the
window and not with the conversation. Nothing here decides; `plan` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.content.message_keys import (
    is_conversation,
    is_reminder,
    key_of,
)
from langgraph_om.core.record.cursor import find_cursor, names_all, walk_back
from langgraph_om.core.record.record import CURSOR_TAIL, select_valid_counts
from langgraph_om.core.record.span import Entry, Span, extend_span, go_on, read_entry, read_span
from langgraph_om.core.record.strays import NO_STRAYS, Strays, has_strays, select_strays
from langgraph_om.core.tokens.counter import CONVERSATION_OVERHEAD, TokenCounter
from langgraph_om.core.wire import MemoryRecord, TokenCount


@dataclass(frozen=True, slots=True)
class Window:
    """The unobserved part of a conversation."""

    entries: tuple[Entry, ...]
    tokens: int
    """Tokens of all entries, with the overhead of a conversation; 0 when empty."""
    request: str | None
    """Key of the newest human message of the whole conversation: the live user request."""
    request_message: BaseMessage | None
    """The live user request, when it is before the window."""
    request_tokens: int
    """Tokens of the live user request, when it is before the window."""
    observed: tuple[tuple[str, BaseMessage], ...]
    """The last messages before the window with their keys, as many as a cursor names."""
    last_key: str | None
    """Key of the conversation's last message."""
    start: int
    """Index of the first message behind the cursor."""
    strays: Strays
    """The first entries, when these stand before the cursor; observed by themselves."""
    fresh_from: int
    """Index of the first entry of the turn: the live user request, or 0 when it is before the
    window; behind all entries without one."""
    span: Span = field(compare=False, repr=False)
    """What a later look goes on from."""
    known: int = field(compare=False, repr=False)
    """How many of the first entries the record is known to count as they are."""

    @property
    def turn(self) -> str | None:
        """Key of the message by which a turn is known: the live user request, if there is one."""
        return self.last_key if self.request is None else self.request

    def weight(self, start: int, stop: int) -> int:
        """Count the tokens of the entries from `start` up to `stop`."""
        return self.span.sums[min(stop, len(self.entries))] - self.span.sums[start]

    def count_before_turns(self, turns: int) -> int:
        """Count the entries before the newest user turns; none where these are not all here."""
        if not turns:
            return len(self.entries)
        for at in range(len(self.entries) - 1, -1, -1):
            turns -= self.entries[at].message.type == "human"
            if not turns:
                return at
        return 0

    def cursor_after(self, count: int) -> list[str]:
        """Return the cursor once the first `count` entries are observed."""
        keys = [key for key, message in self.observed if message.id]
        keys += [entry.key for entry in self.entries[len(self.strays.messages) : count]]
        return keys[-CURSOR_TAIL:]


def open_window(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    counter: TokenCounter,
    *,
    is_counted: bool = False,
    request: str | None = None,
    before: Span | None = None,
) -> Window:
    """Return the messages after the cursor with their tokens.

    Args:
        record: The memory of the thread.
        messages: The whole conversation.
        counter: What counts tokens; counts in the record's cache are used where they are of the
            same counter and content.
        is_counted: Whether this step has just counted these messages, so that its counts can be
            used without reading the messages again.
        request: Key of the live user request, where it is known: the Actor's messages may end with
            one that the user never wrote.
        before: What an earlier look has read; the window is the same without.
    """
    counts = select_valid_counts(record, counter.identity)
    span, strays, known = _read_unobserved(
        record, messages, counts, counter, is_counted=is_counted, before=before
    )
    start, entries = span.start, span.entries
    request_at = find_newest_human(messages, request)
    request_key, pinned, pinned_tokens = None, None, 0
    if request_at is not None and request_at >= start:
        request_key = span.names[request_at - start]
    elif request_at is not None:
        request_key = key_of(messages[request_at])
        if request_key not in dict(strays.messages):
            pinned = messages[request_at]
            entry = read_entry(pinned, request_key, counts, counter, is_counted=is_counted)
            pinned_tokens = entry.tokens
    tokens = span.sums[-1] - span.sums[0]
    return Window(
        entries=entries,
        tokens=tokens + (CONVERSATION_OVERHEAD if entries else 0),
        request=request_key,
        request_message=pinned,
        request_tokens=pinned_tokens,
        observed=_collect_before(record["cursor"], messages, start),
        last_key=span.names[-1] if span.names else (key_of(messages[-1]) if messages else None),
        start=start,
        strays=strays,
        fresh_from=0 if pinned is not None else span.places.get(str(request_key), len(entries)),
        span=span,
        known=known,
    )


def _read_unobserved(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    counts: Mapping[str, TokenCount],
    counter: TokenCounter,
    *,
    is_counted: bool,
    before: Span | None,
) -> tuple[Span, Strays, int]:
    """Read what is unobserved: on from an earlier look, or from the cursor.

    Returns:
        The messages as a span, those of them that stand before the cursor, and how many entries
        of the earlier look the record counts.
    """
    gone_on = go_on(before, record, messages, counts, is_counted=is_counted)
    if gone_on is not None:
        rest, known, read = gone_on
        new = messages[rest.start + len(rest.entries) :]
        usable = counts if is_counted or not read else {**read, **counts}
        span = extend_span(rest, record["cursor"], new, usable, counter, is_counted=is_counted)
        if span is not None:
            return span, NO_STRAYS, known
    keyed, start = find_cursor(record, messages)
    strays = select_strays(record, messages, start)
    span = read_span(start, keyed, strays.messages, counts, counter, is_counted=is_counted)
    if before is not None:
        span.take_over(before)
    return span, strays, 0


def select_observed(record: MemoryRecord, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages before the window, which are observed."""
    if has_strays(record):  # until these are observed, nothing is known to be
        return []
    _, start = find_cursor(record, messages)
    return [message for message in messages[:start] if is_conversation(message)]


def select_needed(record: MemoryRecord, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that give the same window as the whole conversation.

    They are the window, as many messages before it as a cursor names, and the live user request.
    """
    found = walk_back(record["cursor"], messages)
    if found is None or len(record["cursor"]) < CURSOR_TAIL or has_strays(record):
        return list(messages)
    first, named = found[1], 0
    while first > 0 and named < CURSOR_TAIL:
        first -= 1
        named += is_conversation(messages[first])
    request = find_newest_human(messages)
    pinned = [messages[request]] if request is not None and request < first else []
    return [*pinned, *messages[first:]]


def find_newest_human(messages: Sequence[BaseMessage], request: str | None = None) -> int | None:
    """Return the index of the live user request: that of this key, or the newest human message."""
    if request is not None:
        for at in range(len(messages) - 1, -1, -1):
            if key_of(messages[at]) == request:
                return at
    for at in range(len(messages) - 1, -1, -1):
        if isinstance(messages[at], HumanMessage) and not is_reminder(messages[at]):
            return at
    return None


def _collect_before(
    cursor: Sequence[str], messages: Sequence[BaseMessage], start: int
) -> tuple[tuple[str, BaseMessage], ...]:
    tail = messages[max(0, start - CURSOR_TAIL) : start]
    if names_all(cursor, tail):  # as it is, but for messages without ids and the like
        return tuple(zip(cursor, tail, strict=True))
    return tuple((key_of(message), message) for message in tail if is_conversation(message))
