"""The statements of each step, written once; an SQLite of our own is given them directly.

To build a statement takes longer than to run it, and in SQLite, which answers at once, so does all
that SQLAlchemy does around it. Here it compiles a statement a single time and knows the types; the
rest is the driver's. A server is asked as usual, and so is the engine of a caller, or one whose
statements somebody listens to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import make_dataclass
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.types import TypeEngine

Values = Mapping[str, Any]
"""By name, what a statement is run with."""
StatementT = TypeVar("StatementT", Select[Any], UpdateBase)

IS_DIRECT: Final = "om_is_direct"
"""The option of an engine whose statements need nothing of SQLAlchemy."""
_DIALECT: Final = sqlite.dialect()
_LOGGER: Final = logging.getLogger("sqlalchemy.engine.Engine")
"""Where SQLAlchemy writes its statements, if somebody wants to read them."""


class _Form(NamedTuple):
    """A statement as SQLite's driver takes it."""

    sql: str
    takes: Sequence[Callable[[Values], Any]]
    """Per `?`, what takes from the values what stands there, as it is stored."""

    def bind(self, values: Values) -> list[Any]:
        """Return what stands for the question marks.

        Raises:
            StatementError: When a value cannot be stored.
        """
        try:
            return [take(values) for take in self.takes]
        except Exception as error:
            raise StatementError(str(error), self.sql, None, error, hide_parameters=True) from error


class _Prepared(Generic[StatementT]):
    def __init__(self, statement: StatementT) -> None:
        self.statement: StatementT = statement

    @cached_property
    def _form(self) -> _Form:
        compiled: Any = self.statement.compile(dialect=_DIALECT)
        takes = [_choose_take(name, compiled.binds[name]) for name in compiled.positiontup]
        return _Form(compiled.string, takes)


class Query(_Prepared[Select[Any]]):
    """A query that is built once and run in each step."""

    def fetch(self, connection: Connection, values: Values) -> list[Any]:
        """Return the rows."""
        if not is_direct(connection):
            return list(connection.execute(self.statement, values))
        rows = run_directly(connection, self._form.sql, self._form.bind(values))
        return [self._read(row) for row in rows]

    @cached_property
    def _read(self) -> Callable[[Sequence[Any]], Any]:
        columns = self.statement.selected_columns
        make: Any = make_dataclass("Row", [str(column.key) for column in columns], slots=True)
        reads = [_choose_read(column.type) for column in columns]

        def read(row: Sequence[Any]) -> Any:
            return make(*[each(value) for each, value in zip(reads, row, strict=True)])

        return read


class Change(_Prepared[UpdateBase]):
    """A change that is built once and made in each step."""

    def run(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Make the change for each row; nothing where there is none."""
        if not rows:
            return
        if not is_direct(connection):
            # A list of one would be sent as a batch, which takes more of the driver.
            connection.execute(self.statement, rows if len(rows) > 1 else rows[0])
            return
        values = [self._form.bind(row) for row in rows]
        run_directly(connection, self._form.sql, *values)


def is_direct(connection: Connection) -> bool:
    """Return whether statements are given to SQLite's driver as they are."""
    if not connection.get_execution_options().get(IS_DIRECT):
        return False
    hears = connection.engine.dispatch
    is_heard = hears.before_cursor_execute or hears.after_cursor_execute or hears.before_execute
    return not is_heard and not _LOGGER.isEnabledFor(logging.INFO)


def run_directly(connection: Connection, sql: str, *values: Sequence[Any]) -> list[Any]:
    """Run a statement of SQLite, once for each row of values, and return the rows that it finds.

    Raises:
        DBAPIError: When the database fails.
    """
    raw: Any = connection.connection.dbapi_connection
    try:
        # Rows are read here: the database may fail at each of them.
        many = len(values) > 1
        return (raw.executemany(sql, values) if many else raw.execute(sql, *values)).fetchall()  # type: ignore[no-any-return]
    except connection.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(sql, None, error, hide_parameters=True) from error


def _choose_take(name: str, bind: Any) -> Callable[[Values], Any]:
    store = bind.type.dialect_impl(_DIALECT).bind_processor(_DIALECT) or _leave
    if bind.required:
        return lambda values: store(values[name])
    known = store(bind.effective_value)  # a part of the statement
    return lambda _: known


def _choose_read(of: TypeEngine[Any]) -> Callable[[Any], Any]:
    read: Any = of.dialect_impl(_DIALECT).result_processor(_DIALECT, None)
    return read or _leave


def _leave(value: Any) -> Any:
    return value
