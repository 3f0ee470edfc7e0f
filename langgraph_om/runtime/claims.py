"""Claims: which worker runs a job, as all workers see it in the archive.

A claim has one end, and nobody renews it. A result counts only from the worker that claimed the job
last: a job that outlasts its claim may be done twice, and changes memory once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import uuid4

from langgraph_om.archive import Claim
from langgraph_om.archive.types import CLAIM_SECONDS
from langgraph_om.core.config.options import check_seconds
from langgraph_om.core.effects import JobState
from langgraph_om.core.wire import JobResult
from langgraph_om.errors import ConfigurationError

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

logger = logging.getLogger("langgraph_om")

AnswerT = TypeVar("AnswerT")

POLL_SECONDS = 0.2
"""How often a job of another worker is looked at while somebody waits for it."""


class Claims:
    """The jobs of one worker in the archive that all workers share. No failure of it is raised.

    Args:
        archive: What the workers share.
        seconds: How long a claim lasts.
        executor: The name of the executor that shares it, for the error.
    """

    def __init__(
        self, archive: SQLAlchemyArchive, seconds: float = CLAIM_SECONDS, executor: str = ""
    ) -> None:
        self.archive = archive
        self.seconds = check_seconds("seconds", seconds)
        self._executor = executor
        self._token = uuid4().hex
        self._is_failing = False

    @property
    def owner(self) -> str:
        """Who claims; a forked process is another one."""
        return f"{self._token}.{os.getpid()}"

    def refuse_other(self, archive: SQLAlchemyArchive) -> None:
        """Raise when the executor is to share another archive as well."""
        if archive is not self.archive:
            msg = (
                f"`buffering` is shared by memories with different archives; give each its own "
                f"{self._executor}(), or all the same archive object"
            )
            raise ConfigurationError(msg)

    def claim(
        self,
        job_id: str,
        thread_id: str,
        resource_id: str | None,
        about: Sequence[str] = (),
        *,
        deletion: int | None = None,
    ) -> Claim | None:
        """Ask for a job; `None` when the archive fails, and the job is run without it."""
        return self._ask(
            partial(
                self.archive.claim,
                job_id,
                self.owner,
                seconds=self.seconds,
                thread_id=thread_id,
                resource_id=resource_id,
                about=about,
                deletion=deletion,
            )
        )

    def finish(self, job_id: str, result: JobResult) -> bool:
        """Keep a result for all workers, and return whether it counts.

        It does not when another worker has claimed the job since, or its thread was deleted.
        """
        return self._ask(partial(self.archive.finish, job_id, self.owner, result)) is not False

    def release(self, job_id: str) -> None:
        """Let any worker begin a job again at once."""
        self._ask(partial(self.archive.release, job_id, self.owner))

    def read(self, job_id: str) -> JobState:
        """Return what the archive knows of a job: a result, `"running"`, `"expired"` or nothing.

        While the archive fails, each job is believed to run.
        """
        found = self._ask(lambda: [self.archive.job(job_id)])
        if found is None:
            return "running"
        (job,) = found
        if job is None:
            return None
        if job.state == "done":
            return cast("JobResult", job.result)
        # One that ends later than any claim is from before the archive's clock was set back.
        return "expired" if job.expires_in > 2 * self.seconds else job.state

    def _ask(self, ask: Callable[[], AnswerT]) -> AnswerT | None:
        """Ask the archive; a failure is logged if the archive worked before."""
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 - no archive stops a turn, whatever it raises
            if not self._is_failing:
                logger.warning("the archive failed, jobs go on without it: %s", error)
            self._is_failing = True
            return None
        self._is_failing = False
        return answer
