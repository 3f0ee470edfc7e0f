"""Find the window of unobserved messages, count its tokens, and find where it may be cut.

The window is found from the message ids in the record's cursor, so that the cost grows with the
window and not with the conversation. Nothing here decides; `plan` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.content.message_keys import (
    Keyed,
    content_digest,
    is_conversation,
    is_reminder,
    key_of,
    keyed_messages,
)
from langgraph_om.core.record.record import CURSOR_TAIL, select_own_groups, select_valid_counts
from langgraph_om.core.record.strays import Strays, has_strays, select_strays
from langgraph_om.core.tokens.counter import CONVERSATION_OVERHEAD, TokenCounter
from langgraph_om.core.wire import MemoryRecord


class Entry(NamedTuple):
    """One message of the window; a tuple, because each step makes one per message."""

    key: str
    """The message's id, or one derived from it or from its content."""
    message: BaseMessage
    digest: str
    tokens: int


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

    def weight(self, start: int, stop: int) -> int:
        """Count the tokens of the entries from `start` up to `stop`."""
        return sum(entry.tokens for entry in self.entries[start:stop])

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
    """
    keyed, start = _find_cursor(record, messages)
    counts = select_valid_counts(record, counter.identity)
    strays = select_strays(record, messages, start)
    entries = tuple(
        _build_entry(key, message, counts, counter, is_counted=is_counted)
        for key, message in (*strays.messages, *keyed)
        if is_conversation(message)
    )
    request_at = _find_newest_human(messages, request)
    request_key = None
    pinned = None
    if request_at is not None:
        if request_at >= start:
            request_key = keyed[request_at - start][0]
        else:
            pinned = messages[request_at]
            request_key = key_of(pinned)
            if request_key in dict(strays.messages):
                pinned = None
    return Window(
        entries=entries,
        tokens=sum(entry.tokens for entry in entries) + (CONVERSATION_OVERHEAD if entries else 0),
        request=request_key,
        request_message=pinned,
        request_tokens=(
            _build_entry(str(request_key), pinned, counts, counter, is_counted=is_counted).tokens
            if pinned is not None
            else 0
        ),
        observed=_collect_before(messages, start),
        last_key=keyed[-1][0] if keyed else (key_of(messages[-1]) if messages else None),
        start=start,
        strays=strays,
        fresh_from=0 if pinned is not None else _find_key(entries, request_key),
    )


def select_observed(record: MemoryRecord, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages before the window, which are observed."""
    if has_strays(record):  # until these are observed, nothing is known to be
        return []
    _, start = _find_cursor(record, messages)
    return [message for message in messages[:start] if is_conversation(message)]


