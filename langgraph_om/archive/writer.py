"""What the gate does with an archive: it keeps what is new, and tells what may be removed then.

Nothing is called removable that the archive does not have; when the archive fails, the
conversation goes on and the next step tries again, or the next turn where trying took long.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any, cast

from langchain_core.messages import BaseMessage, ToolMessage

from langgraph_om.archive import MessageArchive
from langgraph_om.core.content.message_keys import Keyed, content_digest
from langgraph_om.core.content.parts import is_visible
from langgraph_om.core.content.text import LARGE_INTEGER_BITS, write_repr, write_short_json
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import select_own_groups
from langgraph_om.core.step.archive import find_evictable, find_unarchived
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.errors import ArchiveError, ConfigurationError

logger = logging.getLogger("langgraph_om")

MAX_LEVELS = 50
"""How deep values stay as they are in a message that is no JSON value."""
OUTLINE_CHARACTERS = 2000
"""About how much is told of a value that stands deeper."""

MAX_GROUPS_REMEMBERED = 10_000
"""How many groups and threads a process remembers to have archived, so that it does not ask again.
"""
LONG_SECONDS = 1.0
"""A turn that waited longer than this, for an archive that failed then, does not wait again."""


@dataclass
class ArchiveWriter:
    """Writes one memory's threads into its archive."""

    archive: MessageArchive
    evicts: bool
    """Whether observed messages leave the conversation."""
    _groups: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict, repr=False)
    _threads: OrderedDict[str, None] = field(default_factory=OrderedDict, repr=False)
    _waited: dict[str, str] = field(default_factory=dict, repr=False)
    """Per thread, the request of the turn that has waited in vain."""
    _missed: dict[str, set[str]] = field(default_factory=dict, repr=False)
    """Per thread, what was new or edited when the archive failed."""

    def keep(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        now: datetime,
        changed: Collection[str] = (),
        request: str | None = None,
    ) -> list[Event]:
        """Archive what is new, and say so; nothing of a conversation without a thread id.

        Args:
            record: The memory of the thread, looked at in this step.
            messages: The whole conversation.
            now: The current time.
            changed: Keys of messages that are new or edited.
            request: The key of the live user request.

        Returns:
            The events to fold; `evicted` names the messages that may be removed now.

        Raises:
            ConfigurationError: When the thread belongs to another resource in the archive.
        """
        thread = record["thread_id"]
        if not thread:  # nobody could tell such conversations apart
            return []
        missed = {*changed, *self._missed.pop(thread, ())}
        if request is not None and self._waited.get(thread) == request:
            self._missed[thread] = missed
            return []
        began = time.monotonic()
        try:
            events = self._kept(record, messages, now, missed)
            events += self._removable(fold(record, [events]), messages, now, request)
        except ArchiveError as error:
            self._missed[thread] = missed
            is_long = request is not None and time.monotonic() - began >= LONG_SECONDS
            if is_long:
                self._waited[thread] = str(request)
            when = "turn" if is_long else "step"
            logger.warning(
                "thread %r: the archive failed, the next %s tries again: %s", thread, when, error
            )
            return []
        self._waited.pop(thread, None)
        return events

    def _kept(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        now: datetime,
        changed: Collection[str],
    ) -> list[Event]:
        thread, resource = record["thread_id"], record["resource_id"]
        if self._has(record):
            after, new = find_unarchived(record, messages, changed)
        else:
            after, new = _all_unarchived(record, messages)
        if new:
            title = record["thread_title"]
            self._append(thread, resource, new, after=after, now=now, title=title)
        own = select_own_groups(record)
        groups = [group for group in own if (thread, group["id"]) not in self._groups]
        if groups:
            self.archive.add_groups(thread, resource, groups, now)
            self._groups.update(dict.fromkeys((thread, group["id"]) for group in groups))
        self._threads[thread] = None
        for remembered in (self._groups, self._threads):
            while len(remembered) > MAX_GROUPS_REMEMBERED:
                remembered.popitem(last=False)
        return [{"type": "archived", "last": new[-1][0]}] if new else []

    def _has(self, record: MemoryRecord) -> bool:
        """Return whether the archive has what the record says, which is asked once in a process.

        It has not when it is another one, or an older copy of it.
        """
        thread, last = record["thread_id"], record["archived"]
        return last is None or thread in self._threads or last in self._kept_of(thread, [last])

    def _kept_of(self, thread: str, keys: list[str]) -> set[str]:
        return self.archive.contains(thread, keys) if keys else set()

    def _append(
        self,
        thread: str,
        resource: str | None,
        entries: Keyed,
        *,
        after: str | None,
        now: datetime,
        title: str | None = None,
    ) -> None:
        rows = _to_rows(entries)
        try:
            self.archive.append(thread, resource, rows, after=after, now=now, title=title)
        except ConfigurationError:  # a message that is no JSON, or a thread of somebody else
            plain = [(key, _make_plain(message), seen) for key, message, seen in rows]
            self.archive.append(thread, resource, plain, after=after, now=now, title=title)

    def _removable(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        now: datetime,
        request: str | None,
    ) -> list[Event]:
        """Tell what may be removed; what was edited since it was archived is archived anew."""
        thread = record["thread_id"]
        keys = find_evictable(record, messages, request) if self.evicts else []
        kept = self._kept_of(thread, keys)
        if len(kept) < len(keys):
            after, missing = _all_unarchived(record, messages)
            self._append(thread, record["resource_id"], missing, after=after, now=now)
            kept = self._kept_of(thread, keys)
        ids = list(takewhile(kept.__contains__, keys))
        if not ids:
            return []
        known = {message.id: message for message in messages}
        before = record["evicted"]
        for key, stored in zip(ids, self.archive.branch(thread, ids), strict=True):
            if content_digest(stored) != content_digest(known[key]):
                entry = [(key, known[key])]
                self._append(thread, record["resource_id"], entry, after=before, now=now)
            before = key
        return [{"type": "evicted", "last": ids[-1], "ids": ids}]

    def complete(
        self,
        thread_id: str,
        resource_id: str | None,
        entries: Keyed,
        now: datetime,
    ) -> None:
        """Archive what is missing of a conversation whose record is not at hand.

        Raises:
            ArchiveError: When the storage fails.
        """
        if not entries or not thread_id:
            return
        known = self.archive.contains(thread_id, [key for key, _ in entries])
        last = max((at for at, (key, _) in enumerate(entries) if key in known), default=-1)
        new = entries[last + 1 :]
        if new:
            after = entries[last][0] if last >= 0 else None
            self._append(thread_id, resource_id, new, after=after, now=now)

    def forget(self, thread_id: str | None) -> None:
        """Forget what was archived of a thread, or of all, after it was deleted."""
        for key in [key for key in self._groups if thread_id in (None, key[0])]:
            del self._groups[key]
        for known in [known for known in self._threads if thread_id in (None, known)]:
            del self._threads[known]


