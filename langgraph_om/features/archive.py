"""Archive what is new of a conversation: what was deleted, what is new, write it.

The storage itself is `langgraph_om.archive`; here is what memory does with it.

A turn writes when it begins, when something of it was observed, and when it ends. The record names
the last message that was archived and the last one that was removed, so that a step looks only at
what came since; a fork has both of its own. Whether the thread was deleted, and
whether the archive has what the record says, is decided within the transaction that writes. When
the archive fails, the conversation goes on, and the next step brings all of it.

The archive counts deletions, and the record notes the number that it saw last: a record with a
lower number is a copy from before. What it had then is not archived again. A turn under way goes on
as it is, without the archive, and forgets with its end: the Actor needs the results that it has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from langchain_core.messages import BaseMessage

from langgraph_om.archive import StoreUse
from langgraph_om.archive.types import CLAIM_SECONDS, PRUNED, sum_deletions
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import (
    Keyed,
    belongs_to,
    find_parent_thread,
    is_conversation,
    key_of,
    keyed_conversation,
    keyed_messages,
    nest_thread_id,
)
from langgraph_om.core.content.parts import is_visible
from langgraph_om.core.effects import EffectFlow, Warn, call_storage
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import (
    CURSOR_TAIL,
    blank_record,
    drop_deleted,
    find_end,
    find_newest_observed,
)
from langgraph_om.core.step import Step
from langgraph_om.core.wire import Archived, DeletionFound, Event, Floor, Group, MemoryRecord
from langgraph_om.errors import ArchiveError, ArchiveLacksError
from langgraph_om.runtime.executors import BackgroundBuffering
from langgraph_om.runtime.jobs import ServerBuffering

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from langgraph_om.archive import SQLAlchemyArchive

    ArchiveValue = str | Engine | SQLAlchemyArchive | None
else:
    ArchiveValue = Any


class ToldLog(NamedTuple):
    """What an archive was told of a thread's log."""

    ids: Sequence[str]
    """Of its groups."""
    observed: str | None
    """The newest observed message."""


def read_log(record: MemoryRecord) -> ToldLog:
    """Return what an archive is told of a thread's log."""
    return ToldLog([group["id"] for group in record["log"]], find_newest_observed(record))


def find_archive(settings: Settings) -> SQLAlchemyArchive:
    """Return the archive of a memory that has one."""
    return cast("SQLAlchemyArchive", settings.parts.storage)


# --- The archive as one step calls it ------------------------------------------------------------


