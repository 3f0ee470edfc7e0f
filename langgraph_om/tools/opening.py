"""Open the place that the command line names: read strictly, make nothing, show no password."""

from __future__ import annotations

import logging
import re
import sqlite3
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import StateGraph

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.errors import ConfigurationError, SourceError
from langgraph_om.integrations.state_graph import ObservationalMemoryState
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.tools.sources import (
    ArchiveSource,
    FileSource,
    GraphSource,
    ServerSource,
    Source,
)


@asynccontextmanager
async def open_source(args: Namespace, graph: Any, runner: StepRunner) -> AsyncIterator[Source]:
    """Open the source that the arguments name.

    Raises:
        SourceError: When a package is missing, or the place cannot be opened.
        ConfigurationError: When a URL is invalid.
    """
    async with AsyncExitStack() as stack:
        if args.record is not None:
            yield FileSource(Path(args.record))
        elif args.checkpointer is not None:
            saver = _open_saver(args.checkpointer, stack)
            if graph is None:
                saver.serde = StrictSerializer()
                # LangGraph logs the names that this one refuses as the file has them.
                logging.getLogger("langgraph.checkpoint.serde").setLevel(logging.CRITICAL)
                builder = StateGraph(ObservationalMemoryState).add_node("read", lambda _: {})
                graph = builder.set_entry_point("read").compile()
            # The agent's own graph trusts its database, as in the agent.
            yield GraphSource(graph.copy(update={"checkpointer": saver}), runner, wait=0)
        elif args.archive is not None:
            archive = stack.enter_context(closing(open_archive(args.archive)))
            yield ArchiveSource(archive, args.resource)
        else:
            try:
                from langgraph_sdk import get_client  # noqa: PLC0415 optional
            except ImportError as error:
                msg = "`--url` needs the package 'langgraph-sdk': pip install langgraph-sdk"
                raise SourceError(msg) from error
            client = await stack.enter_async_context(get_client(url=args.url))
            yield ServerSource(client, runner)


def open_archive(url: str) -> SQLAlchemyArchive:
    """Open an archive that exists."""
    _check_file(url, "om_schema")
    return SQLAlchemyArchive(url)


def _open_saver(place: str, stack: AsyncExitStack) -> Any:
    kind = place.partition(":")[0].partition("+")[0]
    try:
        if kind == "sqlite":
            from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 optional

            path = _check_file(place, "checkpoints")
            saver: Any = stack.enter_context(SqliteSaver.from_conn_string(path))
        elif kind in ("postgresql", "postgres"):
            from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 optional

            scheme, _, rest = place.partition("://")
            url = f"{scheme.partition('+')[0]}://{rest}"
            saver = stack.enter_context(PostgresSaver.from_conn_string(url))
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
    return saver


def _check_file(place: str, table: str) -> str:
    """Return the path of an SQLite database that exists and has a table; others are not made."""
    if not place.startswith("sqlite"):
        return place
    path = place.partition("://")[2].removeprefix("/")
    if not Path(path).is_file():
        msg = (
            f"there is no file {path!r}; a path is relative to this folder in sqlite:///file.db, "
            f"and absolute in sqlite:////home/ana/file.db"
        )
        raise SourceError(msg)
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as opened:
        if not opened.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            kinds = "`--checkpointer` and `--archive` are different kinds of databases"
            msg = f"{path!r} has no table {table!r}: {kinds}, and nothing was written to this one"
            raise SourceError(msg)
    return path


# --- Read checkpoints that somebody else may have written ----------------------------------------
#
# LangGraph's own serializer imports and calls whatever a checkpoint names. An agent trusts its
# database; the command is also pointed at files that somebody sent.

_READ: Final = frozenset({"null", "bytes", "bytearray", "msgpack"})


class StrictSerializer(JsonPlusSerializer):
    """A serializer that reads plain values and messages, never code.

    An object of any other class becomes the data that it was stored as. The types of LangGraph's
    own strict list are read too: times, ids, paths, sets.
    """

    def __init__(self) -> None:
        # Without these arguments LangGraph allows every type, unless the environment forbids it.
        super().__init__(
            pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None
        )

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a stored value.

        Raises:
            SourceError: When only the agent's own serializer reads its form.
        """
        if data[0] not in _READ:
            msg = (
                f"the checkpoint has a value of the form {data[0]!r}, which the command does not "
                f"read, as it may be code or encrypted; read it with your agent's own checkpointer"
            )
            raise SourceError(msg)
        return super().loads_typed(data)


# --- Passwords -----------------------------------------------------------------------------------

_PASSWORDS: Final = (re.compile(r"^[^:/]*:?/*[^:/@]*:(.*)@"), re.compile(r"password=([^&\s]*)"))
_JOINTS: Final = re.compile(r"[@:/?#]")
_MIN_HIDDEN: Final = 3
"""Characters of a part of a password that is hidden by itself; shorter ones are in any text."""


def hide_password(text: str, place: str) -> str:
    """Return a text without the password of a URL.

    Drivers quote the part of a URL that they cannot read. If the password has a `@`, `:` or `/` of
    its own, or the URL a typo, that is a part of the password.
    """
    words = [found for pattern in _PASSWORDS for found in pattern.findall(place)]
    parts = [part for word in words for part in _JOINTS.split(word) if len(part) >= _MIN_HIDDEN]
    for secret in sorted({*words, *map(unquote, words), *parts}, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text
