"""What an archive does, in the words of a caller; `archive_conformance` checks it.

Rules for every archive:

1. Every method is synchronous, safe to call from several threads, and one transaction: it happens
   wholly or not at all.
2. Nothing is answered across resources, `list_threads` apart: who asks for one resource or thread
   sees that one alone.
3. Writing the same thing twice is writing it once.
4. Times are aware `datetime`s and come back in UTC. Claims alone follow the archive's own clock, so
   that workers whose clocks differ agree.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

from langchain_core.messages import BaseMessage

from langgraph_om.core.search import Filter, FoundText, search_texts
from langgraph_om.core.wire import Group
from langgraph_om.errors import ConfigurationError

Claim: TypeAlias = Literal["mine", "taken", "done"]
"""What a worker gets that asks for a job."""

Deleted: TypeAlias = Literal["thread", "resource"]
"""What can be deleted."""


CLAIM_SECONDS: Final = 300.0
"""How long a claim lasts: a job of a worker that was killed begins again after that."""

StoreUse: TypeAlias = str
"""Names what a LangGraph store has of threads: "index", their texts, or what a feature keeps."""


@dataclass(frozen=True, slots=True)
class ArchivedThread:
    """One conversation."""

    id: str
    resource_id: str | None
    """Whose it is; `None` until a write says so."""
    title: str | None
    created: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class ThreadEnd:
    """A conversation, and where its current branch ends."""

    thread: ArchivedThread
    position: int | None
    """Of its last message; `None` without any."""
    key: str | None = None
    """Of its last message, where the archive says so."""


@dataclass(frozen=True, slots=True)
class ArchivedMessage:
    """One message and its place."""

    key: str
    thread_id: str
    position: int
    """0-based, from the start of its branch."""
    message: BaseMessage
    is_visible: bool
    is_current: bool
    """Whether it is on the branch that was asked about, or else on the thread's current one."""
    at: datetime | None = None
    """When it was written or first seen, as `append` was told; `None` where nobody knew."""


@dataclass(frozen=True, slots=True)
class JobView:
    """What is known of a job."""

    state: Literal["running", "expired", "done"]
    owner: str
    """Who holds it, held it last, or finished it; nobody, `""`, where it was released."""
    result: dict[str, Any] | None
    expires_in: float
    """Seconds until the claim ends; negative when it has ended, 0 for a job that is done."""


@dataclass(frozen=True, slots=True)
class ListedThread:
    """A conversation as a list of all of them has it."""

    thread: ArchivedThread
    messages: int
    """How many the current branch has."""


