"""Where the command reads a memory from: a file, a checkpointer, an archive, or a server."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote

from langchain_core import messages
from langchain_core.load.load import Reviver
from langgraph.checkpoint.serde.event_hooks import emit_serde_event, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from langgraph_om.core.record.fold import check_record, fold
from langgraph_om.core.record.record import complete_record, find_label
from langgraph_om.errors import ConfigurationError, SourceError
from langgraph_om.inspection import (
    ArchivedMemory,
    read_server_label,
    read_stored_label,
    server_labels,
)
from langgraph_om.integrations.state_graph import ObservationalMemoryState
from langgraph_om.runtime.acting import GraphThread
from langgraph_om.runtime.flows import fulfil
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.state import values_of


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """A conversation that a source has."""

    id: str
    title: str | None = None
    updated: str | None = None
    """ISO time."""


class Source(Protocol):
    """Reads memories, and writes updates of them where it can."""

    def threads(self, limit: int) -> list[ThreadInfo]:
        """Return conversations, newest first."""

    def state(self, name: str | None) -> Mapping[str, Any]:
        """Return a state with `om` and `messages`.

        Raises:
            SourceError: When there is none of that name.
        """

    def history(self, name: str | None) -> Any:
        """Return states, newest first."""

    def write(self, name: str | None, update: Sequence[Mapping[str, Any]]) -> None:
        """Write an update of `om`.

        Raises:
            SourceError: When this source cannot be written to.
        """


@dataclass
class FileSource(Source):
    """A file of JSON: a record, or a state that holds one as `om`."""

    path: Path

    def _read(self) -> dict[str, Any]:
        try:
            value = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValueError) as error:
            msg = f"{self.path} cannot be read as JSON: {error}"
            raise SourceError(msg) from error
        if not isinstance(value, dict):
            msg = f"{self.path} holds {type(value).__name__}; a record or a state is a JSON object"
            raise SourceError(msg)
        return value

    def threads(self, limit: int) -> list[ThreadInfo]:
        record = complete_record(self.state(None).get("om"))
        return [ThreadInfo(record["thread_id"], find_label(record))][:limit]

    def state(self, name: str | None) -> Mapping[str, Any]:
        values = values_of(self._read(), "messages")
        state = values if "om" in values else {"om": values, "messages": []}
        try:
            check_record(complete_record(state["om"]))
        except ConfigurationError as error:
            msg = f"{self.path} holds no memory record: {error}"
            raise SourceError(msg) from error
        return state

    def history(self, name: str | None) -> Any:
        return [{"values": self.state(name), "created_at": None}]

    def write(self, name: str | None, update: Sequence[Mapping[str, Any]]) -> None:
        stored = self._read()
        values = values_of(stored, "messages")
        if "om" in values:
            values["om"] = fold(values["om"], [update])
        else:
            stored = dict(fold(values, [update]))
        text = json.dumps(stored, ensure_ascii=False, indent=2)
        self.path.write_text(f"{text}\n", encoding="utf-8")


@dataclass
class CheckpointerSource(Source):
    """A checkpointer's database, read without the agent's own graph."""

    saver: Any
    runner: StepRunner
    graph: CompiledStateGraph[Any, Any, Any, Any] | None = None
    """The agent's graph, which writing needs: another one would lose its other channels."""
    _reader: CompiledStateGraph[Any, Any, Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        builder = StateGraph(ObservationalMemoryState)
        builder.add_node("read", lambda _: {})
        builder.set_entry_point("read")
        self._reader = builder.compile(checkpointer=self.saver)

    def threads(self, limit: int) -> list[ThreadInfo]:
        found: dict[str, Any] = {}
        for entry in self.saver.list(None):
            found.setdefault(str(entry.config["configurable"]["thread_id"]), entry.checkpoint)
            if len(found) == limit:
                break
        # Only then, as some checkpointers answer nothing else while they list.
        return [
            ThreadInfo(
                thread,
                read_stored_label(newest["channel_values"], partial(self.state, thread)),
                newest["ts"],
            )
            for thread, newest in found.items()
        ]

    def state(self, name: str | None) -> Mapping[str, Any]:
        snapshot = self._reader.get_state(_config_of(name))
        if not snapshot.created_at:
            msg = f"no thread {name!r} in the checkpointer; `langgraph-om list` names those it has"
            raise SourceError(msg)
        values: Mapping[str, Any] = snapshot.values
        return {"om": {}, "messages": [], **values}

    def history(self, name: str | None) -> Any:
        return self._reader.get_state_history(_config_of(name))

    def write(self, name: str | None, update: Sequence[Mapping[str, Any]]) -> None:
        if self.graph is None:
            msg = (
                "a checkpointer is written to by the agent's own graph alone, which knows its "
                "other channels; add `--graph package.module:graph`"
            )
            raise SourceError(msg)
        own, foreign = self.graph.copy(update={"checkpointer": self.saver}), set[str]()
        stop = register_serde_event_listener(lambda event: foreign.add(event["name"]))
        try:
            own.get_state(_config_of(name))
        finally:
            stop()
        if foreign:
            msg = (
                f"the thread holds objects of other classes ({', '.join(sorted(foreign))}), which "
                f"this command does not load and would not keep; write in your own program"
            )
            raise SourceError(msg)
        place = GraphThread(self.runner, own, _config_of(name), wait=0)
        fulfil(place.act(lambda _: [{**event} for event in update]))


def _config_of(name: str | None) -> Any:
    return {"configurable": {"thread_id": _need(name, "--thread ID")}}


@dataclass
class ArchiveSource(ArchivedMemory):
    """An archive: the shared log of a resource, or what it keeps of a thread."""

    def threads(self, limit: int) -> list[ThreadInfo]:
        threads, _ = self.archive.threads(_need(self.resource, "--resource ID"), limit=limit)
        return [ThreadInfo(own.id, own.title, own.updated.isoformat()) for own in threads]

    def write(self, name: str | None, update: Sequence[Mapping[str, Any]]) -> None:
        if name is not None:
            msg = (
                "an archive keeps what a thread once observed and is not its memory; name the "
                "checkpointer, or with a shared log `--resource ID`"
            )
            raise SourceError(msg)
        self.change(update)


@dataclass
class ServerSource(Source):
    """A LangGraph server."""

    client: Any

    def threads(self, limit: int) -> list[ThreadInfo]:
        found = self.client.threads.search(
            limit=limit, sort_by="updated_at", sort_order="desc", extract=server_labels()
        )
        return [
            ThreadInfo(own["thread_id"], read_server_label(own), str(own["updated_at"]))
            for own in found
        ]

    def state(self, name: str | None) -> Mapping[str, Any]:
        values = values_of(self.client.threads.get_state(_need(name, "--thread ID")), "messages")
        return {"om": {}, "messages": [], **(values or {})}

    def history(self, name: str | None) -> Any:
        return self.client.threads.get_history(_need(name, "--thread ID"), limit=1000)

    def write(self, name: str | None, update: Sequence[Mapping[str, Any]]) -> None:
        self.client.threads.update_state(_need(name, "--thread ID"), {"om": list(update)})


def _need(value: str | None, option: str) -> str:
    if value:
        return value
    msg = f"say which memory is meant: add {option}"
    raise SourceError(msg)


# Read checkpoints that somebody else may have written: plain values and messages, never code.
#
# LangGraph's own serializer imports and calls whatever a checkpoint names. An agent trusts its
# database; the command is also pointed at files that somebody sent.


_MESSAGES: Final = Reviver(
    allowed_objects=[
        messages.AIMessage,
        messages.AIMessageChunk,
        messages.ChatMessage,
        messages.ChatMessageChunk,
        messages.FunctionMessage,
        messages.FunctionMessageChunk,
        messages.HumanMessage,
        messages.HumanMessageChunk,
        messages.RemoveMessage,
        messages.SystemMessage,
        messages.SystemMessageChunk,
        messages.ToolMessage,
        messages.ToolMessageChunk,
    ]
)
_READ: Final = frozenset({"null", "bytes", "bytearray", "json", "msgpack"})


class StrictSerializer(JsonPlusSerializer):
    """A serializer that leaves what is neither a plain value nor a message as the data it is of.

    What the types of LangGraph's own strict list are made of is read too: times, ids, paths, sets.
    """

    def __init__(self) -> None:
        # Without them LangGraph allows every type, unless the environment says otherwise.
        super().__init__(
            pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None
        )

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a stored value.

        Raises:
            SourceError: When it is of a form that only the agent's own serializer reads.
        """
        form, stored = data
        if form not in _READ:
            msg = (
                f"the checkpoint has a value of the form {form!r}, which the command does not "
                f"read, as it may be code or encrypted; read it with your agent's own checkpointer"
            )
            raise SourceError(msg)
        if form == "json":  # of checkpoints from before msgpack
            return json.loads(stored, object_hook=_revive)
        return super().loads_typed(data)


def _revive(value: dict[str, Any]) -> Any:
    """Return the message that an object of JSON describes; another class as its data."""
    if "lc" not in value or value.get("type") != "constructor":
        return value
    try:
        return _MESSAGES(value) if value["lc"] == 1 else _note(value)
    except Exception:  # noqa: BLE001 another class, or arguments that are no message's
        return _note(value)


def _note(value: dict[str, Any]) -> dict[str, Any]:
    """Tell, as LangGraph does of msgpack, that an object was left as its data."""
    *module, name = map(str, value.get("id") or ["an object"])
    emit_serde_event({"kind": "json_blocked", "module": ".".join(module), "name": name})
    return value


# Open the source that the command line names, with the packages that it needs.


_PASSWORDS = (re.compile(r"^[^:/]*:?/*[^:/@]*:(.*)@"), re.compile(r"password=([^&\s]*)"))
_JOINTS = re.compile(r"[@:/?#]")
_MIN_HIDDEN = 3
"""Characters of a part of a password that is hidden by itself; less stands in any text."""


@contextmanager
def open_source(args: Namespace, graph: Any, runner: StepRunner) -> Iterator[Source]:
    """Open the source that the arguments name.

    Raises:
        SourceError: When a package is missing, or the place cannot be opened.
        ConfigurationError: When a URL cannot be meant.
    """
    with ExitStack() as stack:
        if args.record is not None:
            yield FileSource(Path(args.record))
        elif args.checkpointer is not None:
            saver = stack.enter_context(_open_saver(args.checkpointer))
            yield CheckpointerSource(saver, runner, graph)
        elif args.archive is not None:
            from langgraph_om.archive import SQLAlchemyArchive  # noqa: PLC0415 takes a while

            _check_file(args.archive, "om_schema")
            opened = SQLAlchemyArchive(args.archive)
            stack.callback(opened.close)
            yield ArchiveSource(opened, args.resource)
        else:
            try:
                from langgraph_sdk import get_sync_client  # noqa: PLC0415 optional
            except ImportError as error:
                msg = "`--url` needs the package 'langgraph-sdk': pip install langgraph-sdk"
                raise SourceError(msg) from error
            yield ServerSource(stack.enter_context(get_sync_client(url=args.url)))


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
    """Check that a PostgreSQL database has a checkpointer's tables."""
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
    """Return the path of an SQLite database; what is not there is not made."""
    if not place.startswith("sqlite"):
        return place
    path = place.partition("://")[2].removeprefix("/")
    if not Path(path).is_file():
        msg = (
            f"there is no file {path!r}; a path is from this folder in sqlite:///file.db, and from "
            f"the root in sqlite:////home/ana/file.db"
        )
        raise SourceError(msg)
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as opened:
        if not opened.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            kinds = "`--checkpointer` and `--archive` are two kinds of databases"
            msg = f"{path!r} has no table {table!r}: {kinds}, and nothing was written to this one"
            raise SourceError(msg)
    return path
