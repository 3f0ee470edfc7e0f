"""Tell messages that a client sends again from new ones, after they were removed.

A client that knows nothing of eviction sends the whole history in each turn. What was removed would
come back behind what stayed, as if it was said now: shown, and observed once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.message_keys import (
    Keyed,
    content_digest,
    is_conversation,
    keyed_messages,
)
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.wire import Event, MemoryRecord

Ask = Callable[..., EffectFlow[Any]]
"""Calls a method of the storage."""
Append = Callable[..., EffectFlow[None]]
"""Archives messages behind one."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a step found in the conversation that it takes for new."""

    record: MemoryRecord
    messages: Sequence[BaseMessage]
    """The conversation."""
    new: Keyed
    """What of it is to be archived."""
    request: str | None
    """The key of the live user request."""

    @property
    def dubious(self) -> Keyed:
        """What may have been removed before: what came in with a request, but for one at the end.

        It stands behind all that the state held before.
        """
        keys = [key for key, _ in self.new]
        if self.record["evicted"] is None or self.request not in keys:
            return []
        last = self.record["archived"]
        start = keys.index(last) + 1 if last in keys else 0
        stop = len(keys) - (keys[-1] == self.request)
        return [entry for entry in self.new[start:stop] if entry[1].id == entry[0]]


def find_resent(sent: Sent, ask: Ask, append: Append) -> EffectFlow[list[str]]:
    """Return which of the new messages were removed from this branch before.

    The archive is asked only in a turn that begins with more than its request. What has other words
    than before was edited: the archive takes these, as it does when an observed message is edited
    that was not removed yet, and what was observed of it stays.

    Args:
        sent: What the step found.
        ask: What calls the storage.
        append: What archives messages.

    Raises:
        ArchiveError: When the storage fails.
    """
    words = dict(sent.dubious)
    known = (yield from ask("contains", sent.record["thread_id"], [*words])) if words else set()
    if not known:
        return []
    removed = yield from _read_removed(sent, known, ask, append)
    for before, each in zip([None, *removed], removed, strict=False):
        key = each.key
        has_place = before is not None or each.position == 0
        if (
            key in known
            and has_place
            and content_digest(each.message) != content_digest(words[key])
        ):
            yield from append([(key, words[key])], after=before.key if before else None)
    there = {each.key for each in removed}
    return [key for key in words if key in there]


def build_removal(record: MemoryRecord, resent: Sequence[str]) -> list[Event]:
    """Say that messages are removed once more; their tokens were counted when they were first."""
    if not resent:
        return []
    return [{"type": "evicted", "last": str(record["evicted"]), "ids": [*resent], "tokens": 0}]


def without_removed(
    messages: Sequence[BaseMessage], events: Sequence[Event]
) -> Sequence[BaseMessage]:
    """Return a conversation without the messages that events say are removed."""
    gone = {key for event in events if event["type"] == "evicted" for key in event["ids"]}
    return [message for message in messages if message.id not in gone] if gone else messages


def _read_removed(
    sent: Sent, known: set[str], ask: Ask, append: Append
) -> EffectFlow[Sequence[Any]]:
    """Read what was removed from this branch, from the oldest known message on if not before.

    A client sends the end of what was removed, or all of it.
    """
    thread, evicted = sent.record["thread_id"], sent.record["evicted"]
    place = yield from ask("find", evicted, thread_id=thread)
    if place is not None and not place.is_current:
        if not (yield from _return_to_branch(sent, known, append)):
            return []
        place = yield from ask("find", evicted, thread_id=thread)
    if place is None or not place.is_current:
        return []
    options = {"newest_first": True, "visible_only": False}
    size, stop = len(known) + 1, place.position + 1
    read: Sequence[Any] = yield from ask("messages", thread, stop=stop, limit=size, **options)
    if read and not known <= {each.key for each in read}:
        stop = read[0].position
        read = [*(yield from ask("messages", thread, stop=stop, limit=stop + 1, **options)), *read]
    return read


def _return_to_branch(sent: Sent, known: set[str], append: Append) -> EffectFlow[bool]:
    """Let the archive go on with this branch; return whether it does.

    Another one was forked from before what was removed here, and went on last.
    """
    whole = [entry for entry in keyed_messages(sent.messages) if is_conversation(entry[1])]
    keys = [key for key, _ in whole]
    last = sent.record["archived"]
    at = keys.index(last) if last in keys else 0
    if not keys or (keys[at] in known and keys[at] != last):
        return False
    yield from append([whole[at]], after=keys[at - 1] if at else sent.record["evicted"])
    return True
