"""Archiving: what of a conversation is new, and which messages may leave the checkpoint then.

The record names the last message that was archived and the last one that was removed, so that a
step looks only at what came since; a fork has both of its own. Nothing is called removable that the
archive does not have. When the archive fails, the conversation goes on and the next step tries
again, or the next turn where trying took long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any, cast

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import Keyed, content_digest, keyed_conversation
from langgraph_om.core.effects import (
    EffectFlow,
    Storage,
    StorageReply,
    call_storage,
    warn_once_an_outage,
)
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import select_own_groups
from langgraph_om.core.step.archiving.deletion import (
    drop_deleted,
    drop_deleted_groups,
    is_survivor,
    look_for_deletion,
    warn_of_loss,
)
from langgraph_om.core.step.archiving.resent import build_removal, find_arrival, find_resent
from langgraph_om.core.step.archiving.selection import (
    find_all_unarchived,
    find_evictable,
    find_unarchived,
)
from langgraph_om.core.titles.state import find_shown_title
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Event, Group, MemoryRecord
from langgraph_om.errors import ArchiveError

LONG_SECONDS = 1.0
"""A turn that waited longer than this, for an archive that failed then, does not wait again."""


@dataclass(frozen=True, slots=True)
class ThreadMemory:
    """What a process remembers of archiving a thread."""

    is_known: bool = False
    """Whether it has archived the thread before, so that the archive need not be asked."""
    missed: frozenset[str] = frozenset()
    """Keys of messages that were new or edited when the archive failed."""
    waited_for: str | None = None
    """The request of the turn that has waited for the archive in vain."""
    new_groups: Sequence[Group] = ()
    """Of the groups that were asked about, those that it has not archived."""
    has_other_log: bool = False
    """Whether the archive was not told that these are the thread's log."""

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to note after archiving went well."""
        return self.is_known and not self.missed and self.waited_for is None


def take_out_resent(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    thread_id: str,
    now: datetime,
) -> EffectFlow[list[Event]]:
    """Return the events that take out what was removed before and has come back with a request.

    The archive is asked only in a turn that begins with more than its request. While it is away,
    nobody can tell.

    Args:
        settings: The settings in force.
        record: The memory of the thread, as the last step left it.
        messages: The whole conversation.
        thread_id: The thread of the run.
        now: The current time.
    """
    if not settings.evicts or not thread_id or record["thread_id"] != thread_id:
        return []
    arrival = find_arrival(record, messages)
    if arrival is None:
        return []
    memory: ThreadMemory = yield from call_storage("recall_thread", thread_id, [])
    if memory.waited_for == arrival.request:
        return []
    archive = _Archive.of(settings, record, now)
    try:
        resent = yield from find_resent(record, arrival, archive.call, archive.append)
    except ArchiveError as error:
        yield from archive.note_failure(error, memory.missed, arrival.request)
        return []
    noted = archive.note_branch(record, record["archived"])
    return [build_removal(record, resent), *noted] if resent else noted


def archive_new(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    now: datetime,
    *,
    changed: Collection[str] = (),
    request: str | None = None,
) -> EffectFlow[tuple[MemoryRecord, list[Event]]]:
    """Archive what is new, and say so; nothing of a conversation without a thread id.

    Args:
        settings: The settings in force.
        record: The memory of the thread, with what this step found folded in.
        messages: The whole conversation.
        now: The current time.
        changed: Keys of messages that are new or edited.
        request: The key of the live user request.

    Returns:
        The memory, and the events that are folded in it; `evicted` names the messages that may be
        removed now.

    Raises:
        ConfigurationError: When the thread belongs to another resource in the archive.
    """
    thread = record["thread_id"]
    if not thread:  # nobody could tell such conversations apart
        return record, []
    archive = _Archive.of(settings, record, now)
    memory: ThreadMemory = yield from archive.call(
        "recall_thread", thread, drop_deleted_groups(record, select_own_groups(record))
    )
    missed = {*changed, *memory.missed}
    if request is not None and memory.waited_for == request:
        yield Storage("note_missed", (thread, missed))
        return record, []
    try:
        events = yield from _append_new(archive, record, messages, missed, memory)
        archived = fold(record, [events]) if events else record
        if settings.evicts:
            evicted = yield from _find_removable(
                archive, archived, messages, request, settings.counter
            )
            archived, events = fold(archived, [evicted]), [*events, *evicted]
    except ArchiveError as error:
        yield from archive.note_failure(error, missed, request)
        return record, []
    if not memory.is_settled:
        yield Storage("note_archived", (thread,))
    return archived, events


@dataclass(slots=True)
class _Archive:
    """The archive as one step calls it for its thread."""

    settings: Settings
    thread_id: str
    resource_id: str | None
    now: datetime
    stamps: Mapping[str, str]
    """When messages were first seen that have no time themselves."""
    branch: str | None
    """Its name for the conversation up to what it has of that."""
    seconds: float = 0.0
    """How long its calls have taken."""

    @classmethod
    def of(cls, settings: Settings, record: MemoryRecord, now: datetime) -> _Archive:
        whose = (record["thread_id"], record["resource_id"])
        return cls(settings, *whose, now, record["stamps"], record.get("branch"))

    def call(self, method: str, *arguments: Any, **options: Any) -> EffectFlow[Any]:
        reply: StorageReply = yield Storage(method, arguments, options)
        self.seconds += reply.seconds
        if reply.error is not None:
            raise reply.error
        return reply.value

    def append(
        self, entries: Keyed, *, after: str | None, title: str | None = None
    ) -> EffectFlow[None]:
        whose = (self.thread_id, self.resource_id)
        times = {
            key: time
            for key, message in entries
            if (time := self.settings.time_of(key, message, self.stamps)) is not None
        }
        options = {"after": after, "now": self.now, "title": title, "times": times}
        self.branch = yield from self.call(
            "append_messages", *whose, entries, **options, branch=self.branch
        )

    def append_all(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> EffectFlow[None]:
        """Archive the whole conversation as it is."""
        after, whole = find_all_unarchived(record, messages)
        yield from self.append(whole, after=after)

    def archived_keys(self, keys: Sequence[str]) -> EffectFlow[set[str]]:
        """Return which of these messages it has."""
        return (yield from self.call("contains", self.thread_id, keys)) if keys else set()

    def note_branch(self, record: MemoryRecord, last: str | None) -> list[Event]:
        """Say up to where it has the conversation, and by which name, where that is news."""
        is_known = (last, self.branch) == (record["archived"], record.get("branch"))
        return (
            []
            if last is None or is_known
            else [{"type": "archived", "last": last, "branch": self.branch}]
        )

    def note_failure(
        self, error: ArchiveError, missed: Collection[str], request: str | None
    ) -> EffectFlow[None]:
        """Remember what it did not take, and not to wait for it again in a turn that waited long.

        Args:
            error: What it failed with.
            missed: Keys of messages that are new or edited.
            request: The key of the live user request.
        """
        is_long = request is not None and self.seconds >= LONG_SECONDS
        yield Storage("note_missed", (self.thread_id, missed, request if is_long else None))
        when = "turn" if is_long else "step"
        text = "thread %r: the archive failed, the next %s tries again: %s"
        yield from warn_once_an_outage(text, (self.thread_id, when, error))


def _append_new(
    archive: _Archive,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    changed: Collection[str],
    memory: ThreadMemory,
) -> EffectFlow[list[Event]]:
    """Archive new messages and groups; all messages where the archive is an older copy, or new.

    Whether it has what the record says is asked once in a process. What was deleted is left out.
    """
    last = record["archived"]
    is_there = last is None or memory.is_known or last in (yield from archive.archived_keys([last]))
    noted: list[Event] = []
    if last is None or not is_there:
        noted = yield from look_for_deletion(record, archive.call)
        record = fold(record, [noted])
    if not is_there and not is_survivor(noted):
        yield from warn_of_loss(record)
    if is_there or is_survivor(noted):
        after, new = find_unarchived(record, messages, changed)
    else:
        after, new = find_all_unarchived(record, messages)
    if new:
        yield from archive.append(new, after=after, title=find_shown_title(record))
        if record.get("title", {}).get("before") and find_shown_title(record) is None:
            yield from archive.call("set_title", archive.thread_id, None, archive.now)
    groups = drop_deleted_groups(record, memory.new_groups)
    log = [group["id"] for group in drop_deleted_groups(record, select_own_groups(record))]
    has_other_log = memory.has_other_log and (log or last is not None)
    if (groups or has_other_log) and not is_survivor(noted):
        whose = (archive.thread_id, archive.resource_id)
        yield from archive.call("add_new_groups", *whose, groups, archive.now, log=log)
    return [*noted, *(archive.note_branch(record, new[-1][0]) if new else ())]


def _find_removable(
    archive: _Archive,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    request: str | None,
    counter: TokenCounter,
) -> EffectFlow[list[Event]]:
    """Tell what may be removed; what was edited since it was archived is archived anew."""
    keys = find_evictable(record, messages, request)
    kept = yield from archive.archived_keys(keys)
    if len(kept) < len(keys):
        noted = yield from look_for_deletion(record, archive.call)
        if is_survivor(noted):  # what it had then stays
            return noted
        yield from warn_of_loss(record)
        yield from archive.append_all(record, messages)
        kept = yield from archive.archived_keys(keys)
    ids = list(takewhile(kept.__contains__, keys))
    if not ids:
        return []
    known = {message.id: message for message in messages}
    stored = yield from _read_branch(archive, ids)
    if stored != [content_digest(known[key]) for key in ids]:
        yield from archive.append_all(record, messages)
    former = record["evicted"]
    new = ids[ids.index(former) + 1 :] if former in ids else ids
    tokens = sum(counter.count_message(known[key]) for key in new)
    evicted: Event = {"type": "evicted", "last": ids[-1], "ids": ids, "tokens": tokens}
    return [evicted, *archive.note_branch(record, keyed_conversation(messages)[-1][0])]


def _read_branch(archive: _Archive, ids: Sequence[str]) -> EffectFlow[list[str] | None]:
    """Read what messages say that follow each other on the branch; `None` where they do not."""
    whose = {"thread_id": archive.thread_id, "branch": archive.branch}
    last = yield from archive.call("find", ids[-1], **whose)
    if last is None or not last.is_current:
        return None
    options = {"stop": last.position + 1, "newest_first": True, "visible_only": False}
    read: Sequence[Any] = yield from archive.call("messages", limit=len(ids), **whose, **options)
    if [each.key for each in read] != [*ids]:
        return None
    return [content_digest(each.message) for each in read]


def complete_thread(
    settings: Settings,
    identity: Identity,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    now: datetime,
) -> EffectFlow[str | None]:
    """Archive what is missing of a conversation, without noting it in its record.

    Args:
        settings: The settings in force.
        identity: Whose conversation it is.
        record: The memory of the thread, maybe of an earlier step; blank where it is not known.
        messages: The whole conversation.
        now: The current time.

    Returns:
        The archive's name for the conversation; `None` where it is not known.

    Raises:
        ArchiveError: When the storage fails.
    """
    thread_id, resource_id = identity.thread_id, identity.resource_id
    entries = drop_deleted(record, keyed_conversation(messages))
    branch = record.get("branch") if record["thread_id"] == thread_id else None
    if not entries or not thread_id:
        return branch
    archive = _Archive(settings, thread_id, resource_id, now, record["stamps"], branch)
    keys, archived = [key for key, _ in entries], record["archived"]
    # With a branch, the last message that it has is known; others may have the rest as well.
    is_told = branch is not None and archived in keys
    known = yield from archive.archived_keys([str(archived)] if is_told else keys)
    if not known:
        whose = {**record, "thread_id": thread_id, "resource_id": resource_id}
        whole = cast("MemoryRecord", whose)
        noted = yield from look_for_deletion(whole, archive.call)
        entries = drop_deleted(fold(whole, [noted]), entries)
    last = max((at for at, (key, _) in enumerate(entries) if key in known), default=-1)
    new = entries[last + 1 :]
    if new:
        yield from archive.append(new, after=entries[last][0] if last >= 0 else None)
    return archive.branch
