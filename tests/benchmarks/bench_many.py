"""One archive of very many users in PostgreSQL: what each operation takes, and what it holds.

`python tests/benchmarks/bench_many.py [--messages 1000000] [--keep FOLDER]`. Rows are generated and
loaded by COPY, a hundred messages for each user; the index over the words is built behind that.
With `--keep`, a folder that holds the database already is measured once more.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta

import psycopg
from archives import Line, Thread, fill, lap
from conversation import START, conversation
from databases import postgres_server
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.sql.schema import encode_message
from langgraph_om.core.content.parts import parts_of, role_of
from langgraph_om.core.search import read_parts, split_words
from processes import tell

PER_THREAD = 50
PER_USER = 2
"""Threads of a user."""
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


def user_of(thread: int) -> str:
    return f"user-{thread // PER_USER:07}"


def thread_name(thread: int) -> str:
    return f"thread-{thread:08}"


def key_of(thread: int, at: int) -> str:
    return f"{thread:08}-{at:03}"


def make_threads(count: int) -> Iterator[Thread]:
    for number in range(count):
        created = START + timedelta(seconds=number)
        updated = created + timedelta(hours=number % 90)
        yield Thread(thread_name(number), user_of(number), None, created, updated)


def make_lines(count: int) -> Iterator[Line]:
    """Yield two thousand messages, which come again in other threads under other ids."""
    said = conversation(40 * PER_THREAD, prefix="<", calls_every=8)
    known = [
        (
            str(each.id),
            role_of(each) or "user",
            encode_message(str(each.id), each),
            " ".join(split_words(read_parts([*parts_of(each)]))),
        )
        for each in said
    ]
    for number, thread in enumerate(make_threads(count)):
        first, parent = number % 40 * PER_THREAD, None
        for at in range(PER_THREAD):
            key = key_of(number, at)
            name, role, body, words = known[first + at]
            body, words = body.replace(name, key), f"{words} n{number}"
            written = START + timedelta(seconds=number * 60 + at)
            yield Line(thread, at, key, parent, role, body, words, written)
            parent = key


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


def laps(archive: SQLAlchemyArchive, threads: int) -> Iterator[dict[str, float]]:
    """Make each call once, again and again, and yield the milliseconds by name."""
    draw, calls = random.Random(SEED), calls_of(archive, threads)  # noqa: S311 repeatable
    for number in range(threads // 10 // PER_USER):
        taken: dict[str, float] = {}
        for name, call in calls.items():
            thread = draw.randrange(threads // 10, threads)
            if name.startswith("delete"):  # others than those that are asked for
                thread = number * PER_USER
            taken[name] = 1000 * lap(call, thread, number)
        yield taken


def measure(archive: SQLAlchemyArchive, threads: int) -> None:
    found = [taken for taken, _ in zip(laps(archive, threads), range(CALLS), strict=False)]
    say(f"{'':30} median ms   p95 ms   most ms")
    for name in found[0]:
        times = [taken[name] for taken in found]
        p95 = statistics.quantiles(times, n=20)[-1]
        say(f"{name:30} {statistics.median(times):9.2f} {p95:8.2f} {max(times):9.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure an archive of very many users.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--keep", help="the folder of a server that stays")
    parser.add_argument("--by-turns", action="store_true", help="for `run.py`")
    args = parser.parse_args()
    threads = args.messages // PER_THREAD
    with postgres_server(args.keep) as server, psycopg.connect(server, autocommit=True) as plain:
        plain.execute("ALTER SYSTEM SET max_wal_size = '8GB'")
        plain.execute("SELECT pg_reload_conf()")
        archive = SQLAlchemyArchive(server)
        archive.setup()
        known = plain.execute("SELECT count(*) FROM om_threads").fetchone()
        if not known or not known[0]:
            say(f"loaded in {fill(server, make_threads(threads), make_lines(threads)):.0f} s")
        if args.by_turns:
            tell({})
            for _, taken in zip(sys.stdin, laps(archive, threads), strict=False):
                tell(taken)
            archive.close()
            return
        measure(archive, threads)
        say(f"VACUUM ANALYZE: {lap(plain.execute, 'VACUUM ANALYZE'):.0f} s")
        for name, rows, table, indexes in plain.execute(SIZES):
            say(f"{name}: {rows} rows, {table / 1e6:,.0f} MB, indexes {indexes / 1e6:,.0f} MB")
        for name, bytes_ in plain.execute(INDEXES):
            say(f"{name}: {bytes_ / 1e6:,.0f} MB")
        size = plain.execute("SELECT pg_database_size(current_database())").fetchone()
        say(f"all: {(size or [0])[0] / 1e6:,.0f} MB")
        archive.close()


if __name__ == "__main__":
    main()
