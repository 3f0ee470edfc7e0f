"""How fast a search by words is among many archived messages, and what the index costs a write.

Loading takes minutes. Run by itself, this file
prints Markdown rows: `python tests/benchmarks/bench_search.py [--messages N] [--only DATABASE]`.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from conversation import START
from databases import copy_rows, postgres_server
from langchain_core.messages import HumanMessage
from report import Budget, Options, Report, markdown_table, text_table
from sqlalchemy import text

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.sql import archive as sql_archive
from langgraph_om.archive.sql.database import Database
from langgraph_om.archive.sql.index import put_index_in_order
from langgraph_om.archive.sql.schema import message_rows, text_rows, thread_rows
from langgraph_om.archive.sql.texts import mark
from langgraph_om.core.search import split_words

FULL, QUICK = 1_000_000, 20_000
PER_THREAD, THREADS_PER_USER = 50, 100
"""So that a user has 5,000 messages."""
WORDS, VOCABULARY = 30, 50_000
BATCH = 20_000
CALLS, APPENDS, SEED = 60, 300, 11
SEARCH_SECONDS, PAGE_SECONDS, APPEND_TIMES = 0.020, 0.010, 1.3
"""The budgets."""


class Vocabulary:
    """Made-up words, drawn as often as words of a language are."""

    def __init__(self) -> None:
        self.draw = random.Random(SEED)  # noqa: S311 it need not be secret
        letters = "abcdefghiklmnoprstuvw"
        self.words = ["".join(self.draw.choices(letters, k=7)) for _ in range(VOCABULARY)]
        self.weights = [*accumulate(1 / (rank + 1) for rank in range(VOCABULARY))]
        self.split = {word: " ".join(split_words(word)) for word in self.words}

    def sentence(self, words: int = WORDS) -> str:
        return " ".join(self.draw.choices(self.words, cum_weights=self.weights, k=words))


def owner(thread: int, users: int) -> str:
    """Whose a thread is: the threads of all users come by turns, as users write side by side."""
    return f"user-{thread % users:04}"


def count_users(messages: int) -> int:
    return max(1, messages // PER_THREAD // THREADS_PER_USER)


def thread_lines(messages: int) -> Iterator[dict[str, Any]]:
    """Rows of threads."""
    for n in range(messages // PER_THREAD):
        whose, dates = owner(n, count_users(messages)), {"created": START, "updated": START}
        yield {"id": f"t{n:06}", "resource_id": whose, "title": f"Talk {n}", **dates}


def digest(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def message_lines(messages: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Rows of messages and of their texts, as `append` writes them."""
    body = '{"type":"human","data":{"content":"%s","type":"human","id":"%s"}}'
    vocabulary, users = Vocabulary(), count_users(messages)
    for number in range(messages):
        thread, at = divmod(number, PER_THREAD)
        said, key, name = vocabulary.sentence(), f"m{number:07}", f"t{thread:06}"
        message = {
            "thread_id": name,
            "key": key,
            "position": at,
            "is_current": True,
            "node": digest(key),
            "parent": digest(f"m{number - 1:07}") if at else None,
            "is_visible": True,
            "written": START,
            "digest": digest(key),
            "body": body % (said, key),
        }
        marks = (mark("thread", name), mark("resource", owner(thread, users)), mark("role", "user"))
        words = " ".join((*marks, *map(vocabulary.split.__getitem__, said.split())))
        place = {
            "thread_id": name,
            "kind": "message",
            "key": key,
            "digest": digest(key),
            "piece": 0,
        }
        yield message, {**place, "at": START, "words": words}


def fill(archive: SQLAlchemyArchive, url: str, messages: int) -> float:
    """Load the archive by SQL, in large batches, and tell how many seconds it took."""
    started = time.perf_counter()
    archive.setup()
    with closing(Database(url)) as database:
        is_sqlite = database.engine.dialect.name == "sqlite"
        if not is_sqlite:  # an index is built faster over all of it
            with database.write("load") as connection:
                connection.execute(text("DROP INDEX om_texts_keys"))
        with database.write("load") as connection:
            copy_rows(connection, thread_rows, [*thread_lines(messages)])
        lines = message_lines(messages)
        while batch := list(islice(lines, BATCH)):
            with database.write("load") as connection:
                copy_rows(connection, message_rows, [message for message, _ in batch])
                copy_rows(connection, text_rows, [words for _, words in batch])
        if not is_sqlite:
            with database.write("load") as connection:
                connection.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
                put_index_in_order(connection)
            engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
            with engine.connect() as plain:
                plain.execute(text("VACUUM ANALYZE"))
    return time.perf_counter() - started


def laps(work: Callable[[int], object], times: int = CALLS) -> list[float]:
    """How long each of some calls takes, in seconds; the first ones are not counted."""
    taken: list[float] = []
    for number in range(times + 5):
        started = time.perf_counter()
        work(number)
        taken.append(time.perf_counter() - started)
    return taken[5:]


@contextmanager
def without_index() -> Iterator[None]:
    """Let messages be archived without being made searchable."""
    real = sql_archive.put_texts
    sql_archive.put_texts = lambda *_, **__: None
    try:
        yield
    finally:
        sql_archive.put_texts = real


