"""Workers that share an archive: each job is run once, and whoever is next takes in its result."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import BackgroundBuffering
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.errors import ArchiveError
from langgraph_om.testing import ExtractiveObserver
from support.agents import (
    make_agent,
    of_kind,
    on_thread,
    record_of,
    say,
    scripted,
    turn,
    turns,
    uncovered,
    values,
)
from support.claims import end_claims
from support.processes import lease_workers
from support.processes.forks import start
from support.processes.lease_workers import CONFIG
from support.processes.workers import Place
from support.waiting import Held, eventually

RESULT: dict[str, Any] = {"type": "buffering-end", "cycle_id": "c1", "text": "done"}
OTHER: dict[str, Any] = {**RESULT, "text": "done by another"}
FAILURE: dict[str, Any] = {"type": "buffering-failed", "cycle_id": "c1", "error": "quota"}


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[SQLAlchemyArchive]:
    opened = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    opened.setup()
    yield opened
    opened.close()


@dataclass
class Unreliable:
    """An archive whose methods can be made to fail, or to hang."""

    archive: Any
    failing: set[str] = field(default_factory=set)
    held: threading.Event | None = None
    calls: list[str] = field(default_factory=list)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return SQLAlchemyArchive

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.archive, name)

        def call(*args: Any, **options: Any) -> Any:
            self.calls.append(name)
            if self.held is not None:
                self.held.wait()  # whoever waits for it outlasts the test
            if name in self.failing or "everything" in self.failing:
                msg = "the archive is gone"
                raise ArchiveError(msg)
            return method(*args, **options)

        return call


def worker(archive: Any, seconds: float = 60.0, **options: Any) -> BackgroundBuffering:
    executor = BackgroundBuffering(**options)
    executor.share(archive, seconds)
    return executor


def submit(executor: BackgroundBuffering, work: Callable[[], dict[str, Any]]) -> bool:
    return executor.submit("c1", "t:observation", work, thread_id="t", resource_id="ana")


# --- Workers in one process ----------------------------------------------------------------------


def test_job_runs_once_and_every_worker_sees_it(archive: SQLAlchemyArchive) -> None:
    first, second, late = worker(archive), worker(archive), worker(archive)
    work, again = Held(RESULT), Held(OTHER)
    assert second.peek("c1") is None
    assert submit(first, work)
    assert work.started.wait(60)
    assert submit(second, again)
    eventually(lambda: second.flush(0))
    assert first.peek("c1") == second.peek("c1") == late.peek("c1") == "running"
    work.let_go.set()
    assert second.wait("c1", 60) == RESULT
    assert first.flush(60)
    assert first.peek("c1") == late.peek("c1") == RESULT
    assert submit(late, again)
    assert late.wait("c1", 60) == RESULT
    assert (work.runs, again.runs) == (1, 0)


def test_failure_is_seen_by_every_worker(archive: SQLAlchemyArchive) -> None:
    first, second = worker(archive), worker(archive)
    assert submit(first, lambda: FAILURE)
    assert first.flush(60)
    assert second.peek("c1") == FAILURE


def test_a_job_that_outlasts_its_claim_counts_once(
    archive: SQLAlchemyArchive, caplog: pytest.LogCaptureFixture
) -> None:
    slow, next_one, work = worker(archive), worker(archive), Held(RESULT)
    submit(slow, work)
    assert work.started.wait(60)
    end_claims(archive, "c1")
    assert next_one.peek("c1") == "expired"
    assert submit(next_one, lambda: OTHER)
    assert next_one.wait("c1", 60) == OTHER
    work.let_go.set()
    assert slow.flush(60)
    assert slow.peek("c1") == next_one.peek("c1") == OTHER
    assert "taken over by another worker" in caplog.text


def test_a_job_that_outlasts_its_claim_counts_if_nobody_else_claims_it(
    archive: SQLAlchemyArchive,
) -> None:
    slow, next_one, work = worker(archive), worker(archive), Held(RESULT)
    submit(slow, work)
    assert work.started.wait(60)
    end_claims(archive, "c1")
    work.let_go.set()
    assert slow.flush(60)
    assert next_one.peek("c1") == RESULT


def test_job_of_a_deleted_thread_has_no_result(archive: SQLAlchemyArchive) -> None:
    executor, work = worker(archive), Held(RESULT)
    submit(executor, work)
    assert work.started.wait(60)
    archive.delete_thread("t")
    work.let_go.set()
    assert executor.flush(60)
    assert executor.peek("c1") is None


def test_job_that_raises_is_begun_again_when_its_claim_ends(archive: SQLAlchemyArchive) -> None:
    executor, other = worker(archive), worker(archive)

    def work() -> dict[str, Any]:
        msg = "broken"
        raise RuntimeError(msg)

    submit(executor, work)
    assert executor.flush(60)
    assert other.peek("c1") == "running"
    end_claims(archive)
    assert other.peek("c1") == executor.peek("c1") == "expired"


def test_old_jobs_are_pruned(archive: SQLAlchemyArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("langgraph_om.archive.jobs._KEPT_SECONDS", 0)
    first = worker(archive)
    submit(first, lambda: RESULT)
    assert first.flush(60)
    reopened = SQLAlchemyArchive(str(archive.engine.url))
    second = worker(reopened)
    second.submit("c2", "u:observation", lambda: RESULT)
    assert second.flush(60)
    assert archive.job("c1") is None
    reopened.close()


# --- An archive that fails -----------------------------------------------------------------------


def test_job_runs_without_the_archive(
    archive: SQLAlchemyArchive, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Unreliable(archive, {"everything"})
    executor = worker(gone)
    with caplog.at_level(logging.WARNING, logger="langgraph_om"):
        submit(executor, lambda: RESULT)
        assert executor.wait("c1", 60) == RESULT
    assert caplog.text.count("the archive failed") == 1


def test_job_that_began_without_the_archive_is_shared_if_it_is_back(
    archive: SQLAlchemyArchive,
) -> None:
    gone, work = Unreliable(archive, {"everything"}), Held(RESULT)
    executor = worker(gone)
    submit(executor, work)
    gone.failing.clear()
    work.let_go.set()
    assert executor.wait("c1", 60) == worker(archive).peek("c1") == RESULT


def test_job_of_another_is_believed_to_run_while_the_archive_fails(
    archive: SQLAlchemyArchive, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Unreliable(archive, {"job"})
    executor = worker(gone)
    assert executor.peek("c1") == "running"
    assert executor.peek("c1") == "running"
    assert caplog.text.count("the archive failed") == 1
    gone.failing.clear()
    assert executor.peek("c1") is None


def test_turns_go_on_when_the_archive_goes_in_the_middle(archive: SQLAlchemyArchive) -> None:
    gone: Any = Unreliable(archive)
    buffering = worker(gone, 2.0)
    agent = make_agent(
        "agent",
        InMemorySaver(),
        log=5000,
        observation={"buffer_tokens": 0.2},
        archive=gone,
        buffering=buffering,
    )
    ends = []
    for number, failing in enumerate([False] * 12 + [True] * 12 + [False] * 12):
        gone.failing = {"everything"} if failing else set()
        parts = say(agent.graph, CONFIG, turn(number))
        agent.memory.flush(60)
        ends += [failing] * len(of_kind(parts, "buffering-end"))
        assert uncovered(agent.memory, values(agent.graph, CONFIG)) == []
        assert of_kind(parts, "buffering-failed") == of_kind(parts, "observation-start") == []
    assert set(ends) == {True, False}
    assert len(values(agent.graph, CONFIG)["messages"]) == 72


# --- Workers in several processes ----------------------------------------------------------------


@pytest.fixture(name="place")
def lasting(place: Place) -> Place:
    """Where a lease outlasts a test."""
    return replace(place, lease=60)


def run_process(work: Callable[[Place], None], place: Place) -> int | None:
    """Run a worker in an interpreter of its own, which ends as interpreters do."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=(place,))
    process.start()
    process.join(250)
    return process.exitcode


