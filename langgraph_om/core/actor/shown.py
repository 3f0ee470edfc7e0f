"""Choose which messages the Actor is shown, in which order, and where their reasoning is left out.

No message is changed but for reasoning that a provider would not accept where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.content.blocks import (
    answers_other_view,
    holds_bound_reasoning,
    without_bound_reasoning,
)
from langgraph_om.core.content.message_keys import GAP_ID, key_of
from langgraph_om.core.record.window import Entry, Window, get_message
from langgraph_om.core.wire import MemoryRecord

_PLAIN: Final = frozenset({HumanMessage, ToolMessage})
"""Classes of messages that hold no reasoning; a look at each message takes longer."""


class ShownMessages(NamedTuple):
    """The messages of a view."""

    dropped: int
    """How many of the window's oldest messages are left out."""
    first: BaseMessage | None
    """The live request, where it stands before the rest of the window."""
    calls: list[BaseMessage]
    """Calls before the window whose results are in it."""
    entries: Sequence[Entry]
    """The rest of the window."""
    request: int | None
    """Index of the live request in `entries`; `None` where it is none of them."""
    live: int
    """How many of these are earlier than the live request and what followed it."""
    window: Window
    """The whole window."""
    cut: int = 0
    """Of how many more of the rest only the beginning and the end are shown."""

    @property
    def lead(self) -> list[BaseMessage]:
        """What stands before the rest of the window."""
        return [*([] if self.first is None else [self.first]), *self.calls]

    @property
    def newest(self) -> str | None:
        """Key of the newest message; `None` without any."""
        return self.entries[-1].key if self.entries else None

    def find(self, key: str | None) -> int | None:
        """Return the index of a message in `entries`; `None` where it is none of them."""
        at = self.window.find(key) - self.dropped
        return at if at >= 0 else None

    def replace_messages(self, show: Callable[[BaseMessage, str], BaseMessage]) -> ShownMessages:
        """Return the same messages as a function of message and key shows them."""
        entries = [
            entry
            if (other := show(entry.message, entry.key)) is entry.message
            else entry._replace(message=other)
            for entry in self.entries
        ]
        calls = [show(message, key_of(message)) for message in self.calls]
        first = None if self.first is None else show(self.first, key_of(self.first))
        return self._replace(entries=entries, calls=calls, first=first)


def select_shown(messages: Sequence[BaseMessage], window: Window, dropped: int) -> ShownMessages:
    """Select the messages of a view, in their order.

    Args:
        dropped: How many of the window's are left out.
    """
    at, calls = window.find(window.request), _find_missing_calls(window, dropped, messages)
    return ShownMessages(
        dropped,
        window.entries[at].message if 0 <= at < dropped else window.request_message,
        [*filter(None, map(without_bound_reasoning, calls))],
        window.entries[dropped:],
        at - dropped if at >= dropped else None,
        max(0, window.fresh_from - dropped),
        window,
    )


def write_messages(
    record: MemoryRecord,
    shown: ShownMessages,
    asides: Sequence[BaseMessage] = (),
    *,
    lines: Mapping[str, str] | None = None,
    with_reasoning: bool = True,
) -> list[BaseMessage]:
    """Return the messages of a view, reasoning left out where it is not valid any more.

    Args:
        record: The memory of the thread, which knows since when the head is what it is.
        asides: What is shown before the live request and is no part of the conversation.
        lines: By the key of a message, a line that is shown before it.
        with_reasoning: Whether reasoning is shown at all where a provider binds it to its prefix.
    """
    entries, lines = shown.entries, lines or {}
    stop = _count_unbound(record, shown) if with_reasoning else len(entries)
    # Looked at anew: what a message holds may be changed in place.
    stripped = {
        at
        for at, (_, message, *_) in enumerate(entries[:stop])
        if type(message) not in _PLAIN and holds_bound_reasoning(message)
    }
    found = [shown.request, *map(shown.find, lines)]
    places = {*stripped, *(at for at in found if at is not None)}
    out = [*asides] if shown.request is None else []
    out += shown.lead
    begun = 0
    for at in sorted(places):
        out += map(get_message, entries[begun:at])
        entry, begun = entries[at], at + 1
        if at == shown.request:
            out += asides
        if entry.key in lines:  # in no state
            out.append(HumanMessage(lines[entry.key], id=GAP_ID))
        message = without_bound_reasoning(entry.message) if at in stripped else entry.message
        if message is not None:
            out.append(message)
    out += map(get_message, entries[begun:])
    return out


# --- Which messages ------------------------------------------------------------------------------


def _find_missing_calls(
    window: Window, dropped: int, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return the calls whose results are shown, but which were observed before those arrived."""
    calls, missing = set[str](), set[str]()
    for _, message, *_ in window.entries[dropped:]:
        if type(message) is HumanMessage:  # a check by class takes longer
            continue
        if isinstance(message, AIMessage):
            calls.update(str(call["id"]) for call in message.tool_calls)
        elif isinstance(message, ToolMessage) and message.tool_call_id not in calls:
            missing.add(message.tool_call_id)
    if not missing:
        return []
    present = {id(entry.message) for entry in window.entries[dropped:]}
    return _collect_exchanges(missing, [m for m in messages if id(m) not in present])


def _collect_exchanges(
    call_ids: AbstractSet[str], messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return the newest messages that make these calls, each with its other results."""
    brought: list[BaseMessage] = []
    missing = set(call_ids)
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not missing:
            break
        if isinstance(message, ToolMessage):
            results.append(message)
            continue
        if isinstance(message, AIMessage):
            ids = {str(call["id"]) for call in message.tool_calls}
            if ids & missing:
                missing -= ids
                brought += [result for result in results if result.tool_call_id in ids]
                brought.append(message)
        results = []
    return brought[::-1]


# --- Reasoning -----------------------------------------------------------------------------------


def _count_unbound(record: MemoryRecord, shown: ShownMessages) -> int:
    """Count the oldest messages that were said behind another head than that of this view."""
    head = record.get("head")
    if head is None:  # of a record that another version wrote
        return len(shown.entries) if record["log"] else 0
    after = shown.find(head["after"])
    others = (at for at, entry in enumerate(shown.entries) if answers_other_view(entry.message))
    return max(-1 if after is None else after, *others, -1) + 1
