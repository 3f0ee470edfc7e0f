"""The archive of its parts, and what concerns all of them: to move, to delete, to prune."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)

from langgraph_om.archive.append import Append
from langgraph_om.archive.database import (
    Row,
    database_clock,
    delete_free,
    fetch_in_chunks,
    hold_name,
    insert_into,
    split_into_chunks,
)
from langgraph_om.archive.groups import Groups, find_gone, rewrite_all
from langgraph_om.archive.jobs import Jobs
from langgraph_om.archive.page import Pages
from langgraph_om.archive.search import Search
from langgraph_om.archive.tables import (
    GONE,
    deletion_rows,
    group_rows,
    history_rows,
    job_rows,
    job_thread_rows,
    message_rows,
    record_rows,
    text_rows,
    thread_rows,
)
from langgraph_om.archive.threads import (
    Threads,
    count_deletions,
    give_thread,
    read_thread,
    select_idle_threads,
)
from langgraph_om.archive.types import PRUNED, Aged, ArchivedThread, Deleted, StoreUse, check_name
from langgraph_om.core.config.options import check_seconds
from langgraph_om.core.record.record import find_end
from langgraph_om.core.record.users_log import without_known, without_thread
from langgraph_om.errors import ConfigurationError

_STORE: Final = "store"
"""The kind of the notes of stores, which stand beside those of deletions."""

_NEVER: Final = datetime.fromtimestamp(0, UTC)


class SQLAlchemyArchive(Append, Pages, Search, Threads, Groups, Jobs):
    """An archive in an SQLite file or a PostgreSQL database, shared by threads and processes.

    Its tables, and a function in PostgreSQL, are named `om_...` and created on first use; creating
    the object opens no connection.

        SQLAlchemyArchive("sqlite:///memory.db")
        SQLAlchemyArchive("postgresql://user:secret@host/database")

    Args:
        url_or_engine (str | Engine): SQLAlchemy's URL, or an engine, which stays the caller's:
            `close` leaves it open, and an engine for SQLite is used with the settings it has.

    Raises:
        ConfigurationError: When the URL cannot be used, or its driver is not installed.
    """

    @property
    def place(self) -> str:
        """Where the database is, without a password; for warnings."""
        return self.engine.url.set(query={}).render_as_string(hide_password=True)

    def move_thread(self, thread_id: str, resource_id: str | None, to_resource_id: str) -> None:
        """Give a thread to another resource, with its messages and groups; safe to repeat.

        From then on, the new resource's searches, lists and pages include it, the former one's do
        not, and writes for the former one are refused. Threads that run within it go with it,
        unless they belong to a third resource. The former owner's log loses what it has of them.
        Jobs of these threads, and jobs about them, cannot finish.

        Args:
            resource_id: The owner; `None` if it has none.
            to_resource_id: The new owner.

        Raises:
            ConfigurationError: When there is no such thread, it runs within another one, or it
                belongs to neither resource.
        """
        check_name("to_resource_id", to_resource_id)
        with self._writing("move a thread") as connection:
            threads = _lock_with_inner(connection, thread_id)
            _check_move(threads, thread_id, resource_id, to_resource_id)
            moved = [
                row
                for row in threads
                if row.resource_id in {None, resource_id} and row.resource_id != to_resource_id
            ]
            _delete_jobs(connection, [row.id for row in moved])
            for row in moved:
                give_thread(connection, row.id, row.resource_id, to_resource_id)
            if resource_id is not None:
                rewrite_all(connection, resource_id, partial(without_thread, thread_id=thread_id))

    def delete_thread(self, thread_id: str, resource_id: str | None = None) -> str | None:
        """Delete a thread with its messages, groups and jobs; running ones cannot finish.

        Threads that run within it are deleted too, and so is what the user's log has of all of
        these. That log gets a new revision, so that nobody can commit one computed from the former.

        The deletion stays known by the thread's id alone; see `deletions`.

        Args:
            resource_id: Whose it is, where the archive does not know.

        Returns:
            The resource that it belonged to.
        """
        with self._writing("delete a thread") as connection:
            owners = _delete_thread(connection, thread_id, resource_id)
            _leave_logs(connection, owners)
        self.wipe_deleted()
        return owners[thread_id]

    def prune_threads(self, before: datetime, *, limit: int = 500) -> list[ArchivedThread]:
        """Delete threads with no writes since a time, and return them.

        As `delete_thread` does, in one transaction. A thread that is resumed in the meantime stays,
        and so does one within which another one goes on.

        Args:
            before: The time.
            limit: How many threads at most; call again until none is left.
        """
        with self._writing("prune threads") as connection:
            found = connection.execute(select_idle_threads(before).limit(limit))
            # In one order, so that two deletions never wait for each other.
            old, gone = sorted(found, key=lambda row: str(row.id)), dict[str, str | None]()
            for row in old:
                gone |= _delete_thread(connection, row.id, before=before)
            _leave_logs(connection, gone)
        if gone:
            self.wipe_deleted()
        return [read_thread(row) for row in old if row.id in gone]

    def delete_resource(self, resource_id: str) -> None:
        """Delete a resource's threads with all they hold, its record and history, and its jobs.

        The deletions stay known by the ids alone; see `deletions`.
        """
        with self._writing("delete a resource") as connection:
            hold_name(connection, "resource", resource_id, deletes=True)
            # In one order, so that two deletions never wait for each other.
            query = (
                select(thread_rows.c.id)
                .where(thread_rows.c.resource_id == resource_id)
                .order_by(thread_rows.c.id)
                .with_for_update()
            )
            threads = list(connection.execute(query).scalars())
            _delete_threads(connection, threads)
            is_its = record_rows.c.resource_id == resource_id
            reached = connection.execute(select(record_rows.c.revision).where(is_its)).scalar() or 0
            for table in (job_rows, record_rows, history_rows):
                connection.execute(delete(table).where(table.c.resource_id == resource_id))
            for thread_id in threads:
                _note_deletion(connection, "thread", thread_id, resource_id)
            _note_deletion(connection, "resource", resource_id, resource_id, beyond=reached)
        self.wipe_deleted()

    def deletions(
        self, resource_id: str | None, thread_ids: Sequence[str]
    ) -> Mapping[tuple[Deleted, str], int]:
        """Return numbers that grow with each deletion of a resource and threads; 1 at first.

        And `("pruned", thread)`, which grows each time old messages of it are pruned.

        Those that were never deleted are left out.

        The thread of a deleted resource counts as deleted too. What is deleted may begin again;
        the number tells on which side of a deletion a copy of it is.

        Args:
            resource_id: The resource to ask about; `None` for none.
            thread_ids: The threads to ask about.
        """
        with self._reading("read deletions") as connection:
            return count_deletions(connection, resource_id, thread_ids)

    def aged_threads(self, before: datetime) -> list[ArchivedThread]:
        """Return the threads that have messages from before a time, or observations."""
        old = select(message_rows.c.thread_id).where(*_is_old(before))
        noted = select(group_rows.c.thread_id).where(group_rows.c.observed < before)
        query = select(thread_rows).where(thread_rows.c.id.in_(old.union(noted)))
        with self._reading("look for old messages") as connection:
            return [
                read_thread(row) for row in connection.execute(query.order_by(thread_rows.c.id))
            ]

    def aged(self, thread_id: str, before: datetime, *, keep_observations: bool) -> Aged:
        """Return what `prune_messages` would delete."""
        with self._reading("look for old messages") as connection:
            return _find_aged(connection, thread_id, before, keep_observations=keep_observations)

    def prune_messages(
        self, thread_id: str, before: datetime, *, keep_observations: bool = False
    ) -> Aged:
        """Delete a thread's messages from before a time, with their words, and return their keys.

        What is left of a message is its key and its place, so that no copy of it in a checkpoint is
        archived again. Call `wipe_deleted` after the last thread.

        Args:
            before: The time; what was written at a time that nobody knew stays.
            keep_observations: Whether observations stay whose messages are all gone. Those that a
                user or a person keeps, such as standing instructions, stay in any case.
        """
        with self._writing("prune messages") as connection:
            of_thread = select(thread_rows).where(thread_rows.c.id == thread_id)
            locked = connection.execute(of_thread.with_for_update()).one_or_none()
            if locked is None:
                return Aged([], [])
            aged = _find_aged(connection, thread_id, before, keep_observations=keep_observations)
            is_its = message_rows.c.thread_id == thread_id
            gone = update(message_rows).where(is_its, *_is_old(before))
            connection.execute(gone.values(digest=GONE, body=GONE, is_visible=False))
            _delete_texts_of_gone(connection, thread_id)
            groups = delete(group_rows).where(group_rows.c.thread_id == thread_id)
            texts = delete(text_rows).where(
                text_rows.c.thread_id == thread_id, text_rows.c.kind == "observations"
            )
            for ids in split_into_chunks([*aged.groups]):
                connection.execute(groups.where(group_rows.c.id.in_(ids)))
                connection.execute(texts.where(text_rows.c.key.in_(ids)))
            if not keep_observations and (aged.messages or aged.groups):
                _note_deletion(connection, PRUNED, thread_id, locked.resource_id)
                if locked.resource_id is not None:
                    change = partial(without_known, thread_id=thread_id)
                    rewrite_all(connection, locked.resource_id, change)
        return aged

    def prune_deletions(self, *, older_than: float) -> int:
        """Forget what was deleted more seconds ago than this; return how many ids those were.

        A checkpoint from before a deletion that comes back afterwards is archived again.
        """
        check_seconds("older_than", older_than, allows_zero=True)
        then = database_clock() - older_than
        is_old = and_(deletion_rows.c.kind != _STORE, deletion_rows.c.at < then)
        with self._writing("prune deletions") as connection:
            return delete_free(connection, deletion_rows, is_old)

    def note_store(self, use: StoreUse) -> None:
        """Note that a LangGraph store holds data of threads, too.

        A later deletion or move may not know of the store.
        """
        with self._writing("note a store") as connection:
            new = insert_into(connection, deletion_rows).values(kind=_STORE, id=use, number=0)
            connection.execute(new.on_conflict_do_nothing())

    def noted_stores(self) -> set[StoreUse]:
        """Return what a store was ever used for."""
        query = select(deletion_rows.c.id).where(deletion_rows.c.kind == _STORE)
        with self._reading("read which stores are used") as connection:
            return set(connection.execute(query).scalars())


# --- By age --------------------------------------------------------------------------------------


def _is_old(before: datetime) -> tuple[ColumnElement[bool], ...]:
    return (message_rows.c.written < before, message_rows.c.digest != GONE)


def _find_aged(
    connection: Connection, thread_id: str, before: datetime, *, keep_observations: bool
) -> Aged:
    is_its = message_rows.c.thread_id == thread_id
    old = select(message_rows.c.key).distinct().where(is_its, *_is_old(before))
    keys = [*connection.execute(old).scalars()]
    if keep_observations:
        return Aged(keys, [])
    bodies = select(group_rows.c.body).where(group_rows.c.thread_id == thread_id)
    groups = [json.loads(body) for body in connection.execute(bodies).scalars()]
    gone = {*keys, *find_gone(connection, groups, is_its)}
    return Aged(keys, [group["id"] for group in groups if find_end(group) in gone])


def _delete_texts_of_gone(connection: Connection, thread_id: str) -> None:
    """Delete the words of messages of a thread that are not there any more."""
    is_there = exists().where(
        message_rows.c.thread_id == text_rows.c.thread_id,
        message_rows.c.key == text_rows.c.key,
        message_rows.c.digest == text_rows.c.digest,
    )
    is_message = (text_rows.c.thread_id == thread_id, text_rows.c.kind == "message")
    connection.execute(delete(text_rows).where(*is_message, ~is_there))


# --- Threads -------------------------------------------------------------------------------------


def _delete_thread(
    connection: Connection,
    thread_id: str,
    resource_id: str | None = None,
    *,
    before: datetime | None = None,
) -> dict[str, str | None]:
    """Delete a thread and what runs within it; return whose they were, by their ids.

    Args:
        resource_id: Whose the thread is, where nobody knows.
        before: Leave it where something was written since then.
    """
    _lock_name(connection, thread_id)
    rows = _lock_with_inner(connection, thread_id)
    if before is not None and any(row.updated >= before for row in rows):
        return {}
    owners = {row.id: row.resource_id for row in rows}
    owners[thread_id] = owners.get(thread_id) or resource_id
    _delete_threads(connection, [*owners])
    for key, owner in owners.items():
        _note_deletion(connection, "thread", key, owner)
    return owners


def _lock_name(connection: Connection, thread_id: str) -> None:
    """Lock a thread that is deleted, whether or not it has a row; one that is made here goes too.

    Who writes to it first waits for that. In SQLite a writer is alone.
    """
    if connection.dialect.name == "sqlite":
        return
    hold_name(connection, "thread", thread_id, deletes=True)
    new = insert_into(connection, thread_rows).values(id=thread_id, created=_NEVER, updated=_NEVER)
    same = {"updated": thread_rows.c.updated}
    connection.execute(new.on_conflict_do_update(index_elements=["id"], set_=same))


def _lock_with_inner(connection: Connection, thread_id: str) -> list[Row]:
    """Lock a thread and those that run within it, and return the rows of those that are there."""
    within = or_(thread_rows.c.id == thread_id, thread_rows.c.parent == thread_id)
    query = select(thread_rows).where(within).order_by(thread_rows.c.id).with_for_update()
    return list(connection.execute(query))


def _check_move(
    locked: list[Row], thread_id: str, resource_id: str | None, to_resource_id: str
) -> None:
    """Refuse to give a thread, and those that run within it, to a resource."""
    # Where only agents within the thread have memory, the thread itself has no row.
    own = next((row for row in locked if row.id == thread_id), None)
    owners = {row.resource_id for row in ([own] if own is not None else locked)}
    if not owners:
        msg = f"there is no thread {thread_id!r} in the archive, so it cannot be moved"
    elif own is not None and own.parent is not None:
        msg = (
            f"the thread {thread_id!r} runs within {own.parent!r} and moves with it; "
            f"move {own.parent!r}"
        )
    elif owners.isdisjoint({resource_id, to_resource_id}):
        whose = "nobody yet" if owners == {None} else "another resource"
        msg = (
            f"`resource_id` is {resource_id!r}, and the thread {thread_id!r} belongs to {whose}; "
            f"pass its current owner"
        )
    else:
        return
    raise ConfigurationError(msg)


def _delete_jobs(connection: Connection, thread_ids: list[str]) -> None:
    """Delete the jobs of threads, and those that are about them."""
    for ids in split_into_chunks(thread_ids):
        about = select(job_thread_rows.c.job_id).where(job_thread_rows.c.thread_id.in_(ids))
        is_about = or_(job_rows.c.thread_id.in_(ids), job_rows.c.id.in_(about))
        # In one order, so that two deletions never wait for each other.
        jobs = select(job_rows.c.id).where(is_about).order_by(job_rows.c.id).with_for_update()
        connection.execute(delete(job_rows).where(job_rows.c.id.in_(jobs)))
        connection.execute(delete(job_thread_rows).where(job_thread_rows.c.thread_id.in_(ids)))


def _delete_threads(connection: Connection, thread_ids: list[str]) -> None:
    _delete_jobs(connection, thread_ids)
    for ids in split_into_chunks(thread_ids):
        for table in (text_rows, group_rows, message_rows):
            connection.execute(delete(table).where(table.c.thread_id.in_(ids)))
        connection.execute(delete(thread_rows).where(thread_rows.c.id.in_(ids)))
    if thread_ids and connection.dialect.name == "sqlite":
        # Its index keeps the words of deleted texts until it merges; a vacuum sweeps PostgreSQL's.
        connection.exec_driver_sql("INSERT INTO om_text_words(om_text_words) VALUES ('optimize')")


def _note_deletion(
    connection: Connection, kind: Deleted, key: str, resource_id: str | None, beyond: int = 0
) -> None:
    """Note that a thread or a resource is deleted, or pruned, once more if it was before.

    Args:
        beyond: The revision that its record had reached, which the number exceeds.
    """
    new = insert_into(connection, deletion_rows).values(
        kind=kind, id=key, resource_id=resource_id, number=beyond + 1, at=database_clock()
    )
    known = deletion_rows.c.number
    counted = {
        "number": case((known > beyond, known), else_=beyond) + 1,
        "at": new.excluded.at,
        "resource_id": func.coalesce(new.excluded.resource_id, deletion_rows.c.resource_id),
    }
    connection.execute(new.on_conflict_do_update(index_elements=["kind", "id"], set_=counted))


def _leave_logs(connection: Connection, thread_ids: Iterable[str]) -> None:
    """Take what is about deleted threads out of the logs of their users."""
    whose = select(deletion_rows.c.id, deletion_rows.c.resource_id).where(
        deletion_rows.c.kind == "thread", deletion_rows.c.resource_id.is_not(None)
    )
    left: dict[str, list[str]] = {}
    for row in fetch_in_chunks(connection, whose, deletion_rows.c.id, [*thread_ids]):
        left.setdefault(row.resource_id, []).append(row.id)
    for owner in sorted(left):
        rewrite_all(connection, owner, partial(reduce, without_thread, left[owner]))
