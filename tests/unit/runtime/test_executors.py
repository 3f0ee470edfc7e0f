"""The executors of this package do what is asked of any, the background one with real threads."""

from __future__ import annotations

import contextvars
import gc
import threading
import weakref
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from langgraph_om import (
    BackgroundBuffering,
    ConfigurationError,
    InlineBuffering,
)
from langgraph_om.archive import SQLAlchemyArchive
from support.executor_checks import executor_conformance
from support.waiting import RESULT, ClaimsLate, Held, eventually

RUN: contextvars.ContextVar[Any] = contextvars.ContextVar("run", default=None)


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


def test_no_more_jobs_at_once_than_workers() -> None:
    executor, gates = BackgroundBuffering(2), [Held(), Held()]
    for number, gate in enumerate(gates):
        assert executor.submit(f"c{number}", f"k{number}", gate)
    assert not executor.submit("c2", "k2", Held())
    for gate in gates:
        gate.let_go.set()
    assert executor.flush(60)
    assert executor.submit("c2", "k2", lambda: RESULT)


def test_job_that_raises_is_forgotten() -> None:
    executor, nothing = BackgroundBuffering(), dict[str, dict[str, Any]]()
    executor.submit("c1", "a", lambda: nothing["c1"])
    assert executor.wait("c1", 60) is None
    assert executor.submit("c2", "a", lambda: RESULT)


def test_context_of_the_run_is_carried_along() -> None:
    executor, tag = BackgroundBuffering(), contextvars.ContextVar("tag", default="none")
    tag.set("trace 7")
    executor.submit("c1", "a", lambda: {"tag": tag.get()})
    tag.set("later")
    assert executor.wait("c1", 60) == {"tag": "trace 7"}


def test_a_job_that_is_done_lets_go_of_the_run_that_asked_for_it() -> None:
    executor, conversation = BackgroundBuffering(), Held()
    RUN.set(conversation)
    conversation.let_go.set()
    assert executor.submit("c1", "k1", conversation)
    RUN.set(None)
    kept = weakref.ref(conversation)
    del conversation
    assert executor.wait("c1", 60) == RESULT
    eventually(lambda: gc.collect() >= 0 and kept() is None)


def test_a_job_of_a_deleted_thread_comes_to_nothing() -> None:
    executor, gate = BackgroundBuffering(), Held()
    assert executor.submit("c1", "k1", gate, thread_id="t|>helper")
    assert gate.started.wait(60)
    executor.forget(["t"])
    gate.let_go.set()
    assert executor.flush(60)
    assert executor.peek("c1") is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"workers": 0}, "`workers` is 0"),
        ({"workers": True}, "`workers` is True"),
        ({"exit_timeout": -1}, "`exit_timeout` is -1"),
    ],
)
def test_bad_numbers(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        BackgroundBuffering(**arguments)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), True, "60"])
def test_bad_span_of_claims(seconds: Any, tmp_path: Path) -> None:
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
def test_a_job_that_is_forgotten_while_it_is_claimed_is_done_only_if_asked_again(
    tmp_path: Path, *, is_asked_again: bool
) -> None:
    """A thread that begins anew with the same messages asks for a job of the same id."""
    with closing(ClaimsLate(f"sqlite:///{tmp_path / 'archive.db'}")) as archive:
        executor, done = BackgroundBuffering(), list[str]()

        def submit(name: str) -> bool:
            work = partial(_note, done, name)
            return executor.submit("c1", "t:observation", work, thread_id="t")

        executor.share(archive)
        asking = [threading.Thread(target=submit, args=["first"])]
        asking[0].start()
        assert archive.is_asked.wait(60)
        executor.forget(["t"])
        if is_asked_again:
            asking.append(threading.Thread(target=submit, args=["second"]))
            asking[1].start()
        archive.may_answer.set()
        for thread in asking:
            thread.join()
        assert executor.flush(60)
        assert done == (["second"] if is_asked_again else [])
        found = archive.job("c1")
        assert (found and found.result) == (RESULT if is_asked_again else None)
        if not is_asked_again:  # its thread gives the claim back after all has ended
            eventually(lambda: (job := archive.job("c1")) is None or job.state == "expired")


def _note(done: list[str], name: str) -> dict[str, Any]:
    done.append(name)
    return RESULT


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
def test_executor_with_an_archive(name: str, tmp_path: Path) -> None:
    executor = BackgroundBuffering()
    executor.share(SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db"))
    dict(executor_conformance(lambda _run: executor))[name]()
