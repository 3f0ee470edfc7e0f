"""Where buffering jobs run: beside the conversation, or in the step.

An executor knows jobs by the id of their cycle. `BackgroundBuffering` keeps results until they are
pushed out by newer ones. Results are looked at, never taken away: a fork and a repeated superstep
see the same one. With an archive, the workers that share it run each job once and see each other's
results.
"""

from __future__ import annotations

import atexit
import contextvars
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from langgraph_om.archive.forks import begin_anew_after_fork
from langgraph_om.archive.types import CLAIM_SECONDS
from langgraph_om.core.config.options import check_count, check_number, check_seconds
from langgraph_om.core.content.message_keys import add_parents
from langgraph_om.core.effects import JobState
from langgraph_om.core.wire import JobRequest, JobResult
from langgraph_om.runtime.claims import POLL_SECONDS, Claims

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

JobWork = Callable[[], JobResult]
"""A job to run in this process; it returns the event that is its result, and does not raise."""


@runtime_checkable
class Executor(Protocol):
    """Runs jobs beside the conversation, in this process or in another.

    A job is known by the id of its cycle, and is done once: its result is looked at, by forks and
    repeated steps too, and not taken away. Methods are called from several threads. One that raises
    costs no turn: the job counts as not taken, or as still running.
    """

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
        request: Callable[[], JobRequest],
    ) -> bool:
        """Take a job, unless it is known already; never waits for its end.

        Args:
            cycle_id: The job's id; a known one is not run again, since another attempt has
                another id.
            key: Of jobs with the same key one runs at a time.
            work: Runs the job in this process.
            thread_id: The thread it works for.
            resource_id: The resource it works for.
            about: Other threads that its result tells of.
            deletion: How many deletions of thread and resource its messages are from after.
            request: Returns the job as plain JSON, for another process, where
                `memory.run_job(request)` carries it out.

        Returns:
            Whether the job is known now; `False` when there is no room for it. It is tried again
            later then.
        """

    def peek(self, cycle_id: str) -> JobState:
        """Return a job's result, `"running"`, `"expired"` or `None`, without waiting.

        `"expired"` is a job whose worker is gone; `None` one that is not known (any more). Either
        is begun again.
        """

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        """Do the same as `peek`, once the job has ended or so many seconds have passed.

        `"withdrawn"` says that the executor took back a job that had not begun: the turn that waits
        does the work.
        """

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until no job that was submitted here is at work, and return whether none is left.

        Args:
            timeout: Seconds to wait at most; `None`: as long as it takes.
        """

    def close(self, timeout: float = 5.0) -> bool:
        """Take no more jobs, wait for those at work, and return whether none is left."""


@runtime_checkable
class ForgettingExecutor(Executor, Protocol):
    """An executor that keeps something of jobs which deletions shall reach."""

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        """Delete the jobs of threads, and those of a resource, wherever they wait.

        One that is at work may go on; what it comes to is kept nowhere.

        Args:
            thread_ids: The threads: those that a job works for, within which that one runs
                (`t` of `t|>...`), or of which its result tells (`about`). All of a resource's, as a
                run may have named no resource.
            resource_id: Whose jobs are deleted, whatever their thread.

        Raises:
            Exception: Whatever keeps them from being deleted.
        """


logger = logging.getLogger("langgraph_om")

_KEPT_RESULTS = 1024


@dataclass(eq=False)
class _Job:
    """A job and what came of it."""

    cycle_id: str
    key: str
    work: JobWork | None
    """What to run, in the context of the run that asked for it; both are dropped once it is done,
    because they hold the whole conversation."""
    thread_id: str = ""
    resource_id: str | None = None
    about: Sequence[str] = ()
    deletion: int | None = None
    is_claimed: bool = False
    """Whether the archive has it as this worker's; work goes on without it when that fails."""
    is_forgotten: bool = False
    """Whether what it comes to is not to be kept any more."""
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    result: JobResult | None = None
    done: threading.Event = field(default_factory=threading.Event)


