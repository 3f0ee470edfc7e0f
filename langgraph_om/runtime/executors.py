"""Where buffering jobs run: beside the conversation, or in the step.

An executor identifies jobs by their cycle's id. `BackgroundBuffering` keeps results until newer
ones push them out. Results are read, never removed: a fork and a repeated superstep see the same
one. With an archive, the workers that share it run each job once and see each other's results: a
worker claims a job until a fixed time, and nobody renews the claim. A result counts only from the
worker that claimed the job last, so a job that runs twice changes memory once.
"""

from __future__ import annotations

import atexit
import contextvars
import logging
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast, runtime_checkable
from uuid import uuid4

from langgraph_om.archive.types import CLAIM_SECONDS
from langgraph_om.core.config.options import check_count, check_seconds
from langgraph_om.core.content.message_keys import add_parents
from langgraph_om.core.effects import JobState
from langgraph_om.core.wire import JobRequest, JobResult
from langgraph_om.errors import ConfigurationError
from langgraph_om.forks import begin_anew_after_fork

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

logger = logging.getLogger("langgraph_om")

AnswerT = TypeVar("AnswerT")

POLL_SECONDS: Final = 0.2
"""How often another worker's job is checked while somebody waits for it."""

JobWork = Callable[[], JobResult]
"""A job to run in this process; it returns the event that is its result, and does not raise."""


@runtime_checkable
class Executor(Protocol):
    """Runs jobs in the background, in this process or in another.

    A job is identified by its cycle's id and done once: its result is read, also by forks and
    repeated steps, and never removed. Methods are called from several threads. An exception never
    ends a turn: the job counts as not accepted, or as still running.
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
        """Accept a job, unless it is already known; never waits for its end.

        Args:
            cycle_id: The job's id; a known one is not run again, since another attempt has
                another id.
            key: Only one job with the same key runs at a time.
            work: Runs the job in this process.
            thread_id: The thread it works for.
            resource_id: The resource it works for.
            about: Other threads that its result is about.
            deletion: How many deletions of thread and resource came before its messages.
            request: Returns the job as plain JSON, for another process, where
                `memory.run_job(request)` carries it out.

        Returns:
            Whether the job is known now; `False` if there is no room for it: memory tries again
            later.
        """

    def peek(self, cycle_id: str) -> JobState:
        """Return a job's result, `"running"`, `"expired"` or `None`, without waiting.

        `"expired"` means that the job's worker is gone; `None`, that the job is unknown. In both
        cases, memory starts it again.
        """

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        """Do the same as `peek`, once the job has ended or `timeout` seconds have passed.

        `"withdrawn"` means that the executor took back a job that had not begun: the waiting turn
        does the work.
        """

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until no job submitted here is running, and return whether none is left.

        Args:
            timeout: The most seconds to wait; `None`: no limit.
        """

    def close(self, timeout: float = 5.0) -> bool:
        """Accept no more jobs, wait for running ones, and return whether none is left."""

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        """Delete the jobs of threads, and those of a resource, wherever they wait.

        A running job may go on, but its result is not kept.

        Args:
            thread_ids: The threads: those that a job works for, those within which such a thread
                runs (`t` of `t|>...`), or those its result is about (`about`). Pass all threads of
                a resource, as a run may have named no resource.
            resource_id: The resource whose jobs are deleted, whatever their thread.

        Raises:
            Exception: Whatever keeps them from being deleted.
        """


