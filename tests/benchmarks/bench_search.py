"""How fast a search by words is among many archived messages, and what the index costs a write.

Loading takes minutes: `python tests/benchmarks/bench_search.py [--messages N] [--only DATABASE]`.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import accumulate, pairwise

from archives import Line, Thread, fill, lap
from conversation import START
from databases import DATABASES
from langchain_core.messages import HumanMessage
from report import Report, text_table

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive import append as sql_archive
from langgraph_om.core.search import split_words

PER_THREAD, THREADS_PER_USER = 50, 100
"""So that a user has 5,000 messages."""
WORDS, VOCABULARY = 30, 50_000
CALLS, APPENDS, SEED = 60, 300, 11


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


def make_threads(messages: int) -> Iterator[Thread]:
    users = count_users(messages)
    for n in range(messages // PER_THREAD):
        yield Thread(f"t{n:06}", owner(n, users), f"Talk {n}", START, START)


def make_lines(messages: int) -> Iterator[Line]:
    body = '{"type":"human","data":{"content":"%s","type":"human","id":"%s"}}'
    vocabulary = Vocabulary()
    for number, thread in enumerate(make_threads(messages)):
        keys = [f"m{number * PER_THREAD + at:07}" for at in range(PER_THREAD)]
        for at, (parent, key) in enumerate(pairwise([None, *keys])):
            said = vocabulary.sentence()
            words = " ".join(map(vocabulary.split.__getitem__, said.split()))
            yield Line(thread, at, str(key), parent, "user", body % (said, key), words, START)


def laps(work: Callable[[int], object], times: int = CALLS) -> list[float]:
    """How long each of some calls takes, in seconds; the first ones are not counted."""
    return [lap(work, number) for number in range(times + 5)][5:]


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

    def user() -> dict[str, str]:
        return {"resource_id": f"user-{draw.randrange(users):04}"}

    def thread() -> str:
        return f"t{draw.randrange(messages // PER_THREAD):06}"

    def search(words: Callable[[], str], scope: Callable[[], dict[str, str]]) -> list[float]:
        return laps(lambda _: archive.search(words(), **scope(), limit=8))

    def drawn(count: int) -> Callable[[], str]:
        return lambda: vocabulary.sentence(count)

    def append(thread: str) -> Callable[[int], object]:
        def write(number: int) -> object:
            key = f"{thread}-{number}"
            said = HumanMessage(vocabulary.sentence(), id=key)
            after = f"{thread}-{number - 1}" if number else None
            times = {key: START}
            rows = [(key, said, True)]
            return archive.append(thread, "writer", rows, after=after, now=START, times=times)

        return write

    rare, frequent = vocabulary.words[VOCABULARY // 2 :], " ".join(vocabulary.words[:3])
    found = {
        "search, 5 words as drawn, one user": search(drawn(5), user),
        "search, 12 words as drawn, one user": search(drawn(12), user),
        "search, 30 words as drawn, one user": search(drawn(30), user),
        "search, 1 rare word, one user": search(lambda: draw.choice(rare), user),
        "search, the 3 most frequent words, one user": search(lambda: frequent, user),
        "search, 5 words as drawn, one thread": search(drawn(5), lambda: {"thread_id": thread()}),
        "page of 20": laps(lambda _: archive.messages(thread(), start=10, limit=20)),
    }
    # By turns, so that what else the machine does falls on both.
    plain: list[float] = []
    indexed: list[float] = []
    with_index, bare = append("with-index"), append("without-index")
    for number in range(APPENDS):
        indexed.append(lap(with_index, number))
        with without_index():
            plain.append(lap(bare, number))
    return {**found, "append with the index": indexed, "append without it": plain}


def run(messages: int, names: Iterable[str]) -> Report:
    """Measure these databases."""
    figures: dict[str, dict[str, list[float]]] = {}
    notes: list[str] = []
    for name in names:
        with DATABASES[name]() as url, closing(SQLAlchemyArchive(url)) as archive:
            archive.setup()
            loaded = fill(url, make_threads(messages), make_lines(messages))
            figures[name] = measure(archive, messages)
            deleted = lap(archive.delete_thread, "t000000")
        note = f"{messages:,} messages loaded in {loaded:.0f} s, a thread deleted in"
        notes.append(f"{name}: {note} {deleted:.2f} s")
    middles = {
        name: {what: statistics.median(taken) for what, taken in found.items()}
        for name, found in figures.items()
    }
    rows = [
        [name, what, f"{middle * 1000:.1f} ms", f"{max(figures[name][what]) * 1000:.1f} ms"]
        for name, found in middles.items()
        for what, middle in found.items()
    ]
    title = f"search by words among {messages:,} messages"
    return Report(title, ("database", "what", "median", "slowest"), rows, notes)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the search by words.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--only", choices=DATABASES)
    options = parser.parse_args()
    report = run(options.messages, [options.only] if options.only else DATABASES)
    print(text_table(report), flush=True)  # noqa: T201 the table is the program's output


if __name__ == "__main__":
    main()