def measure(archive: SQLAlchemyArchive, messages: int) -> dict[str, list[float]]:
    """Take the times of searches, of pages, and of writes with and without the index."""
    draw, vocabulary = random.Random(SEED), Vocabulary()  # noqa: S311 the same
    users = count_users(messages)

    def user() -> str:
        return f"user-{draw.randrange(users):04}"

    def search(words: str, **scope: Any) -> object:
        return archive.search(words, **scope, limit=8)

    def append(thread: str) -> Callable[[int], object]:
        def write(number: int) -> object:
            key = f"{thread}-{number}"
            said = HumanMessage(vocabulary.sentence(), id=key)
            after = f"{thread}-{number - 1}" if number else None
            times = {key: START}
            rows = [(key, said, True)]
            return archive.append(thread, "writer", rows, after=after, now=START, times=times)

        return write

    found = {
        "search, 5 words as drawn, one user": laps(
            lambda _: search(vocabulary.sentence(5), resource_id=user())
        ),
        "search, 12 words as drawn, one user": laps(
            lambda _: search(vocabulary.sentence(12), resource_id=user())
        ),
        "search, 30 words as drawn, one user": laps(
            lambda _: search(vocabulary.sentence(30), resource_id=user())
        ),
        "search, 1 rare word, one user": laps(
            lambda _: search(draw.choice(vocabulary.words[VOCABULARY // 2 :]), resource_id=user())
        ),
        "search, the 3 most frequent words, one user": laps(
            lambda _: search(" ".join(vocabulary.words[:3]), resource_id=user())
        ),
        "search, 5 words as drawn, one thread": laps(
            lambda _: search(
                vocabulary.sentence(5), thread_id=f"t{draw.randrange(messages // PER_THREAD):06}"
            )
        ),
        "page of 20": laps(
            lambda _: archive.messages(
                f"t{draw.randrange(messages // PER_THREAD):06}", start=10, limit=20
            )
        ),
    }
    # By turns, so that what else the machine does falls on both.
    plain: list[float] = []
    indexed: list[float] = []
    with_index, bare = append("with-index"), append("without-index")
    for number in range(APPENDS):
        started = time.perf_counter()
        with_index(number)
        indexed.append(time.perf_counter() - started)
        with without_index():
            started = time.perf_counter()
            bare(number)
            plain.append(time.perf_counter() - started)
    return {**found, "append with the index": indexed, "append without it": plain}


def run(options: Options, messages: int | None = None, only: str | None = None) -> Report:
    """Measure both databases."""
    messages = messages or options.pick(FULL, QUICK)
    figures: dict[str, dict[str, list[float]]] = {}
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for where in ("SQLite", "PostgreSQL"):
            if only and only.casefold() not in where.casefold():
                continue
            with (
                postgres_server() if where == "PostgreSQL" else _file(folder) as url,
                closing(SQLAlchemyArchive(url)) as archive,
            ):
                loaded = fill(archive, url, messages)
                figures[where] = measure(archive, messages)
                started = time.perf_counter()
                archive.delete_thread("t000000")
                deleted = time.perf_counter() - started
                note = f"{messages:,} messages loaded in {loaded:.0f} s, a thread deleted in"
                notes.append(f"{where}: {note} {deleted:.2f} s")
    middles = {
        where: {what: statistics.median(taken) for what, taken in found.items()}
        for where, found in figures.items()
    }
    rows = [
        [where, what, f"{middle * 1000:.1f} ms", f"{max(figures[where][what]) * 1000:.1f} ms"]
        for where, found in middles.items()
        for what, middle in found.items()
    ]
    budgets = [budget for where, found in middles.items() for budget in _budgets(where, found)]
    title = f"search by words among {messages:,} messages"
    return Report(title, ("database", "what", "median", "slowest"), rows, budgets, notes, figures)


@contextmanager
def _file(folder: str) -> Iterator[str]:
    yield f"sqlite:///{Path(folder) / 'archive.db'}"


def _budgets(where: str, found: dict[str, float]) -> Iterator[Budget]:
    for what, middle in found.items():
        limit = SEARCH_SECONDS if what.startswith("search") else PAGE_SECONDS
        if not what.startswith("append"):
            target = f"< {limit * 1000:.0f} ms"
            yield Budget(f"{what}, {where}", target, f"{middle * 1000:.1f} ms", middle < limit)
    times = found["append with the index"] / found["append without it"]
    yield Budget(
        f"append with the index, {where}",
        f"<= {APPEND_TIMES} times as long",
        f"{times:.2f}",
        times <= APPEND_TIMES,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the search by words.")
    parser.add_argument("--messages", type=int, help=f"how many messages; {FULL:,} by default")
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    options = parser.parse_args()
    report = run(Options(), options.messages, options.only)
    tables = f"{text_table(report)}\n\n{markdown_table(report.budgets)}"
    print(tables, flush=True)  # noqa: T201 the tables are the program's output


if __name__ == "__main__":
    main()
