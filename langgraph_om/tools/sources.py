"""Sources of memories, for the command line and the inspector: opened, read and changed.

A graph with a checkpointer, a LangGraph server, or an archive.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from argparse import Namespace
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import StateGraph
from langgraph.pregel.remote import RemoteGraph

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.tables import read_moment, store_moment
from langgraph_om.core.content.dates import read_zone
from langgraph_om.core.record.record import (
    TITLE,
    blank_record,
    complete_record,
    log_tokens,
)
from langgraph_om.core.record.users_log import complete_log, to_record
from langgraph_om.core.wire import Steered
from langgraph_om.errors import ConfigurationError, SourceError
from langgraph_om.features.sharing import read_known
from langgraph_om.features.steering import act_on_items, list_actable
from langgraph_om.handle import Updates
from langgraph_om.integrations.state_graph import ObservationalMemoryState
from langgraph_om.models.retries import status_of
from langgraph_om.runtime.acting import GraphThread, Update
from langgraph_om.runtime.flows import afulfil, run_in_thread
from langgraph_om.runtime.run import values_of
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.tools.shown import list_usage

LISTED: Final = 200
"""How many threads are listed without an archive; only an archive can page through all."""
_PAGE, _PAGES = 200, 50
"""Checkpoints read at once to find the newest threads, and the most such reads."""
_UNKNOWN: Final = (400, 404, 422)
"""A server's answers for a thread that it does not have, or whose id is invalid."""

HISTORY: Final = 10
"""How many generations of a log a history shows."""

Change = Callable[[Any], Update]
"""Builds an update of `om` for a state."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread as a list shows it."""

    id: str
    title: str | None = None
    user: str | None = None
    updated: datetime | None = None
    messages: int | None = None
    message_tokens: int | None = None
    """Of unobserved messages as of its last step; `None` until its state has been read."""
    log_tokens: int = 0
    tokens_in: int = 0
    """What memory's models read."""
    tokens_out: int = 0
    mark: str = ""
    """Its place in the list, after which the next page begins."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which threads a list shows."""

    text: str = ""
    """In the title, the id or the user, ignoring case."""
    user: str = ""
    behind: str = ""
    """The mark of the thread after which the list begins; empty for its beginning."""

    def fits(self, thread: Thread) -> bool:
        """Return whether a thread is one of them."""
        said = "\n".join(filter(None, (thread.title, thread.id, thread.user)))
        return self.user in ("", thread.user) and self.text.casefold() in said.casefold()


class GraphSource:
    """The threads of a compiled graph with a checkpointer."""

    def __init__(self, graph: Any, runner: StepRunner, wait: float = 5.0) -> None:
        """Read a graph; a change waits up to `wait` seconds for a run of its thread."""
        self._graph, self._runner, self._wait = graph, runner, wait

    async def threads(self, wanted: Wanted) -> AsyncGenerator[Thread]:
        """Yield threads, newest first."""
        begin = read_number(wanted.behind) or 0
        # In one go, as some checkpointers answer nothing else while they list.
        found = await run_in_thread(_list_newest, self._graph.checkpointer)
        for number, thread in enumerate(found[begin:], begin + 1):
            state = await run_in_thread(self._graph.get_state, config_of(thread.id))
            listed = fill(replace(thread, mark=str(number)), state, self._runner.messages_key)
            if wanted.fits(listed):
                yield listed

    async def state(self, thread: str) -> Any:
        """Return a thread's newest state; `None` if there is no such thread."""
        found = await run_in_thread(self._graph.get_state, config_of(thread))
        return found if found.created_at else None

    async def version(self, thread: str) -> str | None:
        """Return a text that changes once a thread goes on; `None` if there is no such thread."""
        found = await run_in_thread(self._graph.checkpointer.get_tuple, config_of(thread))
        return None if found is None else str(found.config["configurable"]["checkpoint_id"])

    async def history(self, thread: str) -> Any:
        """Return its states, newest first."""
        place = GraphThread(self._runner, self._graph, config_of(thread))
        return await afulfil(place.list_generations(HISTORY))

    async def change(self, thread: str, build: Change) -> str:
        """Write an update of `om`, and return the id of the act."""
        place = GraphThread(self._runner, self._graph, config_of(thread), wait=self._wait)
        return await afulfil(place.act(build))


