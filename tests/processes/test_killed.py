"""Workers that are killed at any point, again and again: every answer that a client got stays."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, product
from pathlib import Path

import pytest

from support.processes import queued, workers
from support.processes.checks import ROUNDS, check, check_end
from support.processes.forks import start
from support.processes.workers import POINTS, Death, Place


def live(place: Place, death: Death, number: int) -> bool:
    """Let a worker live, and tell whether it was killed."""
    process = start(workers.live, place, death, number)
    process.join(250)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def each_point() -> Iterator[Death]:
    """A death at each point, then at its second time, and so on."""
    for time in count(1):
        for point in POINTS:
            yield Death(point, time)


def any_time(seed: int) -> Iterator[Death]:
    """One death after another, at points and at times."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    while True:
        if chance.random() < 0.4:
            yield Death(seconds=chance.uniform(0.1, 0.8))
        else:
            yield Death(chance.choice(POINTS), chance.randint(1, 12))


def lead(place: Place, deaths: Iterator[Death]) -> None:
    """Lead a conversation to its end, whatever kills it, and then on in peace."""
    for number, death in enumerate(deaths):
        is_killed = live(place, death, number)
        check(place)
        if not is_killed:
            break
    after = replace(place, turns=place.turns + 5)
    assert not live(after, Death(), number + 1)
    check_end(after)


def test_nothing_is_lost_wherever_a_worker_is_killed(place: Place) -> None:
    # So many that some are left for the last points, however late background work comes to its own.
    lead(replace(place, turns=20), each_point())
    assert set(place.noted("died")) > {*POINTS} - {"reflector"}


MIXES = [
    {"buffering": buffering, "evict": evict, "moves_on": moves_on, "is_async": is_async}
    for evict, moves_on, is_async, buffering in product(
        (True, False), (True, False), (True, False), ("background", "inline")
    )
]


@pytest.mark.parametrize(
    ("place", "seed"),
    [(("sqlite", "postgres")[seed % 2], seed) for seed in range(ROUNDS)],
    indirect=["place"],
)
def test_nothing_is_lost_whenever_workers_are_killed(place: Place, seed: int) -> None:
    lead(replace(place, turns=12, **MIXES[seed // 2 % len(MIXES)]), any_time(seed))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_nothing_is_lost_whenever_those_who_send_and_those_who_carry_out_are_killed(
    sqlite_place: Place, seed: int
) -> None:
    mix = {"evict": seed % 2 == 0, "is_async": seed % 4 > 1}
    place = replace(sqlite_place, turns=12, buffering="server", lease=2, **mix)
    working = start(queued.work_on, place, seed)
    try:
        lead(place, any_time(seed))
    finally:
        Path(place.folder, "over").touch()
        working.join(120)
    ended = Counter(map(int, place.noted("worker ended")))
    killed = ended[-signal.SIGKILL]
    figures = queued.tell(f"senders and workers killed at any time, {mix}", place, killed)
    assert set(ended) <= {0, -signal.SIGKILL}
    assert killed
    assert figures["jobs sent"] > 3
    assert figures["carried out twice"] == 0
