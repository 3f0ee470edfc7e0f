"""Jobs as runs of a LangGraph server: sent there, known by the archive, and missed when lost."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
import time
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any
from uuid import uuid4

from langgraph_om.archive.forks import begin_anew_after_fork
from langgraph_om.core.config.options import check_count
from langgraph_om.core.cycles.carry_out import RUN_OF, describe_run, fail_request
from langgraph_om.core.effects import JobState
from langgraph_om.core.wire import JobRequest
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.models.retries import status_of
from langgraph_om.runtime.executors import POLL_SECONDS, Claims, JobWork, SharingExecutor

logger = logging.getLogger("langgraph_om")

CALL_SECONDS = 5.0
"""How long a call of the server may take; a turn waits so long when it does not answer."""
_GONE = 404
_NO_ROOM = frozenset({429, 503})
"""What a server answers that is too busy."""
_SENT = "sent "
"""How the name begins under which a job is claimed that no worker has begun."""
_PATIENCE = 2.0
"""Seconds that a turn waits for a job to begin, before it does the work itself."""
_LOOKED_AT = 16
"""Of how many jobs it is looked whether they have ended, when there is no room for another."""


class ServerClient:
    """Calls a LangGraph server from any thread.

    An asynchronous client, such as those made here, lives on an event loop of its own, so that no
    call needs the loop of whoever calls.
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

    def call(self, ask: Callable[[Any], Any]) -> Any:
        """Call the server, and wait for its answer.

        Args:
            ask: Given the client, returns the answer or what awaits it.
        """
        answer = ask(self._connect())
        if not inspect.iscoroutine(answer):
            return answer
        future = asyncio.run_coroutine_threadsafe(answer, self._start_loop())
        try:
            return future.result(CALL_SECONDS)
        except TimeoutError:
            future.cancel()
            msg = f"the server did not answer within {CALL_SECONDS:.0f} seconds"
            raise TimeoutError(msg) from None

    def close(self) -> None:
        """Let go of the connections that were made here; the next call makes new ones."""
        with self._lock:
            client, loop, thread = self._client, self._loop, self._thread
            self._client, self._loop, self._thread = self._given, None, None
        if loop is None or thread is None:
            return
        if client is not None and self._given is None:
            asyncio.run_coroutine_threadsafe(client.aclose(), loop).result(CALL_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CALL_SECONDS)

    def _connect(self) -> Any:
        with self._lock:
            if self._client is None:
                if self._url is None and "langgraph_api" not in sys.modules:
                    msg = (
                        "`ServerBuffering()` has no `url`, which is for processes of a LangGraph "
                        "server, and this isn't one; pass the server's URL or a client"
                    )
                    raise ConfigurationError(msg)
                self._client = _make_client(self._url)
            return self._client

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=[self._loop], name="om_server", daemon=True
                )
                self._thread.start()
            return self._loop


def _make_client(url: str | None) -> Any:
    """Return the client of a URL, without its retries: they take seconds, and a turn waits."""
    import httpx  # noqa: PLC0415 only who sends jobs needs them
    from langgraph_sdk import get_client  # noqa: PLC0415
    from langgraph_sdk.client import LangGraphClient  # noqa: PLC0415

    client = get_client(url=url)
    if url is None:
        return client
    usual = client.http.client
    plain = httpx.AsyncClient(base_url=usual.base_url, headers=usual.headers, timeout=CALL_SECONDS)
    return LangGraphClient(plain)


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


