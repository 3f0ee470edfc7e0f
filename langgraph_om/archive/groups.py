"""Groups of observations, which only grow, and users' logs, which threads share.

Each thread says which of the groups its log has. A user's log has a record and generations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from langgraph_om.archive.database import Database, fetch_in_chunks, hold_name, split_into_chunks
from langgraph_om.archive.search import build_group_texts, put_texts
from langgraph_om.archive.tables import (
    GONE,
    deletion_rows,
    encode_json,
    group_rows,
    history_rows,
    message_rows,
    record_rows,
    thread_rows,
)
from langgraph_om.archive.threads import (
    count_deletions,
    is_left_of_deleted,
    lock_thread,
)
from langgraph_om.archive.types import PRUNED, check_name, check_scope, check_time
from langgraph_om.core.config.options import check_number
from langgraph_om.core.record.record import find_end
from langgraph_om.core.record.users_log import list_threads
from langgraph_om.errors import ConfigurationError


class Groups(Database):
    """The groups of observations, and the users' logs, of an archive."""

    def add_groups(
        self,
        thread_id: str,
        resource_id: str | None,
        groups: Sequence[Mapping[str, Any]],
        now: datetime,
        log: Sequence[str] | None = None,
        *,
        deletion: int | None = None,
        observed: str | Literal[False] | None = False,
        behind: str | Literal[False] | None = False,
    ) -> list[str]:
        """Keep the observation groups that are not there yet, and return their ids.

        Nothing is kept for a thread that was deleted and is still empty: its messages are
        gone. Nor is a group whose messages were all pruned along with its observations.

        Args:
            thread_id: The thread whose messages were observed; it is made if it is new.
            resource_id: The resource; `None` for none, or to leave it as it is.
            groups: Mappings with at least an `id`, unique in the thread.
            now: The current time, used as `observed_at` for groups without one.
            log: The ids of all groups that the thread's log has now; others of the thread are
                history, which no search finds. `None`: those told last, and these.
            deletion: As for `append`.
            observed: The key of the thread's newest observed message, `None` for none. `False`: the
                one told last.
            behind: The key expected before, so that another thread's late work is refused:
                if another key is stored by now, nothing is kept. `False`: it does not matter.

        Raises:
            ArchiveLacksError: As `append`.
            ConfigurationError: When the thread belongs to another resource.
        """
        check_time("now", now)
        rows: dict[str, dict[str, Any]] = {}
        for group in groups:
            check_name("id", group.get("id"))
            body = encode_json(group)
            at = _read_observed_at(group, now)
            rows.setdefault(group["id"], {"id": group["id"], "observed": at, "body": body})
        with self._writing("add groups") as connection:
            thread = lock_thread(connection, thread_id, resource_id, now, deletion=deletion)
            owner = thread.resource_id if resource_id is None else resource_id
            is_late = behind is not False and thread.observed != behind
            if is_late or is_left_of_deleted(connection, [thread_id], owner):
                connection.rollback()  # the thread's row too
                return []
            of_thread = select(group_rows.c.id).where(group_rows.c.thread_id == thread_id)
            found = fetch_in_chunks(connection, of_thread, group_rows.c.id, [*rows])
            known = {row.id for row in found}
            prunings = count_deletions(connection, None, [thread_id]).get((PRUNED, thread_id))
            if prunings:  # what is observed of gone messages goes, too
                is_its = message_rows.c.thread_id == thread_id
                gone = find_gone(connection, groups, is_its)
                known |= {group["id"] for group in groups if find_end(group) in gone}
            new = [row for group_id, row in rows.items() if group_id not in known]
            if new:
                _insert_groups(connection, thread_id, new)
                put_texts(connection, build_group_texts(thread_id, owner, new))
            if log is not None:
                _set_log(connection, thread_id, {*log})
            if observed is not False and observed != thread.observed:
                is_it = thread_rows.c.id == thread_id
                connection.execute(update(thread_rows).where(is_it).values(observed=observed))
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
        with self._reading("read groups") as connection:
            return [json.loads(body) for body in connection.execute(query).scalars()]

    def log_ids(self, resource_id: str) -> dict[str, list[str]]:
        """Return the ids of the groups that the logs of a resource's threads have.

        By thread, most recently observed first; each thread's newest group comes first.
        """
        place = group_rows.c
        query = (
            select(place.thread_id, place.id)
            .where(place.resource_id == resource_id, place.in_log)
            .order_by(place.observed.desc(), place.ordinal.desc())
        )
        found: dict[str, list[str]] = {}
        with self._reading("list groups") as connection:
            for thread_id, group_id in connection.execute(query):
                found.setdefault(thread_id, []).append(group_id)
        return found

    def read_groups(self, resource_id: str, ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return groups in the logs of a resource's threads, by thread, newest observed first.

        Each names its thread.
        """
        place = group_rows.c
        query = select(place.thread_id, place.body, place.observed, place.ordinal).where(
            place.resource_id == resource_id, place.in_log
        )
        with self._reading("read groups") as connection:
            rows = [*fetch_in_chunks(connection, query, place.id, [*ids])]
        found: dict[str, list[dict[str, Any]]] = {}
        for row in sorted(rows, key=lambda row: (row.observed, row.ordinal), reverse=True):
            group = {**json.loads(row.body), "thread_id": row.thread_id}
            found.setdefault(row.thread_id, []).append(group)
        return found

    # --- The logs of users -------------------------------------------------------------------

    def load_record(self, resource_id: str) -> tuple[dict[str, Any] | None, int]:
        """Return the record of a resource, `None` when there is none, and its revision.

        The revision of none grows with each deletion of the resource or of a thread of it, so that
        nobody who read it before a deletion begins a record after it.
        """
        query = select(record_rows).where(record_rows.c.resource_id == resource_id)
        with self._reading("load a record") as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None, _count_deletions(connection, resource_id)
        return json.loads(row.body), row.revision

    def commit_record(
        self, resource_id: str, record: Mapping[str, Any], *, expected: int, now: datetime
    ) -> bool:
        """Replace the record if its revision is still the expected one, and return whether it was.

        The record is then at revision `expected + 1`, which it has never had. A former record of
        another `generation` is kept as history.

        Args:
            record: The new record; its `generation` is an int.
            expected: The revision that the new record was computed from, as `load_record` told it.
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
            "body": encode_json(record),
        }
        with self._writing("commit a record") as connection:
            is_it = record_rows.c.resource_id == resource_id
            query = select(record_rows).where(is_it).with_for_update()
            former = connection.execute(query).one_or_none()
            if former is None:
                return _begin(connection, resource_id, list_threads(record), values, expected)
            if former.revision != expected:
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
        with self._reading("read the history of a record") as connection:
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