@dataclass(slots=True)
class StepArchive:
    """The archive as one step calls it for its thread."""

    archiving: Archiving
    settings: Settings
    record: MemoryRecord
    """What memory knows of the thread; its deletions, as far as it knows, refuse who missed one."""
    now: datetime
    branch: str | None = None
    """Its name for the conversation up to what it has of that."""

    def __post_init__(self) -> None:
        self.branch = self.record.get("branch")

    def append(
        self, entries: Keyed, *, after: str | None, must_follow: bool = False
    ) -> EffectFlow[None]:
        """Archive messages behind one; `None`: at the start.

        Args:
            must_follow: Whether that one has to be there.

        Raises:
            ArchiveLacksError: When it is not, or the thread was deleted.
            ArchiveError: When the storage fails.
        """
        record, settings = self.record, self.settings
        title = record["thread_title"]
        if title is None and "id" in record.get("title", {}):  # it was given back
            title = ""
        times = {
            key: time
            for key, message in entries
            if (time := settings.time_of(key, message, record["stamps"])) is not None
        }
        self.branch = yield from call_storage(
            self.archiving.append,
            record["thread_id"],
            record["resource_id"],
            entries,
            after=after,
            now=self.now,
            title=title,
            times=times,
            branch=self.branch,
            must_follow=must_follow,
            deletion=record.get("deletion", 0),
            prunings=record.get("prunings", 0),
        )

    def add_groups(self) -> EffectFlow[None]:
        """Archive the groups of the log, and say which it has, unless the archive knows.

        Raises:
            ArchiveLacksError: When the thread was deleted.
            ArchiveError: When the storage fails.
        """
        record = self.record
        log = read_log(record)
        told = self.archiving.logs.get(record["thread_id"])
        if log == told or not (log.ids or told or record.get("archived") is not None):
            return
        known = told.ids if told is not None else ()
        new = [group for group in record["log"] if group["id"] not in known]
        yield from call_storage(self.archiving.add_groups, record, new, log, self.now)

    def append_all(self, messages: Sequence[BaseMessage]) -> EffectFlow[Keyed]:
        """Archive the whole conversation as it is, and return it."""
        after, whole = find_unarchived({**self.record, "archived": None}, messages)
        if whole:
            # An unknown one would stand for the end of whichever branch is current.
            is_there = after is not None and (yield from self.archived_keys([after]))
            yield from self.append(whole, after=after if is_there else None)
        return whole

    def archived_keys(self, keys: Sequence[str]) -> EffectFlow[set[str]]:
        """Return which of these messages it has."""
        if not keys:
            return set()
        contains = self.archiving.storage.contains
        return (yield from call_storage(contains, self.record["thread_id"], keys))

    def note_branch(self, last: str | None) -> list[Event]:
        """Say up to where it has the conversation, and by which name, where that is news."""
        known = (self.record.get("archived"), self.record.get("branch"))
        if last is None or (last, self.branch) == known:
            return []
        archived: Archived = {"type": "archived", "last": last, "branch": self.branch}
        return [archived]

    def note_failure(self, error: ArchiveError) -> EffectFlow[None]:
        """Remember that it did not take what is new or edited."""
        self.archiving.behind.add(self.record["thread_id"])
        text = "thread %r: the archive failed; the next step tries again: %s"
        yield from self.archiving.warn_of_outage(text, (self.record["thread_id"], error))


# --- A step --------------------------------------------------------------------------------------

MAX_TRIES: Final = 5
"""How often a step begins to archive anew, as its thread was deleted meanwhile."""


def write_new(
    archive: StepArchive,
    messages: Sequence[BaseMessage],
    changed: Collection[str] = (),
    *,
    is_whole: bool = False,
    is_under_way: bool = False,
) -> EffectFlow[list[Event] | None]:
    """Archive what is new of a conversation, and return what to note of that.

    Args:
        archive: The archive for the step's thread, which has an id.
        changed: Keys of messages that are new or edited in this step.
        is_whole: Whether the archive is given the whole conversation, as it may lack some.
        is_under_way: Whether the turn has begun in an earlier step.

    Returns:
        What to note; `None` where the archive failed, or the thread was deleted while its turn is
        under way.

    Raises:
        ConfigurationError: When the thread belongs to another resource in the archive.
    """
    archiving, thread_id, noted = archive.archiving, archive.record["thread_id"], list[Event]()
    is_whole = is_whole or thread_id in archiving.behind
    has_to_settle = archive.record.get("deletion", 0) is None
    failure = ArchiveError(f"the thread {thread_id!r} keeps being deleted")
    try:
        for _ in range(MAX_TRIES):
            if has_to_settle:
                found, is_whole = yield from _settle_deletion(archive, messages, changed)
                if is_under_way and is_survivor(found):
                    return None
                noted += found
            try:
                noted += yield from _write(archive, messages, changed, is_whole=is_whole)
            except ArchiveLacksError:  # the thread was deleted, or the archive was swapped
                has_to_settle = True
                archiving.forget(thread_id)
            else:
                archiving.behind.discard(thread_id)
                return noted
    except ArchiveError as error:
        failure = error
    yield from archive.note_failure(failure)
    return None


def _write(
    archive: StepArchive,
    messages: Sequence[BaseMessage],
    changed: Collection[str],
    *,
    is_whole: bool,
) -> EffectFlow[list[Event]]:
    """Archive messages and groups; return what to note."""
    noted: list[Event] = []
    if is_whole:
        new = yield from archive.append_all(messages)
    else:
        after, new = find_unarchived(archive.record, messages, changed)
        if new:
            yield from archive.append(new, after=after, must_follow=True)
    if new:
        noted = archive.note_branch(new[-1][0])
        archive.record = fold(archive.record, [noted])
    yield from archive.add_groups()
    return noted