class BackgroundBuffering(ForgettingExecutor):
    """Buffer in threads beside the conversation (the default).

    A turn never waits for a job before the window reaches `block_after`. Jobs outlive event loops
    and runs; those still at work when the interpreter exits are waited for `exit_timeout` seconds
    and then left behind, their messages simply stay unobserved. With an archive, their results are
    there for the next process, and what a killed process leaves behind is begun again by another.

    Args:
        workers: How many jobs run at once.
        queue: How many more may wait; a job beyond is refused and tried again later.
        exit_timeout: Seconds that the interpreter's exit waits for jobs at most.

    Raises:
        ConfigurationError: When a number is out of range.
    """

    def __init__(self, workers: int = 32, *, queue: int = 256, exit_timeout: float = 5.0) -> None:
        self._workers = check_count("workers", workers)
        self._queue = check_number("queue", queue)
        self._exit_timeout = check_seconds("exit_timeout", exit_timeout, allows_zero=True)
        self._jobs: dict[str, _Job] = {}
        self.is_closed = False
        """Whether no more jobs are taken."""
        self._claims: Claims | None = None
        self.begin_anew()
        begin_anew_after_fork(self)
        _close_at_exit(self)

    def __repr__(self) -> str:
        return (
            f"BackgroundBuffering(workers={self._workers}, queue={self._queue}, "
            f"exit_timeout={self._exit_timeout})"
        )

    def begin_anew(self) -> None:
        """Begin without work; in a forked process the results of finished jobs are known still."""
        self._lock = threading.Condition()
        done = [job for job in self._jobs.values() if job.result is not None]
        self._jobs = {job.cycle_id: replace(job, done=_make_set_event()) for job in done}
        self._unfinished: set[_Job] = set()
        """Jobs that are asked for, wait for a thread, or are at work in one."""
        self._waiting: deque[_Job] = deque()
        self._threads = 0

    def share(self, archive: SQLAlchemyArchive, seconds: float = CLAIM_SECONDS) -> None:
        """Run jobs for, and take results from, all workers with this archive.

        Args:
            archive: What the workers share. Asking for the same one again changes nothing.
            seconds: How long a job of a worker that was killed waits for another worker.

        Raises:
            ConfigurationError: When it shares another archive already.
        """
        with self._lock:
            if self._claims is None:
                self._claims = Claims(archive, seconds, "BackgroundBuffering")
            self._claims.refuse_other(archive)

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
        job = _Job(cycle_id, key, work, thread_id, resource_id, about, deletion)
        with self._lock:
            known = self._jobs.get(cycle_id)
            if known is not None and not _has_failed(known):
                return True
            is_busy = any(other.key == key for other in self._unfinished)
            is_full = len(self._unfinished) >= self._workers + self._queue
            if self.is_closed or is_busy or is_full:
                return False
            self._jobs[cycle_id] = job
            self._unfinished.add(job)
            self._forget_old()
        is_ours = self._claim(job)
        with self._lock:
            if not job.done.is_set():
                if is_ours:
                    self._begin(job)
                else:
                    self._end(job, None)
                return True
            is_asked_again = cycle_id in self._jobs
        if is_ours and not is_asked_again:
            self._release(job)
        return True

    def _claim(self, job: _Job) -> bool:
        """Ask for a job; it is this worker's when the archive fails."""
        if self._claims is None:
            return True
        claim = self._claims.claim(
            job.cycle_id, job.thread_id, job.resource_id, job.about, deletion=job.deletion
        )
        job.is_claimed = claim == "mine"
        return claim in ("mine", None)

    def _release(self, job: _Job) -> None:
        if self._claims is not None and job.is_claimed:
            self._claims.release(job.cycle_id)

    def _begin(self, job: _Job) -> None:
        self._waiting.append(job)
        if self._threads < self._workers:
            self._threads += 1
            threading.Thread(target=self._serve, name="om_buffer", daemon=True).start()

    def peek(self, cycle_id: str) -> JobState:
        with self._lock:
            job = self._jobs.get(cycle_id)
        if job is not None:
            return job.result if job.done.is_set() else "running"
        return None if self._claims is None else self._claims.read(cycle_id)

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        ends_at = time.monotonic() + timeout
        with self._lock:
            job = self._jobs.get(cycle_id)
            is_stuck = job in self._waiting and self._threads >= self._workers
            if job is not None and is_stuck:
                self._end(job, None)
        if job is not None and is_stuck:
            self._release(job)
            return "withdrawn"
        if job is not None:
            job.done.wait(timeout)
        while (state := self.peek(cycle_id)) == "running":
            left = ends_at - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, POLL_SECONDS))
        return state

    def flush(self, timeout: float | None = None) -> bool:
        with self._lock:
            return self._lock.wait_for(lambda: not self._unfinished, timeout)

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        wanted = frozenset(thread_ids)
        with self._lock:
            for job in {*self._jobs.values(), *self._unfinished}:
                is_its = resource_id is not None and job.resource_id == resource_id
                if is_its or not wanted.isdisjoint(add_parents([job.thread_id, *job.about])):
                    job.is_forgotten = True
                    if self._jobs.get(job.cycle_id) is job:
                        del self._jobs[job.cycle_id]
                    if self._has_not_begun(job):
                        self._end(job, None)

    def close(self, timeout: float = 5.0) -> bool:
        with self._lock:
            self.is_closed = True
            dropped = [job for job in self._unfinished if self._has_not_begun(job)]
            for job in dropped:
                self._end(job, None)
        for job in dropped:
            self._release(job)
        return self.flush(timeout)

    def leave(self) -> None:
        """Let other workers begin again what is at work here, because the process ends."""
        with self._lock:
            left = list(self._unfinished)
        for job in left:
            self._release(job)

    def _has_not_begun(self, job: _Job) -> bool:
        return job in self._unfinished and job.work is not None

    def _end(self, job: _Job, result: JobResult | None) -> None:
        """Note what came of a job, and let go of the run that asked; without a result, of all."""
        job.work, job.result, job.context = None, result, contextvars.Context()
        self._unfinished.discard(job)
        if job in self._waiting:
            self._waiting.remove(job)
        if result is None and self._jobs.get(job.cycle_id) is job:
            del self._jobs[job.cycle_id]
        job.done.set()
        self._lock.notify_all()

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
                    return
                job = self._waiting.popleft()
                work, job.work = job.work, None
            result = self._run(job, work)
            with self._lock:
                self._end(job, result)

    def _run(self, job: _Job, work: JobWork | None) -> JobResult | None:
        """Run a job, keep its result for all workers, and return it if it counts."""
        try:
            result = None if work is None else job.context.run(work)
        except BaseException:
            logger.exception("a buffering job ended with an error; its messages stay as they are")
            result = None
        if job.is_forgotten or result is None:  # what raised is begun again when its claim ends
            return None
        if self._claims is None:
            return result
        is_ours = job.is_claimed or self._claim(job)  # the archive may have failed when it was new
        if not is_ours or (job.is_claimed and not self._claims.finish(job.cycle_id, result)):
            logger.warning(
                "the job %r is another worker's by now, or its thread was deleted; what came of it "
                "here is dropped",
                job.cycle_id,
            )
            return None
        return result


