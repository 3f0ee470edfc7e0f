# How many conversations do so many workers and one database carry? A simulation, in seconds.
#
#     python examples/scale.py                              # what docs/operate.md quotes
#     python examples/scale.py --conversations 20000 --workers 8 --model-seconds 12
#
# Conversations take turns at random. Each turn asks the database for some milliseconds; some turns
# send a job, which waits for a free place of a worker, has the model asked, and writes its result.
# What they cost the database was measured once (docs/benchmarks.md); put in your own figures.
# What is not simulated: the agent's own model, and storage other than memory's.

from __future__ import annotations

import argparse
import heapq
import random
from collections import deque
from dataclasses import dataclass, field


@dataclass
class Places:
    """Something that serves so many at once; whoever comes later waits in line."""

    count: int
    busy: int = 0
    line: deque = field(default_factory=deque)
    used: float = 0.0  # seconds of work, of all places together
    waits: list[float] = field(default_factory=list)

    def come(self, now: float, work: float, then: str) -> list:
        self.line.append((now, work, then))
        return self.serve(now)

    def leave(self, now: float) -> list:
        self.busy -= 1
        return self.serve(now)

    def serve(self, now: float) -> list:
        begun = []
        while self.line and self.busy < self.count:
            came, work, then = self.line.popleft()
            self.busy += 1
            self.used += work
            self.waits.append(now - came)
            begun.append((now + work, self, then))
        return begun


def simulate(args: argparse.Namespace) -> dict[str, float]:
    chance = random.Random(args.seed)  # noqa: S311 not for secrets
    database = Places(args.database_places)
    workers = Places(args.workers * args.jobs_per_worker)
    events, number = [], 0
    sent = refused = 0
    end = args.minutes * 60

    def plan(new: list) -> None:
        nonlocal number
        for at, places, then in new:
            number += 1
            heapq.heappush(events, (at, number, places, then))

    rate = args.conversations * args.turns_per_hour / 3600  # turns in a second, all together
    plan([(chance.expovariate(rate), None, "turn")])
    while events:
        now, _, places, then = heapq.heappop(events)
        if now > end:
            break
        if places is not None:
            plan(places.leave(now))
        if then == "turn":
            plan([(now + chance.expovariate(rate), None, "turn")])
            plan(database.come(now, args.turn_ms / 1000, "sends"))
        elif then == "sends" and chance.random() < args.jobs_per_turn:
            if len(workers.line) >= args.max_pending:
                refused += 1  # asked again after some growth, by the same conversation
            else:
                sent += 1
                seconds = chance.lognormvariate(0, args.spread) * args.model_seconds
                plan(workers.come(now, seconds, "writes"))
        elif then == "writes":
            plan(database.come(now, args.job_ms / 1000, "ended"))
    return {
        "turns a second": rate,
        "jobs a second": sent / end,
        "database busy, %": 100 * database.used / (end * database.count),
        "workers busy, %": 100 * workers.used / (end * workers.count),
        "database wait, ms, 99 %": 1000 * at(database.waits, 0.99),
        "job waits for a worker, s, half": at(workers.waits, 0.5),
        "job waits for a worker, s, 99 %": at(workers.waits, 0.99),
        "refused, %": 100 * refused / max(1, sent + refused),
    }


def at(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0.0


def ceilings(args: argparse.Namespace) -> dict[str, float]:
    """How many conversations until each of them is busy all the time; no simulation is needed."""
    turns = args.turns_per_hour / 3600  # in a second, of one conversation
    jobs = turns * args.jobs_per_turn
    load = (turns * args.turn_ms + jobs * args.job_ms) / 1000
    mean = args.model_seconds * 2.718281828 ** (args.spread**2 / 2)
    return {
        "database": args.database_places / load,
        "workers": args.workers * args.jobs_per_worker / (jobs * mean),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate conversations, workers, a database.")
    add = parser.add_argument
    add("--conversations", type=int, nargs="+", default=[1000, 4000, 8000, 10000, 12000])
    add("--turns-per-hour", type=float, default=30, help="of one conversation that is going on")
    add("--jobs-per-turn", type=float, default=0.17, help="1000 tokens a turn, 6000 a job")
    add("--model-seconds", type=float, default=8, help="what the Observer takes, the median")
    add("--spread", type=float, default=0.5, help="of its time: sigma of a log-normal distribution")
    add("--workers", type=int, default=12, help="processes")
    add("--jobs-per-worker", type=int, default=10, help="how many each does at once")
    add("--max-pending", type=int, default=640, help="jobs that may wait, of all who send them")
    add("--turn-ms", type=float, default=5, help="what a turn costs the database")
    add("--job-ms", type=float, default=9, help="what a job costs the database")
    add("--database-places", type=int, default=2, help="its cores")
    add("--minutes", type=float, default=10)
    add("--seed", type=int, default=1)
    args = parser.parse_args()
    columns = []
    for conversations in args.conversations:
        args.conversations = conversations
        columns.append((conversations, simulate(args)))
    width = max(len(name) for name in columns[0][1])
    print("conversations".ljust(width), *(f"{count:9}" for count, _ in columns))
    for name in columns[0][1]:
        print(name.ljust(width), *(f"{found[name]:9.1f}" for _, found in columns))
    for name, most in ceilings(args).items():
        print(f"{name}: busy all the time from {most:.0f} conversations on")


if __name__ == "__main__":
    main()
