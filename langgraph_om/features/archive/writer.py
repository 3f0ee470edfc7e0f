"""Writes a memory's threads into its archive, and remembers what a process wrote there.

What is archived when is decided by the flows of `archiving`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from langgraph_om.archive import StoreUse
from langgraph_om.archive.forks import begin_anew_after_fork
from langgraph_om.core.content.message_keys import Keyed, belongs_to, find_parent_thread
from langgraph_om.core.content.parts import is_visible
from langgraph_om.core.effects import EffectFlow, Warn, find_part
from langgraph_om.core.record.sharing import without_thread
from langgraph_om.core.wire import Group
from langgraph_om.errors import ArchiveError

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive


def find_archive() -> EffectFlow[SQLAlchemyArchive]:
    """Return the archive of the memory that a flow runs for."""
    from langgraph_om.archive import SQLAlchemyArchive  # noqa: PLC0415 it imports SQLAlchemy

    return (yield from find_part(SQLAlchemyArchive))


def warn_of_outage(text: str, arguments: Sequence[Any]) -> EffectFlow[None]:
    """Log that the archive failed, with its place, unless that was said since it last answered."""
    writer = yield from find_part(ArchiveWriter)
    place = writer.note_outage()
    if place is not None:
        yield Warn(f"{text} (at %s; said once until it answers)", (*arguments, place))


@dataclass(frozen=True, slots=True)
class ThreadMemory:
    """What a process remembers of archiving a thread."""

    is_known: bool = False
    """Whether it has archived the thread before, so that the archive need not be asked. It has not
    for a record that knows of fewer deletions, such as one of an earlier checkpoint."""
    missed: frozenset[str] = frozenset()
    """Keys of messages that were new or edited when the archive failed."""
    new_groups: Sequence[Group] = ()
    """Of the groups that were asked about, those that it has not archived."""
    has_other_log: bool = False
    """Whether the archive was not told that these are the thread's log."""


MAX_KEYS_MISSED = 1000
"""How many messages of a thread are remembered as not archived; beyond, all of them are meant."""
EVERYTHING = frozenset({""})
"""The key of no message: where it is missed, the whole conversation is archived again."""

MAX_THREADS = 10_000
"""Of how many threads a process remembers what it archived; of others the archive is asked."""


MAX_DELETIONS = 5
"""How often a thread is deleted that others write to meanwhile."""


@dataclass(slots=True)
class _Thread:
    """What a process remembers of one thread."""

    is_known: bool = False
    """Whether all of it was archived."""
    deletion: int | None = None
    """How many deletions of it the record knew of that was archived last."""
    log: Sequence[str] | None = None
    """The ids of the groups that the archive was told to be its log."""
    missed: frozenset[str] = frozenset()
    """What was new or edited when the archive failed."""