def _has_failed(job: _Job) -> bool:
    return job.result is not None and job.result.get("type") == "buffering-failed"


def _make_set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


_alive: weakref.WeakSet[BackgroundBuffering] = weakref.WeakSet()


def _close_at_exit(executor: BackgroundBuffering) -> None:
    """Have an executor closed when the interpreter exits, if there is still one then."""
    if not _alive:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _alive.add(executor)


def _close_all() -> None:
    began = time.monotonic()
    for executor in list(_alive):
        passed = time.monotonic() - began  # all of them are at work meanwhile
        executor.close(max(0.0, executor._exit_timeout - passed))  # noqa: SLF001 its own module
        executor.leave()


class InlineBuffering(Executor):
    """Buffer inside the step, before the Actor's call.

    Nothing runs beside or after the turn, so nothing is lost when the process ends: for tests,
    scripts and serverless functions. A turn that starts a job waits for the Observer, as long as
    `deadline` at most.
    """

    def __repr__(self) -> str:
        return "InlineBuffering()"

    def submit(self, *job: Any, **about: Any) -> bool:
        return False

    def peek(self, cycle_id: str) -> JobState:
        return None

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        return None

    def flush(self, timeout: float | None = None) -> bool:
        return True

    def close(self, timeout: float = 5.0) -> bool:
        return True


Buffering = BackgroundBuffering | InlineBuffering | Executor
"""How buffering jobs are run."""
