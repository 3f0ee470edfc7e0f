"""Calls of a LangGraph server's API, whatever client there is, from any thread."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from langgraph_om.archive.after_fork import begin_anew_after_fork
from langgraph_om.errors import ConfigurationError

CALL_SECONDS = 5.0
"""How long a call of the server may take; a turn waits so long when it does not answer."""

_CONNECT_SECONDS = 2.0

_GONE = 404
_NO_ROOM = frozenset({429, 503})
"""What a server answers that is too busy."""


def is_busy(error: BaseException) -> bool:
    """Return whether an error says that the server takes no more runs now."""
    return getattr(error, "status_code", None) in _NO_ROOM


class ServerCalls:
    """The API of a LangGraph server.

    An asynchronous client, such as the one without a URL, lives on an event loop of its own, so
    that no call needs the loop of whoever calls.

    Args:
        url: The server; `None`: the one in whose process this is.
        client: A client of `langgraph_sdk`, sync or async, instead.
    """

    def __init__(self, url: str | None, client: Any = None) -> None:
        self._url, self._given = url, client
        self.begin_anew()
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Begin without connections."""
        self._lock = threading.Lock()
        self._client = self._given
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._silent_until = 0.0

    def close(self) -> None:
        """Let go of the connections that were made here; the next call makes new ones."""
        with self._lock:
            client, loop, thread = self._client, self._loop, self._thread
            self._client, self._loop, self._thread = self._given, None, None
        if client is not None and self._given is None:
            closing = getattr(client, "aclose", None)
            if closing is None:
                client.close()
            elif loop is not None:
                asyncio.run_coroutine_threadsafe(closing(), loop).result(CALL_SECONDS)
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CALL_SECONDS)

    def start(
        self,
        graph: str,
        given: Mapping[str, Any],
        metadata: Mapping[str, Any],
        *,
        keeps: bool,
        after: int | None = None,
    ) -> str:
        """Start a run on a thread that the server makes for it.

        Args:
            graph: The graph's name.
            given: Its input.
            metadata: What the run, and the thread, say of it.
            keeps: Whether the thread stays when it is done.
            after: After how many seconds it begins.

        Returns:
            The thread's id.
        """
        delay = {} if after is None else {"after_seconds": after}
        run = self._call(
            lambda client: client.runs.create(
                None,
                graph,
                input=given,
                metadata=metadata,
                durability="exit",
                on_completion="keep" if keeps else "delete",
                **delay,
            )
        )
        return str(run["thread_id"])

    def find(
        self, metadata: Mapping[str, Any], *, status: str | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return the threads of runs with this in their metadata: id and metadata.

        Args:
            metadata: What they say.
            status: `busy`: only of runs that wait or work.
            limit: How many at most.
        """
        found: list[dict[str, Any]] = self._call(
            lambda client: client.threads.search(
                metadata=metadata, status=status, limit=limit, select=["thread_id", "metadata"]
            )
        )
        return found

    def delete(self, thread_id: str) -> None:
        """Delete a thread with its runs; one that is gone already is as well."""
        try:
            self._call(lambda client: client.threads.delete(thread_id))
        except Exception as error:
            if getattr(error, "status_code", None) != _GONE:
                raise

    def _call(self, ask: Callable[[Any], Any]) -> Any:
        """Call the server, and wait for its answer.

        One that took long to give none is left in peace for as long again.

        Raises:
            Exception: Whatever the client raises; `TimeoutError` where there is no answer.
        """
        began = time.monotonic()
        if began < self._silent_until:
            msg = "the server has just not answered, and is asked again in a moment"
            raise TimeoutError(msg)
        try:
            return self._wait_for(ask(self._connect()))
        except Exception as error:
            if not hasattr(error, "status_code"):
                now = time.monotonic()
                self._silent_until = now + (now - began)
            raise

    def _wait_for(self, answer: Any) -> Any:
        if not inspect.iscoroutine(answer):
            return answer
        future = asyncio.run_coroutine_threadsafe(answer, self._start_loop())
        try:
            return future.result(CALL_SECONDS)
        except TimeoutError:
            future.cancel()
            msg = f"the server did not answer within {CALL_SECONDS:.0f} seconds"
            raise TimeoutError(msg) from None

    def _connect(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def _make_client(self) -> Any:
        from langgraph_sdk import get_client  # noqa: PLC0415 only who sends jobs needs it

        if self._url is not None:
            return _connect_to(self._url)
        if "langgraph_api" not in sys.modules:
            msg = (
                "`ServerBuffering()` has no `url`, which is for processes of a LangGraph server, "
                "and this is none; pass the server's URL, or a client"
            )
            raise ConfigurationError(msg)
        return get_client()

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=[self._loop], name="om_server", daemon=True
                )
                self._thread.start()
            return self._loop


def _connect_to(url: str) -> Any:
    """Return the client of a URL, without its retries: they take seconds, and a turn waits."""
    import httpx  # noqa: PLC0415 only who sends jobs needs them
    from langgraph_sdk import get_sync_client  # noqa: PLC0415
    from langgraph_sdk.client import SyncLangGraphClient  # noqa: PLC0415

    with get_sync_client(url=url) as usual:
        known = usual.http.client
        timeout = httpx.Timeout(CALL_SECONDS, connect=_CONNECT_SECONDS)
        plain = httpx.Client(base_url=known.base_url, headers=known.headers, timeout=timeout)
    return SyncLangGraphClient(plain)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
    finally:
        loop.close()