def complete_thread(archive: StepArchive, messages: Sequence[BaseMessage]) -> EffectFlow[None]:
    """Archive what is missing of a conversation before a tool reads it, without noting it.

    Where the thread was deleted meanwhile, nothing of this turn is archived before it has ended.

    Raises:
        ArchiveError: When the storage fails.
    """
    after, new = find_unarchived(archive.record, messages)
    if new:
        with suppress(ArchiveLacksError):
            yield from archive.append(new, after=after, must_follow=True)


# --- What a deletion changed ---------------------------------------------------------------------


def look_for_deletion(
    archive: SQLAlchemyArchive,
    record: MemoryRecord,
    messages: Sequence[BaseMessage] = (),
    changed: Collection[str] = (),
) -> EffectFlow[list[Event]]:
    """Return what to note of deletions since the record last looked; nothing where there is none.

    Raises:
        ArchiveError: When the storage fails.
    """
    thread_id = record["thread_id"]
    found = yield from call_storage(archive.deletions, record["resource_id"], [thread_id])
    prunings = found.get((PRUNED, thread_id), 0)
    number, is_pruned = sum_deletions(found), prunings != record.get("prunings", 0)
    seen, last = record.get("deletion", 0), record.get("archived")
    if number == seen and not is_pruned:
        return []
    if seen is None:  # of a new owner; where the archive has what it had, nothing was deleted
        kept = last is not None and (yield from call_storage(archive.contains, thread_id, [last]))
        seen = number if kept else 0
    floor: Floor | None = None
    if number > seen and last is not None:
        floor = {"messages": _find_said_before(record, messages, changed)}
    is_all = ("resource", record["resource_id"]) in found
    deletion: DeletionFound = {
        "type": "deletion",
        "number": number,
        "floor": floor,
        "of_resource": is_all,
        "prunings": prunings,
        "gone": (yield from _find_pruned_groups(archive, record)) if is_pruned else [],
    }
    return [deletion]


def _find_pruned_groups(archive: SQLAlchemyArchive, record: MemoryRecord) -> EffectFlow[list[str]]:
    """Return the observations of the thread whose messages are all pruned, unless they are kept."""
    ends = {group["id"]: end for group in record["log"] if (end := find_end(group)) is not None}
    pruned = yield from call_storage(archive.pruned, record["thread_id"], [*ends.values()])
    return [group_id for group_id, end in ends.items() if end in pruned]


def is_survivor(events: Sequence[Event]) -> bool:
    """Return whether the record is a copy from before a deletion that was just found."""
    return any(event["type"] == "deletion" and event["floor"] is not None for event in events)


def _settle_deletion(
    archive: StepArchive, messages: Sequence[BaseMessage], changed: Collection[str]
) -> EffectFlow[tuple[list[Event], bool]]:
    """Note deletions since the record last looked; return whether the archive lacks what it had."""
    record = archive.record
    had = {key for key in (record.get("archived"), record.get("evicted")) if key is not None}
    is_there = had <= (yield from archive.archived_keys([*had]))
    found = yield from look_for_deletion(archive.archiving.storage, record, messages, changed)
    if not is_there and not is_survivor(found):
        yield from archive.archiving.warn_of_loss(record)
    archive.record = fold(record, [found])
    archive.branch = archive.record.get("branch")
    return found, not is_there


def _find_said_before(
    record: MemoryRecord, messages: Sequence[BaseMessage], changed: Collection[str]
) -> list[str]:
    """Return the newest messages that the record knew before this step, in order."""
    head, last = record.get("head"), record.get("archived")
    known = {*record["cursor"], *record["token_cache"]["counts"], last}
    known |= {head["seen"]} if head is not None else set()
    said = [key for key in map(key_of, messages) if key in known and key not in changed]
    return said[-CURSOR_TAIL:] or ([] if last is None else [last])


# --- What is new ---------------------------------------------------------------------------------


