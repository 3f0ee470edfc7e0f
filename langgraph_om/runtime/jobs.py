"""Jobs in other processes: what these need as plain JSON, and jobs as runs of a LangGraph server.

A server is sent jobs; that they are known, and missed when lost, is up to the archive.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.dates import name_zone
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.carry_out import (
    RUN_OF,
    describe_job,
    describe_run,
    fail_request,
    run_job,
)
from langgraph_om.core.cycles.cycle import Cycle, run_ahead
from langgraph_om.core.effects import EffectFlow, JobState
from langgraph_om.core.plan import Decision
from langgraph_om.core.record.record import TITLE, complete_record
from langgraph_om.core.record.window import open_window, select_needed
from langgraph_om.core.tokens import base_of
from langgraph_om.core.wire import OTHERS, JobRequest, JobResult
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.forks import begin_anew_after_fork
from langgraph_om.models.retries import status_of
from langgraph_om.runtime.executors import POLL_SECONDS, JobWork, SharingExecutor
from langgraph_om.runtime.flows import RunContext, drive, in_thread

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive


logger = logging.getLogger("langgraph_om")

VERSION = 1
"""Of the form of a request."""


def build_request(
    job: Cycle, messages: Sequence[BaseMessage], decision: Decision, now: datetime, actor: str
) -> JobRequest:
    """Write a job as plain JSON.

    Args:
        actor: The name of the Actor's model, which a memory asks that names none.
        messages: The whole conversation; where other processes find them, only the ids of those
            that are needed are written.
    """
    settings, record = job.info.settings, job.info.record
    needed = select_needed(record, messages)
    request: JobRequest = {
        "version": VERSION,
        "cycle_id": job.cycle_id,
        "key": job.key,
        "thread_id": record["thread_id"],
        "resource_id": record["resource_id"],
        "about": list(job.about),
        "operation": decision.operation,
        "count": decision.count,
        "at": now.isoformat(),
        "actor": actor,
        "record": {**record, "timezone": name_zone(settings.timezone, now)},
        "settings": digest_settings(settings),
    }
    archiving = settings.parts.archive
    keys = None if archiving is None else archiving.name_messages(record, needed)
    if keys is not None:
        request["message_ids"] = keys
    else:
        request["messages"] = [message_to_dict(message) for message in needed]
    return request


def digest_settings(settings: Settings) -> dict[str, str]:
    """Return a digest of each setting that changes what a job comes to, by its option.

    Models and what hooks do are left out: these are each process's own.
    """
    # A worker need not know the Actor's model, its window, nor what is shown of a message.
    counter = "" if settings.counts_as_actor else base_of(settings.counter).identity
    values: dict[str, Any] = {
        "token_counter": counter,
        "scope": settings.scope,
        "hides_ids": settings.hides_ids,
        "transforms": settings.transforms,
        "continuation_hints": [name for name in settings.hints if name != TITLE],
        "gap_markers": settings.shortest_gap and settings.shortest_gap.total_seconds(),
    }
    observation, reflection = settings.configured or (settings.observation, settings.reflection)
    for option, config in (("observation", observation), ("reflection", reflection)):
        values |= {
            f"{option}.{name}": value for name, value in vars(config).items() if name != "model"
        }
    write = partial(json.dumps, default=_name, sort_keys=True)
    return {name: derive_id("setting", write(value)) for name, value in sorted(values.items())}


def read_request(settings: Settings, request: Mapping[str, Any]) -> EffectFlow[Cycle]:
    """Read a request, and describe the cycle that it asks for.

    Raises:
        ConfigurationError: When this process has other settings, or what the job is about is not
            as it was, so that its result would fit nowhere.
        ArchiveError: When the storage fails.
    """
    given = _check(settings, request)
    record = complete_record(given["record"])
    settings = settings.count_like(record).in_zone(record.get("timezone"))
    if "message_ids" in given:
        if settings.parts.archive is None:
            msg = f"the job {given['cycle_id']!r} keeps its messages in an `archive`; set `archive`"
            raise ConfigurationError(msg)
        messages = yield from settings.parts.archive.find_messages(
            record, given["thread_id"], given["message_ids"]
        )
    else:
        messages = messages_from_dict(given["messages"])
    window = open_window(record, messages, settings.counter)
    decision = Decision("buffer", given["operation"], given["count"])
    now = datetime.fromisoformat(given["at"])
    job = None
    if decision.operation == OTHERS:
        cycle_id = given["cycle_id"]
        return describe_job(settings, record, window, decision, now, cycle_id=cycle_id)
    if decision.operation != "observation" or decision.count <= len(window.entries):
        job = describe_job(settings, record, window, decision, now)
    if job is None or job.cycle_id != given["cycle_id"]:
        msg = (
            f"the job {given['cycle_id']!r} cannot be carried out: its messages have "
            f"changed since it was requested; drop it, and memory requests another"
        )
        raise ConfigurationError(msg)
    return job


def carry_out_request(settings: Settings, request: Mapping[str, Any]) -> EffectFlow[JobResult]:
    """Carry out a job that was asked for elsewhere, and return its result.

    Raises:
        ConfigurationError: As `read_request`.
        ArchiveError: When the storage fails.
    """
    job = yield from read_request(settings, request)
    yield job.start
    result = yield from run_ahead(job)
    yield result
    return cast("JobResult", result)


def _check(settings: Settings, request: Mapping[str, Any]) -> JobRequest:
    version = request.get("version") if isinstance(request, Mapping) else None
    if version != VERSION:
        msg = f"`request` has version {version!r}; this package reads version {VERSION}"
        raise ConfigurationError(msg)
    own, theirs = digest_settings(settings), request["settings"]
    others = [name for name in {**own, **theirs} if own.get(name) != theirs.get(name)]
    if others:
        msg = (
            f"the job {request['cycle_id']!r} was requested with a different "
            f"{', '.join(f'`{name}`' for name in sorted(others))}; create the worker's "
            f"ObservationalMemory with the same options"
        )
        raise ConfigurationError(msg)
    return cast("JobRequest", request)


def _name(value: Any) -> Any:
    """Name what is no JSON so that another process names it alike."""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return sorted(map(str, value))
    key = getattr(value, "key", None)  # of a ZoneInfo
    return key if isinstance(key, str) else f"{type(value).__qualname__} {value}"


def do_job(job: Cycle, context: RunContext) -> JobResult:
    """Do a job in this process, and return its result."""
    return cast("JobResult", drive(run_job(job), context).events[-1])


CALL_SECONDS = 5.0
"""How long a call to the server may take, and so how long a turn waits for its answer."""
_GONE = 404
_NO_ROOM = frozenset({429, 503})
"""The answers of a server that is too busy."""
_SENT = "sent "
"""How the name begins under which a job is claimed that no worker has begun."""
_PATIENCE = 2.0
"""Seconds that a turn waits for a job to begin, before it does the work itself."""
_MOST_AWAITED: Final = 1024
"""Of so many jobs, the newest, `flush` waits for the end."""


class ServerBuffering(SharingExecutor):
    """Send jobs to a LangGraph server, as background runs of the graph that `worker_graph` returns.

    Each job is a stateless run, in a thread that the server creates for it and deletes when it is
    done. So no part of a conversation stays on the server, and runs of one conversation need not
    wait for each other. The archive ensures that a job counts once: the sender claims the job, the
    worker takes over the claim, and only the result of the last claim counts. A job
    without a result is sent again once its claim has ended, after five minutes.

    `memory.delete_thread` and `delete_resource` also delete the runs for what they delete.

    It needs an archive, the same for the agent and the worker.

    Args:
        url: The server's URL; the client reads its key from the environment. `None`: the server in
            whose process the agent runs.
        client: Instead, a synchronous client of `langgraph_sdk`, such as one with its own headers.
        graph: The name of the worker's graph in the server's `langgraph.json`, or an assistant's
            id.

    Raises:
        ConfigurationError: When both `url` and `client` are given.
    """

    def __init__(
        self, url: str | None = None, *, client: Any = None, graph: str = "om_worker"
    ) -> None:
        if url is not None and client is not None:
            msg = "`url` and `client` are both given; pass one of them"
            raise ConfigurationError(msg)
        self._url, self._given, self._graph = url, client, graph
        self.begin_anew()
        begin_anew_after_fork(self)

    def __repr__(self) -> str:
        return f"ServerBuffering(graph={self._graph!r})"  # the URL may hold a password

    def begin_anew(self) -> None:
        """Begin without connections and jobs; those of a process that forked are its own."""
        self._lock, self._client = threading.Lock(), self._given
        self._sent: deque[str] = deque(maxlen=_MOST_AWAITED)

    def _find_archive(self) -> SQLAlchemyArchive:
        if self.archive is None:
            msg = "`ServerBuffering` has no archive; use it as `buffering` of a memory that has one"
            raise ConfigurationError(msg)
        return self.archive

    def _call(self, ask: Callable[[Any], Any]) -> Any:
        """Call the server, and wait for its answer."""
        if self._client is None and self._url is None:
            if "langgraph_api" not in sys.modules:
                msg = (
                    "`ServerBuffering()` without a `url` works only in a LangGraph server's "
                    "process, and this isn't one; pass the server's URL or a client"
                )
                raise ConfigurationError(msg)
            # Of this process the client is asynchronous alone; the loop around may be the server's.
            return in_thread(lambda: asyncio.run(_ask_here(ask)), "om_server").result()
        with self._lock:
            self._client = self._client or _make_client(self._url)
        return ask(self._client)

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
        """Send a job, unless it is already known; waits until the server confirms it.

        Returns:
            Whether the job is known now; `False` when the archive fails, or the server is too busy.
            If sending fails in another way, that failure is the job's result.

        Raises:
            ConfigurationError: When there is no archive.
        """
        archive, sender = self._find_archive(), f"{_SENT}{uuid4().hex}"
        if self.is_closed or request is None:
            return False
        if (claimed := self.claim(cycle_id, sender, whose)) != "mine":
            return claimed is not None
        self._sent.append(cycle_id)
        job = request()
        try:
            self._call(partial(self._start_run, job, sender))
        except Exception as error:  # noqa: BLE001 whatever the server does, the turn goes on
            self._forget_sent(cycle_id)
            if status_of(error) in _NO_ROOM:
                archive.release(cycle_id, sender)
                return False
            # Should the run have begun all the same, it finds the job done.
            archive.finish(cycle_id, sender, fail_request(job, error))
        return True

    def _start_run(self, request: JobRequest, sender: str, client: Any) -> Any:
        return client.runs.create(
            None,
            self._graph,
            input={"request": request, "sender": sender},
            metadata=describe_run(request),
            durability="exit",
            on_completion="delete",
        )

    def _forget_sent(self, cycle_id: str) -> None:
        with suppress(ValueError):
            self._sent.remove(cycle_id)

    # --- What became of a job --------------------------------------------------------------------

    def peek(self, cycle_id: str) -> JobState:
        self._find_archive()
        state = self.read(cycle_id)
        if state != "running":
            self._forget_sent(cycle_id)
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
        archive = self._find_archive()
        try:
            job = archive.job(cycle_id)
            if job is None or not job.owner.startswith(_SENT):
                return False
            is_gone = archive.release(cycle_id, job.owner)
        except ArchiveError:
            return False
        if is_gone:
            self._forget_sent(cycle_id)
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
            logger.warning("runs for deleted data may be on a server: %s", error)

    def _find_runs(self, metadata: dict[str, Any]) -> set[str]:
        """Return threads of runs with this in their metadata, a hundred at most."""
        found = self._call(
            lambda client: client.threads.search(metadata=metadata, limit=100, select=["thread_id"])
        )
        return {str(each["thread_id"]) for each in found}

    def _delete_run(self, thread_id: str) -> None:
        """Delete the thread of a run; one that is gone already is as well."""
        try:
            self._call(lambda client: client.threads.delete(thread_id))
        except Exception as error:
            if status_of(error) != _GONE:
                raise

    # --- The end ---------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        began = time.monotonic()
        while [each for each in self._sent.copy() if self.peek(each) == "running"]:
            if timeout is not None and time.monotonic() - began >= timeout:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def close(self, timeout: float = 5.0) -> bool:
        self.is_closed = True
        is_done = self.flush(timeout)
        if self._client is not None and self._given is None:
            self._client.close()
            self._client = None
        return is_done


def _make_client(url: str | None) -> Any:
    """Return the client of a URL, without its retries: they take seconds, and a turn waits."""
    import httpx  # noqa: PLC0415 only who sends jobs needs them
    from langgraph_sdk import get_sync_client  # noqa: PLC0415
    from langgraph_sdk.client import SyncLangGraphClient  # noqa: PLC0415

    with get_sync_client(url=url) as usual:
        told = usual.http.client
        plain = httpx.Client(base_url=told.base_url, headers=told.headers, timeout=CALL_SECONDS)
    return SyncLangGraphClient(plain)


async def _ask_here(ask: Callable[[Any], Any]) -> Any:
    """Ask the server in whose process this is."""
    from langgraph_sdk import get_client  # noqa: PLC0415 only who sends jobs needs it

    async with asyncio.timeout(CALL_SECONDS), get_client(url=None) as client:
        return await ask(client)