def _all_unarchived(
    record: MemoryRecord, messages: Sequence[BaseMessage]
) -> tuple[str | None, Keyed]:
    """Return the whole conversation, and the key of the message that was removed before it."""
    return find_unarchived(cast("MemoryRecord", {**record, "archived": None}), messages)


def _to_rows(entries: Keyed) -> list[tuple[str, BaseMessage, bool]]:
    return [(key, _drop_artifact(message), is_visible(message)) for key, message in entries]


def _drop_artifact(message: BaseMessage) -> BaseMessage:
    """Leave out an artifact that is no JSON value: it was made for the program, not to be read."""
    if not isinstance(message, ToolMessage) or message.artifact is None or _is_json(message):
        return message
    return message.model_copy(update={"artifact": None})


def _make_plain(message: BaseMessage) -> BaseMessage:
    """Write what is no JSON value as text."""
    fields = {
        name: _to_json(value, frozenset())
        for name, value in message
        if name not in {"id", "name", "type"}
    }
    return message.model_copy(update=fields)


def _to_json(value: object, parents: frozenset[int]) -> Any:
    """Return the JSON value nearest to a value; what is nested too deep is outlined as text."""
    if isinstance(value, int) and value.bit_length() >= LARGE_INTEGER_BITS:
        return "[large integer]"
    if value is None or isinstance(value, str | int | float):
        return value
    if not isinstance(value, dict | list | tuple):
        return write_repr(value) if isinstance(value, bytes) else _to_text(value)
    if len(parents) >= MAX_LEVELS or id(value) in parents:
        return write_short_json(value, OUTLINE_CHARACTERS)
    inside = parents | {id(value)}
    if isinstance(value, dict):
        return {_to_text(key): _to_json(each, inside) for key, each in value.items()}
    return [_to_json(each, inside) for each in value]


def _to_text(value: object) -> str:
    """Return the text of a key or value that JSON does not have."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 a value of any type may refuse
        return write_repr(value)


def _is_json(message: ToolMessage) -> bool:
    artifact: Any = message.artifact
    try:
        json.dumps(artifact)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
