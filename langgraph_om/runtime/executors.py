"""Where buffering jobs run: beside the conversation, or in the step.

An executor knows jobs by the id of their cycle. `BackgroundBuffering` keeps results until they are
pushed out by newer ones. Results are looked at, never taken away: a fork and a repeated superstep
see the same one. With an archive, the workers that share it run each job once and see each other's
results.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import Field

from langgraph_om.archive import Claim, MessageArchive
from langgraph_om.archive.protocol import begin_anew_after_fork
from langgraph_om.core.config.options import (
    Hint,
    Rule,
    check_count,
    check_number,
    check_seconds,
)
from langgraph_om.core.content.message_keys import add_parents
from langgraph_om.core.effects import JobState
from langgraph_om.core.wire import JobRequest, JobResult
from langgraph_om.runtime.leases import Leases, share_leases

JobWork = Callable[[], JobResult]
"""A job to run in this process; it returns the event that is its result, and does not raise."""


@runtime_checkable
class Executor(Protocol):
    """Runs jobs beside the conversation, in this process or in another.

    A job is known by the id of its cycle, and is done once: its result is looked at, by forks and
    repeated steps too, and not taken away. Methods are called from several threads. One that raises
    costs no turn: the job counts as not taken, or as still running. `executor_conformance` in
    `langgraph_om.testing` checks an executor.
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
_BROKEN = "a buffering job ended with an error; its messages stay as they are"


@dataclass(eq=False)
class _Job:
    """A job and what came of it."""

    cycle_id: str
    key: str
    work: Callable[[], JobResult] | None
    """What to run, in the context of the run that asked for it; both are dropped once it is done,
    because they hold the whole conversation."""
    loop: asyncio.AbstractEventLoop | None = None
    """The event loop of the run that asked for it, where it can be awaited there."""
    awaited: Callable[[], Awaitable[JobResult]] | None = None
    threads: Sequence[str] = ()
    """The thread it works for, and those that its result tells of."""
    resource_id: str | None = None
    is_withdrawn: bool = False
    """Whether what it comes to is not to be kept any more."""
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    task: asyncio.Task[None] | None = None
    is_ending: bool = False
    """Whether what the task came to is being kept."""
    result: JobResult | None = None
    done: threading.Event = field(default_factory=threading.Event)


_WORKERS = 4
_TASKS = 256
_check_patience = Rule[float](Annotated[float, Field(ge=0), Hint("seconds, 0 or more")]).check


