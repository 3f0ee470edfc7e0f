"""A turn with nothing due beside many other threads of the same user, whose log is shared.

`bench_shared.py DATABASE THREADS ...` tells the figures for each number of threads; `run.py` asks.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from statistics import median
from typing import Any

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


def measure(threads: int, database: str) -> dict[str, float]:
    """Return the medians of turns in one thread, once all others are known."""
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
    return {"statements": median(counts[quiet]), "milliseconds": median(times[quiet]) * 1000}


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


if __name__ == "__main__":
    chosen, *numbers = sys.argv[1:]
    tell({number: measure(int(number), chosen) for number in numbers})
