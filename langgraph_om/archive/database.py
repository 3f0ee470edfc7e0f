"""The database: made ready on first use, read and written in one short transaction a call.

Writers in SQLite take the write lock at once (`BEGIN IMMEDIATE`), so that two of them wait for each
other and never stand in each other's way; writers in PostgreSQL lock the rows they are about.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import Float

from langgraph_om.archive.tables import VERSION, escape_text, metadata, schema_rows
from langgraph_om.archive.types import Deleted
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.forks import begin_anew_after_fork

# --- The engine that connects to the database, made from a URL and set up for several writers ----

MAX_WAIT_SECONDS = 30
"""How long a writer waits for others before it gives up, and anybody for a connection."""

_EXAMPLES = "'sqlite:///memory.db', 'postgresql://user@host/database'"


def make_engine(given: object) -> Engine:
    """Make an engine from a URL; it connects when it is first needed."""
    try:
        url = make_url(given if isinstance(given, str | URL) else "")
    except (ArgumentError, ValueError) as error:
        shown = re.sub(r":(/*).*@", r":\1***@", repr(given))  # no password in an error
        msg = f"`archive` is {shown}; pass a URL such as {_EXAMPLES}, or a SQLAlchemy Engine"
        raise ConfigurationError(msg) from error
    if url.password is not None and "@" in str(given).partition("@")[2]:
        # What is behind the first one would be taken for the host, and shown.
        msg = "`archive` is a URL with a second '@'; write one that is part of the password as %40"
        raise ConfigurationError(msg)
    if url.drivername in {"postgres", "postgresql"}:
        url = url.set(drivername="postgresql+psycopg")
    shown = repr(url.set(query={}))  # which may have a password, too
    try:
        check_dialect(url.get_dialect(), shown)
        is_sqlite = url.get_backend_name() == "sqlite"
        options = _choose_sqlite_options(url) if is_sqlite else _choose_server_options(url)
        engine = create_engine(url, hide_parameters=True, **options)
    except NoSuchModuleError as error:
        msg = f"`archive` is {shown}; pass a URL such as {_EXAMPLES}"
        raise ConfigurationError(msg) from error
    except ImportError as error:
        raise ConfigurationError(_describe_missing_driver(url, shown, error)) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    elif engine.dialect.driver == "psycopg":
        event.listen(engine, "connect", _prepare_psycopg)
    return engine


def _choose_server_options(url: URL) -> dict[str, Any]:
    options: dict[str, Any] = {"pool_pre_ping": True}  # a server may have been started anew
    if url.get_driver_name() == "psycopg":
        wanted = {"connect_timeout": MAX_WAIT_SECONDS, "prepare_threshold": None}
        options["connect_args"] = {k: value for k, value in wanted.items() if k not in url.query}
    return options


def _choose_sqlite_options(url: URL) -> dict[str, Any]:
    file = url.database or ""
    if file and not file.startswith((":", "file:")) and not Path(file).absolute().parent.is_dir():
        msg = f"`archive` is {url!r}, and its folder doesn't exist; create it, or pass another URL"
        raise ConfigurationError(msg)
    arguments: dict[str, Any] = {} if "timeout" in url.query else {"timeout": MAX_WAIT_SECONDS}
    options: dict[str, Any] = {"connect_args": arguments}
    if _is_in_memory(url):
        # A database in memory lives in its connection; threads take turns.
        arguments["check_same_thread"] = False
        options |= {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
    return options


def _is_in_memory(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and (
        url.database in {None, "", ":memory:"} or url.query.get("mode") == "memory"
    )


def check_dialect(dialect: Any, shown: str) -> None:
    """Refuse a database that the archive cannot use."""
    if dialect.is_async:
        msg = f"`archive` is {shown}, which is asynchronous; pass a URL such as {_EXAMPLES}"
        raise ConfigurationError(msg)
    if dialect.name not in {"sqlite", "postgresql"}:
        msg = f"`archive` is {shown}, which is neither SQLite nor PostgreSQL; pass {_EXAMPLES}"
        raise ConfigurationError(msg)


def _describe_missing_driver(url: URL, shown: str, error: ImportError) -> str:
    if url.get_driver_name() == "psycopg":
        return (
            f"`archive` is {shown}, which needs the package 'psycopg' ({error}); install it with "
            f"`pip install 'langgraph-om[postgres]'`"
        )
    return f"`archive` is {shown}, and its driver is missing ({error}); install it, or leave it out"


def _prepare_sqlite(connection: Any, record: object) -> None:
    """Set up a connection to SQLite: readers beside one writer, and no transaction by itself."""
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


_IS_DIRECT: Final = "om_is_direct"
"""The key under which a connection notes that no pooler is in between."""
_RUNS_BEFORE_PREPARED: Final = 5


def _prepare_psycopg(connection: Any, record: Any) -> None:
    """Prepare statements, and bound waits once, unless a pooler such as PgBouncer is in between.

    It hands each transaction another process of the server, and names none of them to the client.
    """
    process = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
    if process == connection.info.backend_pid:
        connection.execute(_bound_waits(is_local=False))
        connection.prepare_threshold = _RUNS_BEFORE_PREPARED
        record.info[_IS_DIRECT] = True
    connection.commit()


def _bound_waits(*, is_local: bool) -> str:
    """Return what bounds how long locks of others are waited for; a limit of the user's own stays.

    Args:
        is_local: Whether it holds in this transaction alone.
    """
    return (
        f"SELECT set_config('lock_timeout', '{MAX_WAIT_SECONDS}s', {is_local}) "
        "WHERE current_setting('lock_timeout') = '0'"
    )


# --- Where the two databases differ --------------------------------------------------------------


class database_clock(FunctionElement[float]):  # noqa: N801 - an SQL function
    """The seconds since 1970, by the clock of the database."""

    inherit_cache = True
    type = Float(53)


@compiles(database_clock, "sqlite")
def _compile_for_sqlite(element: database_clock, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_clock, "postgresql")
def _compile_for_postgresql(element: database_clock, compiler: Any, **options: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Start an insert to which `on_conflict_do_update` can be added."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def run_for_each(
    connection: Connection, statement: UpdateBase, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Run a statement once for each row of values."""
    if rows:
        connection.execute(statement, rows)


