"""Leases: which worker runs a job, as all workers see it in the archive.

A worker asks for a job, renews its lease until the work is done, and keeps the result only if the
lease is still its own. One thread per executor speaks to the archive about leases, so that neither
a turn nor an event loop waits for it; it ends when there is nothing left to attend to.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar, cast
from uuid import uuid4

from langgraph_om.archive import Claim, JobView, MessageArchive
from langgraph_om.archive.protocol import begin_anew_after_fork
from langgraph_om.core.cycles.carry_out import FarEnd, judge_lease
from langgraph_om.core.effects import JobState
from langgraph_om.core.wire import JobResult
from langgraph_om.errors import ArchiveError, ConfigurationError

logger = logging.getLogger("langgraph_om")

AnswerT = TypeVar("AnswerT")

Tell = Callable[[Claim], bool]
"""Told once what came of asking for a job; tells whether a job that is "mine" is still wanted."""

_POLL_SECONDS = 0.2
"""How often a job of another worker is looked at while somebody waits for it."""
RENEWALS = 4
"""How often a lease is renewed in the time it lasts."""
PRUNE_SECONDS = 3600.0
"""How often jobs that ended long ago are forgotten."""
_KEPT_SECONDS = 86_400.0
"""How long the archive keeps results that no step has taken in; a fork may still ask for them."""


@dataclass(eq=False)
class _Lease:
    """A job that this worker asked for."""

    job_id: str
    thread_id: str
    resource_id: str | None
    tell: Tell
    about: Sequence[str] = ()
    deletion: int | None = None
    stage: Literal["asked", "run", "done", "left", "released"] = "asked"
    is_held: bool = False
    """Whether the archive has said so; work goes on without it where the archive fails."""
    result: JobResult | None = None
    due: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class _Watch:
    """A job of another worker that somebody waits for."""

    job_id: str
    state: JobState = "running"
    asked: float = field(default_factory=time.monotonic)
    due: float = field(default_factory=time.monotonic)


class Leases:
    """One worker's leases, and its view of those of others.

    Args:
        archive: What the workers share.
        seconds: How long a lease lasts unless it is renewed, and how long a job is believed to run
            while the archive does not answer.
        owner: Who holds them, where that is known under a name beyond this process.
        prunes: Whether jobs that ended long ago are forgotten beside the work.
    """

    def __init__(
        self,
        archive: MessageArchive,
        seconds: float,
        owner: str | None = None,
        *,
        prunes: bool = True,
    ) -> None:
        self.archive = archive
        self.seconds = seconds
        self._owner = owner
        self._prunes = prunes
        self._token = uuid4().hex
        self.begin_anew()
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Begin without jobs; those of a process that forked stay its own."""
        self._lock = threading.Condition()
        self._leases: dict[str, _Lease] = {}
        self._watches: dict[str, _Watch] = {}
        self._blind: dict[str, float] = {}
        self._blind_until = 0.0
        self._far: dict[str, FarEnd] = {}
        self._is_serving = False
        self._is_failing = False
        self._prune_at = time.monotonic()

    @property
    def owner(self) -> str:
        """Who holds the leases; a forked process is another one."""
        return self._owner or f"{self._token}.{os.getpid()}"

    # --- Jobs of this worker ---------------------------------------------------------------------

    def ask(
        self,
        job_id: str,
        thread_id: str,
        resource_id: str | None,
        tell: Tell,
        *,
        about: Sequence[str] = (),
        deletion: int | None = None,
    ) -> None:
        """Ask for a job, in the background; it is this worker's where the archive fails."""
        with self._lock:
            self._leases[job_id] = _Lease(job_id, thread_id, resource_id, tell, about, deletion)
            self._wake()

    def finish(self, job_id: str, result: JobResult) -> JobResult | None:
        """Keep a job's result for all workers.

        Returns:
            The result; `None` when the job is another worker's by now, which has a result of its
            own, or was deleted. What the archive fails to take is written when it answers again.
        """
        with self._lock:
            lease = self._leases.pop(job_id, None)
            self._lock.notify_all()
        kept = False if lease is None else self._write(lease, result)
        if lease is not None and isinstance(kept, ArchiveError):
            with self._lock:
                lease.stage, lease.result, lease.due = "done", result, self._later()
                self._leases[job_id] = lease
                self._wake()
        if kept is False:
            logger.warning(
                "the job %r is another worker's by now, or its thread was deleted; what came of it "
                "here is dropped",
                job_id,
            )
            return None
        return result

    def leave(self, job_id: str) -> None:
        """Let a lease end now, so that any worker may do the job."""
        self._end(job_id, "left")

    def release(self, job_id: str) -> None:
        """Forget a job that has no result."""
        self._end(job_id, "released")

    def leave_all(self, timeout: float) -> None:
        """Let all leases end, and wait until the archive knows it and is asked nothing more."""

        def is_left() -> bool:
            waiting = [lease.stage == "done" for lease in self._leases.values()]
            return all(waiting) if waiting else not self._is_serving

        with self._lock:
            self._watches.clear()
            self._lock.notify_all()
            for job_id, lease in list(self._leases.items()):
                if lease.stage != "done":
                    self._end(job_id, "left")
            self._lock.wait_for(is_left, timeout)

    def _end(self, job_id: str, stage: Literal["left", "released"]) -> None:
        with self._lock:
            lease = self._leases.get(job_id)
            if lease is not None:
                lease.stage, lease.due = stage, time.monotonic()
                self._wake()

    # --- Jobs of others --------------------------------------------------------------------------

    def read(self, job_id: str) -> JobState:
        """Return what the archive knows of a job: a result, `"running"`, `"expired"` or nothing.

        While the archive fails, the job is believed to run, for as long as a lease lasts. One that
        took long to fail is left in peace for as long again.
        """
        began = now = time.monotonic()
        found = (
            None if began < self._blind_until else self._call(lambda: [self.archive.job(job_id)])
        )
        if isinstance(found, Exception):
            now = time.monotonic()
            self._blind_until = now + (now - began)
        if found is None or isinstance(found, Exception):
            is_believed = now - self._blind.setdefault(job_id, now) < self.seconds
            return "running" if is_believed else None
        self._blind.clear()
        job = found[0]
        if job is not None and job.state == "running" and self._is_stranded(job_id, job):
            logger.warning("the lease of the job %r outlasts its time; it is ended", job_id)
            self._call(partial(self.archive.renew, job_id, job.owner, seconds=0))
            return "expired"
        if job is None:
            return None
        return cast("JobResult | None", job.result) if job.state == "done" else job.state

    def _is_stranded(self, job_id: str, job: JobView) -> bool:
        """Return whether nobody renews a lease that ends later than any lease can."""
        is_stranded, noted = judge_lease(
            job.expires_in,
            self.seconds,
            self.seconds / RENEWALS,
            time.monotonic(),
            self._far.pop(job_id, None),
        )
        if noted is not None:
            self._far[job_id] = noted
        return is_stranded

    def wait(self, job_id: str, timeout: float) -> JobState:
        """Wait for the result of another worker's job.

        Args:
            timeout: Seconds to wait at most; with 0, what was read last is returned at once.
        """
        ends_at = time.monotonic() + timeout
        with self._lock:
            while True:
                now = time.monotonic()
                watch = self._watches.setdefault(job_id, _Watch(job_id))
                watch.asked = now
                if watch.state != "running":
                    del self._watches[job_id]
                    return watch.state
                self._wake()
                if now >= ends_at:
                    return "running"
                self._lock.wait(min(ends_at - now, _POLL_SECONDS))

    # --- The thread ------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._lock.notify_all()
        if not self._is_serving:
            self._is_serving = True
            threading.Thread(target=self._serve, name="om_leases", daemon=True).start()

    def _serve(self) -> None:
        """Attend to leases and watches when they are due, until there is none."""
        while (task := self._next()) is not None:
            if isinstance(task, _Lease):
                self._attend(task)
            else:
                self._look(task)
            self._prune()

    def _next(self) -> _Lease | _Watch | None:
        with self._lock:
            while True:
                self._forget_watches()
                tasks: list[_Lease | _Watch] = [*self._leases.values(), *self._watches.values()]
                if not tasks:
                    self._is_serving = False
                    self._lock.notify_all()
                    return None
                task = min(tasks, key=lambda each: each.due)
                left = task.due - time.monotonic()
                if left <= 0:
                    return task
                self._lock.wait(left)

    def _forget_watches(self) -> None:
        """Stop looking at jobs that nobody waits for any more."""
        since = time.monotonic() - 10 * _POLL_SECONDS
        for watch in [each for each in self._watches.values() if each.asked < since]:
            del self._watches[watch.job_id]

    def _look(self, watch: _Watch) -> None:
        state = self.read(watch.job_id)
        with self._lock:
            watch.state = state
            watch.due = time.monotonic() + _POLL_SECONDS
            self._lock.notify_all()

    def _attend(self, lease: _Lease) -> None:
        with self._lock:
            stage, lease.due = lease.stage, self._later()
        if stage == "asked":
            self._claim_first(lease)
        elif stage == "run":
            self._renew(lease)
        elif stage == "done":
            kept = self._write(lease, cast("JobResult", lease.result or {}))
            if not isinstance(kept, ArchiveError):
                self._drop(lease)
        else:
            self._give_back(lease)

    def _claim_first(self, lease: _Lease) -> None:
        answer = self._claim(lease)
        claim: Claim = "mine" if isinstance(answer, Exception) else answer
        self._drop(lease, unless=claim == "mine")
        with self._lock:
            if lease.stage == "asked":
                lease.stage = "run"
        if not lease.tell(claim) and claim == "mine":
            # Not by the job's id: it may have been withdrawn, and asked for again, meanwhile.
            with self._lock:
                if lease.stage == "run":
                    lease.stage = "left"
            self._give_back(lease)

    def _claim(self, lease: _Lease) -> Claim | Exception:
        claim = self._call(
            partial(
                self.archive.claim,
                lease.job_id,
                self.owner,
                seconds=self.seconds,
                thread_id=lease.thread_id,
                resource_id=lease.resource_id,
                about=lease.about,
                deletion=lease.deletion,
            )
        )
        lease.is_held = claim == "mine"
        return claim

    def _renew(self, lease: _Lease) -> None:
        """Let a lease last on; one that was taken over meanwhile is given up."""
        if lease.is_held:
            renew = partial(self.archive.renew, lease.job_id, self.owner, seconds=self.seconds)
            is_lost = self._call(renew) is False
        else:
            is_lost = self._claim(lease) in ("taken", "done")
        self._drop(lease, unless=not is_lost)

    def _write(self, lease: _Lease, result: JobResult) -> bool | Exception:
        """Keep a result, and tell whether it is the job's, or what went wrong."""
        if not lease.is_held:
            claim = self._claim(lease)
            if claim != "mine":
                return claim if isinstance(claim, Exception) else False
        return self._call(partial(self.archive.finish, lease.job_id, self.owner, result))

    def _give_back(self, lease: _Lease) -> None:
        if lease.is_held and lease.stage == "left":
            # Not released: a job that is there, and nobody's, is begun again at once.
            self._call(partial(self.archive.renew, lease.job_id, self.owner, seconds=0))
        elif lease.is_held:
            self._call(partial(self.archive.release, lease.job_id, self.owner))
        self._drop(lease)

    def _drop(self, lease: _Lease, *, unless: bool = False) -> None:
        with self._lock:
            if not unless and self._leases.get(lease.job_id) is lease:
                del self._leases[lease.job_id]
                self._lock.notify_all()

    def _later(self) -> float:
        return time.monotonic() + self.seconds / RENEWALS

    def _prune(self) -> None:
        if self._prunes and time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + PRUNE_SECONDS
            self._call(partial(self.archive.prune_jobs, older_than=_KEPT_SECONDS))

    def _call(self, ask: Callable[[], AnswerT]) -> AnswerT | Exception:
        """Ask the archive; an error is returned, and logged where the archive worked before."""
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 - no archive stops a turn, whatever it raises
            if not self._is_failing:
                logger.warning("the archive failed, jobs go on without it: %s", error)
            self._is_failing = True
            return error
        self._is_failing = False
        return answer