class BackgroundBuffering(ForgettingExecutor):
    """Buffer in threads beside the conversation (the default), and in tasks where these are busy.

    A job of an asynchronous run becomes a task of its event loop when every thread has a job and
    the models can be awaited. When that loop ends, a thread does the job anew.

    A turn never waits for a job before the window reaches `block_after`. Jobs outlive event loops
    and runs; those still at work when the interpreter exits are waited for `exit_timeout` seconds
    and then left behind, their messages simply stay unobserved. With an archive, their results are
    there for the next process, and what a process leaves behind is begun again by another.

    Args:
        workers: How many jobs run at once in threads; `None`: 4.
        tasks: How many more run at once as tasks; `None`: 256, and none where `workers` is given.
        queue: How many more may wait; a job beyond is refused and tried again later.
        exit_timeout: Seconds that the interpreter's exit waits for jobs at most.

    Raises:
        ConfigurationError: When a number is out of range.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        tasks: int | None = None,
        queue: int = 256,
        exit_timeout: float = 5.0,
    ) -> None:
        most = (_TASKS if workers is None else 0) if tasks is None else tasks
        self._workers = check_count("workers", _WORKERS if workers is None else workers)
        self._tasks, self._queue = check_number("tasks", most), check_number("queue", queue)
        self._exit_timeout = _check_patience("exit_timeout", exit_timeout)
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self.is_closed = False
        """Whether no more jobs are taken."""
        self._leases: Leases | None = None
        self.begin_anew()
        begin_anew_after_fork(self)
        _close_at_exit(self)

    def __repr__(self) -> str:
        return (
            f"BackgroundBuffering(workers={self._workers}, tasks={self._tasks}, "
            f"queue={self._queue}, exit_timeout={self._exit_timeout})"
        )

    def begin_anew(self) -> None:
        """Begin without work; in a forked process the results of finished jobs are known still."""
        self._lock = threading.Condition()
        done = [job for job in self._jobs.values() if job.result is not None]
        self._jobs = OrderedDict(
            (job.cycle_id, replace(job, done=_make_set_event())) for job in done
        )
        self._asked: set[_Job] = set()
        self._waiting: deque[_Job] = deque()
        self._running: set[str] = set()
        self._awaited: set[_Job] = set()
        self._threads = 0

    def share(self, archive: MessageArchive, seconds: float = 120.0) -> None:
        """Run jobs for, and take results from, all workers with this archive.

        Args:
            archive: What the workers share. Asking for the same one again changes nothing.
            seconds: How long a job of a worker that died waits for another worker.

        Raises:
            ConfigurationError: When it shares another archive already.
        """
        lasts = check_seconds("seconds", seconds)
        with self._lock:
            self._leases = share_leases(self._leases, archive, lasts, "BackgroundBuffering")

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
        with self._lock:
            self._leave_closed_loops()
            known = self._jobs.get(cycle_id)
            if known is not None and not _has_failed(known):
                return True
            busy = key in self._running or any(
                job.key == key for job in (*self._waiting, *self._asked, *self._awaited)
            )
            threads = (thread_id, *about)
            job = _Job(cycle_id, key, work, threads=threads, resource_id=resource_id)
            awaited = getattr(work, "awaited", None)  # of a job whose models can be awaited
            if self._tasks and awaited is not None:
                job.loop, job.awaited = _find_loop(), awaited
            most = self._queue + self._workers
            if job.loop is not None:
                most += self._tasks - len(self._awaited)
            if self.is_closed or busy or most <= len(self._waiting) + len(self._asked):
                return False
            self._jobs[cycle_id] = job
            self._forget_old()
            if self._leases is None:
                self._enqueue(job)
            else:
                self._asked.add(job)
                tell = partial(self._answered, job)
                self._leases.ask(
                    cycle_id, thread_id, resource_id, tell, about=about, deletion=deletion
                )
            return True

    def _answered(self, job: _Job, claim: Claim) -> bool:
        """Run a job that is this worker's, leave it to another that has it; tell if it is run."""
        with self._lock:
            if job not in self._asked:
                return False
            self._asked.discard(job)
            if claim == "mine":
                self._enqueue(job)
                self._lock.notify_all()
            else:
                self._end(job, None)
            return claim == "mine"

    def _enqueue(self, job: _Job) -> None:
        loop, at_work = job.loop, len(self._running) + len(self._waiting)
        if loop is not None and at_work >= self._workers and len(self._awaited) < self._tasks:
            self._awaited.add(job)
            try:
                loop.call_soon_threadsafe(self._begin_task, job)
            except RuntimeError:  # it was closed meanwhile
                self._awaited.discard(job)
            else:
                return
        self._wait_for_thread(job)

    def _wait_for_thread(self, job: _Job) -> None:
        job.loop = None
        self._waiting.append(job)
        if self._threads < self._workers and self._threads < self._unfinished():
            self._threads += 1
            threading.Thread(target=self._serve, name="om_buffer", daemon=True).start()

    def peek(self, cycle_id: str) -> JobState:
        state = self._known(cycle_id)
        return self._leases.read(cycle_id) if state is None and self._leases else state

    def _known(self, cycle_id: str) -> JobState:
        with self._lock:
            self._leave_closed_loops()
            job = self._jobs.get(cycle_id)
        if job is None:
            return None
        return job.result if job.done.is_set() else "running"

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        ends_at = time.monotonic() + timeout
        with self._lock:
            job = self._jobs.get(cycle_id)
            if job is not None:  # until its lease is granted nobody knows whether it has to wait
                self._lock.wait_for(lambda: job not in self._asked, timeout)
            if timeout > 0:
                self._leave_loops()
            if job is not None and job in self._waiting and len(self._running) >= self._workers:
                self._waiting.remove(job)
                self._end(job, None)
                self._leave(job)
                return "withdrawn"
        if job is not None:
            job.done.wait(max(0.0, ends_at - time.monotonic()))
        state = self._known(cycle_id)
        if state is not None or self._leases is None:
            return state
        return self._leases.wait(cycle_id, max(0.0, ends_at - time.monotonic()))

    def flush(self, timeout: float | None = None) -> bool:
        with self._lock:
            if timeout is None or timeout > 0:
                self._leave_loops()
            return self._lock.wait_for(lambda: not self._unfinished(), timeout)

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        wanted = frozenset(thread_ids)

        def is_meant(job: _Job) -> bool:
            if resource_id is not None and job.resource_id == resource_id:
                return True
            return not wanted.isdisjoint(add_parents(job.threads))

        with self._lock:
            for job in filter(is_meant, [*self._jobs.values()]):
                del self._jobs[job.cycle_id]
                self._release(job)
                job.is_withdrawn = True
                if job in self._waiting:
                    self._waiting.remove(job)
                elif job in self._awaited and not job.is_ending:
                    self._leave_task(job)
                elif job in self._asked:
                    self._asked.discard(job)
                else:  # done, or at work in a thread
                    continue
                self._end(job, None)

    def close(self, timeout: float = 5.0) -> bool:
        with self._lock:
            self.is_closed = True
            for job in (*self._waiting, *self._asked):
                self._end(job, None)
                self._leave(job)
            self._waiting.clear()
            self._asked.clear()
            for job in self._list_stuck():
                self._leave_task(job)
                self._end(job, None)
                self._leave(job)
        ends_at = time.monotonic() + timeout
        is_done = self.flush(timeout)
        if is_done:  # its leases are given back
            self.leave(max(0.0, ends_at - time.monotonic()))
        return is_done

    def leave(self, timeout: float = 1.0) -> None:
        """Let other workers begin again what is at work here, because the process ends."""
        if self._leases is not None:
            self._leases.leave_all(timeout)

    def _leave(self, job: _Job) -> None:
        if self._leases is not None:
            self._leases.leave(job.cycle_id)

    def _release(self, job: _Job) -> None:
        if self._leases is not None:
            self._leases.release(job.cycle_id)

    def _end(self, job: _Job, result: JobResult | None) -> None:
        """Note what came of a job, and let go of the run that asked; without a result, of all."""
        job.work, job.awaited, job.loop, job.task, job.result = None, None, None, None, result
        job.context = contextvars.Context()
        if result is None and self._jobs.get(job.cycle_id) is job:
            del self._jobs[job.cycle_id]
        job.done.set()
        self._lock.notify_all()

    def _unfinished(self) -> int:
        return len(self._asked) + len(self._waiting) + len(self._running) + len(self._awaited)

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
            result = self._run(job)
            with self._lock:
                self._running.discard(job.key)
                self._end(job, result)

    # --- Tasks of the runs' event loops ----------------------------------------------------------

    def _begin_task(self, job: _Job) -> None:
        """Await a job; called in its event loop."""
        with self._lock:
            if job in self._awaited and job.loop is not None:
                job.task = job.loop.create_task(self._await(job), context=job.context)

    async def _await(self, job: _Job) -> None:
        try:
            result = await job.awaited() if job.awaited is not None else None
        except Exception:
            logger.exception(_BROKEN)
            result = None
        except BaseException:  # the loop ends before the job does
            self._go_on_in_thread(job)
            raise
        with self._lock:
            if job in self._awaited:
                job.work = lambda: result  # type: ignore[assignment]
        try:
            await asyncio.to_thread(self._conclude, job, result)
        except BaseException:  # before a thread was free for it
            self._go_on_in_thread(job)
            raise

    def _conclude(self, job: _Job, result: JobResult | None) -> None:
        """Keep what a task came to."""
        with self._lock:
            if job not in self._awaited:
                return
            job.is_ending = True
        result = self._keep(job, result)
        with self._lock:
            self._awaited.discard(job)
            self._end(job, result)

    def _go_on_in_thread(self, job: _Job) -> None:
        with self._lock:
            if job not in self._awaited or job.is_ending:
                return
            self._leave_task(job)
            if self.is_closed:
                self._end(job, None)
                self._leave(job)
            else:
                self._wait_for_thread(job)
                self._lock.notify_all()

    def _leave_task(self, job: _Job) -> None:
        """Let a task end without its job, which may be at work elsewhere before it does."""
        self._awaited.discard(job)
        job.context = job.context.copy()  # no two are in one context at once
        if job.loop is not None and job.task is not None:
            with suppress(RuntimeError):  # the loop was closed
                job.loop.call_soon_threadsafe(job.task.cancel)

    def _list_stuck(self) -> list[_Job]:
        """List the tasks that do not go on while this thread waits."""
        own, loops = _find_loop(), [(job, job.loop) for job in self._awaited if not job.is_ending]
        return [job for job, loop in loops if loop is None or loop is own or not loop.is_running()]

    def _leave_loops(self) -> None:
        """Let threads go on with tasks that would not end while this thread waits."""
        for job in self._list_stuck():
            self._go_on_in_thread(job)

    def _leave_closed_loops(self) -> None:
        """Let threads go on with tasks that will never end."""
        for job in [each for each in self._awaited if each.loop and each.loop.is_closed()]:
            self._go_on_in_thread(job)

    def _run(self, job: _Job) -> JobResult | None:
        """Run a job, and keep its result for all workers."""
        work, job.work = job.work, None
        try:
            result = job.context.run(work) if work else None
        except BaseException:
            logger.exception(_BROKEN)
            result = None
        return self._keep(job, result)

    def _keep(self, job: _Job, result: JobResult | None) -> JobResult | None:
        """Keep what came of a job for all workers, and return what counts."""
        if job.is_withdrawn:
            return None
        if self._leases is None:
            return result
        if result is None:
            self._leases.release(job.cycle_id)
            return None
        return self._leases.finish(job.cycle_id, result)


def _find_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread; `None` where none is running."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


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
