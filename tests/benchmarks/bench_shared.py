"""A turn with nothing due beside many other threads of the same user, whose log is shared.

By itself: `python tests/benchmarks/bench_shared.py [--threads 10 100 1000] [--only postgres]`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple

from databases import DATABASES
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import Engine, event

from langgraph_om import ObservationalMemory, SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from processes import tell

USER = "ada"
TURNS = 40
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
WORDS = " ".join(f"word{number}" for number in range(30))


class Cost(NamedTuple):
    """What a turn took; medians of those in which all threads are known."""

    threads: int
    statements: float
    most: int
    """Statements of the turn that read most, the first one apart."""
    milliseconds: float
    first: float
    """CPU milliseconds of the first turn, which reads the other threads."""


def fill(archive: SQLAlchemyArchive, threads: int) -> None:
    """Have so many threads that each said a little, none of it observed."""
    for number in range(threads):
        name = f"n{number}"
        said = [
            HumanMessage(f"{name} says {WORDS}", id=f"{name}.h"),
            AIMessage(f"Noted {WORDS}", id=f"{name}.a"),
        ]
        rows = [(str(each.id), each, True) for each in said]
        archive.append(name, USER, rows, after=None, now=START)


def measure(threads: int, database: str = "sqlite") -> Cost:
    """Measure turns in one thread beside others."""
    with DATABASES[database]() as url:
        archive = SQLAlchemyArchive(url)
        fill(archive, threads)
        roles = {"observer": ExtractiveObserver().reply, "reflector": ExtractiveReflector().reply}
        memory = ObservationalMemory(
            ScriptedChatModel(**roles),
            scope="resource",
            archive=archive,
            clock=lambda: START,
            observation={"message_tokens": 100_000, "buffer_tokens": False},
        )
        counts, times = _run(memory)
        archive.close()
    quiet = slice(TURNS // 2, None)  # by then the process has read all threads once
    milliseconds = median(times[quiet]) * 1000
    return Cost(threads, median(counts[quiet]), max(counts[1:]), milliseconds, times[0] * 1000)


def _run(memory: ObservationalMemory) -> tuple[list[int], list[float]]:
    config: Any = {"configurable": {"thread_id": "quiet", "resource_id": USER}}
    counts, times, messages, record = [], [], list[Any](), None
    statements: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    for number in range(TURNS):
        messages.append(HumanMessage(f"Number {number}: {WORDS}", id=f"h{number}"))
        statements.clear()
        began = time.process_time()
        done = memory.step(record, messages, config=config)
        times.append(time.process_time() - began)
        counts.append(len(statements))
        messages.append(AIMessage("Noted.", id=f"a{number}"))
        record = memory.step(done.record, messages, config=config, final=True).record
    event.remove(Engine, "before_cursor_execute", note)
    return counts, times


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--only", choices=DATABASES)
    parser.add_argument("--json", action="store_true", help="only figures, for `run.py`")
    options = parser.parse_args(arguments)
    if options.json:
        tell({each: measure(each, options.only)._asdict() for each in options.threads})
        return
    write = sys.stdout.write
    write("database | threads | statements | at most | CPU of a turn | CPU of the first\n")
    for database in [options.only] if options.only else DATABASES:
        for threads in options.threads:
            cost = measure(threads, database)
            times = f"{cost.milliseconds:.1f} ms | {cost.first:.0f} ms"
            write(f"{database} | {threads} | {cost.statements:g} | {cost.most} | {times}\n")


if __name__ == "__main__":
    main()
