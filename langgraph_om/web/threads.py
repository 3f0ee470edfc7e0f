"""The threads that the pages show: of a graph in this process, or of the server around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any, Literal, Protocol

from langgraph_om.inspection import SERVER_TITLES, read_server_title, read_stored_title

_UNKNOWN = (404, 422)
"""Answers of a server about a thread that it does not have, or whose id it cannot have."""
_NEWEST = 20_000
"""Checkpoints that are looked through for threads."""
_PAGE = 100
"""Threads that are read at once."""

Named = tuple[str, Callable[[], str | None]]
"""A thread's id, and a function that reads its title."""


class Threads(Protocol):
    """Reads and writes states."""

    def names(self) -> AsyncGenerator[Named | None]:
        """Yield the threads, newest first; `None` last where older ones were not looked for."""

    async def state(self, thread: str) -> Any:
        """Return the newest state of a thread; `None` where there is no such thread."""

    async def history(self, thread: str) -> Any:
        """Return its states, newest first."""

    async def write(self, thread: str, update: Sequence[Any]) -> None:
        """Write an update of `om`."""


class GraphThreads:
    """The threads of a compiled graph with a checkpointer."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    async def names(self) -> AsyncGenerator[Named | None]:
        """Yield those with the newest checkpoints."""
        wanted, yielded, rest = _PAGE, set[str](), "more"
        while rest == "more":
            # In one go, as some checkpointers answer nothing else while they list.
            found, rest = await asyncio.to_thread(_read_newest, self._graph.checkpointer, wanted)
            for key, (_, om) in sorted(found.items(), key=lambda own: own[1][0], reverse=True):
                if key not in yielded:
                    yield (
                        key,
                        partial(read_stored_title, {"om": om}, partial(self._read_values, key)),
                    )
            yielded |= found.keys()
            wanted *= 4
        if rest == "cut":
            yield None

    def _read_values(self, thread: str) -> Any:
        return self._graph.get_state(_config_of(thread)).values

    async def state(self, thread: str) -> Any:
        """Return the newest state of a thread; `None` where there is no such thread."""
        found = await asyncio.to_thread(self._graph.get_state, _config_of(thread))
        return found if found.created_at else None

    async def history(self, thread: str) -> Any:
        """Return its checkpoints."""
        config = _config_of(thread)
        return await asyncio.to_thread(lambda: list(self._graph.get_state_history(config)))

    async def write(self, thread: str, update: Sequence[Any]) -> None:
        """Write a checkpoint."""
        values = {"om": list(update)}
        await asyncio.to_thread(self._graph.update_state, _config_of(thread), values)


class ServerThreads:
    """The threads of a LangGraph server, by its SDK's asynchronous client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def names(self) -> AsyncGenerator[Named | None]:
        """Yield those that were updated last."""
        offset = 0
        while True:
            found = await self._client.threads.search(
                limit=_PAGE,
                offset=offset,
                sort_by="updated_at",
                sort_order="desc",
                extract=dict(SERVER_TITLES),
            )
            for own in found:
                yield str(own["thread_id"]), partial(read_server_title, own)
            if len(found) < _PAGE:
                return
            offset += _PAGE

    async def state(self, thread: str) -> Any:
        """Return the newest state of a thread; `None` where there is no such thread."""
        try:
            return await self._client.threads.get_state(thread)
        except Exception as error:
            response = getattr(error, "response", None)
            if getattr(response, "status_code", None) in _UNKNOWN:
                return None
            raise

    async def history(self, thread: str) -> Any:
        """Return its checkpoints."""
        return await self._client.threads.get_history(thread, limit=1000)

    async def write(self, thread: str, update: Sequence[Any]) -> None:
        """Write a checkpoint."""
        await self._client.threads.update_state(thread, {"om": list(update)})


def _read_newest(
    saver: Any, wanted: int
) -> tuple[dict[str, tuple[str, Any]], Literal["more", "cut", ""]]:
    """Return id and memory of the newest checkpoint by thread, and what is left of threads.

    Ids grow with time. Databases list the newest first, and are read until there are enough; the
    checkpointer in memory lists thread by thread, and is read to its end.
    """
    found: dict[str, tuple[str, Any]] = {}
    is_by_time, before = True, None
    for number, entry in enumerate(saver.list(None)):
        own = entry.config["configurable"]
        is_by_time = is_by_time and (before is None or own["checkpoint_id"] <= before)
        before = own["checkpoint_id"]
        if number == _NEWEST:
            return found, "cut"
        if is_by_time and len(found) == wanted:
            return found, "more"
        memory = entry.checkpoint["channel_values"].get("om")
        found.setdefault(str(own["thread_id"]), (own["checkpoint_id"], memory))
    return found, ""


def _config_of(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}