def select_needed(record: MemoryRecord, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that give the same window as the whole conversation.

    They are the window, as many messages before it as a cursor names, and the live user request.
    """
    start = _walk_back(record["cursor"], messages)
    if start is None or len(record["cursor"]) < CURSOR_TAIL or has_strays(record):
        return list(messages)
    first, named = start, 0
    while first > 0 and named < CURSOR_TAIL:
        first -= 1
        named += is_conversation(messages[first])
    request = _find_newest_human(messages)
    pinned = [messages[request]] if request is not None and request < first else []
    return [*pinned, *messages[first:]]


def find_safe_cuts(entries: Sequence[Entry]) -> list[int]:
    """Return where the window may be cut: counts of leading entries that form complete exchanges.

    A tool call stays with all of its results, and both stay until the Actor has gone on from them,
    because an Actor that never sees a result asks for it again. A call without a result closes once
    the conversation has gone on without it, so that an abandoned call does not stop memory forever.
    """
    cuts: list[int] = []
    reach = -1
    for at, end in enumerate(_find_exchange_ends(entries)):
        reach = max(reach, end)
        if at >= reach:
            cuts.append(at + 1)
    return cuts


# --- Entries -------------------------------------------------------------------------------------


def _build_entry(
    key: str,
    message: BaseMessage,
    counts: dict[str, Any],
    counter: TokenCounter,
    *,
    is_counted: bool,
) -> Entry:
    cached = counts.get(key)
    if cached is not None and is_counted:
        return Entry(key, message, cached[0], cached[1])
    digest = content_digest(message)
    if cached is not None and cached[0] == digest:
        return Entry(key, message, digest, cached[1])
    return Entry(key, message, digest, counter.count_message(message))


def _find_newest_human(messages: Sequence[BaseMessage], request: str | None = None) -> int | None:
    """Return the index of the live user request: that of this key, or the newest human message."""
    if request is not None:
        for at in range(len(messages) - 1, -1, -1):
            if key_of(messages[at]) == request:
                return at
    for at in range(len(messages) - 1, -1, -1):
        if isinstance(messages[at], HumanMessage) and not is_reminder(messages[at]):
            return at
    return None


def _find_key(entries: Sequence[Entry], key: str | None) -> int:
    """Return the index of an entry; the number of entries when it is none of them."""
    return next((at for at, entry in enumerate(entries) if entry.key == key), len(entries))


def _collect_before(
    messages: Sequence[BaseMessage], start: int
) -> tuple[tuple[str, BaseMessage], ...]:
    tail = messages[max(0, start - CURSOR_TAIL) : start]
    return tuple((key_of(message), message) for message in tail if is_conversation(message))


# --- The cursor ----------------------------------------------------------------------------------


def _find_cursor(record: MemoryRecord, messages: Sequence[BaseMessage]) -> tuple[Keyed, int]:
    """Return the messages after the cursor with their keys, and the index of the first of them.

    The common case walks back from the end and stops at the cursor. With messages without ids,
    duplicate ids or removed messages, the whole list is read.
    """
    cursor = record["cursor"]
    if not cursor and (not record["log"] or record["scope"] == "resource"):
        keyed = keyed_messages(messages)
        return keyed, 0
    quick = _walk_back(cursor, messages)
    if quick is not None:
        return [(key_of(message), message) for message in messages[quick:]], quick
    keyed = keyed_messages(messages)
    start = _search_start(record, {key: at for at, (key, _) in enumerate(keyed)})
    return keyed[start:], start


def _walk_back(cursor: Sequence[str], messages: Sequence[BaseMessage]) -> int | None:
    """Return the start of the window, searched from the end; `None` when anything is unusual."""
    if not cursor:
        return None
    newest = cursor[-1]
    seen: set[str] = set()
    for at in range(len(messages) - 1, -1, -1):
        if not messages[at].id or (key := key_of(messages[at])) in seen:
            return None
        if key == newest:
            return at + 1 if _is_tail_at(cursor, messages, at) else None
        seen.add(key)
    return None


def _is_tail_at(cursor: Sequence[str], messages: Sequence[BaseMessage], at: int) -> bool:
    """Return whether the messages up to `at` are the cursor's tail, not just one of the same id."""
    wanted = len(cursor) - 1
    while at >= 0 and wanted >= 0:
        if is_conversation(messages[at]):
            if key_of(messages[at]) != cursor[wanted]:
                return False
            wanted -= 1
        at -= 1
    if wanted >= 0:
        return False
    # A tail that is not full names all observed messages: nothing else may be before it.
    return len(cursor) == CURSOR_TAIL or not any(map(is_conversation, messages[: at + 1]))


def _search_start(record: MemoryRecord, positions: dict[str, int]) -> int:
    """Return the start of the window when the newest observed message is not where it was."""
    for key in reversed(record["cursor"]):
        if key in positions:
            return positions[key] + 1
    # Messages with a count were in the window at the last step.
    counts = record["token_cache"]["counts"]
    unobserved = min((positions[key] for key in counts if key in positions), default=0)
    ranges = [ends for group in select_own_groups(record) for ends in group["ranges"]]
    for passed, (first, last) in enumerate(reversed(ranges)):
        if last in positions:
            return max(positions[last] + 1, unobserved if passed else 0)
        if first in positions:
            return max(positions[first] + 1, unobserved)
    return unobserved if ranges else 0


# --- Cuts ----------------------------------------------------------------------------------------


def _find_exchange_ends(entries: Sequence[Entry]) -> list[int]:
    """Return for each message the index at which its exchange ends; its own when it opens none.

    A result belongs to the nearest call of its id before it, since some models number their calls
    from 1 in every message.
    """
    ends = list(range(len(entries)))
    open_calls: dict[str, int] = {}
    newest_other = -1
    for at, entry in enumerate(entries):
        if entry.message.type == "tool":
            called = open_calls.pop(cast("ToolMessage", entry.message).tool_call_id, None)
            if called is not None:
                ends[called] = at
            continue
        newest_other = at
        open_calls.update(dict.fromkeys(_collect_call_ids(entry.message), at))
    for called in open_calls.values():
        if called >= newest_other:  # the conversation has not gone on: the result may still come
            ends[called] = len(entries)
    if newest_other >= 0 and entries[-1].message.type == "tool":
        ends[newest_other] = len(entries)  # the Actor has not seen these results yet
    return ends


def _collect_call_ids(message: BaseMessage) -> list[str]:
    if message.type != "ai" or not isinstance(message, AIMessage):
        return []
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return [str(call["id"]) for call in calls if call.get("id")]