class SharingExecutor(Executor):
    """An executor whose jobs are run once by all workers that share an archive."""

    is_closed = False
    """Whether no more jobs are taken."""
    archive: SQLAlchemyArchive | None = None
    """What the workers share; `None`: each is alone."""
    seconds = CLAIM_SECONDS
    """How long a claim of a job lasts."""
    _is_failing = False

    def share(self, archive: SQLAlchemyArchive, seconds: float = CLAIM_SECONDS) -> None:
        """Run jobs for, and take results from, all workers with this archive.

        Args:
            archive: What the workers share. Asking for the same one again changes nothing.
            seconds: After how long a job of a worker that was killed begins again.

        Raises:
            ConfigurationError: When it shares another archive already.
        """
        if self.archive is None:
            self.archive, self.seconds = archive, check_seconds("seconds", seconds)
        if self.archive is not archive:
            msg = (
                f"`buffering` is shared by memories with different archives; give each its own "
                f"{type(self).__name__}(), or give all the same archive object"
            )
            raise ConfigurationError(msg)

    def claim(self, cycle_id: str, owner: str, whose: Mapping[str, Any]) -> str | None:
        """Ask the archive for a job: `"mine"`, `"taken"` or `"done"`; `None` while it fails."""
        about = {"thread_id": "", "resource_id": None, **whose, "seconds": self.seconds}
        return self.ask(lambda archive: archive.claim(cycle_id, owner, **about))

    def read(self, cycle_id: str) -> JobState:
        """Return what the archive knows of a job; while it fails, each one is believed to run."""
        found = self.ask(lambda archive: [archive.job(cycle_id)])
        if found is None:
            return "running"
        (job,) = found
        if job is None:
            return None
        if job.state == "done":
            return cast("JobResult", job.result)
        # One that ends later than any claim is from before the archive's clock was set back.
        return "expired" if job.expires_in > 2 * self.seconds else job.state

    def ask(self, ask: Callable[[SQLAlchemyArchive], AnswerT]) -> AnswerT | None:
        """Ask the archive; a failure is logged if the archive worked before."""
        try:
            answer = ask(cast("SQLAlchemyArchive", self.archive))
        except Exception as error:  # noqa: BLE001 - no archive stops a turn, whatever it raises
            if not self._is_failing:
                logger.warning("the archive failed; jobs continue without it: %s", error)
            self._is_failing = True
            return None
        self._is_failing = False
        return answer


# --- In threads ----------------------------------------------------------------------------------

_KEPT_RESULTS: Final = 1024
_CLAIM_PATIENCE: Final = 1.0
"""Seconds that a turn waits for the archive's answer at most; the job goes on waiting alone."""


@dataclass(eq=False)
class _Job:
    """A job and what came of it."""

    cycle_id: str
    key: str
    whose: Mapping[str, Any]
    has_begun: bool = False
    is_claimed: bool = False
    """Whether the archive has it as this worker's; work goes on without it when that fails."""
    is_forgotten: bool = False
    """Whether what it comes to is not to be kept any more."""
    result: JobResult | None = None