def _read_observed_at(group: Mapping[str, Any], now: datetime) -> datetime:
    """Return when a group was observed, as far as it says so."""
    try:
        at = datetime.fromisoformat(group["observed_at"])
    except (KeyError, TypeError, ValueError):
        return now
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def find_gone(
    connection: Connection, groups: Sequence[Mapping[str, Any]], of_whom: ColumnElement[bool]
) -> set[str]:
    """Return which of the newest messages of groups were pruned."""
    ends = {end for group in groups if (end := find_end(group)) is not None}
    query = select(message_rows.c.key).where(of_whom, message_rows.c.digest == GONE)
    return {row.key for row in fetch_in_chunks(connection, query, message_rows.c.key, [*ends])}


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


def _count_deletions(connection: Connection, resource_id: str) -> int:
    """Return a number that grows with each deletion of a resource or of one of its threads.

    It is above every revision that its record had.
    """
    of_resource = deletion_rows.c.resource_id == resource_id
    numbers = select(func.coalesce(func.sum(deletion_rows.c.number), 0)).where(of_resource)
    return int(connection.execute(numbers).scalar_one())


def _begin(
    connection: Connection,
    resource_id: str,
    threads: Iterable[str],
    values: Mapping[str, Any],
    expected: int,
) -> bool:
    """Insert the first record of a resource, where nothing was begun or deleted meanwhile."""
    hold_name(connection, "resource", resource_id)
    # Until the end of the transaction none of its threads is deleted.
    is_left = is_left_of_deleted(connection, [*threads], resource_id)
    if is_left or _count_deletions(connection, resource_id) != expected:
        return False
    first = insert(record_rows).values(resource_id=resource_id, **values)
    try:
        with connection.begin_nested():
            connection.execute(first)
    except IntegrityError:
        return False
    return True


_RECORD = ("resource_id", "revision", "generation", "begun", "committed", "body")


def rewrite_all(
    connection: Connection,
    resource_id: str,
    change: Callable[[dict[str, Any]], Mapping[str, Any]],
) -> None:
    """Change the record of a resource and all of its history.

    It gets a new revision, so that one computed from the former cannot be committed.
    """
    for table in (record_rows, history_rows):
        is_it = table.c.resource_id == resource_id
        query = select(table.c.revision, table.c.body).where(is_it).with_for_update()
        for revision, body in connection.execute(query).all():
            changed = update(table).where(is_it, table.c.revision == revision)
            if table is record_rows:
                changed = changed.values(revision=revision + 1)
            connection.execute(changed.values(body=encode_json(change(json.loads(body)))))
