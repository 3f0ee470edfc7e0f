"""Jobs as runs of a LangGraph server: sent there, known by the archive, and missed when lost."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any
from uuid import uuid4

from langgraph_om.archive import JobView, MessageArchive
from langgraph_om.archive.protocol import begin_anew_after_fork
from langgraph_om.core.config.options import check_count, check_seconds
from langgraph_om.core.cycles.carry_out import RUN_OF, describe_run, fail_request, has_begun
from langgraph_om.core.effects import JobState
from langgraph_om.core.wire import JobRequest
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.models.retries import status_of
from langgraph_om.runtime.executors import ForgettingExecutor, JobWork
from langgraph_om.runtime.leases import Leases, share_leases

# Calls of a LangGraph server's API, whatever client there is, from any thread.


CALL_SECONDS = 5.0
"""How long a call of the server may take; a turn waits so long when it does not answer."""

_CONNECT_SECONDS = 2.0

_GONE = 404
_NO_ROOM = frozenset({429, 503})
"""What a server answers that is too busy."""


def is_busy(error: BaseException) -> bool:
    """Return whether an error says that the server takes no more runs now."""
    return status_of(error) in _NO_ROOM


class ServerCalls:
    """The API of a LangGraph server.

    An asynchronous client, such as the one without a URL, lives on an event loop of its own, so
    that no call needs the loop of whoever calls.
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
    ) -> None:
        """Start a run on a thread that the server makes for it.

        Args:
            metadata: What the run, and the thread, say of it.
            keeps: Whether the thread stays when it is done.
        """
        self._call(
            lambda client: client.runs.create(
                None,
                graph,
                input=given,
                metadata=metadata,
                durability="exit",
                on_completion="keep" if keeps else "delete",
            )
        )

    def find(
        self, metadata: Mapping[str, Any], *, status: str | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return the threads of runs with this in their metadata: id and metadata.

        Args:
            status: `busy`: only of runs that wait or work.
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
            if status_of(error) != _GONE:
                raise

    def _call(self, ask: Callable[[Any], Any]) -> Any:
        """Call the server, and wait for its answer.

        One that took long to give none is left in peace for as long again.
        """
        began = time.monotonic()
        if began < self._silent_until:
            msg = "the server has just not answered, and is asked again in a moment"
            raise TimeoutError(msg)
        try:
            return self._wait_for(ask(self._connect()))
        except Exception as error:
            if status_of(error) is None:
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
            if self._client is None and self._url is not None:
                self._client = _connect_to(self._url)
            elif self._client is None:
                if "langgraph_api" not in sys.modules:
                    msg = (
                        "`ServerBuffering()` has no `url`, which is for processes of a LangGraph "
                        "server, and this is none; pass the server's URL, or a client"
                    )
                    raise ConfigurationError(msg)
                from langgraph_sdk import get_client  # noqa: PLC0415 only who sends jobs needs it

                self._client = get_client()
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


logger = logging.getLogger("langgraph_om")

LEASE_SECONDS = 120.0
"""How long a worker's lease lasts unless it is renewed."""
_POLL_SECONDS = 0.2
_PATIENCE = 2.0
"""Seconds that a turn waits for a job to begin, before it does the work itself."""
_LOOKED_AT = 16
"""Of how many jobs it is looked whether they have ended, when there is no room for another."""


class ServerBuffering(ForgettingExecutor):
    """Send jobs to a LangGraph server, as background runs of the graph that `worker_graph` makes.

    Each job is a stateless run: a thread that the server makes for it and deletes when it is done,
    so that nothing of a conversation stays on the server, runs of one conversation need not wait
    for each other, and none shows up among the users' threads for longer than it works. That a job
    is carried out once is up to the archive, not to the server: who sends a job holds a lease of
    it, the worker takes the lease over under the same name, and a result counts only from whoever
    holds it. A run that was lost is missed when its lease ends and the server does not know it;
    the job is then sent again.

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
        grace: Seconds after which the server is asked about a run that has not begun.
        lease: Seconds after which a job of a worker that died is begun again; the same as that of
            `worker_graph`.
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
        grace: float = 30.0,
        lease: float = LEASE_SECONDS,
        keep_runs: bool = False,
    ) -> None:
        if url is not None and client is not None:
            msg = "`url` and `client` are both given; pass the one that shall be used"
            raise ConfigurationError(msg)
        check_count("max_pending", max_pending)
        self._lease = check_seconds("lease", lease)
        self._grace = check_seconds("grace", grace)
        if self._grace > self._lease / 2:
            msg = f"`grace` is {grace!r}; pass half of `lease` ({lease!r}) at most"
            raise ConfigurationError(msg)
        self._graph, self._max_pending, self._keeps = graph, max_pending, keep_runs
        self._calls = ServerCalls(url, client)
        self._leases: Leases | None = None
        self.is_closed = False
        """Whether no more jobs are taken."""
        self.begin_anew()
        begin_anew_after_fork(self)

    def __repr__(self) -> str:
        # Without the URL, which may hold a password.
        return (
            f"ServerBuffering(graph={self._graph!r}, max_pending={self._max_pending}, "
            f"grace={self._grace}, lease={self._lease}, keep_runs={self._keeps})"
        )

    def begin_anew(self) -> None:
        """Begin without jobs; those of a process that forked are its own to wait for."""
        self._lock = threading.Lock()
        self._sent: dict[str, None] = {}

    def share(self, archive: MessageArchive) -> None:
        """Send jobs for, and take results from, all workers with this archive.

        Args:
            archive: What the workers share. Asking for the same one again changes nothing.

        Raises:
            ConfigurationError: When it shares another archive already.
        """
        with self._lock:
            self._leases = share_leases(self._leases, archive, self._lease, "ServerBuffering")

    # --- Sending ---------------------------------------------------------------------------------

    def submit(
        self,
        cycle_id: str,
        key: str,
        work: JobWork,
        *,
        thread_id: str = "",
        resource_id: str | None = None,
        about: Sequence[str] = (),
        deletion: int | None = None,
        request: Callable[[], JobRequest] | None = None,
    ) -> bool:
        """Send a job, unless it is known already; waits for the server's word that it has it.

        Returns:
            Whether the job is known now; `False` when there is no room for it here, or the server
            is too busy. When sending fails in another way, that is the job's result, a failure.

        Raises:
            ArchiveError: When the archive's storage fails.
            ConfigurationError: When there is no archive.
        """
        archive, sender = self._in_force.archive, uuid4().hex
        if self.is_closed or request is None:
            return False
        claim = archive.claim(
            cycle_id,
            sender,
            seconds=self._grace,
            thread_id=thread_id,
            resource_id=resource_id,
            about=about,
            deletion=deletion,
        )
        if claim != "mine":
            return True
        if not self._find_room(cycle_id):
            self._leave(cycle_id, sender)
            return False
        return self._send(request(), sender)

    def _send(self, request: JobRequest, sender: str) -> bool:
        cycle_id, archive = request["cycle_id"], self._in_force.archive
        given = {"request": request, "sender": sender}
        try:
            self._calls.start(self._graph, given, describe_run(request), keeps=self._keeps)
        except ConfigurationError:
            self._forget(cycle_id)
            self._leave(cycle_id, sender)
            raise
        except Exception as error:  # noqa: BLE001 whatever the server does, the turn goes on
            self._forget(cycle_id)
            if is_busy(error):
                self._leave(cycle_id, sender)
                return False
            # Should the run have begun all the same, it finds the job done.
            archive.finish(cycle_id, sender, fail_request(request, error))
        return True

    def _leave(self, cycle_id: str, owner: str) -> None:
        # Not released: who waits for a job that is there, and nobody's, begins it again at once.
        self._in_force.archive.renew(cycle_id, owner, seconds=0)

    def _find_room(self, cycle_id: str) -> bool:
        """Keep a place for a job; where all are taken, look whether the oldest have ended."""
        if self._reserve(cycle_id):
            return True
        with self._lock:
            oldest = list(islice(self._sent, _LOOKED_AT))
        for known in oldest:
            self.peek(known)
        return self._reserve(cycle_id)

    def _reserve(self, cycle_id: str) -> bool:
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
        """Return a job's result, `"running"`, `"expired"`, or `None`, as the archive knows it.

        A job whose lease has ended runs still where the server says so: it waits for a free worker
        there, or for a worker to take up again what another one left.
        """
        state = self._in_force.read(cycle_id)
        if state == "expired":
            if self._is_under_way(cycle_id):
                return "running"
            state = self._in_force.read(cycle_id)  # a run that has just ended has left its result
        if state != "running":
            self._forget(cycle_id)
        return state

    def _is_under_way(self, cycle_id: str) -> bool:
        """Ask the server about a job whose lease has ended; one that it has is looked at later."""
        job = self._look_up(cycle_id)
        if job is None or job.state != "expired":
            return False
        try:
            if not self._calls.find({"om_cycle_id": cycle_id}, status="busy", limit=1):
                return False
            self._in_force.archive.renew(cycle_id, job.owner, seconds=self._grace)
        except Exception as error:  # noqa: BLE001 who cannot be asked does not know the job
            logger.warning("the server does not say whether it has %r: %r", cycle_id, error)
            return False
        return True

    def _look_up(self, cycle_id: str) -> JobView | None:
        try:
            return self._in_force.archive.job(cycle_id)
        except ArchiveError:
            return None

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        began = time.monotonic()
        while True:
            state, passed = self.peek(cycle_id), time.monotonic() - began
            if state != "running" or passed >= timeout:
                return state
            if passed >= _PATIENCE and self._withdraw(cycle_id):
                return "withdrawn"
            time.sleep(min(_POLL_SECONDS, timeout - passed))

    def _withdraw(self, cycle_id: str) -> bool:
        """Take back a job that has not begun: its run will find that it is gone."""
        job = self._look_up(cycle_id)
        if job is None or job.state != "running" or has_begun(job.expires_in, self._grace):
            return False
        self._in_force.archive.release(cycle_id, job.owner)
        self._forget(cycle_id)
        return True

    # --- Deletion --------------------------------------------------------------------------------

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        whose: list[dict[str, Any]] = [{RUN_OF + each: True} for each in thread_ids]
        if resource_id is not None:
            whose.append({"om_resource_id": resource_id})
        deleted = set[str]()
        try:
            for each in whose:
                while left := {run["thread_id"] for run in self._calls.find(each)} - deleted:
                    for key in left:
                        self._calls.delete(key)
                    deleted |= left
        except ConfigurationError as error:
            logger.warning("runs of what was deleted may be on a server: %s", error)

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
            time.sleep(_POLL_SECONDS)

    def close(self, timeout: float = 5.0) -> bool:
        self.is_closed = True
        is_done = self.flush(timeout)
        self._calls.close()
        return is_done

    @property
    def _in_force(self) -> Leases:
        if self._leases is None:
            msg = "`ServerBuffering` has no archive; use it as `buffering` of a memory that has one"
            raise ConfigurationError(msg)
        return self._leases
