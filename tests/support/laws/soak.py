"""Let random things happen to conversations for minutes, and count what breaks a law.

    PYTHONPATH=tests python -m support.laws.soak --scope resource --minutes 30 --seed 1

Faulty Observers, forks, time travel, restarts, edits, removals, pins, deletions, histories sent
once more, and an archive that fails: in worlds of some 60 turns, each made by its own seed alone.
What broke a law is printed with all that happened before it, `--only 17` lets world 17 happen
again, and `--without fork edit` leaves some of it out.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from support.laws.cast import CONDENSES, HANGS, MOODS, SECTION_MOODS
from support.laws.doors import DOORS
from support.laws.laws import DOUBLED, LOST, UNCOVERED, UNREAD
from support.laws.served import ENDURED, FATES, REFUSALS, Served
from support.laws.shares import FAULTS, FLICKERS
from support.laws.world import (
    MAX_PINS,
    Point,
    Rules,
    Thread,
    Worker,
    World,
    exchanges,
)
from support.laws.world import turns as split_turns
from support.real_ids import Naming

ON_A_SERVER = 0.25
"""In which part of the worlds that have an archive jobs are sent to a server."""
WITH_BUDGET = 0.5
"""In which part of the worlds window and log have one budget."""
BUDGETS = (300, 800, 800, 2500)
TURNS = 60
"""To a world; a longer conversation meets nothing new, and is slower to check."""
GOOD = ("short", "long", "orders", "two days", "day by day", "nothing")
SIZES = (1, 3, 12, 12, 40, 40, 90, 250)
ROUNDS: tuple[list[list[int]], ...] = ([], [], [], [[2]], [[15, -4]], [[60], [15, 2]])


@dataclass
class Figures:
    """What happened, and what should not have."""

    counts: Counter[str] = field(default_factory=Counter)
    first: str = ""
    """World, events and problems of the first violation."""
    worlds: list[str] = field(default_factory=list)
    """Worlds in which a law was broken, and how."""

    KINDS = (
        *("worlds", "turns", "forks", "restarts", "edits", "removals", "resent"),
        *("pins", "deletions", "faults", "runs"),
    )
    WRONG = ("violations", "losses", "unread", "doubles", "uncovered")

    def __str__(self) -> str:
        return ", ".join(f"{kind} {self.counts[kind]}" for kind in (*self.KINDS, *self.WRONG))


class Episode:
    """One world, and what happens in it; the same for the same seed."""

    def __init__(
        self, scope: str, seed: int, number: int, figures: Figures, without: Sequence[str] = ()
    ) -> None:
        self.number, self.without = number, set(without)
        self.random = random.Random(f"{scope}:{seed}:{number}")  # noqa: S311
        self.figures = figures
        # By a generator of its own, so that the other worlds of a seed stay what they were.
        lot = random.Random(f"{scope}:{seed}:{number}:jobs").random()  # noqa: S311
        self.rules = self._choose_rules(scope)
        if lot < ON_A_SERVER and self.rules.storage != "checkpoints":
            self.rules = replace(self.rules, buffering="server")
        lots = random.Random(f"{scope}:{seed}:{number}:budget")  # noqa: S311
        if lots.random() < WITH_BUDGET:
            self.rules = replace(self.rules, token_budget=lots.choice(BUDGETS))
        self.world = World(self.rules)
        self.threads: list[Thread] = list(self.world.threads.values())
        self.trace = [f"world {number} of seed {seed}: {self.rules}"]
        if self.world.archive is not None:
            self.world.archive.chance = self.random.random

    def _choose_rules(self, scope: str) -> Rules:
        pick = self.random.choice
        door, shares = pick(DOORS), scope == "resource"
        buffering = pick(["held", "held", "inline", "off"])
        return Rules(
            door=door,
            buffering=buffering,
            storage=pick(["archive", "evicting"] if shares else ["checkpoints", "evicting"]),
            messages=pick([200, 200, 60, 500]),
            log=pick([60, 200, 100_000, 100_000]),
            buffer_tokens=pick([0.1, 0.2, 0.5]),
            buffer_activation=pick([0.3, 0.8, 1.0]),
            scope=scope,
            naming=Naming(self.random.randrange(1, 2**16)),
            keeps=not shares and door != "step" and self.random.random() < 0.5,
        )

    def run(self, turns: int = TURNS) -> None:
        """Let things happen until the world has had its turns, or a law is broken."""
        actions: dict[Callable[[], Any], int] = {
            self.speak: 50,
            self.fork: 15,
            self.change_models: 10,
            self.let_jobs_end: 10,
            self.restart: 4,
            self.pass_time: 3,
            self.edit: 3,
            self.take_back: 3,
            self.pin: 3,
            self.delete: 3,
            self.delete_user: 1,
            self.send_again: 5 if self.rules.storage == "evicting" else 0,
            self.fail: 6 if self.world.archive is not None else 0,
            self.change_server: 8 if self.world.served is not None else 0,
        }
        actions = {
            action: weight
            for action, weight in actions.items()
            if action.__name__ not in self.without  # type: ignore[attr-defined]
        }
        end = self.figures.counts["turns"] + turns
        self.figures.counts["worlds"] += 1
        try:
            while self.figures.counts["turns"] < end:
                (action,) = self.random.choices([*actions], [*actions.values()])
                action()
        except AssertionError as error:
            self._note(str(error))
        except Exception:  # noqa: BLE001  (the world goes down, the soak goes on)
            self._note(traceback.format_exc())
        finally:
            self.world.close()

    def _note(self, problems: str) -> None:
        counts = self.figures.counts
        counts["violations"] += 1
        marks = {"losses": LOST, "unread": UNREAD, "doubles": DOUBLED, "uncovered": UNCOVERED}
        for kind, mark in marks.items():
            counts[kind] += mark in problems
        self.figures.worlds.append(f"world {self.number}: {problems.strip().splitlines()[-1]}")
        self.figures.first = self.figures.first or "\n".join([*self.trace, problems])

    def _log(self, kind: str, what: str) -> None:
        self.figures.counts[kind] += 1
        self.trace.append(what)

    # --- What may happen ---

    def _worker(self) -> Worker:
        return self.random.choice(self.world.workers)

    def _thread(self) -> Thread:
        return self.random.choice([self.threads[0], *self.threads])

    def _plan(self) -> dict[str, Any]:
        return {"rounds": self.random.choice(ROUNDS), "answer": self.random.choice([1, 8, 60])}

    def speak(self, thread: Thread | None = None, resent: Sequence[Any] = ()) -> None:
        thread = thread or self._thread()
        size, plan = self.random.choice(SIZES), self._plan()
        self._log("turns", f"{thread.name} u{self.world.said}: {size} words, {plan}")
        self.world.talk(thread, self._worker(), size, resent=resent, **plan)

    def fork(self) -> None:
        thread = self._thread()
        if not thread.points:
            return
        # As often back to a neighbouring point as to any; the newest may be of another branch.
        at = self.random.randrange(len(thread.points))
        if self.random.random() < 0.5:
            at = max(0, len(thread.points) - 1 - self.random.randrange(8))
        size, plan = self.random.choice(SIZES), self._plan()
        self.figures.counts["turns"] += 1
        self._log("forks", f"{thread.name} u{self.world.said} from point {at}: {size}, {plan}")
        point: Point = thread.points[at]
        self.world.fork(thread, self._worker(), point, size, **plan)

    def change_models(self) -> None:
        oracle = self.world.oracle
        moods = [*GOOD, *GOOD, *GOOD, *MOODS, *SECTION_MOODS, HANGS]
        oracle.observer = self.random.choice(moods)
        oracle.reflector = self.random.choice([CONDENSES, CONDENSES, *MOODS])
        self.trace.append(f"models: {oracle.observer}, {oracle.reflector}")

    def let_jobs_end(self) -> None:
        if self.world.oracle.hangs:
            return
        for gate, job in self.world.held():
            if self.random.random() < 0.7:
                self.trace.append(f"job {job.cycle_id} ends")
                gate.let_go(job)
        if self.world.served is not None:
            self._let_runs_meet_their_fate(self.world.served)

    def _let_runs_meet_their_fate(self, served: Served) -> None:
        runs = [run for run in served.held() if self.random.random() < 0.7]
        self.random.shuffle(runs)
        for run in runs:
            fate = self.random.choice(FATES)
            self._log("runs", f"run of {run.cycle_id}: {fate}")
            served.meet(run, fate)

    def change_server(self) -> None:
        served, pick = self.world.served, self.random.choice
        assert served is not None
        served.change(pick(ENDURED), pick(REFUSALS), forgets=self.random.random() < 0.2)
        self.trace.append(
            f"server: a turn that waits: {served.endures}, answers {served.double.refuses}, "
            f"loses runs: {served.double.forgets}"
        )
        if self.random.random() < 0.3:
            self.trace.append("leases run out")
            self.world.leases_run_out()

    def restart(self) -> None:
        at, is_sudden = self.random.randrange(2), self.random.random() < 0.5
        self._log("restarts", f"restart {at}, sudden {is_sudden}")
        self.world.restart(at, is_sudden=is_sudden)
        self.world.leases_run_out()

    def pass_time(self) -> None:
        hours = self.random.choice([1, 24])
        self.trace.append(f"{hours} hours")
        self.world.clock.advance(hours=hours)

    def edit(self) -> None:
        thread, worker = self._thread(), self._worker()
        standing = self.world.standing(thread, worker)
        if standing:
            message = self.random.choice(standing)
            label = f"edited:{self.world.said}"
            self._log("edits", f"{thread.name}: {message.id} is {label}")
            self.world.edit(thread, worker, str(message.id), f"{label} again")

    def take_back(self) -> None:
        thread, worker = self._thread(), self._worker()
        standing = self.world.standing(thread, worker)
        pieces = self.random.choice([exchanges, split_turns])(standing)
        if len(pieces) > 1:
            start, most = self.random.randrange(len(pieces)), self.random.choice([1, 1, 2, 5])
            keys = [
                key for piece in pieces[start : start + most][: len(pieces) - 1] for key in piece
            ]
            self._log("removals", f"{thread.name}: without {keys}")
            self.world.take_back(thread, worker, keys)

    def pin(self) -> None:
        thread, worker = self._thread(), self._worker()
        pinned = thread.told.pinned
        keys = [
            str(message.id)
            for message in self.world.standing(thread, worker)
            if message.type in {"human", "ai"} and message.text.strip()
        ]
        keys = [key for key in keys if key in pinned or len(pinned) < MAX_PINS]
        if keys:
            key = self.random.choice(keys)
            self._log("pins", f"{thread.name}: pins {key}, or lets it go")
            self.world.pin(thread, worker, key)

    def delete(self) -> None:
        """Delete a thread."""
        if self.world.archive is None or not self.world.archive.away:
            thread, worker = self._thread(), self._worker()
            self._log("deletions", f"{thread.name} is deleted")
            self.world.delete([thread], worker, None)

    def delete_user(self) -> None:
        """Delete all of a user."""
        if self.world.archive is None or not self.world.archive.away:
            owner, worker = self._thread().resource, self._worker()
            threads = [each for each in self.threads if each.resource == owner]
            self._log("deletions", f"all of {owner} is deleted")
            self.world.delete(threads, worker, owner)

    def send_again(self) -> None:
        """Send history once more, as a client does that knows nothing of eviction.

        While the archive is away, nobody can tell what was removed: it comes back.
        """
        if self.world.archive is None or self.world.archive.away:
            return
        thread = self._thread()
        told = [thread.told.messages[key] for key in thread.told.standing]
        start = self.random.choice([0, self.random.randrange(len(told) + 1)])
        if told[start:]:
            self._log("resent", f"{thread.name} sends {len(told) - start} messages again")
            self.speak(thread, told[start:])

    def fail(self) -> None:
        archive: Any = self.world.archive
        archive.away = "" if archive.away else self.random.choice([*FAULTS, FLICKERS, FLICKERS])
        self._log("faults", f"the archive is away: {archive.away!r}")


def soak(
    scope: str,
    seed: int,
    *,
    minutes: float,
    worlds: int = sys.maxsize,
    turns: int = TURNS,
    without: Sequence[str] = (),
) -> Figures:
    """Let worlds happen one after the other, for so long or so many, and count."""
    figures, end, number = Figures(), time.monotonic() + 60 * minutes, 0
    while number < worlds and time.monotonic() < end:
        Episode(scope, seed, number, figures, without).run(turns)
        number += 1
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description="Soak memory in random conversations.")
    parser.add_argument("--scope", choices=("thread", "resource"), default="thread")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="WORLD", help="let this world happen alone")
    parser.add_argument("--without", nargs="*", default=[], metavar="EVENT")
    chosen = parser.parse_args()
    logging.getLogger("langgraph_om").setLevel(logging.CRITICAL)
    if chosen.only is None:
        figures = soak(chosen.scope, chosen.seed, minutes=chosen.minutes, without=chosen.without)
    else:
        figures = Figures()
        Episode(chosen.scope, chosen.seed, chosen.only, figures, chosen.without).run()
    print("\n".join([figures.first, *figures.worlds[:50]]))  # noqa: T201 what is printed is what the program is for
    print(f"scope {chosen.scope}, seed {chosen.seed}: {figures}")  # noqa: T201
    return 1 if figures.counts["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
