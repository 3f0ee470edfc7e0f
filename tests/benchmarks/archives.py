"""An archive of very many messages: rows as `append` would write them, loaded in large batches."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from databases import copy_rows
from sqlalchemy import text

from langgraph_om.archive.database import Database
from langgraph_om.archive.search import mark
from langgraph_om.archive.tables import message_rows, text_rows, thread_rows

BATCH = 10_000


class Thread(NamedTuple):
    """A thread to be loaded."""

    id: str
    user: str
    title: str | None
    created: datetime
    updated: datetime

    def row(self) -> dict[str, Any]:
        row = self._asdict()
        return {**row, "resource_id": row.pop("user")}


class Line(NamedTuple):
    """A message to be loaded, the `at`th of its thread."""

    thread: Thread
    at: int
    key: str
    parent: str | None
    role: str
    body: str
    words: str
    """Those that a search finds it by."""
    written: datetime

    def message(self) -> dict[str, Any]:
        node = digest(self.key)
        return {
            "thread_id": self.thread.id,
            "key": self.key,
            "position": self.at,
            "is_current": True,
            "node": node,
            "parent": digest(self.parent) if self.parent else None,
            "is_visible": True,
            "written": self.written,
            "digest": node,
            "body": self.body,
        }

    def text(self) -> dict[str, Any]:
        whose = {"thread": self.thread.id, "resource": self.thread.user, "role": self.role}
        marks = [mark(kind, name) for kind, name in whose.items()]
        return {
            "thread_id": self.thread.id,
            "kind": "message",
            "key": self.key,
            "piece": 0,
            "at": self.written,
            "words": " ".join((*marks, self.words)),
            "digest": digest(self.key),
        }


def digest(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def fill(url: str, threads: Iterable[Thread], lines: Iterator[Line]) -> float:
    """Load an archive that is set up, and return how many seconds it took."""
    began = time.perf_counter()
    with closing(Database(url)) as database:
        is_postgres = database.engine.dialect.name != "sqlite"
        if is_postgres:  # an index is built faster over all of it
            with database._writing("load") as connection:
                made = "SELECT indexdef FROM pg_indexes WHERE indexname = 'om_texts_keys'"
                index = connection.execute(text(made)).scalar_one()
                connection.execute(text("DROP INDEX om_texts_keys"))
        rows = (thread.row() for thread in threads)
        while batch := [*islice(rows, BATCH)]:
            with database._writing("load") as connection:
                copy_rows(connection, thread_rows, batch)
        while some := [*islice(lines, BATCH)]:
            with database._writing("load") as connection:
                copy_rows(connection, message_rows, [line.message() for line in some])
                copy_rows(connection, text_rows, [line.text() for line in some])
        if is_postgres:
            with database._writing("load") as connection:
                connection.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
                connection.exec_driver_sql(index)
            engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
            with engine.connect() as plain:
                plain.execute(text("VACUUM ANALYZE"))
    return time.perf_counter() - began


def lap(call: Callable[..., object], *arguments: object) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began
