"""The threads that the pages show: of a graph in this process, or of the server around it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

from langgraph_om.inspection import SERVER_TITLES, read_server_title, read_stored_title

_UNKNOWN = (404, 422)
"""Answers of a server about a thread that it does not have, or whose id it cannot have."""
_NEWEST = 20_000
"""Checkpoints that are looked through for threads."""


class Threads(Protocol):
    """Reads and writes states."""

    async def names(self, limit: int) -> dict[str, str | None]:
        """Return titles by ids, newest first."""

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

    async def names(self, limit: int) -> dict[str, str | None]:
        """Return those with the newest checkpoints."""

        def read() -> dict[str, str | None]:
            found: dict[str, Any] = {}
            for entry in islice(self._graph.checkpointer.list(None), _NEWEST):
                key = str(entry.config["configurable"]["thread_id"])
                if key not in found:
                    if len(found) == limit:
                        break
                    found[key] = entry.checkpoint["channel_values"]
            # Only then, as some checkpointers answer nothing else while they list.
            return {
                key: read_stored_title(channels, partial(self._read_values, key))
                for key, channels in found.items()
            }

        return await asyncio.to_thread(read)

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

    async def names(self, limit: int) -> dict[str, str | None]:
        """Return those that were updated last."""
        found = await self._client.threads.search(
            limit=limit, sort_by="updated_at", sort_order="desc", extract=dict(SERVER_TITLES)
        )
        return {str(own["thread_id"]): read_server_title(own) for own in found}

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