class BackgroundBuffering(SharingExecutor):
    """Run background work in threads (the default).

    A turn never waits for a job before the window reaches `block_after`. Jobs outlive event loops
    and runs. At exit, the interpreter waits `exit_timeout` seconds for running jobs; the messages
    of longer ones stay unobserved. With an archive, the next process finds the results, and another
    process takes over the jobs of a killed one.

    Args:
        workers: How many jobs run at once; further jobs are refused and retried later.
        exit_timeout: The most seconds that the interpreter's exit waits for jobs.

    Raises:
        ConfigurationError: When a number is out of range.
    """

    def __init__(self, workers: int = 64, *, exit_timeout: float = 5.0) -> None:
        self._workers = check_count("workers", workers)
        self.exit_timeout = check_seconds("exit_timeout", exit_timeout, allows_zero=True)
        self._jobs: dict[str, _Job] = {}
        self.begin_anew()
        begin_anew_after_fork(self)
        _alive.add(self)

    def __repr__(self) -> str:
        return f"BackgroundBuffering(workers={self._workers}, exit_timeout={self.exit_timeout})"

    def begin_anew(self) -> None:
        """Begin without work; in a forked process the results of finished jobs are known still."""
        self._lock = threading.Condition()
        self._owner = uuid4().hex
        self._jobs = {key: job for key, job in self._jobs.items() if job.result is not None}
        self._unfinished: set[_Job] = set()
        """Jobs that are asked for, or are at work in a thread."""

    def submit(
        self,
        cycle_id: str,
        key: str,
        work: JobWork,
        *,
        request: Callable[[], JobRequest] | None = None,
        **whose: Any,
    ) -> bool:
        job = _Job(cycle_id, key, whose)
        with self._lock:
            known = self._jobs.get(cycle_id)
            has_failed = known and known.result and known.result["type"] == "buffering-failed"
            if known is not None and not has_failed:
                return True
            is_busy = any(other.key == key for other in self._unfinished)
            if self.is_closed or is_busy or len(self._unfinished) >= self._workers:
                return False
            self._jobs[cycle_id] = job
            self._unfinished.add(job)
            finished = [key for key, job in self._jobs.items() if job not in self._unfinished]
            for old in finished[: max(0, len(self._jobs) - _KEPT_RESULTS)]:
                del self._jobs[old]
        run = partial(contextvars.copy_context().run, self._run, job, work)
        threading.Thread(target=run, name="om_buffer", daemon=True).start()
        if self.archive is not None:
            # Another worker that goes on with the thread would take an unclaimed job for lost.
            with self._lock:
                self._lock.wait_for(
                    lambda: job.has_begun or job not in self._unfinished, _CLAIM_PATIENCE
                )
        return True

    def _begin(self, job: _Job) -> bool:
        """Claim a job; not when another worker has it, or when it was forgotten meanwhile."""
        is_ours = self._claim(job)
        with self._lock:
            job.has_begun = is_ours and not job.is_forgotten
            self._lock.notify_all()
            is_asked_again = job.is_forgotten and job.cycle_id in self._jobs
        if is_ours and not job.has_begun and not is_asked_again:
            self._release(job)
        return job.has_begun

    def _claim(self, job: _Job) -> bool:
        """Ask for a job; it is this worker's when the archive fails."""
        if self.archive is None:
            return True
        claim = self.claim(job.cycle_id, self._owner, job.whose)
        job.is_claimed = claim == "mine"
        return claim in ("mine", None)

    def _release(self, job: _Job) -> None:
        """Let any worker begin a job again at once."""
        if job.is_claimed:
            self.ask(lambda archive: archive.release(job.cycle_id, self._owner))

    def peek(self, cycle_id: str) -> JobState:
        with self._lock:
            job = self._jobs.get(cycle_id)
            if job is not None:
                return "running" if job in self._unfinished else job.result
        return None if self.archive is None else self.read(cycle_id)

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        ends_at = time.monotonic() + timeout
        with self._lock:
            job = self._jobs.get(cycle_id)
            self._lock.wait_for(lambda: job not in self._unfinished, timeout)
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
                threads = add_parents([job.whose.get("thread_id", ""), *job.whose.get("about", ())])
                is_its = resource_id is not None and job.whose.get("resource_id") == resource_id
                if is_its or not wanted.isdisjoint(threads):
                    job.is_forgotten = True
                    if self._jobs.get(job.cycle_id) is job:
                        del self._jobs[job.cycle_id]
                    if not job.has_begun:
                        self._end(job, None)

    def close(self, timeout: float = 5.0) -> bool:
        self.is_closed = True
        return self.flush(timeout)

    def leave(self) -> None:
        """Let other workers begin again what is at work here, because the process ends."""
        with self._lock:
            left = list(self._unfinished)
        for job in left:
            self._release(job)

    def _end(self, job: _Job, result: JobResult | None) -> None:
        """Note what came of a job; without a result it is not known any more."""
        with self._lock:
            job.result = result
            self._unfinished.discard(job)
            if result is None and self._jobs.get(job.cycle_id) is job:
                del self._jobs[job.cycle_id]
            self._lock.notify_all()

    def _run(self, job: _Job, work: JobWork) -> None:
        """Claim and run a job, and keep its result if it counts."""
        result = None
        try:
            result = work() if self._begin(job) else None
        except BaseException:  # it is begun again when its claim ends
            logger.exception("a background job raised an error; its messages stay as they are")
        if result is None or job.is_forgotten or not self._share(job, result):
            result = None
        self._end(job, result)

    def _share(self, job: _Job, result: JobResult) -> bool:
        """Keep a result for all workers; return whether it is the job's."""
        if self.archive is None:
            return True
        is_ours = job.is_claimed or self._claim(job)  # the archive may have failed when it was new
        if job.is_claimed:
            kept = self.ask(lambda archive: archive.finish(job.cycle_id, self._owner, result))
            is_ours = kept is not False
        if not is_ours:
            logger.warning(
                "the job %r was taken over by another worker, or its thread was deleted; this "
                "result is dropped",
                job.cycle_id,
            )
        return is_ours


_alive: weakref.WeakSet[BackgroundBuffering] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Wait for the jobs at work when the interpreter exits."""
    began = time.monotonic()
    for executor in list(_alive):
        passed = time.monotonic() - began  # all of them are at work meanwhile
        executor.close(max(0.0, executor.exit_timeout - passed))
        executor.leave()


class InlineBuffering(Executor):
    """Run background work inside the step, before the Actor's call.

    Nothing runs during or after the turn, so nothing is lost when the process ends: for tests,
    scripts and serverless functions. A turn that starts a job waits for the Observer, at most for
    `deadline` seconds.
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

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        pass