Row: TypeAlias = Any
"""A row of some columns, whose type differs between versions of SQLAlchemy."""

_CHUNK = 500
"""How many values one statement names; databases have a limit of some thousands."""


def split_into_chunks(values: list[str]) -> list[list[str]]:
    """Part values into lists that a statement can name."""
    rest = iter(values)
    return list(iter(lambda: list(islice(rest, _CHUNK)), []))


def fetch_in_chunks(
    connection: Connection, query: Select[Any], column: ColumnElement[str], values: list[str]
) -> Iterator[Row]:
    """Yield what a query finds that has one of these values in a column, however many they are."""
    for some in split_into_chunks(values):
        yield from connection.execute(query.where(column.in_(some)))


def hold_name(connection: Connection, kind: Deleted, key: str, *, deletes: bool = False) -> None:
    """Keep a deletion and what is written meanwhile apart where there is no row to lock.

    Until the end of the transaction. In SQLite a writer is alone.

    Args:
        deletes: Whether this is the deletion; else it may not begin, and others may write too.
    """
    if connection.dialect.name == "sqlite":
        return
    lock = func.pg_advisory_xact_lock if deletes else func.pg_advisory_xact_lock_shared
    name = f"om_{kind} {escape_text(key)}"
    connection.execute(select(lock(func.hashtextextended(name, 0))))


def delete_free(connection: Connection, table: Table, is_old: ColumnElement[bool]) -> int:
    """Delete rows but for those that somebody else is at, and return how many.

    It waits for nobody, so it is in nobody's way: no two transactions that hold several of these
    rows wait for each other.
    """
    key = tuple_(*table.primary_key)
    free = select(*table.primary_key).where(is_old).with_for_update(skip_locked=True)
    return connection.execute(delete(table).where(key.in_(free))).rowcount


# --- Using ---------------------------------------------------------------------------------------

_SETUP_LOCK = 0x6F6D5F736368656D
"""The key of PostgreSQL's advisory lock for making the tables."""
_NOT_ALLOWED = "42501"
"""PostgreSQL's `insufficient_privilege`."""
_NO_TABLES = (
    "the archive's tables don't exist, and this role can't create them: {reason}; create them "
    "once with a role that may: SQLAlchemyArchive(url).setup()"
)
_TRACES = (
    "the archive deleted the rows, but traces of their text remain in its file and in its "
    "`-wal` log, which could not be rewritten: {reason}; delete again"
)
_READER_PATIENCE = 5_000
"""Milliseconds that a deletion waits for readers of SQLite's log, while writers wait for it."""


