"""What other processes do to an archive in the tests; they are spawned and import this by name."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage
from sqlalchemy import create_engine, event

from langgraph_om.archive import SQLAlchemyArchive

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ProcessPoolExecutor

    from langgraph_om.archive import Claim

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
WORKERS = 4


def run_together(
    processes: ProcessPoolExecutor, work: Callable[..., Any], url: str, arguments: list[Any]
) -> list[Any]:
    """Run a function of this file in several processes at the same time."""
    start = time.time() + 1.0
    running = [processes.submit(work, url, start, *given) for given in arguments]
    return [run.result(timeout=120) for run in running]


def wait_until(start: float) -> None:
    """Begin with the other processes, when all of them have been told."""
    time.sleep(max(0.0, start - time.time()))


def set_up(url: str, start: float, worker: int) -> int:
    """The process that did it."""
    wait_until(start)
    archive = SQLAlchemyArchive(url)
    archive.setup()
    archive.append(f"thread {worker}", "r", [("a", HumanMessage("a"), True)], after=None, now=NOW)
    archive.close()
    return os.getpid()


def say(url: str, start: float, worker: int, rounds: int) -> None:
    archive = SQLAlchemyArchive(url)
    wait_until(start)
    for i in range(rounds):
        entry = (f"{worker} {i}", HumanMessage("hi"), True)
        archive.append("thread", "r", [entry], after="unknown", now=NOW)
    archive.close()


def count_up(url: str, start: float, rounds: int) -> None:
    archive = SQLAlchemyArchive(url)
    wait_until(start)
    for _ in range(rounds):
        while True:
            record, revision = archive.load_record("r")
            count = record["count"] + 1 if record else 1
            value = {"generation": count // 10, "count": count}
            if archive.commit_record("r", value, expected=revision, now=NOW):
                break
    archive.close()


def claim_all(url: str, start: float, owner: str, jobs: int) -> list[Claim]:
    archive = SQLAlchemyArchive(url)
    wait_until(start)
    claims = [
        archive.claim(f"job {i}", owner, seconds=60, thread_id="t", resource_id="r")
        for i in range(jobs)
    ]
    archive.close()
    return claims


def die_after(url: str, statement: str) -> None:
    """Append to `thread` and be killed when this statement was executed, before the commit."""
    engine = create_engine(url)

    @event.listens_for(engine, "after_cursor_execute")
    def die(connection: Any, cursor: Any, executed: str, *_: Any) -> None:
        if executed.startswith(statement):
            os.kill(os.getpid(), signal.SIGKILL)

    entries = [(f"m{i}", HumanMessage("hi"), True) for i in range(3)]
    SQLAlchemyArchive(engine).append("thread", "r", entries, after=None, now=NOW)