@runtime_checkable
class MessageArchive(Protocol):
    """Keeps messages, observation groups, resource memories and jobs.

    Methods raise `ConfigurationError` for what cannot be meant, having written nothing, and
    `ArchiveError` when the storage fails.
    """

    def setup(self) -> None:
        """Prepare the storage. Every other call does so on first use; doing it again is harmless.

        Several processes may do it at once.
        """

    def close(self) -> None:
        """Let go of connections."""

    # --- Threads and messages --------------------------------------------------------------------

    def append(
        self,
        thread_id: str,
        resource_id: str | None,
        messages: Sequence[tuple[str, BaseMessage, bool]],
        *,
        after: str | None,
        now: datetime,
        title: str | None = None,
        times: Mapping[str, datetime] | None = None,
        parent: str | None = None,
        branch: str | None = None,
        must_follow: bool = False,
        deletion: int | None = None,
    ) -> str | None:
        """Add messages to a thread, and the thread if it is new.

        The current branch then ends with these messages, unless it holds all of them already, in
        this order and in this place: then it stays as it is. What stood in their place stays
        reachable by key, and by the name of its branch.

        A known key is not added again. When its content differs, the newest replaces the former on
        this branch, and no other branch changes. Appending a branch that was current before makes
        it current again.

        Args:
            thread_id: The thread. It belongs to the resource that it was first written with.
            resource_id: The resource; `None` for none, or to leave it as it is.
            messages: Per message its key, the message, and whether users may see it.
            after: The key of the message before the first one, `None` when they start the
                conversation. One that is unknown stands for the end of the branch.
            now: The current time, noted if something is new.
            times: By key, when a message was written or first seen, where that is known. The first
                time that is given for a message stays.
            parent: The thread within which this one runs, as a subagent's does. It is then deleted
                with that one, and not listed beside it.
            branch: The name of the branch that goes on, as the last call for it returned it.
                `None`, and one that is unknown: the current branch.
            must_follow: Whether `after` has to be there.
            deletion: How often thread and resource were deleted, as far as the writer knows; see
                `deletions`. `None`: it does not matter.

        Returns:
            The name of the branch that the messages are on: it ends with the last of them, or,
            where `branch` held all of them, with what follows them there. Whoever reads with this
            name reads this branch, whichever is current. Without messages it is `branch`.

        Raises:
            ArchiveLacksError: When `after` has to be there and is not, or there were more deletions
                than `deletion`, or fewer, by now. Nothing is written then.
            ConfigurationError: When the thread belongs to another resource, which the error does
                not name, or a message cannot be kept as it is.
        """

    def set_title(self, thread_id: str, title: str | None, now: datetime) -> None:
        """Name a thread; one that is not there is not made."""

    def thread(self, thread_id: str) -> ArchivedThread | None:
        """Return a thread."""

    def threads(
        self,
        resource_id: str,
        *,
        page: int = 0,
        limit: int = 20,
        before: datetime | None = None,
        after: datetime | None = None,
    ) -> tuple[list[ArchivedThread], bool]:
        """Return a page of a resource's threads, newest updated first, and whether more follow.

        A thread that runs within another one, which is there too, is left out.

        Args:
            page: Which page, 0-based.
            before: Keep threads created before this time.
            after: Keep threads created after this time.
        """

    def thread_ends(
        self, resource_id: str, *, limit: int, behind: ArchivedThread | None = None
    ) -> list[ThreadEnd]:
        """Return a resource's threads, newest updated first, with their last messages.

        Those that were updated at the same time come in an order that holds still.

        Args:
            behind: Begin with the thread that comes behind this one, as it was when it was read.
        """

    def list_threads(
        self,
        *,
        text: str = "",
        resource_id: str | None = None,
        limit: int,
        behind: tuple[datetime, str] | None = None,
    ) -> list[ListedThread]:
        """Return threads of everybody, newest updated first, without those that run within others.

        It is the one method that answers across resources, for those who operate the archive:
        whoever shows the list decides who may see which thread.

        Args:
            text: Keep threads with this text in their title, id or resource, in any case.
            resource_id: Keep the threads of this resource; `None` for all.
            behind: Begin behind the thread that was updated then and has this id.
        """

    def find(
        self,
        key: str,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        branch: str | None = None,
    ) -> ArchivedMessage | None:
        """Return the message of this key in a thread or resource, on whatever branch.

        A key in several threads of a resource stands for that of the newest updated thread; one on
        several branches for that of `branch`, else of the current one.

        Args:
            resource_id: The resource to look in; with `thread_id`, whose the thread has to be.
            branch: With `thread_id`, the name of a branch; see `append`.

        Raises:
            ConfigurationError: When neither is given.
        """

    def messages(
        self,
        thread_id: str,
        *,
        start: int | None = None,
        stop: int | None = None,
        limit: int,
        newest_first: bool = False,
        offset: int = 0,
        visible_only: bool = True,
        branch: str | None = None,
    ) -> list[ArchivedMessage]:
        """Return messages of a branch, always in the order of the conversation.

        Args:
            start: The first position.
            stop: The position to end before.
            newest_first: Whether `limit` and `offset` count from the end.
            offset: How many to leave out at that end.
            visible_only: Whether messages that users may not see are left out.
            branch: The name of the branch; see `append`. `None`, and one that is unknown: the
                current branch.
        """

    def last_position(self, thread_id: str) -> int | None:
        """Return the position of the last message of the current branch."""

    def places(self, thread_id: str, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the positions on the current branch of those of these messages that it has."""

    def contains(self, thread_id: str, keys: Sequence[str]) -> set[str]:
        """Return which of these messages are safely kept, on whatever branch."""

    def branch(
        self, thread_id: str, keys: Sequence[str], *, branch: str | None = None
    ) -> list[BaseMessage]:
        """Return messages in the order of their keys; those that are not there are left out.

        Args:
            branch: The name of the branch whose words are wanted, as for `find`.
        """

    # --- Observation groups ----------------------------------------------------------------------

    def add_groups(
        self,
        thread_id: str,
        resource_id: str | None,
        groups: Sequence[Mapping[str, Any]],
        now: datetime,
        log: Sequence[str] | None = None,
        *,
        deletion: int | None = None,
    ) -> list[str]:
        """Keep the observation groups that are not there yet, and return their ids.

        None of a thread that was deleted and has no message since: they are of messages that are
        gone.

        Args:
            thread_id: The thread whose messages were observed; it is made if it is new.
            resource_id: The resource; `None` for none, or to leave it as it is.
            groups: Mappings with at least an `id`, unique in the thread.
            now: The current time, which a group without `observed_at` takes for it.
            log: The ids of all groups that the thread's log has now; others of the thread are
                history, which no search finds. `None`: as it was told last, and these.
            deletion: As for `append`.

        Raises:
            ArchiveLacksError: As `append`.
            ConfigurationError: When the thread belongs to another resource.
        """

    def groups(
        self,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        limit: int = 100,
        in_log: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the groups of a thread or resource, newest observed first.

        Args:
            in_log: Whether history is left out; see `add_groups`.

        Raises:
            ConfigurationError: When neither is given.
        """

    # --- The memory of a resource ----------------------------------------------------------------

    def load_record(self, resource_id: str) -> tuple[dict[str, Any] | None, int]:
        """Return the record of a resource and its revision, `(None, 0)` when there is none."""

    def record_revision(self, resource_id: str) -> int:
        """Return the revision of the record of a resource, 0 when there is none."""

    def rewrite_records(
        self, resource_id: str, change: Callable[[dict[str, Any]], Mapping[str, Any]], now: datetime
    ) -> None:
        """Change the record of a resource and all of its history, the generations as they are.

        The record gets a new revision, so that whoever computed one from the former cannot commit
        it. Without a record nothing is done.

        Args:
            change: Given a record, returns what takes its place; it may be called more than once.
        """

    def commit_record(
        self, resource_id: str, record: Mapping[str, Any], *, expected: int, now: datetime
    ) -> bool:
        """Replace the record if its revision is still the expected one, and return whether it was.

        The record is then at revision `expected + 1`, but the first one behind a deletion of the
        resource at a revision that it has never had. A former record of another `generation` is
        kept as history.

        Args:
            record: The new record; its `generation` is an int.
            expected: The revision that the new record was computed from, 0 for none.
        """

    def record_history(
        self, resource_id: str, *, limit: int = 10, until: datetime | None = None
    ) -> list[dict[str, Any]]:
        """Return the last record of each generation, newest first, the current one included.

        Each entry has `record`, `revision`, `committed_at` (when this record was written) and
        `begun_at` (when the first one of its generation was).

        Args:
            until: Keep generations that had begun by this time, so that the first entry is of the
                generation in force then. It may have grown since.
        """

    # --- Jobs ------------------------------------------------------------------------------------

    def claim(
        self,
        job_id: str,
        owner: str,
        *,
        seconds: float,
        thread_id: str,
        resource_id: str | None,
        about: Sequence[str] = (),
        deletion: int | None = None,
    ) -> Claim:
        """Ask for a job.

        Args:
            job_id: The job; it is made if it is new.
            seconds: How long the claim lasts. One that ends later than twice as long from now is
                from before the clock was set back, and over.
            thread_id: The thread that the job works for; deleting it ends the job, and so does
                deleting `t` where it is `t|>...`, archived or not.
            resource_id: The resource that the job works for.
            about: Other threads that the result tells of; deleting one ends the job too.
            deletion: How many deletions of thread and resource the asker knows of; `None`: any.

        Returns:
            "mine" when it is new, its claim has ended, or it is this owner's already (whose claim
            then begins anew); "taken" while another owner has it; "done" when it has a result.
            "taken" too where a thread of these was deleted, by itself, with its resource or with
            the thread around it, and has no message since, or where the asker does not know of a
            deletion: nobody shall keep what is known of it.
        """

    def take_over(self, job_id: str, sender: str, owner: str, *, seconds: float) -> bool:
        """Claim a job that `sender` has claimed for somebody to do, and return whether it is so.

        Again is harmless. A job that was released or deleted is nobody's to take over.
        """

    def finish(self, job_id: str, owner: str, result: Mapping[str, Any]) -> bool:
        """Keep the result if the owner holds the job, and return whether it is the job's result.

        A claim that has ended still counts as long as nobody else claims the job.
        """

    def release(self, job_id: str, owner: str) -> bool:
        """Have a claim end now, if it is this owner's, and return whether it was.

        Whoever claims the job next gets it.
        """

    def job(self, job_id: str) -> JobView | None:
        """Return what is known of a job."""

    def prune_jobs(self, *, older_than: float) -> int:
        """Forget jobs that are done or abandoned for more seconds than this; return how many."""

    # --- Moving and deletion ---------------------------------------------------------------------

    def move_thread(self, thread_id: str, resource_id: str | None, to_resource_id: str) -> None:
        """Give a thread to another resource, with its messages and groups; again is harmless.

        From then on searches, lists and pages of the new resource have it, those of the former one
        do not, and who still writes for the former one is refused. Threads that run within it go
        with it, unless they belong to a third resource. Jobs of these threads, and jobs that are
        about them, cannot finish.

        Args:
            resource_id: Whose it is; `None` for nobody's.
            to_resource_id: Whose it is to be.

        Raises:
            ConfigurationError: When there is no such thread, it runs within another one, it is
                neither the one's nor the other's, or one of them has a log that threads share.
        """

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its messages, groups and jobs; running ones cannot finish.

        Threads that run within it are deleted too. The record of its resource gets a new revision,
        so that whoever computed one from the former, not knowing of the deletion, cannot commit it.

        That it was deleted stays known, by its id alone: see `deletions`.
        """

    def delete_resource(self, resource_id: str) -> None:
        """Delete a resource's threads with all they hold, its record and history, and its jobs.

        That these were deleted stays known, by their ids alone: see `deletions`.
        """

    def deletions(
        self, resource_id: str | None, thread_ids: Sequence[str]
    ) -> Mapping[tuple[Deleted, str], int]:
        """Return numbers that grow with each deletion of a resource and threads; 1 at first.

        Those that were never deleted are left out.

        The thread of a deleted resource counts as deleted too. What is deleted may begin again;
        the number tells on which side of a deletion a copy of it is.

        Args:
            resource_id: The resource to ask about; `None` for none.
            thread_ids: The threads to ask about.
        """

    def note_store(self, use: StoreUse) -> None:
        """Note that a LangGraph store has something of threads, too.

        Whoever deletes or moves a thread may not know of the store.
        """

    def noted_stores(self) -> set[StoreUse]:
        """Return for what a store was ever used."""


# Search by words over an archive: what one answers that has an index, and how others are
# searched.
#
# An archive that cannot search is read, newest first as far as `MAX_READ`, and ranked here.


MAX_READ: Final = 5_000
"""How many messages are read of an archive that cannot search, the newest threads first."""
PAGE: Final = 500
MAX_GROUPS_READ: Final = 1_000
THREADS_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class ArchivedHit:
    """A message or a group of observations that a search found."""

    thread_id: str
    found: FoundText


@runtime_checkable
class SearchableArchive(Protocol):
    """An archive that searches by words; optional, as any other is read and ranked instead."""

    def search(
        self,
        query: str,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        role: str | None = None,
        tool_name: str | None = None,
        limit: int = 8,
        offset: int = 0,
        branches: Mapping[str, str] | None = None,
        groups: Mapping[str, Collection[str]] | None = None,
    ) -> list[ArchivedHit]:
        """Return messages of branches, and groups, that hold words of a query, best first.

        The query is text: nothing in it is an operator, and nothing raises.

        Args:
            resource_id: The resource to look in; with `thread_id`, whose the thread has to be.
            before: Only what was said before this time.
            after: Only what was said at this time or later.
            role: Only messages of this role: `user`, `assistant`, `tool`.
            tool_name: Only calls of this tool and its results.
            branches: By thread id, the names of branches (see `MessageArchive.append`) that are
                searched; of other threads the current ones are.
            groups: By thread id, the ids of the groups that are searched; of other threads those
                are that their logs have, as `MessageArchive.add_groups` was told last.

        Raises:
            ConfigurationError: When neither thread nor resource is given.
            ArchiveError: When the storage fails.
        """


def check_scope(thread_id: str | None, resource_id: str | None) -> None:
    """Refuse to look everywhere."""
    if thread_id is None and resource_id is None:
        msg = "`thread_id` and `resource_id` are None; pass at least one of them"
        raise ConfigurationError(msg)


def search_archive(
    archive: MessageArchive,
    query: str,
    wanted: Filter,
    *,
    thread_id: str | None,
    resource_id: str | None,
    limit: int,
    branches: Mapping[str, str] | None = None,
    groups: Mapping[str, Collection[str]] | None = None,
) -> list[ArchivedHit]:
    """Search any archive by words, the best hits first; arguments as for `SearchableArchive`.

    Raises:
        ConfigurationError: When neither thread nor resource is given.
        ArchiveError: When the storage fails.
    """
    check_scope(thread_id, resource_id)
    search = getattr(archive, "search", None)  # which `isinstance` may not see from Python 3.12 on
    if callable(search):
        return cast("SearchableArchive", archive).search(
            query,
            thread_id=thread_id,
            resource_id=resource_id,
            **asdict(wanted),
            limit=limit,
            branches=branches,
            groups=groups,
        )
    hits: list[ArchivedHit] = []
    room = MAX_READ
    for thread in _list_threads(archive, thread_id, resource_id):
        branch = (branches or {}).get(thread)
        messages = [*islice(_read_back(archive, thread, branch), room)][::-1]
        room -= len(messages)
        rows = [(each.key, each.message, each.at) for each in messages]
        known = (groups or {}).get(thread)
        read = archive.groups(thread_id=thread, limit=MAX_GROUPS_READ, in_log=known is None)
        log = [cast("Group", each) for each in read if known is None or each["id"] in known]
        hits += (ArchivedHit(thread, found) for found in search_texts(query, rows, log, wanted))
        if room <= 0:
            break
    return sorted(hits, key=lambda hit: -hit.found.score)[:limit]


def _list_threads(
    archive: MessageArchive, thread_id: str | None, resource_id: str | None
) -> Iterator[str]:
    """Yield the threads to look in, the last updated first."""
    if thread_id is not None:
        known = archive.thread(thread_id)
        if known is not None and resource_id in {None, known.resource_id}:
            yield thread_id
        return
    yield from list_thread_ids(archive, str(resource_id))


def list_thread_ids(
    archive: MessageArchive, resource_id: str, limit: int = THREADS_PAGE
) -> Iterator[str]:
    """Yield the threads of a resource, the last updated first, page by page."""
    page, has_more = 0, True
    while has_more:
        threads, has_more = archive.threads(resource_id, page=page, limit=limit)
        yield from (thread.id for thread in threads)
        page += 1


def _read_back(
    archive: MessageArchive, thread_id: str, branch: str | None
) -> Iterator[ArchivedMessage]:
    """Yield the visible messages of a thread, the newest first."""
    stop: int | None = None
    while rows := archive.messages(
        thread_id, stop=stop, limit=PAGE, newest_first=True, branch=branch
    ):
        yield from reversed(rows)
        stop = rows[0].position


def describe_shared_log(thread_id: str, owner: str) -> str:
    """Say why a thread cannot be moved, and what to do."""
    return (
        f"the thread {thread_id!r} cannot be moved: threads of {owner!r} share a log, which was "
        f"condensed across threads and cannot be parted; begin a new thread of the new owner with "
        f"its messages, and delete this one with `memory.delete_thread({thread_id!r})`"
    )


# What holds locks or threads begins anew in a forked process.
#
# A fork copies memory, but of the threads only the one that forks: locks that another one held
# are never let go, what another one was doing is never done, and connections are the parent's.


class BeginsAnew(Protocol):
    """What has to be set up again in a forked process."""

    def begin_anew(self) -> None:
        """Make new locks and forget what other threads were doing; called in the child."""


_alive: weakref.WeakSet[BeginsAnew] = weakref.WeakSet()


def begin_anew_after_fork(part: BeginsAnew) -> None:
    """Have a part begin anew in every forked process, for as long as somebody else holds it."""
    _alive.add(part)


def _begin_all_anew() -> None:
    for part in list(_alive):
        part.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)
