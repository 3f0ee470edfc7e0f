"""The database: how it is reached, made ready, read and written, one short transaction a call.

Writers in SQLite take the write lock at once (`BEGIN IMMEDIATE`), so that two of them wait for each
other and never stand in each other's way; writers in PostgreSQL lock the rows they are about.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import Float

from langgraph_om.archive.sql.migrations import VERSION, migrate, read_version
from langgraph_om.errors import ArchiveError, ConfigurationError

_PATIENCE = 30
"""Seconds that a writer waits for others before it gives up, and anybody for a connection."""

_SETUP_LOCK = 0x6F6D5F736368656D
"""The key of PostgreSQL's advisory lock for migrations."""


# --- What the two databases say differently ------------------------------------------------------


class database_clock(FunctionElement[float]):  # noqa: N801 - an SQL function
    """The seconds since 1970, by the clock of the database."""

    inherit_cache = True
    type = Float(53)


@compiles(database_clock, "sqlite")
def _sqlite_clock(element: database_clock, compiler: Any, **options: Any) -> str:
    del element, compiler, options
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_clock, "postgresql")
def _postgresql_clock(element: database_clock, compiler: Any, **options: Any) -> str:
    del element, compiler, options
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Start an insert that can say what happens when the row is there already."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


# --- Opening -------------------------------------------------------------------------------------

_EXAMPLES = "'sqlite:///memory.db', 'postgresql://user@host/database'"


def _open(given: object) -> Engine:
    """Make an engine, which connects when it is first needed.

    Raises:
        ConfigurationError: When the URL cannot be used, or its driver is not installed.
    """
    try:
        url = make_url(given if isinstance(given, str | URL) else "")
    except (ArgumentError, ValueError) as error:
        shown = re.sub(r":[^:/@]*@", ":***@", repr(given))  # no password in an error
        msg = f"`archive` is {shown}; write a URL such as {_EXAMPLES}, or an SQLAlchemy Engine"
        raise ConfigurationError(msg) from error
    if url.drivername in {"postgres", "postgresql"}:
        url = url.set(drivername="postgresql+psycopg")
    try:
        _check_dialect(url.get_dialect(), repr(url))
        options = (
            _sqlite_options(url) if url.get_backend_name() == "sqlite" else _server_options(url)
        )
        engine = create_engine(url, hide_parameters=True, **options)
    except NoSuchModuleError as error:
        msg = f"`archive` is {url!r}; write a URL such as {_EXAMPLES}"
        raise ConfigurationError(msg) from error
    except ImportError as error:
        raise ConfigurationError(_missing_driver(url, error)) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    return engine


_BOUND_WAITS = (
    f"SELECT set_config('lock_timeout', '{_PATIENCE}s', true) "
    "WHERE current_setting('lock_timeout') = '0'"
)
"""Lets no lock of another be waited for without end; a limit of the user's own stays."""


def _server_options(url: URL) -> dict[str, Any]:
    if url.get_driver_name() != "psycopg":
        return {"pool_pre_ping": True}  # a server may have been started anew
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}  # we begin ourselves
    if "connect_timeout" not in url.query:
        options["connect_args"] = {"connect_timeout": _PATIENCE}
    return options


