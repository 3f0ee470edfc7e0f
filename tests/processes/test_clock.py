"""Clocks that are set, back or ahead, by hours: nothing is lost, stolen or stuck."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event

from langgraph_om import BackgroundBuffering
from langgraph_om.archive import SQLAlchemyArchive
from support.agents import values
from support.clock import START
from support.processes import workers
from support.processes.checks import ROUNDS, check, check_end
from support.processes.workers import Place, answer, config
from support.waiting import eventually

LEASE = 60.0
HOURS = 3600.0
RESULT: dict[str, Any] = {"type": "buffering-end", "cycle_id": "c", "text": "done"}


# --- The memory's clock --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_conversation_survives_a_clock_that_jumps(sqlite_place: Place, seed: int) -> None:
    buffering = ("background", "inline")[seed % 2]
    place = replace(sqlite_place, turns=24, buffering=buffering)
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    told, updated = set[datetime](), list[datetime]()
    with workers.worker(place) as agent:
        archive: Any = agent.memory.archive
        for number in range(place.turns):
            told.add(agent.clock.advance(hours=chance.choice([0, 1, 5, -1, -3, -50])))
            answer(agent, number)
            place.note("acknowledged", str(number))
            if chance.random() < 0.5:
                told.add(agent.clock.advance(hours=chance.choice([-4, 30])))
            agent.memory.flush(60)
            updated.append(archive.thread("t").updated)
            if number % 8 == 0:
                check(place)
        state = values(agent.graph, config())
        groups = archive.groups(thread_id="t", limit=1000)
        past = agent.memory.observations_as_of(state, max(told))
    check_end(place)
    record = state["om"]
    stamped = {datetime.fromisoformat(group["observed_at"]) for group in groups}
    assert stamped | {datetime.fromisoformat(each) for each in record["stamps"].values()} <= told
    assert all(before <= after for before, after in pairwise(updated))
    assert all(group["text"] in past for group in record["log"])
    assert not any(attempt["failures"] for attempt in record["attempts"].values())
    assert record["generation"] > 0


# --- The archive's clock -------------------------------------------------------------------------


@dataclass
class Shifted:
    """An archive whose clock can be set."""

    path: Path
    shift: float = 0.0
    archive: SQLAlchemyArchive = field(init=False)

    def __post_init__(self) -> None:
        engine = create_engine(f"sqlite:///{self.path}")
        event.listen(engine, "connect", self._give_clock)
        self.archive = SQLAlchemyArchive(engine)
        self.archive.setup()
        self.engine = engine

    def _give_clock(self, connection: Any, *_: Any) -> None:
        connection.create_function("julianday", 1, self._days)

    def _days(self, _: str) -> float:
        return (time.time() + self.shift) / 86400.0 + 2440587.5


@pytest.fixture
def shifted(tmp_path: Path) -> Iterator[Shifted]:
    made = Shifted(tmp_path / "archive.db")
    yield made
    made.engine.dispose()


def worker(shifted: Shifted) -> BackgroundBuffering:
    executor = BackgroundBuffering(exit_timeout=0)
    executor.share(shifted.archive, LEASE)
    return executor


def test_a_claim_is_not_stolen_when_the_clock_went_back_a_little(shifted: Shifted) -> None:
    holder, other, let_go, ran = worker(shifted), worker(shifted), threading.Event(), []

    def work() -> dict[str, Any]:
        ran.append("holder")
        assert let_go.wait(250)
        return RESULT

    holder.submit("c", "t:observation", work, thread_id="t")
    eventually(lambda: ran == ["holder"])
    assert other.peek("c") == "running"
    shifted.shift -= 0.5
    assert other.peek("c") == "running"
    other.submit("c", "t:observation", lambda: {**RESULT, "text": "twice"}, thread_id="t")
    eventually(lambda: other.flush(0))
    let_go.set()
    assert other.wait("c", 60) == holder.wait("c", 60) == RESULT
    assert ran == ["holder"]


def test_the_claim_of_a_dead_worker_is_not_stuck_when_the_clock_went_back(shifted: Shifted) -> None:
    shifted.archive.claim("c", "dead", seconds=LEASE, thread_id="t", resource_id=None)
    shifted.shift -= 3 * HOURS
    other = worker(shifted)
    assert other.peek("c") == "expired"
    other.submit("c", "t:observation", lambda: RESULT, thread_id="t")
    assert other.wait("c", 60) == RESULT
    assert other.flush(60)
    late = worker(shifted)
    assert late.peek("c") == RESULT


def test_result_of_a_worker_that_was_overtaken_counts_once(shifted: Shifted) -> None:
    """The clock went ahead by hours: the claim is over before the work is done."""
    holder, other, let_go = worker(shifted), worker(shifted), threading.Event()
    started = threading.Event()

    def work() -> dict[str, Any]:
        started.set()
        assert let_go.wait(250)
        return {**RESULT, "text": "late"}

    holder.submit("c", "t:observation", work, thread_id="t")
    assert started.wait(60)
    shifted.shift += 3 * HOURS
    took = shifted.archive.claim("c", "other", seconds=60, thread_id="t", resource_id=None)
    assert took == "mine"
    assert shifted.archive.finish("c", "other", RESULT)
    let_go.set()
    assert holder.flush(60)
    assert holder.peek("c") == other.peek("c") == RESULT


def test_messages_and_threads_keep_their_order_when_the_clock_goes_back(shifted: Shifted) -> None:
    archive = shifted.archive
    for number, hours in enumerate((0, -5, 1, -9000)):
        now = START + timedelta(hours=hours)
        message = workers.asked(number)
        archive.append("t", "ana", [(str(message.id), message, True)], after="unknown", now=now)
        archive.set_title("t", f"Title {number}", now)
    kept = archive.messages("t", limit=10)
    assert [row.key for row in kept] == [workers.asked(number).id for number in range(4)]
    thread = archive.thread("t")
    assert thread is not None
    assert (thread.created, thread.updated) == (START, START + timedelta(hours=1))
    assert thread.title == "Title 3"
