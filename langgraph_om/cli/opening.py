"""Open the source that the command line names, with the packages that it needs."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from langgraph_om.cli.serializer import StrictSerializer
from langgraph_om.cli.sources import (
    ArchiveSource,
    CheckpointerSource,
    FileSource,
    ServerSource,
    Source,
    SourceError,
)
from langgraph_om.errors import ConfigurationError

_PASSWORDS = (re.compile(r"^[^:/]*:?/*[^:/@]*:(.*)@"), re.compile(r"password=([^&\s]*)"))
_JOINTS = re.compile(r"[@:/?#]")
_MIN_HIDDEN = 3
"""Characters of a part of a password that is hidden by itself; less stands in any text."""


@contextmanager
def open_source(
    *,
    url: str | None = None,
    checkpointer: str | None = None,
    archive: str | None = None,
    record: str | None = None,
    resource: str | None = None,
    graph: Any = None,
) -> Iterator[Source]:
    """Open the source that is named; exactly one of the first four is.

    Raises:
        SourceError: When a package is missing, or the place cannot be opened.
        ConfigurationError: When a URL cannot be meant.
    """
    with ExitStack() as stack:
        if record is not None:
            yield FileSource(Path(record))
        elif checkpointer is not None:
            yield CheckpointerSource(stack.enter_context(_open_saver(checkpointer)), graph)
        elif archive is not None:
            from langgraph_om.archive import SQLAlchemyArchive  # noqa: PLC0415 takes a while

            _check_file(archive, "om_schema")
            opened = SQLAlchemyArchive(archive)
            stack.callback(opened.close)
            yield ArchiveSource(opened, resource)
        else:
            yield ServerSource(stack.enter_context(_connect(str(url))))


@contextmanager
def _open_saver(place: str) -> Iterator[Any]:
    kind = place.partition(":")[0].partition("+")[0]
    try:
        if kind == "sqlite":
            from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 optional

            with SqliteSaver.from_conn_string(_check_file(place, "checkpoints")) as sqlite:
                yield _read_strictly(sqlite)
        elif kind in ("postgresql", "postgres"):
            from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 optional

            scheme, _, rest = place.partition("://")
            with PostgresSaver.from_conn_string(f"{scheme.partition('+')[0]}://{rest}") as postgres:
                _check_tables(postgres)
                yield _read_strictly(postgres)
        else:
            msg = (
                f"`--checkpointer` is {place!r}; pass sqlite:///path/to/file.db or "
                f"postgresql://user:password@host/database"
            )
            raise ConfigurationError(msg)
    except ImportError as error:
        package = f"langgraph-checkpoint-{'sqlite' if kind == 'sqlite' else 'postgres'}"
        msg = f"`--checkpointer {kind}:...` needs the package {package!r}: pip install {package}"
        raise SourceError(msg) from error


def _read_strictly(saver: Any) -> Any:
    """Let a checkpointer load messages and plain values alone.

    A checkpoint names the classes and functions to call when it is loaded, and somebody else may
    have written it. An object of any other class becomes the data that it was stored as.
    """
    saver.serde = StrictSerializer()
    # It logs the names that it refuses as the file has them.
    logging.getLogger("langgraph.checkpoint.serde").setLevel(logging.CRITICAL)
    return saver


def hide_password(text: str, place: str) -> str:
    """Return a text without the password of a URL.

    Drivers quote the part of a URL that they cannot read, and where the password has a `@`, `:` or
    `/` of its own, or the URL a slip, that is a part of the password.
    """
    words = [found for pattern in _PASSWORDS for found in pattern.findall(place)]
    parts = [part for word in words for part in _JOINTS.split(word) if len(part) >= _MIN_HIDDEN]
    for secret in sorted({*words, *map(unquote, words), *parts}, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text


def _check_tables(saver: Any) -> None:
    """Check that a PostgreSQL database has a checkpointer's tables.

    Raises:
        SourceError: When it has none.
    """
    with saver.conn.cursor() as cursor:
        cursor.execute("SELECT to_regclass('checkpoints')")
        [found] = cursor.fetchone().values()
    if found is None:
        msg = (
            "the database has no table 'checkpoints': no agent has written to it yet, or its "
            "checkpointer is elsewhere; `PostgresSaver.setup()` makes the tables"
        )
        raise SourceError(msg)


def _check_file(place: str, table: str) -> str:
    """Return the path of an SQLite database; what is not there is not made.

    Args:
        place: Its URL.
        table: One that it has where it is of the kind that is meant.

    Raises:
        SourceError: When there is no such file, or another kind of database in it.
    """
    if not place.startswith("sqlite"):
        return place
    path = place.partition("://")[2].removeprefix("/")
    if not Path(path).is_file():
        msg = f"{path!r} is no file; sqlite:///file.db is below this folder, sqlite:////file.db not"
        raise SourceError(msg)
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as opened:
        if not opened.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            kinds = "`--checkpointer` and `--archive` are two kinds of databases"
            msg = f"{path!r} has no table {table!r}: {kinds}, and nothing was written to this one"
            raise SourceError(msg)
    return path


def _connect(url: str) -> Any:
    try:
        from langgraph_sdk import get_sync_client  # noqa: PLC0415 optional
    except ImportError as error:
        msg = "`--url` needs the package 'langgraph-sdk': pip install langgraph-sdk"
        raise SourceError(msg) from error
    return get_sync_client(url=url)