def share_leases(
    known: Leases | None, archive: MessageArchive, seconds: float, executor: str
) -> Leases:
    """Return the leases of an executor with an archive: those it has, or new ones.

    Raises:
        ConfigurationError: When it shares another archive already.
    """
    if known is None:
        return Leases(archive, seconds)
    if known.archive is archive:
        return known
    msg = (
        "`buffering` is shared by memories with different archives; give each its own "
        f"{executor}(), or all the same archive object"
    )
    raise ConfigurationError(msg)


# A lease that a flow keeps while it is at work, however long a model takes to answer.


@dataclass(eq=False)
class KeptLease:
    """A lease, and when it was renewed last; begun with when the flow got it."""

    renew: Callable[[], object]
    """Lets it last as long again, from then on."""
    seconds: float
    """How long it lasts unless it is renewed."""
    _renewed: float = field(default_factory=time.monotonic)

    def seconds_left(self) -> float:
        """Return how long it need not be renewed yet."""
        return max(0.0, self._renewed + self.seconds / RENEWALS - time.monotonic())

    def attend(self) -> None:
        """Renew the lease; when the archive fails, it is tried again when it is due next.

        One that another holds by now stays theirs: what came of the work is put into the log only
        where it still fits.
        """
        self._renewed = time.monotonic()
        try:
            self.renew()
        except Exception as error:  # noqa: BLE001 - no archive stops work, whatever it raises
            logger.debug("a lease was not renewed: %s", error)