def _list_newest(saver: Any) -> list[Thread]:
    """Return the threads of a checkpointer, the newest first.

    Databases list the newest checkpoint first, and some read all they are asked for at once; the
    checkpointer in memory goes thread by thread.
    """
    found: dict[str, tuple[str, Thread]] = {}
    limit = None if isinstance(saver, InMemorySaver) else _PAGE
    before: Any = None
    for _ in range(_PAGES):
        page = list(saver.list(None, before=before, limit=limit))
        for entry in page:
            own = entry.config["configurable"]
            name = str(own["thread_id"])
            if name not in found and not own.get("checkpoint_ns"):
                updated = read_time(entry.checkpoint.get("ts"))
                found[name] = own["checkpoint_id"], Thread(name, updated=updated)
        if limit is None or len(page) < limit or len(found) >= LISTED:
            break
        before = page[-1].config
    newest = sorted(found.values(), key=lambda each: each[0], reverse=True)
    return [thread for _, thread in newest][:LISTED]


class ServerSource:
    """The threads of a LangGraph server, by its SDK's asynchronous client."""

    def __init__(self, client: Any, runner: StepRunner) -> None:
        """Read a server."""
        self._client, self._runner = client, runner

    @property
    def _threads(self) -> Any:
        transport = getattr(getattr(self._client, "http", None), "client", None)
        if getattr(getattr(transport, "_transport", None), "app", self) is None:
            msg = (
                "there is no LangGraph server in this process; pass `graph=...`, the agent's "
                "compiled graph with a checkpointer, or `client=...`, a server's async client"
            )
            raise ConfigurationError(msg)
        return self._client.threads

    async def threads(self, wanted: Wanted) -> AsyncGenerator[Thread]:
        """Yield threads, newest first."""
        begin = read_number(wanted.behind) or 0
        # So that not every state has to be read.
        asked = {"title": "values.om.thread_title", "user": "values.om.resource_id"}
        found = await self._threads.search(
            limit=LISTED, sort_by="updated_at", sort_order="desc", extract=asked
        )
        for number, own in enumerate(found[begin:], begin + 1):
            told: Mapping[str, Any] = own.get("extracted") or {}
            title, user = told.get("title"), told.get("user")
            listed = Thread(
                id=str(own["thread_id"]),
                title=title if isinstance(title, str) else None,
                user=user if isinstance(user, str) else None,
                updated=read_time(own.get("updated_at")),
                mark=str(number),
            )
            if wanted.fits(listed):
                yield listed

    async def state(self, thread: str) -> Any:
        """Return a thread's newest state; `None` if there is no such thread."""
        return await self._ask(self._threads.get_state(thread))

    async def version(self, thread: str) -> str | None:
        """Return a text that changes once a thread goes on; `None` if there is no such thread."""
        wanted = ["thread_id", "updated_at", "status"]
        found = await self._ask(self._threads.search(ids=[thread], select=wanted))
        return next((str(own) for own in found or () if own["thread_id"] == thread), None)

    async def history(self, thread: str) -> Any:
        """Return its states, newest first."""
        return await self._threads.get_history(thread, limit=1000)

    async def change(self, thread: str, build: Change) -> str:
        """Write an update of `om`, and return the id of the act."""
        graph = RemoteGraph("memory", client=self._client)  # the server knows which graph it is of
        return await afulfil(GraphThread(self._runner, graph, config_of(thread), wait=5).act(build))

    async def _ask(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except Exception as error:
            if status_of(error) in _UNKNOWN:
                return None
            raise


# --- The memory in an archive --------------------------------------------------------------------

_NO_RESOURCE: Final = "name a user or a thread: add --resource ID or --thread ID"
_GROUP: Final[Mapping[str, Any]] = {
    "kind": "observation",
    "ranges": [],
    "thread_id": None,
    "text": "",
    "tokens": 0,
    "observed_at": "",
}


@dataclass
class ArchiveSource:
    """The memory that an archive keeps: what is known of a user, and observations by thread."""

    archive: SQLAlchemyArchive
    resource: str | None = None
    """The user; other users' threads do not exist for it. `None`: any thread is read, no log."""

    async def threads(self, wanted: Wanted) -> AsyncGenerator[Thread]:
        """Yield threads, newest first."""
        if self.resource is None:
            raise SourceError(_NO_RESOURCE)
        async for thread in list_archived(self.archive, replace(wanted, user=self.resource)):
            yield thread

    async def state(self, thread: str) -> Any:
        """Return a thread's newest state; `None` if there is no such thread."""
        return await run_in_thread(self.read, thread)

    def read(self, thread: str) -> Mapping[str, Any] | None:
        """Return the state of a thread as far as the archive has it; for "", that of the user."""
        if not thread:
            log = self.read_log()
            if log is None:
                msg = (
                    f"the threads of {self.resource!r} do not share a log; pass --thread ID "
                    f"to read the observations of one thread"
                )
                raise SourceError(msg)
            return {"om": log, "messages": []}
        known = self.archive.thread(thread)
        if known is None or self.resource not in (None, known.resource_id):
            return None
        groups = self.archive.groups(thread_id=thread, limit=1000, in_log=True)
        messages = self.archive.messages(thread, limit=1000, newest_first=True)
        record: dict[str, Any] = {
            **blank_record(),
            "id": f"archive-{thread}",
            "thread_id": thread,
            TITLE: known.title,
            "resource_id": known.resource_id,
            "log": [{**_GROUP, **group} for group in reversed(groups)],
        }
        return {"om": record, "messages": [own.message for own in messages]}

    def read_log(self) -> Mapping[str, Any] | None:
        """Return what is known from all threads of the user; `None` if they do not share it."""
        if not self.resource:
            raise SourceError(_NO_RESOURCE)
        known = read_known(self.archive, self.resource)
        groups = [*known.log["log"], *reversed(known.groups)]
        return to_record({**known.log, "log": groups}, self.resource) if known.is_begun else None

    async def history(self, thread: str) -> Any:
        """Return its states, newest first."""
        if thread or not self.resource:
            return [{"values": self.read(thread), "created_at": None}]
        states = []
        for entry in self.archive.record_history(self.resource, limit=1000):
            record = to_record(complete_log(entry["record"]), self.resource)
            values = {"om": {**record, "id": self.resource}, "messages": []}
            states.append({"values": values, "created_at": str(entry["committed_at"])})
        return states

    async def change(self, thread: str, build: Change) -> str:
        """Write an update of `om`, and return the id of the act."""
        if thread:
            msg = (
                "an archive keeps a thread's past observations, not its memory; pass its "
                "`--checkpointer`, or `--resource ID`"
            )
            raise SourceError(msg)
        return await run_in_thread(self.change_log, build)

    def change_log(self, build: Change) -> str:
        """Apply a person's change to a user's observations, whichever thread has them."""
        if not self.resource:
            raise SourceError(_NO_RESOURCE)
        self.read("")  # refuses changes that no thread would look for
        record = to_record(list_actable(self.archive, self.resource), self.resource)
        update = build({"om": record, "messages": []})
        if any(event["type"] != "steered" for event in update):
            msg = "this changes one thread; pass its checkpointer or server, and add `--thread ID`"
            raise SourceError(msg)
        act_on_items(self.archive, self.resource, cast("list[Steered]", update), datetime.now(UTC))
        return str(update[0]["id"])


Source = GraphSource | ServerSource | ArchiveSource
"""What reads the memories of threads, and changes them."""


async def list_archived(archive: SQLAlchemyArchive, wanted: Wanted) -> AsyncGenerator[Thread]:
    """Yield the threads that an archive has, newest first, page by page."""
    at, _, name = wanted.behind.partition("~")
    micros = read_number(at)
    behind = None if micros is None or not name else (read_moment(micros), name)
    while True:
        found = await run_in_thread(
            archive.list_threads,
            text=wanted.text,
            resource_id=wanted.user or None,
            limit=LISTED,
            behind=behind,
        )
        for own in found:
            kept = own.thread
            behind = kept.updated, kept.id
            mark = f"{store_moment(kept.updated)}~{kept.id}"
            user = kept.resource_id
            yield Thread(kept.id, kept.title, user, kept.updated, own.messages, mark=mark)
        if len(found) < LISTED:
            return


_LONGEST_NUMBER: Final = 17
"""Digits of a number in a query: microseconds since 1970, up to the year 5138."""


# --- Open what the command line names: read strictly, make nothing -------------------------------


@asynccontextmanager
async def open_source(args: Namespace, graph: Any, runner: StepRunner) -> AsyncIterator[Source]:
    """Open the source that the arguments name.

    Raises:
        SourceError: When a package is missing, or the place cannot be opened.
        ConfigurationError: When a URL is invalid.
    """
    async with AsyncExitStack() as stack:
        if args.checkpointer is not None:
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
            f"there is no file {path!r}; sqlite:///file.db is relative to this folder, "
            f"and sqlite:////home/ana/file.db is absolute"
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


# --- What a person changes -----------------------------------------------------------------------


def build_update(updates: Updates, action: str, given: Mapping[str, Any], state: Any) -> Update:
    """Return the update of `om` that a command or a form asks for.

    Args:
        action: The name of the command, or of the form.
        given: What was written, by the names of the fields.
    """
    text, item = given.get("text") or "", given.get("item") or ""
    match action:
        case "remember":
            update = updates.remember(text, date=given.get("date"), state=state)
        case "correct":
            update = updates.correct(item, text, state=state)
        case "forget":
            update = updates.forget(item, state=state)
        case "pin":
            update = updates.pin(item, state=state)
        case "unpin":
            update = updates.unpin(item, state=state)
        case "undo":
            update = updates.undo(given.get("act") or None)
        case "title":
            update = updates.set_title(text or None)
        case _:
            msg = f"there is no change {action!r}"
            raise ConfigurationError(msg)
    return update


# --- What is told of a thread in a list ----------------------------------------------------------


def config_of(thread: str) -> Any:
    """Return the configuration that names a thread."""
    return {"configurable": {"thread_id": thread}}


def read_number(text: str) -> int | None:
    """Return a number of a query; `None` if it is none."""
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else None


def read_time(text: object) -> datetime | None:
    """Return the time of a checkpoint or of a server's thread; `None` if there is none."""
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else text
    except ValueError:
        return None
    if not isinstance(at, datetime):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


async def complete(source: Source, thread: Thread, messages_key: str) -> Thread:
    """Return a listed thread with all that its state tells."""
    if thread.message_tokens is not None:
        return thread
    return fill(thread, await source.state(thread.id), messages_key)


def fill(thread: Thread, state: Any, messages_key: str) -> Thread:
    """Return a listed thread with what its state tells; as it is if there is none."""
    values = values_of(state, messages_key)
    if not isinstance(values, Mapping):
        return thread
    record = complete_record(values.get("om") or {})
    said = values.get(messages_key)
    messages = len(said) if isinstance(said, list) else None
    zone = read_zone(record.get("timezone", "UTC"))
    usage = list_usage(record)
    return replace(
        thread,
        title=thread.title or record["thread_title"],
        user=thread.user or record["resource_id"],
        updated=thread.updated and thread.updated.astimezone(zone),
        messages=messages if thread.messages is None else thread.messages,
        message_tokens=sum(int(each[1]) for each in record["token_cache"]["counts"].values()),
        log_tokens=log_tokens(record),
        tokens_in=sum(read for _, _, read, _ in usage),
        tokens_out=sum(written for *_, written in usage),
    )
