"""The archive in SQLite or PostgreSQL: messages, groups, records of resources, and jobs.

Messages are read by page, by key and by branch. Groups only grow; one writer replaces the record of
a resource; one worker at a time has a claim to a job, and only that one can finish it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import BaseMessage
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    and_,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from langgraph_om.archive.protocol import ArchivedMessage, Claim, JobView, check_scope
from langgraph_om.archive.sql.branches import (
    CURRENT,
    Branch,
    find_branch,
    select_keys,
    select_last,
    select_places,
    store_messages,
)
from langgraph_om.archive.sql.database import Database, database_clock, insert_into
from langgraph_om.archive.sql.schema import (
    check_name,
    check_span,
    check_time,
    decode_message,
    deletion_rows,
    encode_json,
    encode_message,
    group_rows,
    history_rows,
    job_rows,
    job_thread_rows,
    message_rows,
    record_rows,
    thread_rows,
)
from langgraph_om.archive.sql.search import SQLSearch
from langgraph_om.archive.sql.texts import (
    StoredMessage,
    build_group_texts,
    build_texts,
    date_texts,
    put_texts,
)
from langgraph_om.archive.sql.threads import (
    Row,
    SQLThreads,
    check_deletion,
    count_deletions,
    fetch_in_chunks,
    hold_name,
    is_left_of_deleted,
    lock_thread,
    name_thread,
    prune,
    split_into_chunks,
    touch,
)
from langgraph_om.core.config.options import check_number
from langgraph_om.core.content.message_keys import add_parents
from langgraph_om.errors import ConfigurationError

_SHOWN = [column for column in message_rows.c if column.name not in ("parent", "digest")]

_PRUNE_SECONDS = 3600.0
"""How often jobs that ended long ago are forgotten."""
_KEPT_SECONDS = 86_400.0
"""How long results stay that no step has taken in; a fork may still ask for them."""

_RECORD = ("resource_id", "revision", "generation", "begun", "committed", "body")


class SQLAlchemyArchive(SQLThreads, SQLSearch):
    """An archive in an SQLite file or a PostgreSQL database, shared by threads and processes.

    Its tables, and a function in PostgreSQL, are named `om_...` and are made on first use; making
    the object opens no connection.

        SQLAlchemyArchive("sqlite:///memory.db")
        SQLAlchemyArchive("postgresql://user:secret@host/database")

    Args:
        url_or_engine: SQLAlchemy's URL, or an engine, which stays the caller's: `close` leaves it
            open, and an engine for SQLite is used with the settings it has.

    Raises:
        ConfigurationError: When the URL cannot be used, or its driver is not installed.
    """

    def __init__(self, url_or_engine: str | Engine) -> None:
        self._database = Database(url_or_engine)
        self._prune_at = time.monotonic()

    @property
    def place(self) -> str:
        """Where the database is, without a password; for warnings."""
        url = self._database.engine.url.set(query={})
        return url.render_as_string(hide_password=True)

    def setup(self) -> None:
        """Prepare the storage. Every other call does so on first use; doing it again is harmless.

        Several processes may do it at once.
        """
        self._database.make_ready()

    def close(self) -> None:
        """Let go of connections."""
        self._database.close()

    # --- Messages ---------------------------------------------------------------------------------

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
        check_time("now", now)
        entries = _encode_entries(messages, times or {})
        if after in entries:
            msg = f"`after` is {after!r}, one of the messages; pass the key before the first one"
            raise ConfigurationError(msg)
        with self._database.write("append messages") as connection:
            if resource_id is not None:  # a new thread has no row that its deletion could see
                hold_name(connection, "resource", resource_id)
            thread = lock_thread(connection, thread_id, resource_id, now, parent=parent)
            check_deletion(connection, thread_id, resource_id, deletion)
            is_new = False
            if entries:
                owner = thread.resource_id if resource_id is None else resource_id
                changes = store_messages(
                    connection, thread_id, entries, after, branch, must_follow=must_follow
                )
                new = {key: entry for key, entry in entries.items() if key in changes.new}
                put_texts(connection, build_texts(thread_id, owner, new))
                date_texts(connection, thread_id, changes.dated)
                is_new, branch = bool(new), changes.branch
            if title is not None and title != thread.title:
                name_thread(connection, thread, now, title)
            elif is_new:
                touch(connection, thread, now)
        return branch

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
        check_scope(thread_id, resource_id)
        place = message_rows.c
        query = (
            select(*_SHOWN)
            .join(thread_rows, thread_rows.c.id == place.thread_id)
            .where(place.key == key)
            .order_by(thread_rows.c.updated.desc(), thread_rows.c.id)
            .order_by(place.is_current.desc(), place.position.desc(), place.node.desc())
            .limit(1)
        )
        if thread_id is not None:
            query = query.where(place.thread_id == thread_id)
        if resource_id is not None:
            # As an expression, so that the rows of the key are tried, not all threads there are.
            query = query.where(thread_rows.c.resource_id.concat("") == resource_id)
        with self._database.read("find a message") as connection:
            if thread_id is None or branch is None:
                row = connection.execute(query).one_or_none()
                return None if row is None else _read_message(row)
            path = find_branch(connection, thread_id, branch)
            found = path.choose(select_places(connection, thread_id, [key])[key])
            if found is None:
                return None
            row = connection.execute(query.where(place.node == found.node)).one_or_none()
        return None if row is None else _read_message(row, path)

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
        check_number("limit", limit)
        check_number("offset", offset)
        position = message_rows.c.position
        query = (
            select(*_SHOWN)
            .where(message_rows.c.thread_id == thread_id, message_rows.c.is_current)
            .order_by(position.desc() if newest_first else position)
        )
        if visible_only:
            query = query.where(message_rows.c.is_visible)
        if start is not None:
            query = query.where(position >= start)
        with self._database.read("read messages") as connection:
            path = find_branch(connection, thread_id, branch)
            off = [
                row for row in path.list_off(start or 0, stop) if row.is_visible or not visible_only
            ]
            if path is not CURRENT:
                stop = path.last + 1 if stop is None else min(stop, path.last + 1)
            if stop is not None:
                query = query.where(position < stop)
            if not off:
                rows = list(connection.execute(query.limit(limit).offset(offset)))
            else:
                rows = list(connection.execute(query.limit(offset + limit)))
                rows = [*off[::-1], *rows] if newest_first else [*rows, *off]
                rows = _read_contents(connection, thread_id, rows[offset : offset + limit])
        return [_read_message(row, path) for row in (reversed(rows) if newest_first else rows)]

    def last_position(self, thread_id: str) -> int | None:
        """Return the position of the last message of the current branch."""
        with self._database.read("read a thread's length") as connection:
            last = select_last(connection, thread_id)
        return None if last is None else last.position

    def contains(self, thread_id: str, keys: Sequence[str]) -> set[str]:
        """Return which of these messages are safely kept, on whatever branch."""
        with self._database.read("look for messages") as connection:
            return {row.key for row in select_keys(connection, thread_id, keys)}

    def branch(
        self, thread_id: str, keys: Sequence[str], *, branch: str | None = None
    ) -> list[BaseMessage]:
        """Return messages in the order of their keys; those that are not there are left out.

        Args:
            branch: The name of the branch whose words are wanted, as for `find`.
        """
        with self._database.read("read messages") as connection:
            path = find_branch(connection, thread_id, branch)
            places = select_places(connection, thread_id, keys)
            chosen = [row for key in keys if (row := path.choose(places.get(key, ()))) is not None]
            rows = _read_contents(connection, thread_id, chosen)
        return [decode_message(row.key, row.body) for row in rows]

    # --- Observation groups -----------------------------------------------------------------------

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
        check_time("now", now)
        rows: dict[str, dict[str, Any]] = {}
        for group in groups:
            check_name("id", group.get("id"))
            body = encode_json(f"the group {group['id']!r}", group)
            observed = _read_observed_at(group, now)
            rows.setdefault(group["id"], {"id": group["id"], "observed": observed, "body": body})
        with self._database.write("add groups") as connection:
            if resource_id is not None:  # a new thread has no row that its deletion could see
                hold_name(connection, "resource", resource_id)
            thread = lock_thread(connection, thread_id, resource_id, now)
            check_deletion(connection, thread_id, resource_id, deletion)
            owner = thread.resource_id if resource_id is None else resource_id
            if is_left_of_deleted(connection, [thread_id], owner):
                connection.rollback()  # the thread's row too
                return []
            of_thread = select(group_rows.c.id).where(group_rows.c.thread_id == thread_id)
            found = fetch_in_chunks(connection, of_thread, group_rows.c.id, [*rows])
            known = {row.id for row in found}
            new = [row for group_id, row in rows.items() if group_id not in known]
            if new:
                _insert_groups(connection, thread_id, new)
                put_texts(connection, build_group_texts(thread_id, owner, new))
            if log is not None:
                _set_log(connection, thread_id, {*log})
        return [row["id"] for row in new]

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
        check_scope(thread_id, resource_id)
        check_number("limit", limit)
        query = (
            select(group_rows.c.body)
            .order_by(group_rows.c.observed.desc(), group_rows.c.ordinal.desc())
            .limit(limit)
        )
        if thread_id is not None:
            query = query.where(group_rows.c.thread_id == thread_id)
        if resource_id is not None:
            query = query.where(group_rows.c.resource_id == resource_id)
        if in_log:
            query = query.where(group_rows.c.in_log)
        with self._database.read("read groups") as connection:
            return [json.loads(body) for body in connection.execute(query).scalars()]

    # --- Records of resources ---------------------------------------------------------------------

    def load_record(self, resource_id: str) -> tuple[dict[str, Any] | None, int]:
        """Return the record of a resource and its revision, `(None, 0)` when there is none."""
        query = select(record_rows).where(record_rows.c.resource_id == resource_id)
        with self._database.read("load a record") as connection:
            row = connection.execute(query).one_or_none()
        return (None, 0) if row is None else (json.loads(row.body), row.revision)

    def record_revision(self, resource_id: str) -> int:
        """Return the revision of the record of a resource, 0 when there is none."""
        query = select(record_rows.c.revision).where(record_rows.c.resource_id == resource_id)
        with self._database.read("read a revision") as connection:
            return connection.execute(query).scalar() or 0

    def rewrite_records(
        self, resource_id: str, change: Callable[[dict[str, Any]], Mapping[str, Any]], now: datetime
    ) -> None:
        """Change the record of a resource and all of its history, the generations as they are.

        The record gets a new revision, so that whoever computed one from the former cannot commit
        it. Without a record nothing is done.

        Args:
            change: Given a record, returns what takes its place; it may be called more than once.
        """
        check_time("now", now)
        with self._database.write("rewrite records") as connection:
            for table in (record_rows, history_rows):
                is_it = table.c.resource_id == resource_id
                query = select(table.c.revision, table.c.body).where(is_it).with_for_update()
                for revision, body in connection.execute(query).all():
                    values: dict[str, Any] = {
                        "body": encode_json("the record", change(json.loads(body)))
                    }
                    if table is record_rows:
                        values.update(revision=revision + 1, committed=now)
                    is_row = (is_it, table.c.revision == revision)
                    connection.execute(update(table).where(*is_row).values(**values))

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
        check_time("now", now)
        generation = record.get("generation")
        if not isinstance(generation, int) or isinstance(generation, bool):
            msg = f"`generation` of the record is {generation!r}; pass an int"
            raise ConfigurationError(msg)
        values = {
            "revision": expected + 1,
            "generation": generation,
            "begun": now,
            "committed": now,
            "body": encode_json("the record", record),
        }
        with self._database.write("commit a record") as connection:
            if expected == 0:
                # No revision comes again, or who computed a record from the former one of it before
                # a deletion could commit that.
                deleted = (deletion_rows.c.kind == "resource", deletion_rows.c.id == resource_id)
                number = select(deletion_rows.c.number).where(*deleted)
                values["revision"] = 1 + (connection.execute(number).scalar() or 0)
                try:
                    first = insert(record_rows).values(resource_id=resource_id, **values)
                    with connection.begin_nested():
                        connection.execute(first)
                except IntegrityError:
                    return False
                return True
            is_it = record_rows.c.resource_id == resource_id
            is_former = (is_it, record_rows.c.revision == expected)
            query = select(record_rows).where(*is_former).with_for_update()
            former = connection.execute(query).one_or_none()
            if former is None:
                return False
            if former.generation == generation:
                values["begun"] = former.begun
            else:
                kept = select(*(record_rows.c[name] for name in _RECORD)).where(is_it)
                connection.execute(insert(history_rows).from_select(_RECORD, kept))
            connection.execute(update(record_rows).where(is_it).values(**values))
        return True

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
        check_number("limit", limit)
        check_time("until", until)
        entries: list[Select[Any]] = []
        for table in (record_rows, history_rows):
            query = select(*(table.c[name] for name in _RECORD))
            query = query.where(table.c.resource_id == resource_id)
            if until is not None:
                query = query.where(table.c.begun <= until)
            entries.append(query.order_by(table.c.revision.desc()).limit(limit))
        with self._database.read("read the history of a record") as connection:
            # The current record is newer than all of its history.
            rows = [row for query in entries for row in connection.execute(query)]
        return [
            {
                "record": json.loads(row.body),
                "revision": row.revision,
                "committed_at": row.committed,
                "begun_at": row.begun,
            }
            for row in rows[:limit]
        ]

    # --- Jobs: all times are the database's, in the statements themselves -------------------------

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
        check_name("owner", owner)
        check_span("seconds", seconds)
        now, ends_at = database_clock(), job_rows.c.ends
        ends = now + seconds
        is_over = or_(ends_at <= now, ends_at > now + 2 * seconds)
        if time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + _PRUNE_SECONDS
            self.prune_jobs(older_than=_KEPT_SECONDS)
        with self._database.write("claim a job") as connection:
            if resource_id is not None:
                hold_name(connection, "resource", resource_id)
            if is_left_of_deleted(connection, [thread_id, *about], resource_id):
                return "taken"
            number = sum(count_deletions(connection, resource_id, [thread_id]).values())
            if deletion not in (None, number):
                return "taken"
            new = insert_into(connection, job_rows).values(
                id=job_id, thread_id=thread_id, resource_id=resource_id, owner=owner, ends=ends
            )
            taking = new.on_conflict_do_update(
                index_elements=["id"],
                set_={"owner": owner, "ends": ends},
                where=and_(job_rows.c.result.is_(None), or_(job_rows.c.owner == owner, is_over)),
            )
            connection.execute(taking)
            for key in sorted(add_parents([thread_id, *about]) - {thread_id}):
                told = insert_into(connection, job_thread_rows).values(job_id=job_id, thread_id=key)
                connection.execute(told.on_conflict_do_nothing())
            held = select(job_rows.c.owner, job_rows.c.result).where(job_rows.c.id == job_id)
            row = connection.execute(held).one_or_none()
        if row is None:  # deleted by another, between the two
            return "taken"
        if row.result is not None:
            return "done"
        return "mine" if row.owner == owner else "taken"

    def take_over(self, job_id: str, sender: str, owner: str, *, seconds: float) -> bool:
        """Claim a job that `sender` has claimed for somebody to do, and return whether it is so.

        Again is harmless. A job that was released or deleted is nobody's to take over.
        """
        check_name("owner", owner)
        check_span("seconds", seconds)
        held = update(job_rows).where(_is_held(job_id, sender, owner))
        taking = held.values(owner=owner, ends=database_clock() + seconds)
        with self._database.write("take over a job") as connection:
            return connection.execute(taking).rowcount == 1

    def finish(self, job_id: str, owner: str, result: Mapping[str, Any]) -> bool:
        """Keep the result if the owner holds the job, and return whether it is the job's result.

        A claim that has ended still counts as long as nobody else claims the job.
        """
        body = encode_json(f"the result of the job {job_id!r}", result)
        held = update(job_rows).where(_is_held(job_id, owner))
        with self._database.write("finish a job") as connection:
            done = connection.execute(held.values(result=body, ends=database_clock()))
            if done.rowcount == 1:
                return True
            is_it = (job_rows.c.id == job_id, job_rows.c.owner == owner)
            return connection.execute(select(job_rows.c.id).where(*is_it)).first() is not None

    def release(self, job_id: str, owner: str) -> bool:
        """Have a claim end now, if it is this owner's, and return whether it was.

        Whoever claims the job next gets it.
        """
        with self._database.write("release a job") as connection:
            held = update(job_rows).where(_is_held(job_id, owner))
            ended = held.values(owner="", ends=database_clock())
            return connection.execute(ended).rowcount == 1

    def job(self, job_id: str) -> JobView | None:
        """Return what is known of a job."""
        left = (job_rows.c.ends - database_clock()).label("left")
        query = select(job_rows, left).where(job_rows.c.id == job_id)
        with self._database.read("read a job") as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        if row.result is not None:
            return JobView("done", row.owner, json.loads(row.result), 0.0)
        return JobView("running" if row.left > 0 else "expired", row.owner, None, row.left)

    def prune_jobs(self, *, older_than: float) -> int:
        """Forget jobs that are done or abandoned for more seconds than this; return how many."""
        check_span("older_than", older_than)
        is_old = job_rows.c.ends < database_clock() - older_than
        with self._database.write("prune jobs") as connection:
            pruned = prune(connection, job_rows, is_old)
            is_gone = job_thread_rows.c.job_id.not_in(select(job_rows.c.id))
            prune(connection, job_thread_rows, is_gone)
            return pruned


def _read_contents(connection: Connection, thread_id: str, places: Sequence[Row]) -> list[Row]:
    """Read what stands at places of a thread, in their order."""
    of_thread = select(*_SHOWN).where(message_rows.c.thread_id == thread_id)
    nodes = [row.node for row in places]
    rows = fetch_in_chunks(connection, of_thread, message_rows.c.node, nodes)
    found = {row.node: row for row in rows}
    return [found[node] for node in nodes]


def _encode_entries(
    messages: Sequence[tuple[str, BaseMessage, bool]], times: Mapping[str, datetime]
) -> dict[str, StoredMessage]:
    """Write messages as they are stored, by key; of a key that comes twice, the last content."""
    entries: dict[str, StoredMessage] = {}
    for key, message, is_visible in messages:
        check_name("key", key)
        body = encode_message(key, message)
        digest = hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
        check_time("times", times.get(key))
        entries[key] = StoredMessage(message, body, digest, is_visible, times.get(key))
    return entries


def _read_message(row: Row, path: Branch = CURRENT) -> ArchivedMessage:
    at = path.find(row)
    return ArchivedMessage(
        key=row.key,
        thread_id=row.thread_id,
        position=row.position if at is None else at,
        message=decode_message(row.key, row.body),
        is_visible=row.is_visible,
        is_current=at is not None,
        at=row.written,
    )


def _read_observed_at(group: Mapping[str, Any], now: datetime) -> datetime:
    """Return when a group was observed, as far as it says so."""
    try:
        at = datetime.fromisoformat(group["observed_at"])
    except (KeyError, TypeError, ValueError):
        return now
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _insert_groups(connection: Connection, thread_id: str, rows: list[dict[str, Any]]) -> None:
    """Add groups behind the last one; the thread is locked and says whose they are."""
    last = select(func.max(group_rows.c.ordinal)).where(group_rows.c.thread_id == thread_id)
    first = (connection.execute(last).scalar() or 0) + 1
    owner = select(thread_rows.c.resource_id).where(thread_rows.c.id == thread_id)
    place = {"thread_id": thread_id, "resource_id": connection.execute(owner).scalar()}
    numbered = [{**row, **place, "ordinal": first + i} for i, row in enumerate(rows)]
    connection.execute(insert(group_rows), numbered)


def _set_log(connection: Connection, thread_id: str, log: set[str]) -> None:
    """Note which groups of a thread its log has."""
    is_it = group_rows.c.thread_id == thread_id
    query = select(group_rows.c.id, group_rows.c.in_log).where(is_it)
    known = {row.id: row.in_log for row in connection.execute(query)}
    for in_log in (True, False):
        changed = [key for key, was in known.items() if (key in log) == in_log != was]
        for ids in split_into_chunks(changed):
            where = (is_it, group_rows.c.id.in_(ids))
            connection.execute(update(group_rows).where(*where).values(in_log=in_log))


def _is_held(job_id: str, *owners: str) -> ColumnElement[bool]:
    """Build the condition that one of these has the job, whether or not the claim has ended."""
    has_it = job_rows.c.owner.in_(owners)
    return and_(job_rows.c.id == job_id, has_it, job_rows.c.result.is_(None))
