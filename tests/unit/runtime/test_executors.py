"""The executors of this package do what is asked of any, the background one with real threads."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from langgraph_om import (
    BackgroundBuffering,
    ConfigurationError,
    EstimatingCounter,
    InlineBuffering,
)
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import executor_conformance
from support.waiting import RESULT, ClaimsLate, Held, aeventually, eventually

RUN: contextvars.ContextVar[Any] = contextvars.ContextVar("run", default=None)


def test_what_counts_and_what_runs_jobs_says_how_it_is_set() -> None:
    shown = {
        EstimatingCounter(): "<EstimatingCounter estimate/1>",
        EstimatingCounter(provider="google"): "<EstimatingCounter estimate/1+google:>",
        BackgroundBuffering(
            2
        ): "BackgroundBuffering(workers=2, tasks=0, queue=256, exit_timeout=5.0)",
        InlineBuffering(): "InlineBuffering()",
    }
    assert {it: repr(it) for it in shown} == shown


def test_job_is_running_until_its_result_is_there_and_stays_to_be_seen() -> None:
    executor, gate = BackgroundBuffering(), Held()
    assert executor.peek("c1") is None
    assert executor.submit("c1", "t:observation", gate)
    assert executor.peek("c1") == "running"
    assert executor.wait("c1", 0.01) == "running"
    gate.let_go.set()
    assert executor.wait("c1", 60) == RESULT
    assert executor.peek("c1") == executor.peek("c1") == RESULT


def test_one_job_per_thread_and_operation() -> None:
    executor, gate = BackgroundBuffering(), Held()
    assert executor.submit("c1", "t:observation", gate)
    assert not executor.submit("c2", "t:observation", Held())
    other, another = Held(), Held()
    assert executor.submit("c3", "t:reflection", other)
    assert executor.submit("c4", "u:observation", another)
    for each in (gate, other, another):
        each.let_go.set()
    assert executor.flush(60)
    assert executor.submit("c2", "t:observation", lambda: RESULT)


def test_full_queue_refuses() -> None:
    executor, gates = BackgroundBuffering(1, queue=0), [Held(), Held()]
    assert executor.submit("c1", "a", gates[0])
    assert gates[0].started.wait(60)
    assert executor.submit("c2", "b", gates[1])
    assert not executor.submit("c3", "c", Held())
    for gate in gates:
        gate.let_go.set()
    assert executor.flush(60)


def test_no_more_jobs_at_once_than_workers() -> None:
    executor, gates = BackgroundBuffering(2), [Held() for _ in range(4)]
    for number, gate in enumerate(gates):
        assert executor.submit(f"c{number}", f"k{number}", gate)
    assert gates[0].started.wait(60)
    assert gates[1].started.wait(60)
    time.sleep(0.05)
    assert not gates[2].started.is_set()
    for gate in gates:
        gate.let_go.set()
    assert executor.flush(60)
    assert all(gate.started.is_set() for gate in gates)


def test_close_takes_no_more_jobs_and_drops_those_that_wait() -> None:
    executor, gate = BackgroundBuffering(1), Held()
    executor.submit("c1", "a", gate)
    assert gate.started.wait(60)
    executor.submit("c2", "b", Held())
    assert not executor.close(0.01)
    assert executor.peek("c2") is None
    assert not executor.submit("c3", "c", Held())
    gate.let_go.set()
    assert executor.flush(60)


def test_job_that_raises_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    executor = BackgroundBuffering()

    def work() -> dict[str, Any]:
        msg = "broken"
        raise RuntimeError(msg)

    executor.submit("c1", "a", work)
    assert executor.wait("c1", 60) is None
    assert "broken" in caplog.text
    assert executor.submit("c2", "a", lambda: RESULT)


def test_context_of_the_run_is_carried_along() -> None:
    executor, tag = BackgroundBuffering(), contextvars.ContextVar("tag", default="none")
    tag.set("trace 7")
    executor.submit("c1", "a", lambda: {"tag": tag.get()})
    tag.set("later")
    assert executor.wait("c1", 60) == {"tag": "trace 7"}


class Awaited(Held):
    """Work that can be awaited too, where it takes a while at least; it notes how it was done."""

    def __init__(self, seconds: float = 0.05, *, is_held: bool = False) -> None:
        super().__init__()
        self.seconds, self.done = seconds, list[str]()
        if not is_held:
            self.let_go.set()

    def __call__(self) -> Any:
        super().__call__()
        self.done.append("blocking")
        return RESULT

    async def awaited(self) -> Any:
        self.started.set()
        await asyncio.sleep(self.seconds)
        await aeventually(self.let_go.is_set)
        self.done.append("awaited")
        return RESULT


async def settled(executor: BackgroundBuffering) -> None:
    await aeventually(lambda: executor.flush(0))


async def test_hundreds_of_jobs_that_can_be_awaited_run_at_once() -> None:
    executor, jobs = BackgroundBuffering(), [Awaited(is_held=True) for _ in range(200)]
    assert all(executor.submit(f"c{n}", f"k{n}", job) for n, job in enumerate(jobs))
    await aeventually(lambda: all(job.started.is_set() for job in jobs))
    for job in jobs:
        job.let_go.set()
    await settled(executor)
    assert [way for job in jobs for way in job.done] == ["blocking"] * 4 + ["awaited"] * 196
    assert executor.peek("c199") == RESULT


async def test_a_job_that_is_done_lets_go_of_the_run_that_asked_for_it() -> None:
    executor = BackgroundBuffering()
    runs: list[weakref.ref[Held]] = []
    for number in range(9):  # five of them are tasks
        conversation = Held()
        runs.append(weakref.ref(conversation))
        RUN.set(conversation)
        assert executor.submit(f"c{number}", f"k{number}", Awaited(0.1))
    RUN.set(None)
    del conversation
    await settled(executor)
    assert [executor.peek(f"c{number}") for number in range(9)] == [RESULT] * 9

    def are_gone() -> bool:
        gc.collect()
        return [run() for run in runs] == [None] * 9

    await aeventually(are_gone)  # a task and its thread end a little after the result is there


async def test_no_more_tasks_than_allowed_and_none_beside_a_number_of_workers() -> None:
    for executor, most in ((BackgroundBuffering(1, tasks=2), 2), (BackgroundBuffering(1), 0)):
        jobs = [Awaited() for _ in range(6)]
        for number, job in enumerate(jobs):
            assert executor.submit(f"c{number}", f"k{number}", job)
        await settled(executor)
        assert [way for job in jobs for way in job.done].count("awaited") == most


def test_a_thread_does_what_a_loop_leaves() -> None:
    executor, jobs = BackgroundBuffering(1, tasks=9), [Awaited(is_held=True) for _ in range(2)]

    async def run() -> None:
        for number, job in enumerate(jobs):
            assert executor.submit(f"c{number}", f"k{number}", job)
        await aeventually(jobs[1].started.is_set)

    asyncio.run(run())
    for job in jobs:
        job.let_go.set()
    assert executor.flush(60)
    assert executor.peek("c1") == RESULT
    assert [job.done for job in jobs] == [["blocking"], ["blocking"]]


async def test_who_waits_in_the_loop_of_a_task_does_not_wait_for_ever() -> None:
    executor, jobs = BackgroundBuffering(1, tasks=9), [Awaited(0.1), Awaited(0.1)]
    for number, job in enumerate(jobs):
        assert executor.submit(f"c{number}", f"k{number}", job)
    await asyncio.sleep(0.02)
    assert executor.flush(60)
    assert executor.peek("c1") == RESULT
    await asyncio.sleep(0.2)


async def test_close_ends_the_tasks_of_its_own_loop() -> None:
    executor, jobs = BackgroundBuffering(1, tasks=9), [Awaited(0.1), Awaited(0.1)]
    for number, job in enumerate(jobs):
        assert executor.submit(f"c{number}", f"k{number}", job)
    assert executor.close(60)
    assert executor.peek("c1") is None
    await asyncio.sleep(0.2)


async def test_a_task_that_a_thread_has_taken_over_is_ended_and_harms_no_loop() -> None:
    executor, gate = BackgroundBuffering(1, tasks=9), Held()
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: failures.append(what))
    job = Awaited(0, is_held=True)
    assert executor.submit("c0", "k0", gate)
    assert executor.submit("c1", "k1", job)
    await aeventually(job.started.is_set)
    job.started.clear()
    gate.let_go.set()
    assert executor.wait("c0", 60) == RESULT
    assert executor.wait("c1", 0.05) == "running"
    assert job.started.wait(60)  # by a thread
    await asyncio.sleep(0.05)  # the loop would go on with the task, in the thread's own context
    job.let_go.set()
    await asyncio.to_thread(executor.flush, 60)
    await asyncio.sleep(0.05)
    assert (job.done, failures) == (["blocking"], [])
    assert executor.peek("c1") == RESULT


def test_a_job_whose_loop_was_closed_is_done_by_a_thread_once_somebody_asks() -> None:
    executor, gate, job = BackgroundBuffering(1, tasks=9), Held(), Awaited(is_held=True)

    async def run() -> None:
        assert executor.submit("c0", "k0", gate)
        assert executor.submit("c1", "k1", job)
        await aeventually(job.started.is_set)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(run())
    loop.close()  # and no task was told
    gate.let_go.set()
    job.let_go.set()
    eventually(lambda: executor.peek("c1") != "running")
    assert (executor.peek("c1"), job.done) == (RESULT, ["blocking"])


@pytest.mark.parametrize("ends", ["with its loop", "at once"])
def test_a_task_that_is_at_work_for_a_deleted_thread_is_ended_and_not_done_anew(ends: str) -> None:
    executor, gate, job = BackgroundBuffering(1, tasks=9), Held(), Awaited(is_held=True)

    async def run() -> None:
        assert executor.submit("c0", "k0", gate)
        assert executor.submit("c1", "k1", job, thread_id="t|>helper")
        await aeventually(job.started.is_set)
        executor.forget(["t"])
        gate.let_go.set()
        if ends == "at once":  # no model is asked any further
            await settled(executor)

    asyncio.run(run())
    job.let_go.set()
    assert executor.flush(60)
    assert (executor.peek("c1"), job.done) == (None, [])


async def test_only_jobs_that_can_be_awaited_have_the_room_of_tasks() -> None:
    executor, gate = BackgroundBuffering(1, tasks=2, queue=1), Held()
    assert executor.submit("c0", "k0", gate)
    assert gate.started.wait(60)
    assert [executor.submit(f"c{n}", f"k{n}", gate) for n in (1, 2, 3)] == [True, True, False]
    awaited = [executor.submit(f"a{n}", f"l{n}", Awaited()) for n in range(3)]
    assert awaited == [True, True, False]
    gate.let_go.set()
    await settled(executor)


def test_what_a_cancelled_task_came_to_is_kept_for_all_workers(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db")
    executor, gate, job = BackgroundBuffering(1, tasks=9), Held(), Awaited(0.05)
    executor.share(archive)
    let_go = threading.Event()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        assert executor.submit("c0", "k0", gate, thread_id="t")
        assert gate.started.wait(60)
        assert executor.submit("c1", "k1", job, thread_id="t")
        await aeventually(lambda: executor._awaited)  # its lease is asked for beside
        loop.run_in_executor(None, let_go.wait, 60)  # whatever the application does there
        await aeventually(lambda: job.done)
        await asyncio.sleep(0.05)
        loop.call_later(0.2, let_go.set)

    asyncio.run(run())
    gate.let_go.set()
    assert executor.flush(60)
    assert job.done == ["awaited"]
    found = archive.job("c1")
    assert found is not None
    assert found.state == "done"
    executor.close()
    archive.close()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"workers": 0}, "`workers` is 0"),
        ({"tasks": -1}, "`tasks` is -1"),
        ({"workers": True}, "`workers` is True"),
        ({"queue": -1}, "`queue` is -1"),
        ({"exit_timeout": -1}, "`exit_timeout` is -1"),
    ],
)
def test_bad_numbers(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        BackgroundBuffering(**arguments)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), True, "60"])
def test_bad_lease(seconds: Any, tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    with pytest.raises(ConfigurationError, match="`seconds` is"):
        BackgroundBuffering().share(archive, seconds)


def test_executor_shares_one_archive(tmp_path: Path) -> None:
    one, other = (SQLAlchemyArchive(f"sqlite:///{tmp_path / name}.db") for name in ("a", "b"))
    executor = BackgroundBuffering()
    executor.share(one)
    executor.share(one)
    with pytest.raises(ConfigurationError, match="give each its own BackgroundBuffering"):
        executor.share(other)


@pytest.mark.parametrize("is_asked_again", [False, True], ids=["once", "again"])
def test_a_job_that_is_withdrawn_while_its_lease_is_asked_for_is_done_only_if_asked_again(
    tmp_path: Path, *, is_asked_again: bool
) -> None:
    """A thread that begins anew with the same messages asks for a job of the same id."""
    with closing(ClaimsLate(f"sqlite:///{tmp_path / 'archive.db'}")) as archive:
        executor, done = BackgroundBuffering(), list[str]()

        def submit(name: str) -> bool:
            work = partial(_note, done, name)
            return executor.submit("c1", "t:observation", work, thread_id="t")

        executor.share(archive)
        assert submit("first")
        assert archive.is_asked.wait(60)
        executor.forget(["t"])
        if is_asked_again:
            assert submit("second")
        # Leases are attended to one after the other, so this one's is last.
        assert executor.submit("last", "u:observation", lambda: RESULT, thread_id="u")
        archive.may_answer.set()
        assert executor.flush(60)
        assert done == (["second"] if is_asked_again else [])
        found = archive.job("c1")
        assert (found and found.result) == (RESULT if is_asked_again else None)
        assert (found is not None) == is_asked_again


def _note(done: list[str], name: str) -> dict[str, Any]:
    done.append(name)
    return RESULT


def test_executors_share_one_entry_for_the_exit_of_the_interpreter() -> None:
    first = BackgroundBuffering()
    before = atexit._ncallbacks()
    others = [BackgroundBuffering() for _ in range(20)]
    assert atexit._ncallbacks() == before
    assert first.close()
    assert all(other.close() for other in others)


KINDS: dict[str, Any] = {
    "background": BackgroundBuffering,
    "inline": InlineBuffering,
}
CHECKS = [name for name, _ in executor_conformance(lambda _run: InlineBuffering())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CHECKS)
def test_executor(name: str, kind: str) -> None:
    dict(executor_conformance(lambda _run: KINDS[kind]()))[name]()


@pytest.mark.parametrize("name", CHECKS)
def test_executor_with_leases(name: str, tmp_path: Path) -> None:
    executor = BackgroundBuffering()
    executor.share(SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db"))
    dict(executor_conformance(lambda _run: executor))[name]()


class Wrong(BackgroundBuffering):
    """One that forgets a result once it was seen and no other, and takes jobs when it is closed."""

    def peek(self, cycle_id: str) -> Any:
        state = super().peek(cycle_id)
        self._jobs.pop(cycle_id, None)
        return state

    def close(self, timeout: float = 5.0) -> bool:
        return self.flush(timeout)

    def forget(self, *_: Any, **__: Any) -> None:
        pass


@pytest.mark.parametrize(
    "name",
    [
        "results_are_looked_at_and_not_taken",
        "closed_executors_take_no_jobs",
        "forgotten_jobs_are_not_known",
    ],
)
def test_a_wrong_executor_is_found(name: str) -> None:
    with pytest.raises(AssertionError):
        dict(executor_conformance(lambda _run: Wrong()))[name]()