def check_nothing_lost(place: Place) -> dict[str, Any]:
    agent = lease_workers.worker(place)
    state = values(agent.graph, CONFIG)
    assert uncovered(agent.memory, state) == []
    return state


def test_job_of_a_killed_worker_is_done_once_more(place: Place) -> None:
    dying = replace(place, slowness=3600)
    graph = lease_workers.worker(place).graph  # ready when the other one dies
    process = start(lease_workers.start_job_and_die, dying)
    process.join(250)
    assert process.exitcode == -signal.SIGKILL
    [lost] = record_of(graph, CONFIG)["pending"].values()
    archive = lease_workers.worker(place).memory.archive
    assert archive is not None
    parts = lease_workers.take_turn(place, 20)  # its claim lasts on
    assert of_kind(parts, "buffering-failed") == of_kind(parts, "buffering-start") == []
    end_claims(archive)
    assert getattr(archive.job(lost["cycle_id"]), "state", None) == "expired"
    parts = lease_workers.take_turn(place, 21)
    [failed], [started] = (of_kind(parts, "buffering-failed"), of_kind(parts, "buffering-start"))
    assert failed["cycleId"] == lost["cycle_id"]
    assert failed["error"].startswith("abandoned")
    assert lease_workers.finish_jobs(place)
    lease_workers.take_turn(place, 22)
    assert lease_workers.asked(place) == 2
    record = check_nothing_lost(place)["om"]
    assert [chunk["cycle_id"] for chunk in record["chunks"]] == [started["cycleId"]]
    assert record["attempts"] == {}