def _sqlite_options(url: URL) -> dict[str, Any]:
    arguments: dict[str, Any] = {} if "timeout" in url.query else {"timeout": _PATIENCE}
    options: dict[str, Any] = {"connect_args": arguments}
    if url.database in {None, "", ":memory:"} or url.query.get("mode") == "memory":
        # A database in memory lives in its connection; threads take turns.
        arguments["check_same_thread"] = False
        options |= {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
    return options


def _check_dialect(dialect: Any, shown: str) -> None:
    if dialect.is_async:
        msg = f"`archive` is {shown}, which is asynchronous; write a URL such as {_EXAMPLES}"
        raise ConfigurationError(msg)
    if dialect.name not in {"sqlite", "postgresql"}:
        msg = f"`archive` is {shown}, which is neither SQLite nor PostgreSQL; write {_EXAMPLES}"
        raise ConfigurationError(msg)


def _missing_driver(url: URL, error: ImportError) -> str:
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
    cursor.close()


# --- Beginning -----------------------------------------------------------------------------------


class _Begin(NamedTuple):
    """How a transaction begins."""

    statement: str | None
    """What is executed first."""
    level: Literal["READ COMMITTED", "REPEATABLE READ"] | None = None
    """What the driver begins with."""


class _Begins(NamedTuple):
    read: _Begin
    write: _Begin


def _how_to_begin(engine: Engine, *, is_own: bool) -> _Begins:
    """Tell how to begin: a reader sees one state, a writer locks what it looks at.

    Writers in PostgreSQL lock rows before they read them, for which the lower level is right: they
    then see what whoever had the lock has written.
    """
    if engine.dialect.name == "sqlite":
        # The driver would begin at the first write, too late for a lock.
        return _Begins(_Begin("BEGIN"), _Begin("BEGIN IMMEDIATE"))
    if is_own and engine.dialect.driver == "psycopg":
        # One way to the server and back, where ping, begin and limit would be three.
        return _Begins(
            _Begin(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_BOUND_WAITS}"),
            _Begin(f"BEGIN ISOLATION LEVEL READ COMMITTED; {_BOUND_WAITS}"),
        )
    bound = _BOUND_WAITS if is_own else None
    return _Begins(_Begin(bound, "REPEATABLE READ"), _Begin(bound, "READ COMMITTED"))


# --- Using ---------------------------------------------------------------------------------------


class Database:
    """A database with the archive's tables in it.

    Attributes:
        engine: What connects to it.
    """

    def __init__(self, url_or_engine: str | Engine) -> None:
        self._is_own = not isinstance(url_or_engine, Engine)
        engine = url_or_engine if isinstance(url_or_engine, Engine) else _open(url_or_engine)
        _check_dialect(engine.dialect, repr(engine))
        self.engine = engine
        self._begins = _how_to_begin(engine, is_own=self._is_own)
        self._is_ready = False
        self._lock = threading.Lock()
        self._process = os.getpid()

    @contextmanager
    def read(self, operation: str) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database.

        Args:
            operation: What it is for, in the words of an error: "the archive could not ...".

        Raises:
            ArchiveError: When the database fails.
        """
        with _errors_of(operation):
            self._make_ready()
            with self._transaction(self._begins.read) as connection:
                yield connection

    @contextmanager
    def write(self, operation: str) -> Iterator[Connection]:
        """Open a transaction that writes; an exception undoes it.

        Args:
            operation: What it is for, in the words of an error: "the archive could not ...".

        Raises:
            ArchiveError: When the database fails.
        """
        with _errors_of(operation):
            self._make_ready()
            with self._transaction(self._begins.write) as connection:
                yield connection

    def setup(self) -> None:
        """Make the tables, or bring them to the present version.

        Raises:
            ArchiveError: When the database fails.
            ConfigurationError: When the tables are of a later version.
        """
        with _errors_of("be set up"):
            self._make_ready()

    def close(self) -> None:
        """Close the connections, unless the engine is the caller's."""
        with self._lock:
            if self._is_own:
                self.engine.dispose()
            self._is_ready = False

    @contextmanager
    def _transaction(self, begin: _Begin) -> Iterator[Connection]:
        with ExitStack() as stack:
            try:
                connection = self._begun(stack, begin)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                # The server was started anew, or had closed what was idle; nothing is done yet.
                connection = self._begun(stack, begin)
            yield connection

    def _begun(self, stack: ExitStack, begin: _Begin) -> Connection:
        """Begin a transaction that ends with the stack."""
        with ExitStack() as attempt:
            connection = attempt.enter_context(self.engine.connect())
            if begin.level is not None:
                connection.execution_options(isolation_level=begin.level)
            attempt.enter_context(connection.begin())
            # A caller's engine for SQLite may have begun by its own means.
            raw: Any = connection.connection.dbapi_connection
            is_begun = connection.dialect.name == "sqlite" and raw.in_transaction
            if begin.statement is not None and not is_begun:
                connection.exec_driver_sql(begin.statement)
            stack.push(attempt.pop_all())
        return connection

    def _make_ready(self) -> None:
        if self._is_own and self._process != os.getpid():
            # A forked process must not speak through its parent's connections.
            self.engine.dispose(close=False)
            self._process = os.getpid()
        if self._is_ready:
            return
        with self._lock:
            if not self._is_ready:
                if not self._is_current():
                    self._migrate()
                self._is_ready = True

    def _is_current(self) -> bool:
        with self._transaction(self._begins.read) as connection:
            return read_version(connection) == VERSION

    def _migrate(self) -> None:
        with self._transaction(self._begins.write) as connection:
            if connection.dialect.name != "sqlite":  # where the writer is alone
                connection.execute(select(func.pg_advisory_xact_lock(_SETUP_LOCK)))
            migrate(connection)  # which looks again: another process may have been faster


@contextmanager
def _errors_of(operation: str) -> Iterator[None]:
    """Say what was being done when the database failed.

    Raises:
        ArchiveError: When it did.
    """
    try:
        yield
    except SQLAlchemyError as error:
        reason = error.orig if isinstance(error, DBAPIError) else error
        msg = f"the archive could not {operation}: {reason}"
        raise ArchiveError(msg) from error
