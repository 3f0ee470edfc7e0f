"""Checks of an executor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import uuid4

PATIENCE = 120.0
"""Seconds that a check waits for a job."""
AT_ONCE = 60.0
"""Seconds within which a call that does not wait returns, on a slow machine too."""

RunJob = Callable[[Mapping[str, Any]], dict[str, Any]]


def executor_conformance(
    make_executor: Callable[[RunJob], Any],
) -> list[tuple[str, Callable[[], None]]]:
    """Return the checks of an executor: their names, and functions that raise.

    An executor that takes no job at all, since work is done where it is due, passes too.

    Args:
        make_executor: Makes an `Executor`, asked once or twice by each check. It is given what
            stands for `memory.run_job`. The executors may share one storage of results.
    """

    def bind(check: Callable[[_Probe], None]) -> Callable[[], None]:
        def run() -> None:
            probe = _Probe(make_executor)
            try:
                check(probe)
            finally:
                with suppress(Exception):
                    probe.executor.close(PATIENCE)

        return run

    return [(check.__name__, bind(check)) for check in CHECKS]


class _Probe:
    """An executor with jobs that count how often they ran."""

    def __init__(self, make_executor: Callable[[RunJob], Any]) -> None:
        self.runs: list[str] = []
        self._lock = threading.Lock()
        self._name = uuid4().hex[:12]
        self.make = partial(make_executor, lambda request: self.run(request["cycle_id"]))
        self.executor = self.make()

    def run(self, cycle_id: str) -> dict[str, Any]:
        with self._lock:
            self.runs.append(cycle_id)
        return self.result(cycle_id)

    def result(self, cycle_id: str) -> dict[str, Any]:
        about = {"operation": "observation", "cycle_id": cycle_id}
        return {"type": "buffering-end", **about, "tokens": 7}

    def name(self, job: str) -> str:
        return f"{self._name}-{job}"

    def submit(self, job: str, **given: Any) -> bool:
        name = self.name(job)
        whose: dict[str, Any] = {"thread_id": "t", "resource_id": None, "about": [], **given}
        request = {"version": 1, "cycle_id": name, "key": name, "operation": "observation"} | whose
        work = partial(self.run, name)
        taken = self.executor.submit(name, name, work, **whose, request=lambda: request)
        assert isinstance(taken, bool), f"`submit` answered {taken!r}, neither True nor False"
        return taken

    def peek(self, job: str) -> Any:
        return self.executor.peek(self.name(job))

    def wait(self, job: str, timeout: float) -> Any:
        return self.executor.wait(self.name(job), timeout)


def unknown_jobs_are_none(probe: _Probe) -> None:
    """Nothing is known of a job that nobody submitted, and nothing is waited for."""
    began = time.monotonic()
    assert probe.peek("a") is None
    assert probe.wait("a", 1) is None
    assert time.monotonic() - began < AT_ONCE, "an unknown job was waited for"
    assert probe.executor.flush(PATIENCE) is True


def a_job_ends_with_its_result(probe: _Probe) -> None:
    """A job that was taken is run once; one that was not is not known."""
    if not probe.submit("a"):
        assert probe.peek("a") is None
        assert probe.runs == []
        return
    expected = probe.result(probe.name("a"))
    assert probe.wait("a", PATIENCE) == expected
    assert probe.runs == [probe.name("a")]


def results_are_looked_at_and_not_taken(probe: _Probe) -> None:
    """A fork and a repeated step see the same result."""
    if probe.submit("a"):
        found = probe.wait("a", PATIENCE)
        assert probe.peek("a") == probe.peek("a") == found == probe.wait("a", 0)


def known_jobs_are_not_run_again(probe: _Probe) -> None:
    """A job that is submitted again, by a repeated step, is the same job."""
    if probe.submit("a"):
        probe.wait("a", PATIENCE)
        assert probe.submit("a") is True
        assert probe.executor.flush(PATIENCE) is True
        assert probe.runs == [probe.name("a")]


def jobs_are_told_apart(probe: _Probe) -> None:
    """Each job has its own result."""
    taken = [job for job in "abc" if probe.submit(job)]
    for job in taken:
        assert probe.wait(job, PATIENCE) == probe.result(probe.name(job))


def flush_leaves_nothing_at_work(probe: _Probe) -> None:
    """After `flush`, each job that was taken has a result."""
    taken = [job for job in "abc" if probe.submit(job)]
    assert probe.executor.flush(PATIENCE) is True
    assert all(probe.peek(job) == probe.result(probe.name(job)) for job in taken)


def closed_executors_take_no_jobs(probe: _Probe) -> None:
    """After `close`, no job is taken, and what is done stays to be seen."""
    is_taken = probe.submit("a")
    found = probe.wait("a", PATIENCE)
    assert probe.executor.close(PATIENCE) is True
    assert probe.submit("b") is False
    assert probe.peek("b") is None
    assert not is_taken or probe.peek("a") == found


_WHOSE: Final[Mapping[str, Mapping[str, Any]]] = {
    "thread": {"thread_id": "a"},
    "nested-thread": {"thread_id": "a|>helper"},
    "told-thread": {"thread_id": "b", "about": ["a"]},
    "resource": {"thread_id": "c", "resource_id": "ana"},
    "other-thread": {"thread_id": "d", "resource_id": "ben", "about": ["e"]},
}


def forgotten_jobs_are_not_known(probe: _Probe) -> None:
    """Jobs of threads and of a resource can be deleted, and no others are.

    Of one that is done, a result that a second executor sees is the storage's to delete.
    """
    taken = [job for job, whose in _WHOSE.items() if probe.submit(job, **whose)]
    assert probe.executor.flush(PATIENCE) is True
    kept, second = {job: probe.peek(job) for job in taken}, probe.make()
    try:
        is_shared = second.peek(probe.name(taken[0])) is not None if taken else True
        probe.executor.forget(thread_ids=["a", "unknown"], resource_id="ana")
        for job in taken:
            wanted = kept[job] if is_shared or job == "other-thread" else None
            assert probe.peek(job) == wanted, f"the job of the {job}"
    finally:
        if second is not probe.executor:
            second.close(PATIENCE)


CHECKS = (
    unknown_jobs_are_none,
    a_job_ends_with_its_result,
    results_are_looked_at_and_not_taken,
    known_jobs_are_not_run_again,
    jobs_are_told_apart,
    flush_leaves_nothing_at_work,
    forgotten_jobs_are_not_known,
    closed_executors_take_no_jobs,
)
