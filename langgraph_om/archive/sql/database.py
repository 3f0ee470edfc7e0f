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
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import Float

from langgraph_om.archive.protocol import begin_anew_after_fork
from langgraph_om.archive.sql.schema import (
    VERSION,
    is_index_in_order,
    metadata,
    put_index_in_order,
    schema_rows,
)
from langgraph_om.errors import ArchiveError, ConfigurationError

# The engine that connects to the database, made from a URL and set up for several writers.


MAX_WAIT_SECONDS = 30
"""How long a writer waits for others before it gives up, and anybody for a connection."""

_EXAMPLES = "'sqlite:///memory.db', 'postgresql://user@host/database'"


def make_engine(given: object) -> Engine:
    """Make an engine from a URL; it connects when it is first needed."""
    try:
        url = make_url(given if isinstance(given, str | URL) else "")
    except (ArgumentError, ValueError) as error:
        shown = re.sub(r":(/*).*@", r":\1***@", repr(given))  # no password in an error
        msg = f"`archive` is {shown}; pass a URL such as {_EXAMPLES}, or an SQLAlchemy Engine"
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
    return engine


def _choose_server_options(url: URL) -> dict[str, Any]:
    if url.get_driver_name() != "psycopg":
        return {"pool_pre_ping": True}  # a server may have been started anew
    # Behind a pooler such as PgBouncer, what one connection prepares another one would run.
    wanted = {"connect_timeout": MAX_WAIT_SECONDS, "prepare_threshold": None}
    arguments = {name: value for name, value in wanted.items() if name not in url.query}
    return {"isolation_level": "AUTOCOMMIT", "connect_args": arguments}  # we begin ourselves


def _choose_sqlite_options(url: URL) -> dict[str, Any]:
    file = url.database or ""
    if file and not file.startswith((":", "file:")) and not Path(file).absolute().parent.is_dir():
        msg = f"`archive` is {url!r}, whose folder is not there; make it, or pass another URL"
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
    return f"`archive` is {shown}, whose driver is missing ({error}); install it, or leave it out"


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


_SETUP_LOCK = 0x6F6D5F736368656D
"""The key of PostgreSQL's advisory lock for making the tables."""


_NOT_ALLOWED = "42501"
"""PostgreSQL's `insufficient_privilege`."""
_NO_TABLES = (
    "the archive's tables are not there, and this role cannot make them: {reason}; have them made "
    "once by a role that may, with SQLAlchemyArchive(url).setup()"
)
_TRACES = (
    "the archive has deleted the rows, and traces of their text are left in its file and in the "
    "log beside it (`-wal`), which could not be written anew: {reason}; delete once more"
)
_READER_PATIENCE = 5_000
"""Milliseconds that a deletion waits for readers of SQLite's log, while writers wait for it."""


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


# --- Beginning -----------------------------------------------------------------------------------


_BOUND_WAITS = (
    f"SELECT set_config('lock_timeout', '{MAX_WAIT_SECONDS}s', true) "
    "WHERE current_setting('lock_timeout') = '0'"
)
"""Lets no lock of another be waited for without end; a limit of the user's own stays."""


class _Begin(NamedTuple):
    statement: str | None
    """What is executed first."""
    level: Literal["READ COMMITTED", "REPEATABLE READ"] | None = None
    """What the driver begins with."""


def _choose_begins(engine: Engine, *, is_own: bool) -> tuple[_Begin, _Begin]:
    """Choose how transactions begin that read, and that write.

    A reader sees one state, and a writer locks what it looks at.
    Writers in PostgreSQL lock rows before they read them, for which the lower level is right: they
    then see what whoever had the lock has written.
    """
    if engine.dialect.name == "sqlite":
        # The driver would begin at the first write, too late for a lock.
        return _Begin("BEGIN"), _Begin("BEGIN IMMEDIATE")
    if is_own and engine.dialect.driver == "psycopg":
        # One way to the server and back, where ping, begin and limit would be three.
        return (
            _Begin(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_BOUND_WAITS}"),
            _Begin(f"BEGIN ISOLATION LEVEL READ COMMITTED; {_BOUND_WAITS}"),
        )
    bound = _BOUND_WAITS if is_own else None
    return _Begin(bound, "REPEATABLE READ"), _Begin(bound, "READ COMMITTED")


