"""Threads that the inspector shows: of a graph in this process, of a server, of an archive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from operator import add
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from langgraph.pregel.remote import RemoteGraph

from langgraph_om.archive import ArchivedThread
from langgraph_om.core.content.dates import read_zone
from langgraph_om.core.record.record import complete_record, find_label, log_tokens
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.inspection import read_server_label, read_stored_label, server_labels
from langgraph_om.models.retries import status_of
from langgraph_om.runtime.acting import GraphThread
from langgraph_om.runtime.flows import afulfil
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.state import values_of

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

_UNKNOWN: Final = (404, 422)
"""Answers of a server about a thread that it does not have, or whose id it cannot have."""
_NEWEST = 20_000
"""Checkpoints that are looked through for threads."""
_BUSY: Final = 5.0
"""Seconds that a change waits for a run of its thread."""
_PAGE = 100
"""Threads that are read at once."""


class Figures(NamedTuple):
    """How large a thread and its memory are, as of its last step, in tokens."""

    messages_tokens: int
    """Of the messages that are not observed yet."""
    log_tokens: int
    """Of the observations."""
    tokens_in: int
    """That memory's models read."""
    tokens_out: int
    """That memory's models wrote."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A thread as the list shows it."""

    id: str
    mark: str
    """Its place in the list, behind which the next page begins."""
    title: str | None = None
    user: str | None = None
    updated: datetime | None = None
    messages: int | None = None
    figures: Figures | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which threads a list shows."""

    text: str = ""
    """In the title, the id or the user, in any case."""
    user: str = ""
    """The resource that they belong to; empty for all."""
    behind: str = ""
    """The mark of the thread behind which the list begins; empty for its beginning."""

    def fits(self, thread: Listed) -> bool:
        """Tell whether a thread is one of them."""
        if self.user and thread.user != self.user:
            return False
        said = "\n".join(filter(None, (thread.title, thread.id, thread.user)))
        return self.text.casefold() in said.casefold()


class Threads(Protocol):
    """Reads and writes states."""

    def names(self, wanted: Wanted) -> AsyncGenerator[Listed | None]:
        """Yield the threads, newest first; `None` last where older ones were not looked for."""

    async def complete(self, thread: Listed) -> Listed:
        """Return a thread of the list with all that can be told of it."""

    async def state(self, thread: str) -> Any:
        """Return the newest state of a thread; `None` where there is no such thread."""

    async def history(self, thread: str) -> Any:
        """Return its states, newest first."""

    async def version(self, thread: str) -> str | None:
        """Return what changes when the thread does; `None` where there is no such thread."""

    async def write(self, thread: str, update: Sequence[Any]) -> None:
        """Write an update of `om`."""


class GraphThreads(Threads):
    """The threads of a compiled graph with a checkpointer."""

    def __init__(self, graph: Any, runner: StepRunner) -> None:
        self._graph, self._runner, self._key = graph, runner, runner.messages_key

    async def names(self, wanted: Wanted) -> AsyncGenerator[Listed | None]:
        number, begin = 0, read_number(wanted.behind) or 0
        pages, yielded, rest = _PAGE, set[str](), "more"
        while rest == "more":
            # In one go, as some checkpointers answer nothing else while they list.
            found, rest = await asyncio.to_thread(_read_newest, self._graph.checkpointer, pages)
            for key, entry in sorted(found.items(), key=lambda own: own[1].id, reverse=True):
                if key in yielded:
                    continue
                number += 1
                if number > begin:
                    listed = await asyncio.to_thread(self._list, key, entry, str(number))
                    if wanted.fits(listed):
                        yield listed
            yielded |= found.keys()
            pages *= 4
        if rest == "cut":
            yield None

    def _list(self, thread: str, entry: _Entry, mark: str) -> Listed:
        """Return a thread of which the newest checkpoint is at hand."""
        channels = entry.channels
        read = partial(self._read_values, thread)
        if not isinstance(channels.get("om"), Mapping):
            channels = read()  # the checkpoint holds only what changed
        record = complete_record(channels.get("om") or {})
        said = channels.get(self._key)
        return Listed(
            thread,
            mark,
            read_stored_label(channels, read),
            record["resource_id"],
            _at_users_time(entry.updated, record),
            len(said) if isinstance(said, list) else None,
            read_figures(record),
        )

    def _read_values(self, thread: str) -> Any:
        return self._graph.get_state(_config_of(thread)).values

    async def complete(self, thread: Listed) -> Listed:
        if thread.figures is not None:
            return thread
        return fill(thread, await self.state(thread.id), self._key)

    async def state(self, thread: str) -> Any:
        found = await asyncio.to_thread(self._graph.get_state, _config_of(thread))
        return found if found.created_at else None

    async def history(self, thread: str) -> Any:
        config = _config_of(thread)
        return await asyncio.to_thread(lambda: list(self._graph.get_state_history(config)))

    async def version(self, thread: str) -> str | None:
        found = await asyncio.to_thread(self._graph.checkpointer.get_tuple, _config_of(thread))
        return None if found is None else str(found.config["configurable"]["checkpoint_id"])

    async def write(self, thread: str, update: Sequence[Any]) -> None:
        await _write(self._runner, self._graph, thread, update)


_NO_SERVER: Final = (
    "`memory_app` was given no graph, so it asks the LangGraph server that it runs in, and none "
    "runs in this process. Pass `graph=...`, the agent's compiled graph with its checkpointer, or "
    "`client=...`, a server's asynchronous client"
)


class ServerThreads(Threads):
    """The threads of a LangGraph server, by its SDK's asynchronous client."""

    def __init__(self, client: Any, runner: StepRunner) -> None:
        self._client, self._runner, self._key = client, runner, runner.messages_key

    @property
    def _asked(self) -> Any:
        """The client's threads.

        Raises:
            ConfigurationError: When there is no server in this process that it could ask.
        """
        transport = getattr(getattr(self._client, "http", None), "client", None)
        if getattr(getattr(transport, "_transport", None), "app", self) is None:
            raise ConfigurationError(_NO_SERVER)
        return self._client.threads

    async def names(self, wanted: Wanted) -> AsyncGenerator[Listed | None]:
        offset = read_number(wanted.behind) or 0
        while True:
            found = await self._asked.search(
                limit=_PAGE,
                offset=offset,
                sort_by="updated_at",
                sort_order="desc",
                extract={**server_labels(), "user": "values.om.resource_id"},
            )
            for number, own in enumerate(found, start=offset + 1):
                user = (own.get("extracted") or {}).get("user")
                listed = Listed(
                    str(own["thread_id"]),
                    str(number),
                    read_server_label(own),
                    user if isinstance(user, str) else None,
                    _read_time(own.get("updated_at")),
                )
                if wanted.fits(listed):
                    yield listed
            if len(found) < _PAGE:
                return
            offset += _PAGE

    async def complete(self, thread: Listed) -> Listed:
        return fill(thread, await self.state(thread.id), self._key)

    async def state(self, thread: str) -> Any:
        return await self._ask(self._asked.get_state, thread)

    async def history(self, thread: str) -> Any:
        return await self._asked.get_history(thread, limit=1000)

    async def version(self, thread: str) -> str | None:
        found = await self._ask(self._asked.get, thread)
        return None if found is None else f"{found.get('updated_at')} {found.get('status')}"

    async def write(self, thread: str, update: Sequence[Any]) -> None:
        # Which of its graphs a thread belongs to, the server knows.
        await _write(self._runner, RemoteGraph("memory", client=self._client), thread, update)

    async def _ask(self, ask: Callable[[str], Any], thread: str) -> Any:
        """Ask the server about a thread; `None` where it has none of this id."""
        try:
            return await ask(thread)
        except Exception as error:
            if status_of(error) in _UNKNOWN:
                return None
            raise


