"""Where buffering jobs run: beside the conversation, in the step, or in the graph's superstep.

An executor knows jobs by the id of their cycle and keeps results until they are pushed out by newer
ones. Results are looked at, never taken away: a fork and a repeated superstep see the same one.
"""

from __future__ import annotations

import atexit
import contextvars
import logging
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from langgraph_om.core.collect import JobState
from langgraph_om.core.events import Event
from langgraph_om.errors import ConfigurationError

__all__ = ["BackgroundBuffering", "Buffering", "InlineBuffering", "ParallelBuffering"]

logger = logging.getLogger("langgraph_om")

Work = Callable[[], Event]
"""A job to run; it returns the event that is its result."""

_KEPT_RESULTS = 1024


class _InPlace:
    """An executor that never holds a job: work is done where it is due."""

    def peek(self, cycle_id: str) -> JobState:
        """Know no job."""
        del cycle_id
        return None

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        """Know no job, so wait for none."""
        del cycle_id, timeout
        return None

    def flush(self, timeout: float | None = None) -> bool:
        """Tell that nothing is left."""
        del timeout
        return True

    def close(self, timeout: float = 5.0) -> bool:
        """Tell that nothing is left."""
        del timeout
        return True


class InlineBuffering(_InPlace):
    """Buffer inside the step, before the Actor's call.

    Nothing runs beside or after the turn, so nothing is lost when the process ends: for tests,
    scripts and serverless functions. A turn that starts a job waits for the Observer, as long as
    `deadline` at most.
    """


class ParallelBuffering(_InPlace):
    """Buffer in the graph node `om_buffer`, in the same superstep as the Actor's call.

    LangGraph checkpoints the result; no thread outlives the step. The superstep lasts as long as
    the slower of the two calls. When the Actor fails meanwhile, an asynchronous run cancels the
    Observer and asks it again on resume; a synchronous one keeps its result. Not for the middleware
    door, which has no such superstep.
    """


@dataclass(eq=False)
class _Job:
    """A job and what came of it."""

    cycle_id: str
    key: str
    work: Callable[[], Event] | None
    """What to run, in the context of the run that asked for it; dropped once it is done, because
    it holds the whole conversation."""
    result: Event | None = None
    done: threading.Event = field(default_factory=threading.Event)


class BackgroundBuffering:
    """Buffer in threads beside the conversation (the default).

    A turn never waits for a job before the window reaches `block_after`. Jobs outlive event loops
    and runs; those still at work when the interpreter exits are waited for `exit_timeout` seconds
    and then left behind, their messages simply stay unobserved.

    Args:
        workers: How many jobs run at once.
        queue: How many more may wait; a job beyond is refused and tried again later.
        exit_timeout: Seconds that the interpreter's exit waits for jobs at most.

    Raises:
        ConfigurationError: When a number is out of range.
    """

    def __init__(self, workers: int = 4, *, queue: int = 256, exit_timeout: float = 5.0) -> None:
        for name, value, least in (("workers", workers, 1), ("queue", queue, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                msg = f"`{name}` is {value!r}; write a whole number, {least} or more"
                raise ConfigurationError(msg)
        if isinstance(exit_timeout, bool) or not exit_timeout >= 0:
            msg = f"`exit_timeout` is {exit_timeout!r}; write seconds, 0 or more"
            raise ConfigurationError(msg)
        self._workers = workers
        self._queue = queue
        self._lock = threading.Condition()
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._waiting: deque[_Job] = deque()
        self._running: set[str] = set()
        self._threads = 0
        self._closed = False
        atexit.register(_close_at_exit, weakref.ref(self), exit_timeout)

    def submit(self, cycle_id: str, key: str, work: Work) -> bool:
        """Start a job, unless it is known already.

        Args:
            cycle_id: The job's id; a known one is not run again, unless it failed.
            key: Of jobs with the same key one runs at a time.
            work: What to run; it must not raise.

        Returns:
            Whether the job is known now; `False` when there is no room for it, or another job with
            the same key is not done.
        """
        with self._lock:
            known = self._jobs.get(cycle_id)
            if known is not None and not _has_failed(known):
                return True
            busy = key in self._running or any(job.key == key for job in self._waiting)
            if self._closed or busy or len(self._waiting) >= self._queue + self._workers:
                return False
            job = _Job(cycle_id, key, partial(contextvars.copy_context().run, work))
            self._jobs[cycle_id] = job
            self._waiting.append(job)
            self._forget_old()
            if self._threads < self._workers and self._threads < self._unfinished():
                self._threads += 1
                threading.Thread(target=self._serve, name="om_buffer", daemon=True).start()
            return True

    def peek(self, cycle_id: str) -> JobState:
        """Return a job's result, `"running"`, or `None` for a job that is not known here."""
        with self._lock:
            job = self._jobs.get(cycle_id)
        if job is None:
            return None
        return job.result if job.done.is_set() else "running"

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        """Wait for a job's result, or withdraw a job that still waits for a free worker.

        Args:
            cycle_id: The job's id.
            timeout: Seconds to wait at most.

        Returns:
            The result, `"running"`, or `None` for a job that is not known here (any more): who
            waits can do its work as well.
        """
        with self._lock:
            job = self._jobs.get(cycle_id)
            if job is not None and job in self._waiting and len(self._running) >= self._workers:
                self._waiting.remove(job)
                del self._jobs[cycle_id]
                self._lock.notify_all()
                return None
        if job is not None:
            job.done.wait(max(0.0, timeout))
        return self.peek(cycle_id)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until no job is at work.

        Args:
            timeout: Seconds to wait at most; `None`: as long as it takes.

        Returns:
            Whether nothing is left.
        """
        ends_at = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while self._unfinished():
                left = None if ends_at is None else ends_at - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._lock.wait(left)
        return True

    def close(self, timeout: float = 5.0) -> bool:
        """Take no more jobs, drop those that wait, and wait for those at work.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether nothing is left.
        """
        with self._lock:
            self._closed = True
            for job in self._waiting:
                self._jobs.pop(job.cycle_id, None)
            self._waiting.clear()
        return self.flush(timeout)

    def _unfinished(self) -> int:
        return len(self._waiting) + len(self._running)

    def _forget_old(self) -> None:
        finished = [key for key, job in self._jobs.items() if job.done.is_set()]
        for key in finished[: max(0, len(self._jobs) - _KEPT_RESULTS)]:
            del self._jobs[key]

    def _serve(self) -> None:
        """Run waiting jobs until there is none."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    self._lock.notify_all()
                    return
                job = self._waiting.popleft()
                self._running.add(job.key)
            work, job.work = job.work, None
            try:
                job.result = work() if work else None
            except BaseException:
                logger.exception(
                    "a buffering job ended with an error; its messages stay as they are"
                )
            finally:
                work = None
                with self._lock:
                    if job.result is None:
                        self._jobs.pop(job.cycle_id, None)
                    self._running.discard(job.key)
                    job.done.set()
                    self._lock.notify_all()


def _has_failed(job: _Job) -> bool:
    return job.result is not None and job.result.get("type") == "buffering-failed"


def _close_at_exit(executor: weakref.ref[BackgroundBuffering], timeout: float) -> None:
    alive = executor()
    if alive is not None:
        alive.close(timeout)


Buffering = BackgroundBuffering | InlineBuffering | ParallelBuffering
"""How buffering jobs are run."""
