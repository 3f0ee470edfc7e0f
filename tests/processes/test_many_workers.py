"""Many workers at once on one archive: each job is done once, and all threads come out right."""

from __future__ import annotations

import re
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from support.agents import values
from support.processes import queued, workers
from support.processes.checks import ROUNDS, check_end
from support.processes.forks import start
from support.processes.workers import Death, Place, config

THREADS = ["a", "b"]


@pytest.fixture(autouse=True)
def _set_up(place: Place) -> None:
    """LangGraph's checkpointers can not be set up by several processes at once."""
    with workers.worker(place) as agent:
        values(agent.graph, config())


def test_workers_share_threads_and_do_each_job_once(place: Place) -> None:
    place = replace(place, lease=60, turns=10 * ROUNDS, evict=True)
    serving = [start(workers.serve, place, THREADS, number) for number in range(3)]
    for process in serving:
        process.join(250)
    assert [process.exitcode for process in serving] == [0, 0, 0]
    served = Counter(line for thread in THREADS for line in place.noted(f"server-{thread}"))
    assert len(served) > 1
    for thread in THREADS:
        check_end(place, thread)
    jobs = place.noted("started")
    assert len(jobs) == len(set(jobs)) > 6
    assert place.noted("failed") == []
    assert len(place.noted("observed")) <= len(jobs) + len(place.noted("waited"))


def test_jobs_of_killed_workers_are_begun_again_and_no_others(place: Place) -> None:
    """Three workers serve; one of them is killed and replaced, again and again."""
    place = replace(place, lease=1, turns=10 * ROUNDS, evict=True)
    serving = [start(workers.serve, place, THREADS, number) for number in range(2)]
    killed = 0
    while any(process.is_alive() for process in serving):
        doomed = start(workers.serve, place, THREADS, 10 + killed)
        doomed.join(0.4)
        if doomed.exitcode is None:
            doomed.kill()
            killed += 1
        doomed.join(120)
        assert doomed.exitcode in (0, -signal.SIGKILL)
    assert [process.exitcode for process in serving] == [0, 0]
    assert killed
    for thread in THREADS:
        check_end(place, thread)
    for error in place.noted("failed"):
        assert re.match("abandoned|lost|stale|superseded|overtaken", error)


def test_jobs_sent_to_workers_that_are_killed_are_carried_out_once(place: Place) -> None:
    """Two processes talk, one carries out jobs, and another one beside it is killed over and over.

    The archive is the same for all, jobs come as data through a queue.
    """
    place = replace(place, lease=2, turns=12 * ROUNDS, evict=True, buffering="server")
    serving = [start(workers.serve, place, THREADS, number) for number in range(2)]
    steady = start(queued.work, place, Death(), 100)
    killed = 0
    while any(process.is_alive() for process in serving):
        doomed = start(queued.work, place, Death(), 101 + killed)
        doomed.join(0.5)
        doomed.kill()
        doomed.join(120)
        assert doomed.exitcode == -signal.SIGKILL
        killed += 1
    Path(place.folder, "over").touch()
    steady.join(120)
    assert [process.exitcode for process in (*serving, steady)] == [0, 0, 0]
    for thread in THREADS:
        check_end(place, thread)
    figures = queued.tell(f"a worker killed beside another one, {place.saver}", place, killed)
    assert figures["carried out"] > 3
    assert figures["carried out twice"] == 0
    for error in place.noted("failed"):
        assert re.match("abandoned|lost|stale|superseded|overtaken", error)