def find_unarchived(
    record: MemoryRecord, messages: Sequence[BaseMessage], changed: Collection[str] = ()
) -> tuple[str | None, Keyed]:
    """Return what the archive does not have yet, by the record alone.

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
    removed, entries = record.get("evicted"), drop_deleted(record, keyed_conversation(messages))
    for at, (key, _) in enumerate(entries):
        if key == removed:  # the caller kept it, in front of what is observed
            return removed, entries[at + 1 :]
        if key in record["cursor"]:
            break
    # Where it came back while nobody could tell, behind that, the last one keeps its place.
    return removed, [entry for entry in entries if entry[0] != removed]


# --- The part of a memory ------------------------------------------------------------------------


def refuse_non_archives(value: object) -> object:
    """Return what can be an archive.

    Raises:
        ValueError: For anything else.
    """
    if value is None or isinstance(value, str):
        return value
    from sqlalchemy import Engine  # noqa: PLC0415 only who has an archive waits for its import

    from langgraph_om.archive import SQLAlchemyArchive  # noqa: PLC0415

    if not isinstance(value, Engine | SQLAlchemyArchive):
        raise ValueError  # noqa: TRY004 pydantic reads this one
    return value


MAX_THREADS: Final = 10_000
"""Of how many threads a process remembers which log the archive was told; others are told anew."""


@dataclass(eq=False)
class Archiving:
    """Archives messages and observations, and remembers what this process has written."""

    storage: SQLAlchemyArchive
    """The archive."""
    _store_uses: set[StoreUse] = field(init=False, default_factory=set)
    """For what the memory uses the graph's store, until the archive has noted it."""
    logs: OrderedDict[str, ToldLog] = field(init=False, default_factory=OrderedDict)
    """By thread, what the archive was told of its log."""
    behind: set[str] = field(init=False, default_factory=set)
    """The threads of which it did not take the newest messages."""
    _lost: set[str] = field(init=False, default_factory=set)
    """The resources and threads of which the archive lacked something."""
    _is_away: bool = field(init=False, default=False)
    """Whether the archive failed and has not answered since."""

    def connect(self, runner: Any) -> None:
        """Share the archive with the executor, so that all workers know of its jobs."""
        self._store_uses = {*runner.store_uses}
        if isinstance(runner.buffering, BackgroundBuffering | ServerBuffering):
            runner.buffering.share(self.storage, max(CLAIM_SECONDS, runner.job_seconds))

    def append(
        self, thread_id: str, resource_id: str | None, entries: Keyed, **options: Any
    ) -> str | None:
        """Append messages to a thread, as the archive's `append` does."""
        for use in [*self._store_uses]:  # others may be at it, too
            self.storage.note_store(use)
            self._store_uses.discard(use)
        rows = [(key, message, is_visible(message)) for key, message in entries]
        options["parent"] = find_parent_thread(thread_id)
        name = self.storage.append(thread_id, resource_id, rows, **options)
        self._is_away = False
        return name

    def add_groups(
        self, record: MemoryRecord, groups: Sequence[Group], log: ToldLog, now: datetime
    ) -> None:
        """Archive groups of a record, and remember what the archive was told of its log."""
        thread_id = record["thread_id"]
        self.storage.add_groups(
            thread_id,
            record["resource_id"],
            groups,
            now,
            log.ids,
            observed=log.observed,
            deletion=record.get("deletion", 0),
        )
        # Without a lock, which a forked process would have to make anew.
        self.logs[thread_id] = log
        with suppress(KeyError):  # another run of many may have pushed it out
            self.logs.move_to_end(thread_id)
        while len(self.logs) > MAX_THREADS:
            self.logs.popitem(last=False)

    def forget(self, thread_id: str | None = None) -> None:
        """Forget which log the archive was told of a thread, or of all, after it was deleted."""
        for key in [*self.logs]:
            if thread_id is None or belongs_to(key, thread_id):
                self.logs.pop(key, None)

    def warn_of_outage(self, text: str, arguments: Sequence[Any]) -> EffectFlow[None]:
        """Log that the archive failed, and where it is, unless that was said since it answered."""
        if not self._is_away:
            self._is_away = True
            place = self.storage.place
            yield Warn(f"{text} (at %s; logged once until it responds)", (*arguments, place))

    def warn_of_loss(self, record: MemoryRecord) -> EffectFlow[None]:
        """Warn, once in a process for each resource, that the archive lacks what it had."""
        name = record["resource_id"] or record["thread_id"]
        if name not in self._lost:
            self._lost.add(name)
            yield Warn(
                "thread %r: the archive lacks what it had, and nothing was deleted: it was "
                "emptied, restored or swapped; the thread brings what it has",
                (record["thread_id"],),
            )

    def identify(self, who: Identity) -> Identity:
        """Tell a nested conversation from the one around it, which may have the thread's place."""
        return replace(who, thread_id=nest_thread_id(who.thread_id, who.place))

    def write_new(self, step: Step) -> EffectFlow[StepArchive | None]:
        """Archive what is new; return the archive for what asks it next, unless it failed or waits.

        Nothing is archived without a thread id: nobody could tell such conversations apart.
        """
        record, request = step.record, step.window.request
        if not record["thread_id"]:
            return None
        archive = StepArchive(self, step.settings, record, step.now)
        changed = {*step.changed}
        changed.update(key for key, _ in step.edited)
        is_begun = request is not None and record["turn"]["request"] == request
        is_under_way = is_begun and not step.is_final
        if is_under_way and self._may_wait(step, changed):
            return None
        events = yield from write_new(
            archive,
            step.messages,
            changed,
            is_whole=step.overlooked > 0,  # nobody knows which ones
            is_under_way=is_under_way,
        )
        if events is None:
            return None
        step.apply(events)
        if step.record["cursor"] != record["cursor"]:
            step.open()
        return archive

    def _may_wait(self, step: Step, changed: set[str]) -> bool:
        """Return whether all that is new can be archived with the end of its turn.

        Nothing of it is observed, or was there before: a turn of many tools writes twice. What a
        nested graph did is lost from the state if it breaks off, so it writes in each step.
        """
        record, told = step.record, self.logs.get(step.record["thread_id"])
        is_nested = find_parent_thread(record["thread_id"]) is not None
        if step.overlooked or is_nested or read_log(record) != told:
            return False
        after, new = find_unarchived(record, step.messages, changed)
        return after is not None and after == record.get("archived") and changed <= {*dict(new)}

    def is_deleted(self, record: MemoryRecord) -> EffectFlow[bool]:
        """Return whether the thread was deleted since its last step; not if nobody can tell."""
        try:
            return is_survivor((yield from look_for_deletion(self.storage, record)))
        except ArchiveError:
            return False

    def before_tool(self, step: Step) -> EffectFlow[None]:
        """Archive what a tool is about to read."""
        who, record = step.identity, step.record
        if not who.thread_id:
            return
        if record["thread_id"] != who.thread_id:
            record = {**blank_record(), "stamps": record["stamps"]}
        record = {**record, "thread_id": who.thread_id, "resource_id": who.resource_id}
        archive = StepArchive(self, step.settings, record, step.now)
        yield from complete_thread(archive, step.messages)
        if archive.branch is not None:
            step.record = {**step.record, "branch": archive.branch}

    def kept_until(self, record: MemoryRecord) -> str | None:
        """Return the key of the last message that is archived."""
        return record.get("archived")

    def name_messages(
        self, record: MemoryRecord, messages: Sequence[BaseMessage]
    ) -> list[str] | None:
        """Return the keys of messages; `None` after a deletion, as it has not archived these."""
        if not record["thread_id"] or record.get("floor"):
            return None
        said = [message for message in messages if is_conversation(message)]
        return [key for key, _ in keyed_messages(said)]

    def find_messages(
        self, record: MemoryRecord, thread_id: str, keys: Sequence[str]
    ) -> EffectFlow[Sequence[BaseMessage]]:
        """Read messages of a thread by their keys."""
        branch, read = record.get("branch"), self.storage.branch
        return (yield from call_storage(read, thread_id, keys, branch=branch))

    def erase_thread(self, thread_id: str, resource_id: str | None) -> str | None:
        """Delete a thread from the archive, and return whose it was."""
        self.forget(thread_id)
        return self.storage.delete_thread(thread_id, resource_id)

    def erase_resource(self, resource_id: str) -> None:
        """Delete a resource from the archive, with all of its threads."""
        self.storage.delete_resource(resource_id)
        self.forget()
