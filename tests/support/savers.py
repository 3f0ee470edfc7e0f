"""Opens a checkpointer of each kind, so that a test can run over all of them.

A place is the path of an SQLite file or the URL of a PostgreSQL database. Opening the same place
again gives what was saved there, as after a restart; memory forgets and needs no place.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import uuid4

import psycopg
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langgraph.checkpoint.base import BaseCheckpointSaver

SaverKind = Literal["memory", "sqlite", "postgres"]
SAVER_KINDS: tuple[SaverKind, ...] = get_args(SaverKind)


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The libpq URL of an empty database of a PostgreSQL server, dropped at the end."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield server.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def open_saver(kind: SaverKind, place: str = "") -> Iterator[BaseCheckpointSaver[Any]]:
    """A checkpointer for synchronous graphs, with its tables set up."""
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "sqlite":
        with SqliteSaver.from_conn_string(place) as sqlite:
            yield sqlite
    else:
        with PostgresSaver.from_conn_string(place) as postgres:
            postgres.setup()
            yield postgres


@asynccontextmanager
async def open_async_saver(
    kind: SaverKind, place: str = ""
) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """A checkpointer for asynchronous graphs, with its tables set up."""
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "sqlite":
        async with AsyncSqliteSaver.from_conn_string(place) as sqlite:
            yield sqlite
    else:
        async with AsyncPostgresSaver.from_conn_string(place) as postgres:
            await postgres.setup()
            yield postgres
