"""How much workers share: `python tests/benchmarks/bench_workers.py [--workers 1 2] [--jobs 4]`.

Conversations ask for jobs as they would on a LangGraph server. Worker processes, each with the
graph `worker_graph(memory)`, carry them out over one PostgreSQL; each takes the next that is there.
The model double sleeps, which stands for a model's time. Also measured: what a turn and a job cost,
and with `--database` what they cost the database, which takes half a minute more for each round.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import Any

import psycopg
from databases import postgres_server
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, ServerBuffering, create_memory_agent, worker_graph
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

SETTINGS: dict[str, Any] = {
    "observation": {"message_tokens": 2000, "buffer_tokens": 200},
    "reflection": {"observation_tokens": 4000},
}
TEXT = (
    "I am planning trip number {} to the coast, and my sister Ana joins me for 5 days. We love "
    "museums, long walks along the river and quiet hotels near the old town. "
)


def make_memory(url: str, seconds: float, buffering: Any = None) -> ObservationalMemory:
    model = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply, delay=seconds
    )
    return ObservationalMemory(model, archive=url, buffering=buffering, **SETTINGS)


# --- Workers -------------------------------------------------------------------------------------


def work(url: str, seconds: float, jobs: int, *shared: Any) -> None:
    """Be a worker process: carry out so many jobs at once until told to end."""
    requests, ended, ready, spent = shared
    graph = worker_graph(make_memory(url, seconds))

    def serve() -> None:
        while (given := requests.get()) is not None:
            ended.put(graph.invoke(given)["outcome"])

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.process_time()
    for thread in threads:
        thread.join()
    spent.put(time.process_time() - began)


class Kept:
    """The client of a server that only keeps what it is sent."""

    def __init__(self) -> None:
        self.given: list[Mapping[str, Any]] = []

    @property
    def runs(self) -> Kept:
        return self

    @property
    def threads(self) -> Kept:
        return self

    def create(self, thread_id: str | None, graph: str, **run: Any) -> None:
        del thread_id, graph
        self.given.append(run["input"])

    def search(self, **_: Any) -> list[dict[str, str]]:
        return [{"thread_id": "kept"}]


@contextmanager
def database_at(server: str) -> Iterator[str]:
    name = f"bench_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        url = server.replace("/postgres?", f"/{name}?")
        yield url.replace("postgresql://", "postgresql+psycopg://", 1)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


_NUMBERS = count()


class Costs:
    """What PostgreSQL has done, as it says itself, for turns and for jobs."""

    COLUMNS = ("transactions", "ms", "kB of log")
    QUERY = (
        "SELECT xact_commit, active_time, pg_current_wal_lsn() - '0/0'::pg_lsn "
        "FROM pg_stat_database WHERE datname = current_database()"
    )

    def __init__(self, url: str, *, is_on: bool) -> None:
        self.url, self.is_on = url.replace("+psycopg", ""), is_on
        self.last = self.read()
        self.spent = {"turns": [0.0, 0.0, 0.0], "jobs": [0.0, 0.0, 0.0]}
        self.times = {"turns": 0, "jobs": 0}

    def read(self) -> list[float]:
        if not self.is_on:
            return [0.0, 0.0, 0.0]
        time.sleep(12)  # what is idle for ten seconds tells what it has done
        with psycopg.connect(self.url) as connection:
            commits, active, log = connection.execute(self.QUERY).fetchone() or (0, 0, 0)
        return [float(commits), float(active), float(log) / 1000]

    def note(self, what: str, times: int) -> None:
        """Count what was done since the last note for so many of a kind."""
        now = self.read()
        self.times[what] += times
        self.spent[what] = [
            spent + new - old
            for spent, new, old in zip(self.spent[what], now, self.last, strict=True)
        ]
        self.last = now

    def __str__(self) -> str:
        return "; ".join(
            f"one of {self.times[what]} {what}: "
            + ", ".join(
                f"{value / max(1, self.times[what]):.1f} {column}"
                for value, column in zip(spent, self.COLUMNS, strict=True)
            )
            for what, spent in self.spent.items()
        )


@dataclass(frozen=True)
class Figures:
    workers: int
    jobs: int
    done: int
    seconds: float
    cpu_ms: float
    """CPU time of the workers for a job."""
    turn_ms: float
    """A turn without a job, the archive included."""
    send_ms: float
    """What a turn takes longer that sends one."""
    costs: Costs

    @property
    def rate(self) -> float:
        return self.done / self.seconds


def run(server: str, workers: int, args: argparse.Namespace) -> Figures:
    """Have some workers carry out what all conversations ask for."""
    with database_at(server) as url:
        kept = Kept()
        buffering = ServerBuffering(client=kept, max_pending=100_000)
        memory = make_memory(url, 0, buffering)
        agent = create_memory_agent(
            ScriptedChatModel("Noted."), memory=memory, checkpointer=InMemorySaver()
        )
        context = mp.get_context("spawn")
        requests, ended, spent = (context.Queue() for _ in range(3))
        ready = context.Barrier(workers + 1)
        given = (url, args.seconds, args.jobs, requests, ended, ready, spent)
        processes = [context.Process(target=work, args=given) for _ in range(workers)]
        for process in processes:
            process.start()
        ready.wait()
        took, done, turns = 0.0, 0, ([], [])
        costs = Costs(url, is_on=args.database)
        for round_ in range(args.rounds):
            before = sum(map(len, turns))
            ask(agent, kept, args.conversations, round_, turns)
            costs.note("turns", sum(map(len, turns)) - before)
            took += drain(kept.given, requests, ended)
            done += len(kept.given)
            costs.note("jobs", len(kept.given))
            kept.given.clear()
        for _ in range(workers * args.jobs):
            requests.put(None)
        for process in processes:
            process.join()
        cpu = sum(spent.get() for _ in range(workers))
        memory.close()
    plain, sending = (1000 * median(each) for each in turns)
    cpu_ms = 1000 * cpu / done
    return Figures(workers, args.jobs, done, took, cpu_ms, plain, sending - plain, costs)


def ask(
    agent: Any, kept: Kept, conversations: int, round_: int, turns: tuple[list[float], list[float]]
) -> None:
    """Have each conversation go on until it asks for a job."""
    for number in range(conversations):
        config = {"configurable": {"thread_id": f"t{number}"}}
        before = len(kept.given)
        for turn in range(20):
            text = TEXT.format(f"{round_}-{turn} of {number}")
            began = time.perf_counter()
            agent.invoke({"messages": [("user", text)]}, config)
            has_asked = len(kept.given) > before
            turns[has_asked].append(time.perf_counter() - began)
            if has_asked:
                break


def drain(given: list[Any], requests: Any, ended: Any) -> float:
    """Hand jobs to the workers, and return how many seconds pass until the last one is done."""
    began = time.perf_counter()
    for each in given:
        requests.put(each)
    outcomes = {ended.get() for _ in given}
    assert outcomes == {"done"}, outcomes
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure workers that share jobs.")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="processes")
    parser.add_argument("--jobs", type=int, default=4, help="how many each does at once")
    parser.add_argument("--conversations", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4, help="jobs of each conversation")
    parser.add_argument("--seconds", type=float, default=0.2, help="how long the model takes")
    parser.add_argument("--database", action="store_true", help="also what the database does")
    args = parser.parse_args()
    with postgres_server() as server:
        print("workers  at once  jobs  seconds  jobs/s  CPU ms/job  turn ms  sending ms")  # noqa: T201
        for workers in args.workers:
            found = run(server, workers, args)
            print(  # noqa: T201
                f"{found.workers:7}  {found.jobs:7}  {found.done:4}  {found.seconds:7.1f}  "
                f"{found.rate:6.1f}  {found.cpu_ms:10.0f}  {found.turn_ms:7.1f}  "
                f"{found.send_ms:10.1f}"
            )
            if args.database:
                print(f"  the database, {found.costs}")  # noqa: T201


if __name__ == "__main__":
    main()
