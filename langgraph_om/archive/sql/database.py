"""The database: made ready on first use, read and written in one short transaction a call.

Writers in SQLite take the write lock at once (`BEGIN IMMEDIATE`), so that two of them wait for each
other and never stand in each other's way; writers in PostgreSQL lock the rows they are about.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    Connection,
    Engine,
    Table,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import Float

from langgraph_om.archive.after_fork import begin_anew_after_fork
from langgraph_om.archive.sql.driver.engine import MAX_WAIT_SECONDS, check_dialect, make_engine
from langgraph_om.archive.sql.driver.prepared import is_direct, run_directly
from langgraph_om.archive.sql.schema import VERSION, metadata, schema_rows
from langgraph_om.archive.sql.search.index import is_index_in_order, put_index_in_order
from langgraph_om.errors import ArchiveError, ConfigurationError

_SETUP_LOCK = 0x6F6D5F736368656D
"""The key of PostgreSQL's advisory lock for making the tables."""


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
    del element, compiler, options
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_clock, "postgresql")
def _compile_for_postgresql(element: database_clock, compiler: Any, **options: Any) -> str:
    del element, compiler, options
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Start an insert to which `on_conflict_do_update` can be added."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


# --- Beginning -----------------------------------------------------------------------------------


_BOUND_WAITS = (
    f"SELECT set_config('lock_timeout', '{MAX_WAIT_SECONDS}s', true) "
    "WHERE current_setting('lock_timeout') = '0'"
)
"""Lets no lock of another be waited for without end; a limit of the user's own stays."""


class _Begin(NamedTuple):
    """How a transaction begins."""

    statement: str | None
    """What is executed first."""
    level: Literal["READ COMMITTED", "REPEATABLE READ"] | None = None
    """What the driver begins with."""


class _Begins(NamedTuple):
    read: _Begin
    write: _Begin


def _choose_begins(engine: Engine, *, is_own: bool) -> _Begins:
    """Choose how transactions begin: a reader sees one state, a writer locks what it looks at.

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
        engine = url_or_engine if isinstance(url_or_engine, Engine) else make_engine(url_or_engine)
        check_dialect(engine.dialect, repr(engine))
        self.engine = engine
        self._begins = _choose_begins(engine, is_own=self._is_own)
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
        self._make_ready(operation)
        return _Transaction(self.engine, self._begins.read, operation)

    def write(self, operation: str) -> AbstractContextManager[Connection]:
        """Open a transaction that writes; an exception undoes it.

        Args:
            operation: What it is for, in the words of an error: "the archive could not ...".

        Raises:
            ArchiveError: When the database fails.
        """
        self._make_ready(operation)
        return _Transaction(self.engine, self._begins.write, operation)

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

    def setup(self) -> None:
        """Make the tables, if they are not there.

        Raises:
            ArchiveError: When the database fails.
            ConfigurationError: When the tables are of another version.
        """
        self._make_ready("be set up")

    def close(self) -> None:
        """Close the connections, unless the engine is the caller's."""
        with self._lock:
            if self._is_own:
                self.engine.dispose()
            self._is_ready = False

    def _make_ready(self, operation: str) -> None:
        if self._is_ready:
            return
        with self._lock:
            if not self._is_ready:
                try:
                    if not self._is_set_up():
                        self._set_up()
                except ProgrammingError as error:
                    raise ArchiveError(_NO_TABLES.format(reason=error.orig)) from error
                except SQLAlchemyError as error:
                    raise _name_operation(operation, error) from error
                self._is_ready = True

    def _is_set_up(self) -> bool:
        with _Transaction(self.engine, self._begins.read) as connection:
            return _has_tables(connection) and is_index_in_order(connection)

    def _set_up(self) -> None:
        with _Transaction(self.engine, self._begins.write) as connection:
            if connection.dialect.name != "sqlite":  # where the writer is alone
                connection.execute(select(func.pg_advisory_xact_lock(_SETUP_LOCK)))
            if not _has_tables(connection):  # another process may have been faster
                _make_tables(connection)
            put_index_in_order(connection)


def _has_tables(connection: Connection) -> bool:
    """Return whether the tables are there.

    Raises:
        ConfigurationError: When they are of another version.
    """
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


def _make_tables(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(schema_rows).values(version=VERSION))


class _Transaction(AbstractContextManager[Connection, None]):
    """A transaction; it ends with the block, and an exception undoes it.

    A class, as a generator for each part of it takes longer than SQLite does.

    Args:
        engine: What connects to the database.
        begin: How it begins.
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
            if error is None:
                _commit(connection)
            else:
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
            if begin.statement is not None:
                _execute_first(connection, begin.statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _name(self, error: SQLAlchemyError) -> None:
        if self._operation:
            raise _name_operation(self._operation, error) from error


def _name_operation(operation: str, error: SQLAlchemyError) -> ArchiveError:
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


def _execute_first(connection: Connection, statement: str) -> None:
    raw: Any = connection.connection.dbapi_connection
    if is_direct(connection):
        run_directly(connection, statement)
    elif connection.dialect.name != "sqlite" or not raw.in_transaction:
        # A caller's engine for SQLite may have begun by its own means.
        connection.exec_driver_sql(statement)


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except BaseException:
        connection.rollback()  # or else it would be open for whoever has the connection next
        raise
