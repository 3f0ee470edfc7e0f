"""PostgreSQL cuts the archive's connections in mid-run: turns go on, and all is caught up with."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest

from support.processes import workers
from support.processes.checks import ROUNDS, check, check_end, talk
from support.processes.workers import EXECUTORS, Place, answer

CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'archive' AND datname = current_database()"
)


@pytest.fixture
def server_place(postgres_place: Place) -> Place:
    """An archive whose connections can be told from the checkpointer's."""
    joint = "&" if "?" in postgres_place.archive else "?"
    url = f"{postgres_place.archive}{joint}application_name=archive"
    return replace(postgres_place, archive=url, turns=16)


@contextmanager
def cuts(place: Place, seed: int) -> Iterator[list[int]]:
    """Cut the archive's connections, again and again."""
    chance, over, done = random.Random(seed), threading.Event(), []  # noqa: S311 - not for secrets

    def cut() -> None:
        with psycopg.connect(place.checkpoints, autocommit=True) as server:
            while not over.wait(chance.uniform(0.0, 0.1)):
                done.append(server.execute(CUT).rowcount)

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_turns_go_on_when_the_archive_is_cut_off(
    server_place: Place, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    place = replace(server_place, buffering=[*EXECUTORS][seed % len(EXECUTORS)])
    with workers.worker(place) as agent:
        with caplog.at_level(logging.WARNING, logger="langgraph_om"), cuts(place, seed) as done:
            for number in range(12):
                answer(agent, number)
                place.note("acknowledged", str(number))
        assert sum(done) > 5
        check(place)
        talk(agent, place, 12, 16)
    check_end(place)
