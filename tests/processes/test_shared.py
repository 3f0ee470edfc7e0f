"""Processes that serve threads of one user and are killed: their logs come out right."""

from __future__ import annotations

import random
import signal
from collections import Counter
from dataclasses import replace

import pytest

from support.inside import open_window, runner_of
from support.processes import shared_worker
from support.processes.checks import ROUNDS
from support.processes.forks import start
from support.processes.shared_worker import USER
from support.processes.workers import Place
from support.savers import open_saver
from support.shared_world import check_thread, covered

THREADS = ["t0", "t1", "t2"]


def check_all(place: Place) -> None:
    """After one more step of each thread, all is observed once or shown, and all agree."""
    with open_saver(place.saver, place.checkpoints) as saver:
        agent = shared_worker.agent(replace(place, buffering="inline"), saver)
        archive = agent.memory.archive
        assert archive is not None
        for thread in THREADS:
            agent.say(thread, 900)
        for thread in THREADS:
            agent.say(thread, 901)
            record, messages = agent.state(thread)
            ids = [group["id"] for group in record["log"]]
            assert len(ids) == len(set(ids))
            assert {*archive.log_ids(USER).get(thread, [])} == {*ids}
            check_thread(agent, thread, archive=archive)
            keys = [m.key for m in archive.messages(thread, limit=10_000, visible_only=False)]
            for number in range(place.turns):
                assert f"{thread}.h{number}" in keys
            assert sum(covered(record, thread, keys).values()) > 0
            assert open_window(record, messages, runner_of(agent.memory).settings.counter).entries
        agent.memory.close()
        archive.close()  # type: ignore[attr-defined]


MIXES = [
    ("postgres", "background"),
    ("sqlite", "inline"),
    ("sqlite", "background"),
    ("postgres", "inline"),
]


@pytest.mark.parametrize(
    ("place", "buffering"), MIXES if ROUNDS > 1 else MIXES[:2], indirect=["place"]
)
def test_threads_of_one_user_are_served_by_killed_workers(place: Place, buffering: str) -> None:
    place = replace(place, buffering=buffering, evict=False, lease=0.5, turns=12 * ROUNDS)
    with open_saver(place.saver, place.checkpoints) as saver:
        first = shared_worker.agent(place, saver)
        first.say("t0", 800)
        first.memory.close()
        first.memory.archive.close()  # type: ignore[union-attr]
    chance = random.Random(f"{buffering}{place.saver}")  # noqa: S311 - not for secrets
    # At first each has threads of its own, then all have the same ones.
    shares = [["t0"], ["t1", "t2"]]
    for life in range(4):
        deaths = [
            (("before", "after")[life % 2], 1),
            (("never", "before", "after")[life % 3], chance.randint(1, 2)),
        ]
        served = replace(place, turns=min(place.turns, (life + 1) * 3 * ROUNDS))
        running = [
            start(shared_worker.serve, served, share, death, life)
            for share, death in zip(shares if life < 2 else [THREADS] * 2, deaths, strict=True)
        ]
        for process in running:
            if life == 1 and process is running[1]:
                process.join(chance.uniform(0.2, 0.6))
                process.kill()
            process.join(250)
            assert process.exitcode in (0, -signal.SIGKILL)
    last = start(shared_worker.serve, place, THREADS)
    last.join(250)
    assert last.exitcode == 0
    assert place.noted("died"), "somebody died around a commit"
    check_all(place)
    times = Counter(place.noted("observed"))
    killed = len(place.noted("died")) + 1
    again = sum(count - 1 for asked, count in times.items() if asked)
    assert again <= killed * 2, "only what was lost is asked again"