class ArchivedThreads:
    """Threads that an archive lists, page by page, and that another place has the states of."""

    def __init__(self, archive: SQLAlchemyArchive, place: Threads) -> None:
        self._archive, self._place = archive, place
        self.complete, self.state, self.history = place.complete, place.state, place.history
        self.version, self.write = place.version, place.write

    async def names(self, wanted: Wanted) -> AsyncGenerator[Listed | None]:
        behind, limit = _read_mark(wanted.behind), _PAGE
        while True:
            found = await asyncio.to_thread(
                self._archive.list_threads,
                text=wanted.text,
                resource_id=wanted.user or None,
                limit=limit,
                behind=behind,
            )
            for own in found:
                kept = own.thread
                mark = _write_mark(kept)
                yield Listed(
                    kept.id, mark, kept.title, kept.resource_id, kept.updated, own.messages
                )
            if len(found) < limit:
                return
            last = found[-1].thread
            behind = (last.updated, last.id)


_MAX_DIGITS: Final = 9
"""Of a number in a query; Python refuses to read one of thousands."""


def read_number(text: str) -> int | None:
    """Return a number of a query; `None` where there is none."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_TIME: Final = 17
"""Digits of a time in a mark: microseconds since 1970, up to the year 5138."""


def _write_mark(thread: ArchivedThread) -> str:
    since = thread.updated - _EPOCH
    return f"{(since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds}~{thread.id}"


def _read_mark(mark: str) -> tuple[datetime, str] | None:
    at, found, thread = mark.partition("~")
    if not found or not at.isdecimal() or len(at) > _LONGEST_TIME:
        return None
    seconds, micros = divmod(int(at), 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros), thread


def read_figures(record: MemoryRecord) -> Figures:
    """Return how large a memory is, from its record alone."""
    counts = record["token_cache"]["counts"].values()
    usage: Sequence[Mapping[str, Any]] = [*record["usage"].values()]
    return Figures(
        sum(int(count[1]) for count in counts),
        log_tokens(record),
        sum(int(spent.get("input_tokens", 0)) for spent in usage),
        sum(int(spent.get("output_tokens", 0)) for spent in usage),
    )


def sum_by_user(threads: Iterable[Listed]) -> dict[str, tuple[int, Figures]]:
    """Return how many of some threads each user has and what they come to, dearest first."""
    found: dict[str, tuple[int, Figures]] = {}
    for thread in threads:
        if thread.user and thread.figures is not None:
            number, total = found.get(thread.user, (0, Figures(0, 0, 0, 0)))
            found[thread.user] = number + 1, Figures(*map(add, total, thread.figures))
    return dict(sorted(found.items(), key=lambda one: -one[1][1].tokens_in))


def fill(thread: Listed, state: Any, messages_key: str) -> Listed:
    """Return a thread of the list with what its state tells; as it is where there is none."""
    values = values_of(state, messages_key)
    if not isinstance(values, Mapping):
        return thread
    record = complete_record(values.get("om") or {})
    said = values.get(messages_key)
    messages = len(said) if isinstance(said, list) else None
    return replace(
        thread,
        title=thread.title or find_label(record),
        user=thread.user or record["resource_id"],
        updated=_at_users_time(thread.updated, record),
        messages=messages if thread.messages is None else thread.messages,
        figures=read_figures(record),
    )


def _at_users_time(at: datetime | None, record: MemoryRecord) -> datetime | None:
    return None if at is None else at.astimezone(read_zone(record.get("timezone", "UTC")))


@dataclass(frozen=True, slots=True)
class _Entry:
    id: str
    channels: Mapping[str, Any]
    updated: datetime | None


def _read_newest(saver: Any, wanted: int) -> tuple[dict[str, _Entry], Literal["more", "cut", ""]]:
    """Return the newest checkpoint by thread, and what is left of threads.

    Ids grow with time. Databases list the newest first, and are read until there are enough; the
    checkpointer in memory lists thread by thread, and is read to its end.
    """
    found: dict[str, _Entry] = {}
    is_by_time, before = True, None
    for number, entry in enumerate(saver.list(None)):
        own = entry.config["configurable"]
        is_by_time = is_by_time and (before is None or own["checkpoint_id"] <= before)
        before = own["checkpoint_id"]
        if number == _NEWEST:
            return found, "cut"
        if is_by_time and len(found) == wanted:
            return found, "more"
        point, key = entry.checkpoint, str(own["thread_id"])
        if key not in found:
            channels = point["channel_values"]
            found[key] = _Entry(before, channels, _read_time(point.get("ts")))
    return found, ""


def _read_time(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else text
    except ValueError:
        return None
    if not isinstance(at, datetime):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


async def _write(runner: StepRunner, graph: Any, thread: str, update: Sequence[Any]) -> None:
    place = GraphThread(runner, graph, _config_of(thread), wait=_BUSY)
    await afulfil(place.act(lambda _: [*update]))


def _config_of(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}
