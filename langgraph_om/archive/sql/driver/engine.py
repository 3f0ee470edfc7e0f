"""The engine that connects to the database, made from a URL and set up for several writers."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import QueuePool

from langgraph_om.archive.sql.driver.prepared import IS_DIRECT
from langgraph_om.errors import ConfigurationError

MAX_WAIT_SECONDS = 30
"""How long a writer waits for others before it gives up, and anybody for a connection."""

_EXAMPLES = "'sqlite:///memory.db', 'postgresql://user@host/database'"


def make_engine(given: object) -> Engine:
    """Make an engine from a URL; it connects when it is first needed.

    Raises:
        ConfigurationError: When the URL cannot be used, or its driver is not installed.
    """
    try:
        url = make_url(given if isinstance(given, str | URL) else "")
    except (ArgumentError, ValueError) as error:
        shown = re.sub(r":[^/].*@", ":***@", repr(given))  # no password in an error
        msg = f"`archive` is {shown}; pass a URL such as {_EXAMPLES}, or an SQLAlchemy Engine"
        raise ConfigurationError(msg) from error
    if url.drivername in {"postgres", "postgresql"}:
        url = url.set(drivername="postgresql+psycopg")
    try:
        check_dialect(url.get_dialect(), repr(url))
        is_sqlite = url.get_backend_name() == "sqlite"
        options = _choose_sqlite_options(url) if is_sqlite else _choose_server_options(url)
        engine = create_engine(url, hide_parameters=True, **options)
    except NoSuchModuleError as error:
        msg = f"`archive` is {url!r}; pass a URL such as {_EXAMPLES}"
        raise ConfigurationError(msg) from error
    except ImportError as error:
        raise ConfigurationError(_describe_missing_driver(url, error)) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _choose_server_options(url: URL) -> dict[str, Any]:
    if url.get_driver_name() != "psycopg":
        return {"pool_pre_ping": True}  # a server may have been started anew
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}  # we begin ourselves
    if "connect_timeout" not in url.query:
        options["connect_args"] = {"connect_timeout": MAX_WAIT_SECONDS}
    return options


def _choose_sqlite_options(url: URL) -> dict[str, Any]:
    file = url.database or ""
    if file and not file.startswith((":", "file:")) and not Path(file).absolute().parent.is_dir():
        msg = f"`archive` is {url!r}, whose folder is not there; make it, or pass another URL"
        raise ConfigurationError(msg)
    arguments: dict[str, Any] = {} if "timeout" in url.query else {"timeout": MAX_WAIT_SECONDS}
    options: dict[str, Any] = {"connect_args": arguments}
    if url.get_driver_name() == "pysqlite":  # whose connections are those of `sqlite3`
        options["execution_options"] = {IS_DIRECT: True}
    if url.database in {None, "", ":memory:"} or url.query.get("mode") == "memory":
        # A database in memory lives in its connection; threads take turns.
        arguments["check_same_thread"] = False
        options |= {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
    return options


def check_dialect(dialect: Any, shown: str) -> None:
    """Refuse a database that the archive cannot use.

    Args:
        dialect: SQLAlchemy's dialect.
        shown: The URL or engine, for the error.

    Raises:
        ConfigurationError: When it is asynchronous, or neither SQLite nor PostgreSQL.
    """
    if dialect.is_async:
        msg = f"`archive` is {shown}, which is asynchronous; pass a URL such as {_EXAMPLES}"
        raise ConfigurationError(msg)
    if dialect.name not in {"sqlite", "postgresql"}:
        msg = f"`archive` is {shown}, which is neither SQLite nor PostgreSQL; pass {_EXAMPLES}"
        raise ConfigurationError(msg)


def _describe_missing_driver(url: URL, error: ImportError) -> str:
    if url.get_driver_name() == "psycopg":
        return (
            f"`archive` is {url!r}, which needs the package 'psycopg' ({error}); install it with "
            f"`pip install 'langgraph-om[postgres]'`"
        )
    return f"`archive` is {url!r}, whose driver is missing ({error}); install it, or leave it out"


def _prepare_sqlite(connection: Any, record: object) -> None:
    """Set up a new connection to SQLite: readers beside one writer, and no transaction by itself.

    Raises:
        sqlite3.OperationalError: When the file is locked for too long.
    """
    del record
    connection.isolation_level = None
    cursor = connection.cursor()
    patience = cursor.execute("PRAGMA busy_timeout").fetchone()[0] / 1000
    give_up = time.monotonic() + patience
    while True:
        try:
            # Whoever switches a new file to WAL finds it locked by whoever does the same.
            cursor.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
    # What is archived may leave the checkpoint, so it has to outlast a loss of power.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    # What is deleted is overwritten, not only left out.
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.close()