def test_worker_that_ends_hands_its_job_on_at_once(place: Place) -> None:
    ended = replace(place, slowness=3600)  # to wait for the job would outlast the test
    assert run_process(lease_workers.run_out, ended) == 0
    parts = lease_workers.take_turn(place, 20)
    [failed] = of_kind(parts, "buffering-failed")
    assert failed["error"].startswith("abandoned")
    assert len(of_kind(parts, "buffering-start")) == 1
    assert lease_workers.finish_jobs(place)
    check_nothing_lost(place)


def test_result_outlives_the_process_that_made_it(place: Place) -> None:
    outlasting = replace(place, slowness=3)  # the turn that starts it, which would take it in
    assert run_process(lease_workers.do_job, outlasting) == 0
    parts = lease_workers.take_turn(place, 20)
    assert len(of_kind(parts, "buffering-end")) == 1
    assert of_kind(parts, "buffering-failed") == []
    assert lease_workers.asked(place) == 1
    assert len(check_nothing_lost(place)["om"]["chunks"]) == 1


async def test_async_turns_take_in_what_another_worker_did(archive: SQLAlchemyArchive) -> None:
    saver, config = InMemorySaver(), on_thread()
    agents = [
        make_agent("agent", saver, observation={"buffer_tokens": 0.2}, archive=archive)
        for _ in range(2)
    ]
    for number, message in enumerate(turns(30)):
        await agents[number % 2].graph.ainvoke({"messages": [message]}, config)
        await agents[number % 2].memory.aflush(60)
        assert uncovered(agents[0].memory, values(agents[0].graph, config)) == []
    record = record_of(agents[0].graph, config)
    assert record["log"]
    assert record["attempts"] == {}
    assert all(agent.asked("observer") for agent in agents)


def test_turn_that_can_not_go_on_waits_for_the_other_worker(archive: SQLAlchemyArchive) -> None:
    """At the blocking threshold, a job that another worker runs is waited for, not done again."""
    saver, config = InMemorySaver(), on_thread()
    begun, let_go = threading.Event(), threading.Event()

    def slow(messages: list[BaseMessage]) -> str:
        begun.set()
        assert let_go.wait(250)
        return ExtractiveObserver().reply(messages)

    observation = {"buffer_tokens": 0.2, "block_after": 1.2}
    first, second = (
        make_agent("agent", saver, model=model, observation=observation, archive=archive)
        for model in (scripted(observer=slow), scripted())
    )
    for number in range(20):
        if of_kind(say(first.graph, config, turn(number)), "buffering-start"):
            break
    assert begun.wait(60)  # until it is the first worker's, nobody else knows of it
    before = threading.Timer(1.0, let_go.set)
    before.start()
    parts = []
    while not of_kind(parts, "buffering-end"):
        number += 1
        parts += say(second.graph, config, turn(number))
    assert of_kind(parts, "buffering-failed") == of_kind(parts, "observation-start") == []
    assert (first.asked("observer"), let_go.is_set()) == (1, True)
    assert uncovered(second.memory, values(second.graph, config)) == []
