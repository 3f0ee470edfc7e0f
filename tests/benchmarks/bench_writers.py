"""Many threads of one user that are written at once by several workers, with a log they share.

By itself: `python tests/benchmarks/bench_writers.py [--turns 2000] [--threads 20] [--at-once 20]
[--only sqlite]`. The models are rough: they miss sizes, and forget the form at times.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from databases import DATABASES
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from sqlalchemy import Engine, create_engine

from langgraph_om import ObservationalMemory, SQLAlchemyArchive
from langgraph_om.core.record.window import open_window
from langgraph_om.memory import runner_of
from langgraph_om.testing import RoughObserver, RoughReflector, ScriptedChatModel

USER = "ada"
WORKERS = 4
THREADS = 20
MESSAGE_TOKENS = 1000
OBSERVATION_TOKENS = 2000
ANSWER_SECONDS = 0.05
"""How long the Observer and the Reflector take."""
STARTS = ("data-om-observation-start", "data-om-buffering-start")
WAITS = ("data-om-observation-start",)
_ASKED = re.compile(r"^User.*?\b(w\d+-\d+)\b", re.MULTILINE)
_CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)


@dataclass
class Served:
    """What one worker saw."""

    began: list[int] = field(default_factory=list)
    """Per turn, how many cycles of memory it began, waiting or ahead."""
    waited: list[int] = field(default_factory=list)
    """Per turn, for how many it waited."""
    seconds: list[float] = field(default_factory=list)
    """How long each turn took."""
    sizes: list[tuple[float, int]] = field(default_factory=list)
    """The tokens of the log after each turn, and when."""
    observed: Counter[str] = field(default_factory=Counter)
    """Per request of the user, how often a usable answer of the Observer was about it."""
    calls: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    left: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    """Per thread its messages, and those in its own window in the end."""


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    url: str
    turns: int
    """Of each thread."""
    buffer_tokens: float | bool | None
    threads: int = THREADS
    at_once: int = THREADS
    """How many threads take turns at the same time."""
    length: int = 20
    """How often a message says the same."""
    connections: int | None = None
    """Of each worker, to the archive; `None`: as many as it takes by itself."""


class Worker:
    """Some of the threads, each in turns of its own, all at once."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan, self.served = plan, Served()
        observer, reflector = RoughObserver(seed), RoughReflector(seed)
        roles = {
            "observer": self._note("observer", observer.reply),
            "reflector": self._note("reflector", reflector.reply),
        }
        more: dict[str, Any] = {}
        if plan.buffer_tokens is not None:
            more["buffer_tokens"] = plan.buffer_tokens
        self.memory = ObservationalMemory(
            ScriptedChatModel(**roles),
            scope="resource",
            archive=SQLAlchemyArchive(self._connect()),
            observation={"message_tokens": MESSAGE_TOKENS, **more},
            reflection={"observation_tokens": OBSERVATION_TOKENS},
        )

    def _connect(self) -> str | Engine:
        most = self.plan.connections
        if most is None:
            return self.plan.url
        return create_engine(self.plan.url, pool_size=most, max_overflow=0, pool_timeout=120)

    def _note(
        self, role: str, reply: Callable[[list[BaseMessage]], str]
    ) -> Callable[[list[BaseMessage]], str]:
        def answer(messages: list[BaseMessage]) -> str:
            time.sleep(ANSWER_SECONDS)
            text = reply(messages)
            self.served.calls[role] += 1
            if role == "observer" and "<" in text:
                asked = _CONVERSATION.search(messages[-1].text)
                self.served.observed.update(set(_ASKED.findall(asked[1] if asked else "")))
            return text

        return answer

    def serve(self, threads: Sequence[int]) -> Served:
        """Take all turns, and one more in the end that takes in what is left."""
        with ThreadPoolExecutor(max(1, self.plan.at_once // WORKERS)) as pool:
            kept = dict(pool.map(self._serve_thread, threads))
        self.memory.flush(60)
        count = runner_of(self.memory).settings.counter
        for thread, (record, messages) in kept.items():
            config: Any = {"configurable": {"thread_id": thread, "resource_id": USER}}
            done = self.memory.step(record, messages, config=config, final=True)
            self.memory.flush(60)
            shown = open_window(done.record, messages, count).entries
            keys = [str(message.id) for message in messages]
            self.served.left[thread] = keys, [entry.key for entry in shown]
        self.memory.close()
        return self.served

    def _serve_thread(self, number: int) -> tuple[str, tuple[Any, list[BaseMessage]]]:
        thread, record = f"w{number}", None
        messages: list[BaseMessage] = []
        config: Any = {"configurable": {"thread_id": thread, "resource_id": USER}}
        for turn in range(self.plan.turns):
            text = f"My note {thread}-{turn} is about topic {turn * 7 % 50} and room {turn % 9}, "
            messages.append(
                HumanMessage(text + "as I said to Ana. " * self.plan.length, id=f"{thread}.h{turn}")
            )
            began = time.monotonic()
            done = self.memory.step(record, messages, config=config)
            messages.append(AIMessage("Noted; anything else? " * 10, id=f"{thread}.a{turn}"))
            last = self.memory.step(done.record, messages, config=config, final=True)
            record = last.record
            self.served.seconds.append(time.monotonic() - began)
            self._count([*done.events, *last.events])
            self.served.sizes.append((time.time(), sum(group["tokens"] for group in record["log"])))
        return thread, (record, messages)

    def _count(self, parts: Sequence[Any]) -> None:
        kinds = [part["type"] for part in parts]
        self.served.began.append(sum(kind in STARTS for kind in kinds))
        self.served.waited.append(sum(kind in WAITS for kind in kinds))
        for part in parts:
            if part["type"].endswith("-failed"):
                self.served.failed[str(part["data"]["error"])[:60]] += 1


def serve(plan: Plan, seed: int, threads: Sequence[int]) -> Served:
    """Be a worker."""
    return Worker(plan, seed).serve(threads)


# --- What came of it -----------------------------------------------------------------------------


def find_lost(archive: SQLAlchemyArchive, served: Sequence[Served]) -> tuple[int, int]:
    """Count messages that are nowhere, and those that the log covers twice.

    What a thread showed in its last turn may have been observed in another one's since.
    """
    record, _ = archive.load_record(USER)
    log = record["log"] if record is not None else []  # few turns each: nothing was due
    ranges = [ends for group in log for ends in group["ranges"]]
    lost = doubled = 0
    for worker in served:
        for thread, (keys, shown) in worker.left.items():
            archived = archive.messages(thread, limit=100_000, visible_only=False)
            lost += len(set(keys) - {each.key for each in archived})
            places = {key: at for at, key in enumerate(keys)}
            times = Counter[str]()
            for first, last in ranges:
                if first in places:
                    times.update(keys[places[first] : places[last] + 1])
            lost += sum(not times[key] for key in keys if key not in shown)
            doubled += sum(times[key] > 1 for key in keys)
    return lost, doubled


def report(plan: Plan, served: Sequence[Served], seconds: float) -> Iterator[str]:
    """Yield the figures, a line each."""
    archive = SQLAlchemyArchive(plan.url)
    lost, doubled = find_lost(archive, served)
    archive.close()
    began = sorted(each for worker in served for each in worker.began)
    waited = sorted(each for worker in served for each in worker.waited)
    observed = sum((worker.observed for worker in served), Counter[str]())
    calls = sum((worker.calls for worker in served), Counter[str]())
    failed = sum((worker.failed for worker in served), Counter[str]())
    again = sum(times - 1 for times in observed.values())
    sizes = [size for _, size in sorted(each for worker in served for each in worker.sizes)]
    tenth = max(1, len(sizes) // 10)
    tenths = [sizes[at : at + tenth] for at in range(0, tenth * 10, tenth)]
    yield (
        f"{len(began)} turns of {plan.threads} threads, {plan.at_once} at once, "
        f"by {WORKERS} workers in {seconds:.0f} s"
    )
    for name, counts in (("cycles begun", began), ("cycles waited for", waited)):
        at = counts[round(0.99 * (len(counts) - 1))]
        yield f"{name} per turn: at most {counts[-1]}, p99 {at}, {sum(counts)} in all"
    took = sorted(each for worker in served for each in worker.seconds)
    at = took[round(0.99 * (len(took) - 1))]
    yield f"seconds of a turn: median {median(took):.2f}, p99 {at:.2f}, at most {took[-1]:.2f}"
    yield f"calls: {dict(calls)}"
    yield f"requests observed: {len(observed)}, again: {again}"
    yield f"messages lost: {lost}, covered twice: {doubled}"
    yield f"log, median of each tenth: {[round(median(part)) for part in tenths]}"
    yield f"log, most of each tenth: {[max(part) for part in tenths]}"
    yield f"failed: {dict(failed.most_common(6))}"


def measure(plan: Plan) -> Iterator[str]:
    """Have the workers serve all threads, and yield the figures."""
    SQLAlchemyArchive(plan.url).setup()
    shares = [[*range(at, plan.threads, WORKERS)] for at in range(WORKERS)]
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        tasks = [(plan, seed, share) for seed, share in enumerate(shares)]
        served = pool.starmap(serve, tasks)
    yield from report(plan, served, time.monotonic() - began)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures for each database, with buffering and without."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2000, help="of all threads together")
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--at-once", type=int, help="threads at a time (default: all)")
    parser.add_argument("--length", type=int, default=20, help="of a message, times 5 tokens")
    parser.add_argument("--connections", type=int, help="of each of the four workers")
    parser.add_argument("--only", choices=DATABASES)
    parser.add_argument("--mode", choices=("buffered", "waiting"))
    options = parser.parse_args(arguments)
    for name, database in DATABASES.items():
        for mode, buffer_tokens in (("buffered", None), ("waiting", False)):
            if options.only not in (None, name) or options.mode not in (None, mode):
                continue
            with database() as url:
                turns = max(1, options.turns // options.threads)
                at_once = options.at_once or options.threads
                sizes = options.threads, at_once, options.length, options.connections
                lines = measure(Plan(url, turns, buffer_tokens, *sizes))
                sys.stdout.write(f"--- {name}, {mode}\n" + "".join(f"{line}\n" for line in lines))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