@dataclass(eq=False)
class ArchiveWriter:
    """Writes one memory's threads into its archive."""

    archive: SQLAlchemyArchive
    store_uses: frozenset[StoreUse] = frozenset()
    """For what the memory uses the graph's store; noted in the archive with the first messages."""
    _has_noted_uses: bool = field(default=False, repr=False)
    _threads: OrderedDict[str, _Thread] = field(default_factory=OrderedDict, repr=False)
    _lost: set[str] = field(default_factory=set, repr=False)
    """The resources and threads of which the archive lacked something."""
    _is_away: bool = field(default=False, repr=False)
    """Whether the archive failed and has not answered since."""

    def __post_init__(self) -> None:
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Ask the archive again in a forked process: one in memory is not the parent's any more."""
        self._forget(None)

    def recall_thread(
        self,
        thread_id: str,
        groups: Sequence[Group],
        *,
        deletion: int | None = None,
        is_missing: bool = False,
    ) -> ThreadMemory:
        """Return what this process remembers of a thread, and which of its groups are new.

        Args:
            deletion: How many deletions of the thread the record knows of.
            is_missing: Whether the archive lacks it, so that nothing is remembered any more.
        """
        if is_missing:
            self._forget(thread_id)
        own, ids = self._threads.get(thread_id, _Thread()), [group["id"] for group in groups]
        new = [group for group in groups if group["id"] not in (own.log or ())]
        is_known = own.is_known and own.deletion == deletion
        return ThreadMemory(is_known, own.missed, new, own.log != ids)

    def _remember(self, thread_id: str) -> _Thread:
        # Without a lock, which a forked process would have to make anew.
        own = self._threads.setdefault(thread_id, _Thread())
        with suppress(KeyError):  # another run of many may have pushed it out
            self._threads.move_to_end(thread_id)
        while len(self._threads) > MAX_THREADS:
            self._threads.popitem(last=False)
        return own

    def note_missed(self, thread_id: str, missed: Collection[str]) -> None:
        """Remember what was not archived."""
        keys = frozenset(missed)
        self._remember(thread_id).missed = keys if len(keys) <= MAX_KEYS_MISSED else EVERYTHING

    def note_outage(self) -> str | None:
        """Note that the archive failed; return its place where that is news, once an outage."""
        if self._is_away:
            return None
        self._is_away = True
        return self.archive.place

    def note_archived(self, thread_id: str, deletion: int | None) -> None:
        """Remember that the archive has all of a thread, as of so many deletions."""
        own = self._remember(thread_id)
        own.deletion = deletion
        own.is_known, own.missed = True, frozenset()

    def append_messages(
        self, thread_id: str, resource_id: str | None, entries: Keyed, **options: Any
    ) -> str | None:
        """Append messages to a thread.

        Arguments, result and errors are those of the archive's `append`.
        """
        if not self._has_noted_uses:
            for use in self.store_uses:
                self.archive.note_store(use)
            self._has_noted_uses = True
        rows = [(key, message, is_visible(message)) for key, message in entries]
        options["parent"] = find_parent_thread(thread_id)
        name = self.archive.append(thread_id, resource_id, rows, **options)
        self._is_away = False
        return name

    def add_new_groups(
        self,
        thread_id: str,
        resource_id: str | None,
        groups: Sequence[Group],
        now: datetime,
        *,
        log: Sequence[str],
        deletion: int | None,
    ) -> None:
        """Archive groups of a thread, say which its log has, and remember that.

        Raises:
            ArchiveLacksError: When the thread was deleted meanwhile.
            ArchiveError: When the storage fails.
            ConfigurationError: When the thread belongs to another resource.
        """
        self.archive.add_groups(thread_id, resource_id, groups, now, log=log, deletion=deletion)
        self._remember(thread_id).log = [*log]

    def note_loss(self, name: str) -> bool:
        """Remember that the archive lacks what it had, and return whether that is news."""
        is_news = name not in self._lost
        self._lost.add(name)
        return is_news

    def delete_thread(
        self, thread_id: str, resource_id: str | None, clock: Callable[[], datetime]
    ) -> str | None:
        """Delete a thread, and what the log of its resource has of it.

        Args:
            resource_id: Whose it is, where the archive does not know.

        Returns:
            The resource that it belonged to.

        Raises:
            ArchiveError: When the storage fails.
        """
        known = self.archive.thread(thread_id)
        owner = known.resource_id if known is not None else resource_id
        self._forget(thread_id)
        for _ in range(MAX_DELETIONS):
            if owner is not None:
                self.archive.rewrite_records(
                    owner, lambda stored: without_thread(stored, thread_id), clock()
                )
            self.archive.delete_thread(thread_id)
            # What was at work on it may have come to the log meanwhile.
            if owner is None or not self._tells_of(owner, thread_id):
                return owner
        msg = (
            f"the log of {owner!r} still tells of the thread {thread_id!r}, which is deleted: "
            f"somebody writes to it all the time; delete once more"
        )
        raise ArchiveError(msg)

    def _tells_of(self, resource_id: str, thread_id: str) -> bool:
        """Return whether the newest generations of a log have something of a thread."""
        logs = [entry["record"] for entry in self.archive.record_history(resource_id, limit=3)]
        return any(without_thread(log, thread_id) != log for log in logs)

    def delete_resource(self, resource_id: str) -> None:
        """Delete a resource with all of its threads.

        Raises:
            ArchiveError: When the storage fails.
        """
        self.archive.delete_resource(resource_id)
        self._forget(None)

    def _forget(self, thread_id: str | None) -> None:
        """Forget what was archived of a thread, or of all, after it was deleted."""
        for key, own in [*self._threads.items()]:
            if thread_id is None or belongs_to(key, thread_id):
                own.is_known, own.log = False, None