class ServerBuffering(SharingExecutor):
    """Send jobs to a LangGraph server, as background runs of the graph that `worker_graph` makes.

    Each job is a stateless run: a thread that the server makes for it and deletes when it is done,
    so nothing of a conversation stays on the server, and runs of one conversation need not wait
    for each other. The archive ensures that a job counts once: the sender claims the job, the
    worker takes over the claim, and only the result of the last claim counts. A job
    without a result is sent again once its claim has ended, after five minutes.

    `memory.delete_thread` and `delete_resource` delete the runs of what they delete.

    It needs an archive, the same for the agent and the worker.

    Args:
        url: The server's URL; its key is read from the environment, as the client does. `None`: the
            server in whose process the agent runs.
        client: A client of `langgraph_sdk` instead. An asynchronous one is used on an event loop of
            its own, so give one that nothing else uses.
        graph: The name of the worker's graph in the server's `langgraph.json`, or an assistant's
            id.
        max_pending: How many jobs that were sent from here may be at work or wait; one beyond that
            is refused and tried again later, as is what the server itself refuses.
        keep_runs: Whether the threads of finished runs stay on the server, with their input, to be
            looked at.

    Raises:
        ConfigurationError: When a number is out of range, or both `url` and `client` are given.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: Any = None,
        graph: str = "om_worker",
        max_pending: int = 64,
        keep_runs: bool = False,
    ) -> None:
        if url is not None and client is not None:
            msg = "`url` and `client` are both given; pass one of them"
            raise ConfigurationError(msg)
        self._graph, self._keeps = graph, keep_runs
        self._max_pending = check_count("max_pending", max_pending)
        self._server = ServerClient(url, client)
        self.begin_anew()
        begin_anew_after_fork(self)

    def __repr__(self) -> str:
        # Without the URL, which may hold a password.
        return (
            f"ServerBuffering(graph={self._graph!r}, max_pending={self._max_pending}, "
            f"keep_runs={self._keeps})"
        )

    def begin_anew(self) -> None:
        """Begin without jobs; those of a process that forked are its own to wait for."""
        self._lock = threading.Lock()
        self._sent: dict[str, None] = {}

    @property
    def _shared(self) -> Claims:
        if self.claims is None:
            msg = "`ServerBuffering` has no archive; use it as `buffering` of a memory that has one"
            raise ConfigurationError(msg)
        return self.claims

    # --- Sending ---------------------------------------------------------------------------------

    def submit(
        self,
        cycle_id: str,
        key: str,
        work: JobWork,
        *,
        request: Callable[[], JobRequest] | None = None,
        **whose: Any,
    ) -> bool:
        """Send a job, unless it is known already; waits for the server's word that it has it.

        Returns:
            Whether the job is known now; `False` when there is no room for it here, or the server
            is too busy. When sending fails in another way, that is the job's result, a failure.

        Raises:
            ArchiveError: When the archive's storage fails.
            ConfigurationError: When there is no archive.
        """
        claims, sender = self._shared, f"{_SENT}{uuid4().hex}"
        if self.is_closed or request is None:
            return False
        if claims.claim(cycle_id, sender, whose) != "mine":
            return True
        is_sent = self._find_room(cycle_id) and self._send(request(), sender)
        if not is_sent:
            claims.archive.release(cycle_id, sender)
        return is_sent

    def _send(self, request: JobRequest, sender: str) -> bool:
        cycle_id = request["cycle_id"]
        try:
            self._server.call(
                lambda client: client.runs.create(
                    None,
                    self._graph,
                    input={"request": request, "sender": sender},
                    metadata=describe_run(request),
                    durability="exit",
                    on_completion="keep" if self._keeps else "delete",
                )
            )
        except Exception as error:  # noqa: BLE001 whatever the server does, the turn goes on
            self._forget(cycle_id)
            if status_of(error) in _NO_ROOM:
                return False
            # Should the run have begun all the same, it finds the job done.
            self._shared.archive.finish(cycle_id, sender, fail_request(request, error))
        return True

    def _find_room(self, cycle_id: str) -> bool:
        """Keep a place for a job; where all are taken, look whether the oldest have ended."""
        with self._lock:
            oldest = list(islice(self._sent, _LOOKED_AT))
            is_full = len(self._sent) >= self._max_pending
        for known in oldest if is_full else ():
            self.peek(known)
        with self._lock:
            if len(self._sent) >= self._max_pending:
                return False
            self._sent[cycle_id] = None
            return True

    def _forget(self, cycle_id: str) -> None:
        with self._lock:
            self._sent.pop(cycle_id, None)

    # --- What became of a job --------------------------------------------------------------------

    def peek(self, cycle_id: str) -> JobState:
        state = self._shared.read(cycle_id)
        if state != "running":
            self._forget(cycle_id)
        if state == "expired":  # should its run still wait for a free worker, it is too late
            self._withdraw(cycle_id)
        return state

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        began = time.monotonic()
        while True:
            state, passed = self.peek(cycle_id), time.monotonic() - began
            if state != "running" or passed >= timeout:
                return state
            if passed >= _PATIENCE and self._withdraw(cycle_id):
                return "withdrawn"
            time.sleep(min(POLL_SECONDS, timeout - passed))

    def _withdraw(self, cycle_id: str) -> bool:
        """Take back a job that has not begun: its run will find that it is gone."""
        archive = self._shared.archive
        try:
            job = archive.job(cycle_id)
            if job is None or not job.owner.startswith(_SENT):
                return False
            is_gone = archive.release(cycle_id, job.owner)
        except ArchiveError:
            return False
        if is_gone:
            self._forget(cycle_id)
        return is_gone

    # --- Deletion --------------------------------------------------------------------------------

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        whose: list[dict[str, Any]] = [{RUN_OF + each: True} for each in thread_ids]
        if resource_id is not None:
            whose.append({"om_resource_id": resource_id})
        try:
            for each in whose:
                deleted = set[str]()
                while left := self._find_runs(each) - deleted:
                    for key in left:
                        self._delete_run(key)
                    deleted |= left
        except ConfigurationError as error:
            logger.warning("runs of what was deleted may be on a server: %s", error)

    def _find_runs(self, metadata: dict[str, Any]) -> set[str]:
        """Return threads of runs with this in their metadata, a hundred at most."""
        found = self._server.call(
            lambda client: client.threads.search(metadata=metadata, limit=100, select=["thread_id"])
        )
        return {str(each["thread_id"]) for each in found}

    def _delete_run(self, thread_id: str) -> None:
        """Delete the thread of a run; one that is gone already is as well."""
        try:
            self._server.call(lambda client: client.threads.delete(thread_id))
        except Exception as error:
            if status_of(error) != _GONE:
                raise

    # --- The end ---------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        began = time.monotonic()
        while True:
            with self._lock:
                sent = list(self._sent)
            if not [cycle_id for cycle_id in sent if self.peek(cycle_id) == "running"]:
                return True
            if timeout is not None and time.monotonic() - began >= timeout:
                return False
            time.sleep(POLL_SECONDS)

    def close(self, timeout: float = 5.0) -> bool:
        self.is_closed = True
        is_done = self.flush(timeout)
        self._server.close()
        return is_done
