"""Records of resources: the log that threads share, and its former generations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, insert, select, update
from sqlalchemy.exc import IntegrityError

from langgraph_om.archive.database import Database
from langgraph_om.archive.tables import deletion_rows, history_rows, record_rows
from langgraph_om.archive.values import check_time, encode_json
from langgraph_om.core.config.options import check_number
from langgraph_om.errors import ConfigurationError

_RECORD = ("resource_id", "revision", "generation", "begun", "committed", "body")


def rewrite_all(
    connection: Connection,
    resource_id: str,
    change: Callable[[dict[str, Any]], Mapping[str, Any]],
    **values: Any,
) -> None:
    """Change the record of a resource, with further values, and all of its history."""
    for table in (record_rows, history_rows):
        is_it = table.c.resource_id == resource_id
        query = select(table.c.revision, table.c.body).where(is_it).with_for_update()
        for revision, body in connection.execute(query).all():
            changed = update(table).where(is_it, table.c.revision == revision)
            if table is record_rows:
                changed = changed.values(revision=revision + 1, **values)
            connection.execute(changed.values(body=encode_json(change(json.loads(body)))))


class Records(Database):
    """The records of resources in an archive."""

    def load_record(self, resource_id: str) -> tuple[dict[str, Any] | None, int]:
        """Return the record of a resource and its revision, `(None, 0)` when there is none."""
        query = select(record_rows).where(record_rows.c.resource_id == resource_id)
        with self._reading("load a record") as connection:
            row = connection.execute(query).one_or_none()
        return (None, 0) if row is None else (json.loads(row.body), row.revision)

    def record_revision(self, resource_id: str) -> int:
        """Return the revision of the record of a resource, 0 when there is none."""
        query = select(record_rows.c.revision).where(record_rows.c.resource_id == resource_id)
        with self._reading("read a revision") as connection:
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
        with self._writing("rewrite records") as connection:
            rewrite_all(connection, resource_id, change, committed=now)

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
            "body": encode_json(record),
        }
        with self._writing("commit a record") as connection:
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
