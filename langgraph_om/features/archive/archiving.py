"""Archive what is new of a conversation.

The record names the last message that was archived and the last one that was removed, so that a
step looks only at what came since; a fork has both of its own. When the archive fails, the
conversation goes on and the next step tries again, or the next turn where trying took long.

The archive counts deletions, and the record notes the number that it saw last: a record with a
lower number is a copy from before. What it had then is not archived again. A turn under way goes on
as it is, without the archive, and forgets with its end: the Actor needs the results that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import (
    Keyed,
    is_conversation,
    key_of,
    keyed_conversation,
)
from langgraph_om.core.effects import EffectFlow, Warn, call_storage, find_part
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import (
    drop_deleted,
    find_deleted,
    find_label,
    select_own_groups,
)
from langgraph_om.core.wire import Archived, DeletionFound, Event, Floor, Group, MemoryRecord
from langgraph_om.errors import ArchiveError, ArchiveLacksError
from langgraph_om.features.archive.writer import (
    ArchiveWriter,
    ThreadMemory,
    find_archive,
    warn_of_outage,
)

# Tell a thread that was deleted from an archive that lost it.
#
# A record that misses in the archive what it had there, without a deletion, has another archive
# behind it than before.


def look_for_deletion(record: MemoryRecord) -> EffectFlow[list[Event]]:
    """Return what to note of deletions since the record last looked; nothing where there is none.

    Raises:
        ArchiveError: When the storage fails.
    """
    archive = yield from find_archive()
    found = yield from call_storage(archive.deletions, record["resource_id"], [record["thread_id"]])
    number = sum(found.values())
    seen, last = record.get("deletion", 0), record.get("archived")
    if number == seen:
        return []
    if seen is None:  # where the archive has what it had, nothing of it was deleted
        kept = (
            (yield from call_storage(archive.contains, record["thread_id"], [last])) if last else ()
        )
        seen = number if last in kept else 0
    has_taken_part = last is not None or record.get("revision", 0) > 0
    floor: Floor | None = None
    if number > seen and has_taken_part:
        floor = {"message": last}
    is_all = ("resource", record["resource_id"]) in found
    found_now: DeletionFound = {
        "type": "deletion",
        "number": number,
        "floor": floor,
        "of_resource": is_all,
    }
    return [found_now]


def is_survivor(events: Sequence[Event]) -> bool:
    """Return whether the record is a copy from before a deletion that was just found."""
    return any(event["type"] == "deletion" and event["floor"] is not None for event in events)


def warn_of_loss(record: MemoryRecord) -> EffectFlow[None]:
    """Warn, once in a process for each resource, that the archive lacks what it had."""
    name = record["resource_id"] or record["thread_id"]
    writer = yield from find_part(ArchiveWriter)
    if writer.note_loss(name):
        yield Warn(
            "thread %r: the archive lacks what it had, and nothing was deleted: it was emptied, "
            "restored or swapped; the thread brings what it has",
            (record["thread_id"],),
        )


# What of a conversation the archive lacks, by the record alone.


def find_unarchived(
    record: MemoryRecord, messages: Sequence[BaseMessage], changed: Collection[str] = ()
) -> tuple[str | None, Keyed]:
    """Return what the archive does not have yet.

    Returns:
        The key of the message before the first one, `None` at the start, and the messages.
    """
    last, missing = record.get("archived"), set(changed)
    found: dict[str, BaseMessage] = {}
    for message in reversed(messages):
        if last is None or not message.id or (key := key_of(message)) in found:
            break
        if key == last and not missing:
            return last, [*found.items()][::-1]
        missing.discard(key)
        if is_conversation(message):
            found[key] = message
    # From the start: the archive knows what it has already.
    entries = keyed_conversation(messages)
    return record.get("evicted"), drop_deleted(record, _drop_kept(record, entries))


def _drop_kept(record: MemoryRecord, entries: Keyed) -> Keyed:
    """Leave out what was removed: all of it where the caller kept it, in front of what is observed.

    Where it came back while nobody could tell, behind that, the last one keeps its place.
    """
    removed = record.get("evicted")
    for at, (key, _) in enumerate(entries):
        if key == removed:
            return entries[at + 1 :]
        if key in record["cursor"]:
            break
    return [entry for entry in entries if entry[0] != removed]


def find_all_unarchived(
    record: MemoryRecord, messages: Sequence[BaseMessage], changed: Collection[str] = ()
) -> tuple[str | None, Keyed]:
    """Return the whole conversation, and the key of the message that was removed before it."""
    return find_unarchived({**record, "archived": None}, messages, changed)


def archive_new(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    now: datetime,
    *,
    changed: Collection[str] = (),
    request: str | None = None,
    is_final: bool = False,
) -> EffectFlow[tuple[StepArchive | None, list[Event]]]:
    """Archive what is new, and say so; nothing of a conversation without a thread id.

    Returns:
        The archive for what else this step asks of it, `None` where it is to be left alone; and
        what to note.

    Raises:
        ConfigurationError: When the thread belongs to another resource in the archive.
    """
    thread = record["thread_id"]
    if not thread:  # nobody could tell such conversations apart
        return None, []
    archive = StepArchive.of(settings, record, now)
    writer = yield from find_part(ArchiveWriter)
    memory = writer.recall_thread(
        thread, select_own_groups(record), deletion=record.get("deletion", 0)
    )
    missed = {*changed, *memory.missed}
    try:
        is_under_way = not is_final and request is not None and record["turn"]["request"] == request
        events = yield from _append_new(
            archive, record, messages, missed, memory, request=request, is_under_way=is_under_way
        )
    except ArchiveError as error:
        yield from archive.note_failure(error, missed)
        return None, []
    if events is None:
        return None, []
    if not memory.is_known or memory.missed:
        number = fold(record, [events]).get("deletion", 0)
        writer.note_archived(thread, number)
    return archive, events


@dataclass(slots=True)
class StepArchive:
    """The archive as one step calls it for its thread."""

    settings: Settings
    thread_id: str
    resource_id: str | None
    now: datetime
    stamps: Mapping[str, str]
    """When messages were first seen that have no time themselves."""
    branch: str | None
    """Its name for the conversation up to what it has of that."""
    deletion: int | None
    """How many deletions the record knows of: whoever writes is refused after another one."""

    @classmethod
    def of(cls, settings: Settings, record: MemoryRecord, now: datetime) -> StepArchive:
        """Return the archive for the thread of a record."""
        whose = (record["thread_id"], record["resource_id"])
        branch, number = record.get("branch"), record.get("deletion", 0)
        return cls(settings, *whose, now, record["stamps"], branch, number)

    def append(
        self,
        entries: Keyed,
        *,
        after: str | None,
        title: str | None = None,
        must_follow: bool = False,
    ) -> EffectFlow[None]:
        """Archive messages behind one; `None`: at the start.

        Args:
            must_follow: Whether that one has to be there.

        Raises:
            ArchiveLacksError: When it is not, or the thread was deleted.
            ArchiveError: When the storage fails.
        """
        times = {
            key: time
            for key, message in entries
            if (time := self.settings.time_of(key, message, self.stamps)) is not None
        }
        writer = yield from find_part(ArchiveWriter)
        self.branch = yield from call_storage(
            writer.append_messages,
            self.thread_id,
            self.resource_id,
            entries,
            after=after,
            now=self.now,
            title=title,
            times=times,
            branch=self.branch,
            must_follow=must_follow,
            deletion=self.deletion,
        )

    def add_groups(self, groups: Sequence[Group], log: Sequence[str]) -> EffectFlow[None]:
        """Archive groups, and say which the log of the thread has.

        Raises:
            ArchiveLacksError: When the thread was deleted.
            ArchiveError: When the storage fails.
        """
        whose, number = (self.thread_id, self.resource_id), self.deletion
        writer = yield from find_part(ArchiveWriter)
        yield from call_storage(
            writer.add_new_groups, *whose, groups, self.now, log=log, deletion=number
        )

    def append_all(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> EffectFlow[None]:
        """Archive the whole conversation as it is."""
        after, whole = find_all_unarchived(record, messages)
        yield from self.append(whole, after=after)

    def archived_keys(self, keys: Sequence[str]) -> EffectFlow[set[str]]:
        """Return which of these messages it has."""
        if not keys:
            return set()
        archive = yield from find_archive()
        return (yield from call_storage(archive.contains, self.thread_id, keys))

    def note_branch(self, record: MemoryRecord, last: str | None) -> list[Event]:
        """Say up to where it has the conversation, and by which name, where that is news."""
        is_known = (last, self.branch) == (record.get("archived"), record.get("branch"))
        if last is None or is_known:
            return []
        archived: Archived = {"type": "archived", "last": last, "branch": self.branch}
        return [archived]

    def note_failure(self, error: ArchiveError, missed: Collection[str]) -> EffectFlow[None]:
        """Remember what it did not take: messages that are new or edited, by their keys."""
        writer = yield from find_part(ArchiveWriter)
        writer.note_missed(self.thread_id, missed)
        text = "thread %r: the archive failed, the next step tries again: %s"
        yield from warn_of_outage(text, (self.thread_id, error))


MAX_TRIES: Final = 5
"""How often a step begins to archive anew, as its thread was deleted meanwhile."""


def _append_new(
    archive: StepArchive,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    changed: Collection[str],
    memory: ThreadMemory,
    *,
    request: str | None,
    is_under_way: bool,
) -> EffectFlow[list[Event] | None]:
    """Archive new messages and groups; all messages where the archive is an older copy, or new.

    What this process has archived before is believed to be there, until the archive says that it
    lacks it. What was deleted is left out.

    Returns:
        What to note; `None` in a turn that is under way since before its thread was deleted.
    """
    noted: list[Event] = []
    known = record
    is_believed = memory.is_known and None not in (known.get("archived"), known.get("deletion", 0))
    for _ in range(MAX_TRIES):
        try:
            is_there = is_believed or (
                yield from _settle_deletion(archive, known, messages, changed, noted)
            )
            if is_under_way and record["scope"] != "resource" and is_survivor(noted):
                return None
            known = fold(record, [noted])
            after, new, left_out = yield from _choose_new(
                archive, known, messages, changed, is_there=is_there, request=request
            )
            noted += left_out
            log = _find_new_log(known, memory)
            if new:
                title = find_label(known)
                yield from archive.append(new, after=after, title=title, must_follow=is_believed)
                noted += archive.note_branch(known, new[-1][0])
            if log is not None:
                yield from archive.add_groups(*log)
        except ArchiveLacksError:  # another process deleted the thread, or the archive was swapped
            is_believed, known = False, fold(record, [noted])
            groups = select_own_groups(known)
            writer = yield from find_part(ArchiveWriter)
            memory = writer.recall_thread(archive.thread_id, groups, is_missing=True)
        else:
            return noted
    msg = f"the thread {archive.thread_id!r} is deleted again and again"
    raise ArchiveError(msg)


def _settle_deletion(
    archive: StepArchive,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    changed: Collection[str],
    noted: list[Event],
) -> EffectFlow[bool]:
    """Note deletions since the record last looked; return whether the archive has what it says."""
    last = record.get("archived")
    is_there = last is None or last in (yield from archive.archived_keys([last]))
    is_moved = record.get("deletion", 0) is None
    told = record if is_there and is_moved else _take_for_archived(record, messages, changed)
    found = yield from look_for_deletion(told)
    noted += found
    archive.deletion = fold(record, [found]).get("deletion", 0)
    if not is_there and not is_survivor(found):
        yield from warn_of_loss(record)
    return is_there


def _choose_new(
    archive: StepArchive,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    changed: Collection[str],
    *,
    is_there: bool,
    request: str | None,
) -> EffectFlow[tuple[str | None, Keyed, list[Event]]]:
    """Return what the archive does not have, what stands before it, and what to note of it.

    Args:
        is_there: Whether the archive has what the record says.
    """
    find = find_unarchived if is_there else find_all_unarchived
    after, new = find(record, messages, changed)
    new, noted = yield from _leave_out_deleted(
        archive, record, messages, new, is_there=is_there, changed=changed, request=request
    )
    if after is not None and not is_there:
        # An unknown one would stand for the end of whichever branch is current.
        is_lacking = after == record.get("archived")
        is_lacking = is_lacking or not (yield from archive.archived_keys([after]))
        after = None if is_lacking else after
    return after, new, noted


def _find_new_log(
    record: MemoryRecord, memory: ThreadMemory
) -> tuple[list[Group], list[str]] | None:
    """Return the groups that this process has not archived, and the ids of all of the log.

    `None` where the archive knows of both.
    """
    log = [group["id"] for group in select_own_groups(record)]
    groups = [group for group in memory.new_groups if group["id"] in log]
    is_other = memory.has_other_log and (log or record.get("archived") is not None)
    return (groups, log) if groups or is_other else None


def _take_for_archived(
    record: MemoryRecord, messages: Sequence[BaseMessage], changed: Collection[str] = ()
) -> MemoryRecord:
    """Count as archived all that was said before, as the thread was deleted meanwhile.

    That is what the Actor was shown in the last step. Where the last message that is archived was
    removed, it is the newest that the record knows.

    Args:
        changed: Keys of messages that are new or edited in this step.
    """
    head, last = record.get("head"), record.get("archived")
    if last is None:
        return record
    seen = head["seen"] if head is not None else None
    keys = [key_of(message) for message in reversed(messages)]
    if last in keys:
        said = seen if seen in keys[: keys.index(last)] else None
    else:
        known = {*record["cursor"], *record["token_cache"]["counts"], seen}.difference(changed)
        said = next((key for key in keys if key in known), None)
    return record if said is None else {**record, "archived": said}


def _leave_out_deleted(
    archive: StepArchive,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    new: Keyed,
    *,
    is_there: bool,
    changed: Collection[str] = (),
    request: str | None,
) -> EffectFlow[tuple[Keyed, list[Event]]]:
    """Leave out what was said before a deletion, where the last message of that was removed since.

    That ends before what the archive has, and where it has nothing of the conversation, before this
    turn. What is new or edited stays, such as a message that was put in by hand.

    Args:
        new: What is to be archived.
        is_there: Whether the archive has what the record says.
        changed: Keys of messages that are new or edited in this step.
        request: The key of the live user request.

    Returns:
        What is left, and what to note: the newest message that was left out.
    """
    if not new or not is_there or find_deleted(record) is None:
        return new, []
    # Otherwise that message is there still, or the last one that was archived.
    if new[0][0] != next((key_of(each) for each in messages if is_conversation(each)), None):
        return new, []
    keys = [key for key, _ in new]
    kept = yield from archive.archived_keys(keys)
    known = {*record["cursor"], *record["token_cache"]["counts"]}.difference(changed)
    stop = keys.index(request) if request in keys else len(keys)
    said = (at + 1 for at in reversed(range(stop)) if keys[at] in known)
    start = next((at for at, key in enumerate(keys) if key in kept), None)
    start = next(said, 0) if start is None else start
    gone = dict.fromkeys(key for key in keys[:start] if key not in changed)
    if not gone:
        return new, []
    found: DeletionFound = {
        "type": "deletion",
        "number": record.get("deletion") or 0,
        "floor": {**record["floor"], "message": [*gone][-1]},
        "of_resource": False,
    }
    return [entry for entry in new if entry[0] not in gone], [found]


def complete_thread(
    settings: Settings,
    identity: Identity,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    now: datetime,
) -> EffectFlow[str | None]:
    """Archive what is missing of a conversation, without noting it in its record.

    Args:
        record: The memory of the thread, maybe of an earlier step; blank where it is not known.

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
    archive = StepArchive(settings, thread_id, resource_id, now, record["stamps"], branch, None)
    keys, archived = [key for key, _ in entries], record.get("archived")
    # With a branch, the last message that it has is known; others may have the rest as well.
    is_told = branch is not None and archived in keys
    known = yield from archive.archived_keys([str(archived)] if is_told else keys)
    if known and is_told:
        archive.deletion = record.get("deletion", 0)
        try:
            yield from _append_behind(archive, entries, known)
        except ArchiveLacksError:
            known = set()
        else:
            return archive.branch
    if not known:
        whose: MemoryRecord = {**record, "thread_id": thread_id, "resource_id": resource_id}
        whole = _take_for_archived(whose, messages)
        noted = yield from look_for_deletion(whole)
        told = fold(whole, [noted])
        archive.deletion = told.get("deletion", 0)
        entries = drop_deleted(told, entries)
        has_last = archived is not None and (yield from archive.archived_keys([archived]))
        begun = record["turn"]["request"]
        entries, _ = yield from _leave_out_deleted(
            archive, whole, messages, entries, is_there=bool(has_last), request=begun
        )
    yield from _append_behind(archive, entries, known)
    return archive.branch


def _append_behind(
    archive: StepArchive, entries: Keyed, known: Collection[str]
) -> EffectFlow[None]:
    """Archive what follows the last message that is known."""
    last = max((at for at, (key, _) in enumerate(entries) if key in known), default=-1)
    new = entries[last + 1 :]
    if new:
        yield from archive.append(new, after=entries[last][0] if last >= 0 else None)