# --- Using ---------------------------------------------------------------------------------------


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
        self._begin_read, self._begin_write = _choose_begins(engine, is_own=self._is_own)
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

    def read(self, operation: str) -> AbstractContextManager[Connection]:
        """Open a transaction that sees one state of the database.

        Args:
            operation: What it is for, in the words of an error: "the archive could not ...".

        Raises:
            ArchiveError: When the database fails.
        """
        self.make_ready(operation)
        return _Transaction(self.engine, self._begin_read, operation)

    def write(self, operation: str) -> AbstractContextManager[Connection]:
        """Open a transaction that writes, as `read`; an exception undoes it.

        Raises:
            ArchiveError: When the database fails.
        """
        self.make_ready(operation)
        return _Transaction(self.engine, self._begin_write, operation)

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
            raise ArchiveError(_TRACES.format(reason="somebody else still reads it as it was"))

    def close(self) -> None:
        """Close the connections, unless the engine is the caller's or the database is in memory."""
        if self._is_own and not _is_in_memory(self.engine.url):
            self.engine.dispose()
            self._is_ready = False

    def make_ready(self, operation: str = "be set up") -> None:
        """Make the tables, if they are not there.

        Raises:
            ArchiveError: When the database fails.
            ConfigurationError: When the tables are of another version.
        """
        if self._is_ready:
            return
        with self._lock:
            if not self._is_ready:
                try:
                    if not self._is_set_up():
                        self._set_up()
                except SQLAlchemyError as error:
                    cause = error.orig if isinstance(error, DBAPIError) else None
                    if getattr(cause, "sqlstate", None) == _NOT_ALLOWED:
                        raise ArchiveError(_NO_TABLES.format(reason=cause)) from error
                    raise _name_operation(operation, error) from error
                self._is_ready = True

    def _is_set_up(self) -> bool:
        with _Transaction(self.engine, self._begin_read) as connection:
            return _has_tables(connection) and is_index_in_order(connection)

    def _set_up(self) -> None:
        with _Transaction(self.engine, self._begin_write) as connection:
            if connection.dialect.name != "sqlite":  # where the writer is alone
                connection.execute(select(func.pg_advisory_xact_lock(_SETUP_LOCK)))
            if not _has_tables(connection):  # another process may have been faster
                metadata.create_all(connection, checkfirst=False)
                connection.execute(insert(schema_rows).values(version=VERSION))
            put_index_in_order(connection)


def _has_tables(connection: Connection) -> bool:
    if not inspect(connection).has_table(schema_rows.name):
        return False
    version = connection.execute(select(schema_rows.c.version)).scalar()
    if version == VERSION:
        return True
    msg = (
        f"`archive` holds tables of version {version}, and this langgraph-om uses those of version "
        f"{VERSION}; install the langgraph-om that made them, or pass another database"
    )
    raise ConfigurationError(msg)


class _Transaction(AbstractContextManager[Connection, None]):
    """A transaction; it ends with the block, and an exception undoes it.

    A class, as a generator for each part of it takes longer than SQLite does.

    Args:
        operation: What it is for; a failure of the database is then an `ArchiveError` that says so.
    """

    __slots__ = ("_begin", "_connection", "_engine", "_operation")
    _connection: Connection

    def __init__(self, engine: Engine, begin: _Begin, operation: str = "") -> None:
        self._engine, self._begin, self._operation = engine, begin, operation

    def __enter__(self) -> Connection:
        try:
            try:
                self._connection = self._open()
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                # The server was started anew, or had closed what was idle; nothing is done yet.
                self._connection = self._open()
        except SQLAlchemyError as error:
            self._name(error)
            raise
        return self._connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connection = self._connection
        try:
            try:
                if error is None:
                    connection.commit()
            finally:  # or else it would be open for whoever has the connection next
                connection.rollback()
        except SQLAlchemyError as failure:
            self._name(failure)
            raise
        finally:
            connection.close()
        if isinstance(error, SQLAlchemyError):
            self._name(error)

    def _open(self) -> Connection:
        connection, begin = self._engine.connect(), self._begin
        try:
            if begin.level is not None:
                connection.execution_options(isolation_level=begin.level)
            connection.begin()
            raw: Any = connection.connection.dbapi_connection
            # A caller's engine for SQLite may have begun by its own means.
            is_begun = connection.dialect.name == "sqlite" and raw.in_transaction
            if begin.statement is not None and not is_begun:
                connection.exec_driver_sql(begin.statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _name(self, error: SQLAlchemyError) -> None:
        if self._operation:
            raise _name_operation(self._operation, error) from error


def _name_operation(operation: str, error: Exception) -> ArchiveError:
    reason = error.orig if isinstance(error, DBAPIError) else error
    return ArchiveError(f"the archive could not {operation}: {reason}")


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
