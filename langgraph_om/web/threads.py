"""The threads that the pages show: of a graph in this process, or of the server around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

from langgraph_om.inspection import SERVER_TITLES, read_server_title, read_stored_title

_UNKNOWN = (404, 422)
"""Answers of a server about a thread that it does not have, or whose id it cannot have."""
_NEWEST = 20_000
"""Checkpoints that are looked through for threads."""
_PAGE = 100
"""Threads that a server is asked for at once."""

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

        def read() -> tuple[dict[str, tuple[str, Any]], bool]:
            found: dict[str, tuple[str, Any]] = {}
            looked_through = 0
            for entry in islice(self._graph.checkpointer.list(None), _NEWEST):
                looked_through += 1
                own = entry.config["configurable"]
                om = entry.checkpoint["channel_values"].get("om")
                found.setdefault(str(own["thread_id"]), (own["checkpoint_id"], om))
            return found, looked_through == _NEWEST

        # All at once, as some checkpointers answer nothing else while they list.
        found, is_cut = await asyncio.to_thread(read)
        # The checkpointer in memory lists thread by thread; ids grow with time.
        for key, (_, om) in sorted(found.items(), key=lambda own: own[1][0], reverse=True):
            yield key, partial(read_stored_title, {"om": om}, partial(self._read_values, key))
        if is_cut:
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


def _config_of(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}