class Database:
    """A database with the archive's tables in it.

    Attributes:
        engine: What connects to it.
    """

    def __init__(self, url_or_engine: str | Engine) -> None:
        self._is_own = not isinstance(url_or_engine, Engine)
        engine = url_or_engine if isinstance(url_or_engine, Engine) else make_engine(url_or_engine)
        check_dialect(engine.dialect, repr(engine))
        self.engine = engine
        self._is_ready = False
        self._lock = threading.Lock()
        begin_anew_after_fork(self)
        if self._is_own:
            # An archive that nobody closes leaves no open connection behind.
            weakref.finalize(self, engine.dispose).atexit = False

    def begin_anew(self) -> None:
        """Leave the parent's connections to the parent, unless the engine is the caller's."""
        self._lock = threading.Lock()
        if self._is_own:
            self.engine.dispose(close=False)
            self._is_ready = False

    @contextmanager
    def _reading(self, operation: str) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database.

        Args:
            operation: What it is for, in the words of an error: "the archive could not ...".

        Raises:
            ArchiveError: When the database fails.
        """
        self._make_ready(operation)
        with self._begin(operation, "REPEATABLE READ", "BEGIN") as connection:
            yield connection

    @contextmanager
    def _writing(self, operation: str) -> Iterator[Connection]:
        """Open a transaction that writes, as `_reading`; an exception undoes it.

        Raises:
            ArchiveError: When the database fails.
        """
        self._make_ready(operation)
        with self._begin(operation, "READ COMMITTED", "BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _begin(self, operation: str, level: str, begin: str) -> Iterator[Connection]:
        """Open a transaction.

        Args:
            level: How PostgreSQL isolates it. Writers lock rows before they read them, so that they
                see what whoever had the lock has written.
            begin: How it begins in SQLite, where the driver would begin at the first write, too
                late for a lock.
        """
        is_sqlite = self.engine.dialect.name == "sqlite"
        try:
            with self.engine.connect() as connection:
                if not is_sqlite:
                    connection.execution_options(isolation_level=level)
                with connection.begin():
                    raw: Any = connection.connection.dbapi_connection
                    if is_sqlite and not raw.in_transaction:  # a caller's engine may have begun
                        connection.exec_driver_sql(begin)
                    elif not is_sqlite and self._is_own and _IS_DIRECT not in connection.info:
                        connection.exec_driver_sql(_bound_waits(is_local=True))
                    yield connection
        except SQLAlchemyError as error:
            reason = error.orig if isinstance(error, DBAPIError) else error
            msg = f"the archive could not {operation}: {reason}"
            raise ArchiveError(msg) from error

    def wipe_deleted(self) -> None:
        """Take what is left of deleted text out of SQLite's file, and out of its log of changes.

        Pages keep copies of rows that were moved within them, which no setting overwrites: only a
        file that is written anew has none.

        Raises:
            ArchiveError: When somebody else needs the database as it was; the rows are gone.
        """
        if self.engine.dialect.name != "sqlite":
            return
        try:
            with self.engine.connect() as connection:
                is_done = _rewrite_file(connection)
        except (SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error) as error:
            raise ArchiveError(_TRACES.format(reason=error)) from error
        if not is_done:
            raise ArchiveError(
                _TRACES.format(reason="another connection still reads the old state")
            )

    def setup(self) -> None:
        """Prepare the storage. Every other call does so on first use; doing it again is harmless.

        Several processes may do it at once.
        """
        self._make_ready("be set up")

    def close(self) -> None:
        """Let go of connections, unless the engine is the caller's or the database is in memory."""
        if self._is_own and not _is_in_memory(self.engine.url):
            self.engine.dispose()
            self._is_ready = False

    def _make_ready(self, operation: str) -> None:
        """Make the tables, if they are not there.

        Raises:
            ArchiveError: When the database fails.
            ConfigurationError: When the tables are of another version.
        """
        if self._is_ready:
            return
        with self._lock:
            if not self._is_ready:
                with self._begin(operation, "READ COMMITTED", "BEGIN") as connection:
                    is_made = _has_tables(connection)
                if not is_made:
                    self._make_tables(operation)
                self._is_ready = True

    def _make_tables(self, operation: str) -> None:
        try:
            with self._begin(operation, "READ COMMITTED", "BEGIN IMMEDIATE") as connection:
                if connection.dialect.name != "sqlite":  # where the writer is alone
                    connection.execute(select(func.pg_advisory_xact_lock(_SETUP_LOCK)))
                if not _has_tables(connection):  # another process may have been faster
                    metadata.create_all(connection, checkfirst=False)
                    connection.execute(insert(schema_rows).values(version=VERSION))
        except ArchiveError as error:
            cause = getattr(error.__cause__, "orig", None)
            if getattr(cause, "sqlstate", None) == _NOT_ALLOWED:
                raise ArchiveError(_NO_TABLES.format(reason=cause)) from error
            raise


def _has_tables(connection: Connection) -> bool:
    if not inspect(connection).has_table(schema_rows.name):
        return False
    version = connection.execute(select(schema_rows.c.version)).scalar()
    if version == VERSION:
        return True
    msg = (
        f"`archive` holds tables of version {version}, and this langgraph-om uses those of version "
        f"{VERSION}; install that version of langgraph-om, or pass another database"
    )
    raise ConfigurationError(msg)


def _rewrite_file(connection: Connection) -> bool:
    """Write SQLite's file anew and empty its log; return whether no reader stood in the way."""
    raw: Any = connection.connection.dbapi_connection  # no transaction is open, nor begun by this
    if not any(file for _, _, file in raw.execute("PRAGMA database_list").fetchall()):
        return True  # it is in memory
    raw.execute("VACUUM").close()
    patience = raw.execute("PRAGMA busy_timeout").fetchone()[0]
    raw.execute(f"PRAGMA busy_timeout={min(patience, _READER_PATIENCE)}").close()
    try:
        is_busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        raw.execute(f"PRAGMA busy_timeout={patience}").close()
    return not is_busy
