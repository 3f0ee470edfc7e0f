"""What runs buffering jobs: the methods of an executor, and the answers that memory expects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from langgraph_om.core.effects import JobState
from langgraph_om.core.wire import JobRequest, JobResult

Work = Callable[[], JobResult]
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
        work: Work,
        *,
        thread_id: str = "",
        resource_id: str | None = None,
        about: Sequence[str] = (),
        request: Callable[[], JobRequest] | None = None,
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
class DelayingExecutor(Executor, Protocol):
    """An executor that can begin a job later, beyond the life of this process."""

    def submit_after(
        self, seconds: float, cycle_id: str, key: str, *, request: Callable[[], JobRequest]
    ) -> bool:
        """Have a job carried out after some time, instead of one with the same key that waits.

        It is not known before it has begun. It may raise; the conversation then goes on without.

        Args:
            seconds: After how many.
            cycle_id: The job's id.
            key: Whose pause it is.
            request: Returns the job as plain JSON.

        Returns:
            Whether it was taken.
        """


@runtime_checkable
class ForgettingExecutor(Executor, Protocol):
    """An executor that keeps something of jobs which deletions shall reach."""

    def forget(self, *, thread_id: str | None = None, resource_id: str | None = None) -> None:
        """Delete the jobs of a thread, or of all threads of a resource, wherever they wait.

        Args:
            thread_id: The thread that is deleted.
            resource_id: The resource that is deleted.

        Raises:
            Exception: Whatever keeps them from being deleted.
        """
