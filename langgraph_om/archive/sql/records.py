"""Observation groups, which only grow, and the records of resources, which one writer replaces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from langgraph_om.archive.sql.database import Database
from langgraph_om.archive.sql.schema import group_rows, history_rows, record_rows, thread_rows
from langgraph_om.archive.sql.texts import index_groups
from langgraph_om.archive.sql.threads import lock_thread, split_into_chunks
from langgraph_om.archive.sql.values import check_count, check_name, check_time, encode_json
from langgraph_om.errors import ConfigurationError


class SQLGroups:
    """The observation groups of an archive in SQL."""

    _database: Database

    def add_groups(
        self,
        thread_id: str,
        resource_id: str | None,
        groups: Sequence[Mapping[str, Any]],
        now: datetime,
        log: Sequence[str] | None = None,
    ) -> list[str]:
        """Keep the observation groups that are not there yet, and return their ids."""
        check_time("now", now)
        rows: dict[str, dict[str, Any]] = {}
        for group in groups:
            check_name("id", group.get("id"))
            body = encode_json(f"the group {group['id']!r}", group)
            observed = _read_observed_at(group, now)
            rows.setdefault(group["id"], {"id": group["id"], "observed": observed, "body": body})
        with self._database.write("add groups") as connection:
            thread = lock_thread(connection, thread_id, resource_id, now)
            known = _select_known_ids(connection, thread_id, [*rows])
            new = [row for group_id, row in rows.items() if group_id not in known]
            if new:
                _insert_groups(connection, thread_id, new)
                owner = thread.resource_id if resource_id is None else resource_id
                texts = [(row["id"], row["observed"], json.loads(row["body"])) for row in new]
                index_groups(connection, thread_id, owner, texts)
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
        """Return the groups of a thread or resource, newest observed first."""
        if thread_id is None and resource_id is None:
            msg = "`thread_id` and `resource_id` are None; pass at least one of them"
            raise ConfigurationError(msg)
        check_count("limit", limit)
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


def _read_observed_at(group: Mapping[str, Any], now: datetime) -> datetime:
    """Return when a group was observed, as far as it says so."""
    try:
        at = datetime.fromisoformat(group["observed_at"])
    except (KeyError, TypeError, ValueError):
        return now
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _select_known_ids(connection: Connection, thread_id: str, ids: list[str]) -> set[str]:
    known: set[str] = set()
    for some in split_into_chunks(ids):
        where = (group_rows.c.thread_id == thread_id, group_rows.c.id.in_(some))
        known.update(connection.execute(select(group_rows.c.id).where(*where)).scalars())
    return known


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


def _insert_record(connection: Connection, values: Mapping[str, Any]) -> bool:
    """Add the first record of a resource, unless there is one."""
    try:
        with connection.begin_nested():
            connection.execute(insert(record_rows).values(**values))
    except IntegrityError:
        return False
    return True


_RECORD = ("resource_id", "revision", "generation", "begun", "committed", "body")


class SQLRecords:
    """The records of resources in an archive in SQL."""

    _database: Database

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
        """Change the record of a resource and all of its history, the generations as they are."""
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
        """Replace the record if its revision is the expected one, and return whether it was."""
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
                return _insert_record(connection, {"resource_id": resource_id, **values})
            is_it = record_rows.c.resource_id == resource_id
            query = select(record_rows).where(is_it).with_for_update()
            former = connection.execute(query).one_or_none()
            if former is None or former.revision != expected:
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
        """Return the last record of each generation, newest first, the current one included."""
        check_count("limit", limit)
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
