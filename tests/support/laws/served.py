"""Jobs as runs of a server in a world: each meets the fate that the world decides.

A job leaves its process as JSON, is known by the archive, and is carried out by the memory of
another process, which has nothing of the one that sent it. No time passes: a lease ends when the
world says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langgraph_om import ObservationalMemory, ServerBuffering
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.integrations.worker_graph import build_worker
from support.claims import end_claims
from support.inside import JobState, runner_of
from support.laws.cast import Oracle
from support.laws.shares import Unreliable
from support.server_double import ServerDouble

LEASE = 86_400.0
"""Seconds that a lease lasts; no world does."""
FATES = ("done", "done", "done", "twice", "lost", "dies", "dies and comes again")
"""What a run may meet when its time has come."""
ENDURED = ("done", "done", "withdrawn", "running")
"""What a turn may meet that waits for a job whose run has not begun."""
REFUSALS = (None, None, None, 429, 500)
"""What the server may answer instead of taking a run."""


@dataclass(eq=False, frozen=True)
class Run:
    """A run that waits on the server."""

    run_id: str
    given: dict[str, Any]

    @property
    def cycle_id(self) -> str:
        return str(self.given["metadata"]["om_cycle_id"])


@dataclass
class Served:
    """A server, the memory of the process that works for it, and what is on its way there.

    Args:
        archive: What senders and workers share.
        oracle: The models.
        make_memory: Makes the memory of a worker's process, which sends no jobs.
    """

    archive: Unreliable
    oracle: Oracle
    make_memory: Callable[[], ObservationalMemory]
    double: ServerDouble = field(default_factory=ServerDouble)
    """Has no graph, so that no run begins when it is sent."""
    is_patient: bool = True
    """Whether a turn that waits for a job sees what `endures` says, or that it still runs."""
    endures: str = "done"
    """One of `ENDURED`."""
    withdrawn: set[str] = field(default_factory=set)
    """Jobs that a turn has taken back."""
    outcomes: list[str] = field(default_factory=list)
    """What runs came to."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Put another process in the place of the one that works."""
        runner = runner_of(self.make_memory())
        self._graph = build_worker(self.archive, runner.run_request, LEASE)

    def executor(self) -> ServerBuffering:
        """What a process sends its jobs with."""
        return ServedBuffering(self)

    # --- Runs ------------------------------------------------------------------------------------

    def held(self) -> list[Run]:
        """The runs that wait, oldest first."""
        return [Run(key, given) for key, given in list(self.double.waiting.items())]

    def meet(self, run: Run, fate: str) -> None:
        """Let a run meet its fate, one of `FATES`."""
        {
            "done": partial(self.let_go, run),
            "twice": partial(self._do_twice, run),
            "lost": partial(self._lose, run),
            "dies": partial(self._die, run, comes_again=False),
            "dies and comes again": partial(self._die, run, comes_again=True),
        }[fate]()

    def let_go(self, run: Run) -> None:
        """Let a run begin, and end."""
        self.double.waiting.pop(run.run_id, None)
        # In a thread, so that it is not taken for a part of the run of the agent around it.
        thread = threading.Thread(target=self._carry_out, args=[run])
        thread.start()
        thread.join()

    def _carry_out(self, run: Run) -> None:
        given = run.given["input"]
        try:
            told = self._graph.invoke(given, {"configurable": {"run_id": run.run_id}})
        except (ArchiveError, ConfigurationError) as error:
            self.outcomes.append(type(error).__name__)
        else:
            self.outcomes.append(told["outcome"])

    def _do_twice(self, run: Run) -> None:
        self.let_go(run)
        self.let_go(run)

    def _lose(self, run: Run) -> None:
        self.double.waiting.pop(run.run_id, None)

    def _die(self, run: Run, *, comes_again: bool) -> None:
        """Have the worker die while it is at work; some servers then try the run again."""
        if not comes_again:
            self._lose(run)
        sender = run.given["input"]["sender"]
        self.archive.take_over(run.cycle_id, sender, run.run_id, seconds=LEASE)

    def leases_run_out(self) -> None:
        """Let so much time pass that each claim has ended."""
        end_claims(self.archive)

    def _sent(self) -> dict[str, None]:
        return dict.fromkeys(run["metadata"]["om_cycle_id"] for run in self.double.runs_given)

    def remember(self) -> Callable[[], None]:
        """Return a function that takes back that jobs on which nobody works now were sent anew."""
        before = {cycle_id: self.archive.job(cycle_id) for cycle_id in self._sent()}
        left = {key: job for key, job in before.items() if not _is_running(job)}
        waiting = set(self.double.waiting)

        def take_back() -> None:
            for run in self.held():
                if run.cycle_id in left and run.run_id not in waiting:
                    self._lose(run)
            for cycle_id, was in left.items():
                job = self.archive.job(cycle_id)
                if job is not None and _is_running(job) and was is None:
                    self.archive.release(cycle_id, job.owner)
                elif job is not None and _is_running(job):
                    end_claims(self.archive, cycle_id)

        return take_back

    def change(self, endures: str, refuses: int | None, *, forgets: bool) -> None:
        """Have turns that wait endure something else, and the server refuse or lose what it gets.

        Args:
            endures: One of `ENDURED`.
            refuses: One of `REFUSALS`.
            forgets: Whether it loses runs.
        """
        self.endures, self.double.refuses, self.double.forgets = endures, refuses, forgets


class ServedBuffering(ServerBuffering):
    """Sends jobs to a world's server; a turn that waits meets what the world says."""

    def __init__(self, served: Served) -> None:
        super().__init__(client=served.double)
        self.share(served.archive, LEASE)
        self._served = served

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        """Wait for a job without any time passing."""
        served, state = self._served, self.peek(cycle_id)
        if state != "running" or not served.is_patient or served.oracle.hangs:
            return state
        if served.endures == "withdrawn" and self._withdraw(cycle_id):
            served.withdrawn.add(cycle_id)
            return "withdrawn"
        if served.endures == "done":
            for run in [run for run in served.held() if run.cycle_id == cycle_id]:
                served.let_go(run)
        return self.peek(cycle_id)


def _is_running(job: Any) -> bool:
    return job is not None and job.state == "running"
