"""The ten laws over real graphs: random conversations, failures, restarts, forks and edits.

`laws.py` says what must hold, `world.py` what can happen, and this file what happens next.
More of it: `OM_EXAMPLES=50 python -m pytest tests/laws`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from support.examples import EXAMPLES
from support.laws.cast import CONDENSES, HANGS, MOODS, SECTION_MOODS, label_of
from support.laws.doors import DOORS
from support.laws.served import ENDURED, FATES, REFUSALS, Served
from support.laws.shares import AWAY
from support.laws.world import (
    MAX_PINS,
    Rules,
    Thread,
    Worker,
    World,
    exchanges,
    turns,
)
from support.real_ids import NAMINGS

SCOPES = os.environ.get("OM_SCOPES", "thread resource").split()

SIZES = st.sampled_from([1, 3, 12, 12, 40, 40, 90, 250, 700])
ROUNDS = st.lists(
    st.lists(st.sampled_from([2, 15, 60, 300, -4]), min_size=1, max_size=3), max_size=3
)
GOOD = ("short", "long", "orders", "two days", "day by day", "nothing")


RULES = st.builds(
    Rules,
    door=st.sampled_from(DOORS),
    buffering=st.sampled_from(["held", "held", "held", "server", "inline", "off"]),
    saver=st.sampled_from(["memory", "memory", "sqlite"]),
    storage=st.sampled_from(["checkpoints", "archive", "evicting"]),
    messages=st.sampled_from([200, 200, 60, 500]),
    log=st.sampled_from([60, 25, 200]),
    buffer_tokens=st.sampled_from([0.2, 0.1, 0.5]),
    buffer_activation=st.sampled_from([0.8, 0.3, 1.0]),
    max_input_tokens=st.sampled_from([None, None, None, 900]),
    token_budget=st.sampled_from([None, None, None, 300, 800]),
    shares_budget=st.sampled_from([False, False, True]),
    recalls=st.booleans(),
    thinks=st.booleans(),
    activates_after=st.sampled_from([None, None, 60.0, 4000.0]),
    marks_gaps=st.booleans(),
    hints=st.booleans(),
    keeps=st.booleans(),
    scope=st.sampled_from(SCOPES),
    naming=NAMINGS,
)


class Conversations(RuleBasedStateMachine):
    """Threads of one user, served by two processes."""

    world: World | None = None

    @initialize(rules=RULES, said=st.lists(SIZES, max_size=8))
    def begin(self, rules: Rules, said: list[int]) -> None:
        needs_archive = rules.scope == "resource" or rules.buffering == "server"
        if needs_archive and rules.storage == "checkpoints":
            rules = replace(rules, storage="archive")
        if rules.keeps and (rules.scope == "resource" or rules.door == "step"):
            rules = replace(rules, keeps=False)
        self.world = World(rules)
        self.threads: list[Thread] = list(self.world.threads.values())
        for size in said:
            self.world.talk(self.threads[0], self._worker(0), size)

    def teardown(self) -> None:
        if self.world is not None:
            self.world.close()

    def _worker(self, at: int) -> Worker:
        assert self.world is not None
        return self.world.workers[at]

    @property
    def _hangs(self) -> bool:
        return self.world is not None and self.world.oracle.hangs

    # --- Conversation ---

    @rule(
        thread=st.sampled_from([0, 0, 1, 0, 2, 1, 3]),
        worker=st.integers(0, 1),
        size=SIZES,
        rounds=ROUNDS,
        answer=st.sampled_from([1, 8, 60]),
        falls_at=st.sampled_from([None, None, None, None, 0, 1]),
        resumes=st.booleans(),
        is_async=st.booleans(),
    )
    def user_says(
        self,
        *,
        thread: int,
        worker: int,
        size: int,
        rounds: list[list[int]],
        answer: int,
        falls_at: int | None,
        resumes: bool,
        is_async: bool,
    ) -> None:
        world: Any = self.world
        world.talk(
            self.threads[thread % len(self.threads)],
            self._worker(worker),
            size,
            is_async=is_async and world.saver_kind == "memory" and self._all_patient(),
            resumes=resumes,
            rounds=rounds,
            answer=answer,
            falls_at=falls_at,
        )

    @rule(worker=st.integers(0, 1), sizes=st.lists(SIZES, min_size=2, max_size=6))
    def user_talks_on(self, worker: int, sizes: list[int]) -> None:
        assert self.world is not None
        for size in sizes:
            self.world.talk(self.threads[0], self._worker(worker), size, answer=10)

    @precondition(lambda self: len(self.threads) > 2)
    @rule(worker=st.integers(0, 1), sizes=st.lists(SIZES, min_size=3, max_size=8))
    def user_talks_everywhere(self, worker: int, sizes: list[int]) -> None:
        assert self.world is not None
        for at, size in enumerate(sizes):
            self.world.clock.advance(seconds=1)
            self.world.talk(self.threads[at % len(self.threads)], self._worker(worker), size)

    @precondition(lambda self: self.world.shares is not None)
    @rule(how=st.sampled_from(["", *AWAY]))
    def archive_changes(self, how: str) -> None:
        assert self.world is not None
        assert self.world.archive is not None
        self.world.archive.away = how

    @rule(hours=st.sampled_from([1, 24]))
    def time_passes(self, hours: int) -> None:
        assert self.world is not None
        self.world.clock.advance(hours=hours)

    # --- Models ---

    @rule(mood=st.sampled_from([*GOOD, *GOOD, *MOODS, *SECTION_MOODS, HANGS]))
    def observer_changes(self, mood: str) -> None:
        assert self.world is not None
        self.world.oracle.observer = mood

    @rule(mood=st.sampled_from([CONDENSES, CONDENSES, *MOODS, HANGS]))
    def reflector_changes(self, mood: str) -> None:
        assert self.world is not None
        self.world.oracle.reflector = mood

    @rule(is_patient=st.booleans())
    def patience_changes(self, *, is_patient: bool) -> None:
        assert self.world is not None
        for gate in self.world.gates:
            gate.is_patient = is_patient

    def _all_patient(self) -> bool:
        assert self.world is not None
        return not self._hangs and all(gate.is_patient for gate in self.world.gates)

    # --- Background jobs and processes ---

    @precondition(lambda self: not self._hangs and self.world.held())
    @rule(data=st.data())
    def job_ends(self, data: st.DataObject) -> None:
        assert self.world is not None
        held = self.world.held()
        gate, job = held[data.draw(st.integers(0, len(held) - 1))]
        gate.let_go(job)

    @precondition(lambda self: not self._hangs and self._served and self._served.held())
    @rule(data=st.data(), fate=st.sampled_from(FATES))
    def run_meets_its_fate(self, data: st.DataObject, fate: str) -> None:
        assert self._served is not None
        runs = self._served.held()
        self._served.meet(runs[data.draw(st.integers(0, len(runs) - 1))], fate)

    @precondition(lambda self: self._served)
    @rule(
        endures=st.sampled_from(ENDURED), refuses=st.sampled_from(REFUSALS), forgets=st.booleans()
    )
    def server_changes(self, *, endures: str, refuses: int | None, forgets: bool) -> None:
        assert self._served is not None
        self._served.change(endures, refuses, forgets=forgets)

    @property
    def _served(self) -> Served | None:
        return self.world.served if self.world is not None else None

    @precondition(lambda self: not self._hangs)
    @rule()
    def all_jobs_end(self) -> None:
        assert self.world is not None
        for gate, job in self.world.held():
            gate.let_go(job)
        for run in self._served.held() if self._served is not None else ():
            self._served.let_go(run)

    @rule(at=st.integers(0, 1), is_sudden=st.booleans())
    def process_restarts(self, at: int, *, is_sudden: bool) -> None:
        assert self.world is not None
        self.world.restart(at, is_sudden=is_sudden)

    @precondition(lambda self: self.world.dead or self._served)
    @rule()
    def leases_run_out(self) -> None:
        assert self.world is not None
        self.world.leases_run_out()

    # --- What users and operators do to a thread ---

    @precondition(lambda self: self.threads[0].points)
    @rule(data=st.data(), worker=st.integers(0, 1), size=SIZES, rounds=ROUNDS)
    def fork(self, data: st.DataObject, worker: int, size: int, rounds: list[list[int]]) -> None:
        assert self.world is not None
        points = self.threads[0].points
        point = points[data.draw(st.integers(0, len(points) - 1))]
        self.world.fork(self.threads[0], self._worker(worker), point, size, rounds=rounds)

    @rule(data=st.data(), worker=st.integers(0, 1), size=SIZES)
    def user_edits(self, data: st.DataObject, worker: int, size: int) -> None:
        assert self.world is not None
        thread, who = self.threads[0], self._worker(worker)
        keys = [str(message.id) for message in self.world.standing(thread, who)]
        assume(keys)
        key = keys[-1 - data.draw(st.integers(0, len(keys) - 1))]
        label = label_of(thread.told.messages[key])
        text = f"edited {label}:{self.world.said} " + "again " * size
        self.world.edit(thread, who, key, text)

    @rule(worker=st.integers(0, 1), size=SIZES)
    def operator_adds_by_hand(self, worker: int, size: int) -> None:
        assert self.world is not None
        thread, who = self.threads[0], self._worker(worker)
        assume(self.world.standing(thread, who))
        self.world.add(thread, who, size)

    @rule(data=st.data(), worker=st.integers(0, 1), most=st.sampled_from([1, 1, 2, 5, 30]))
    def user_takes_back(self, data: st.DataObject, worker: int, most: int) -> None:
        assert self.world is not None
        thread, who = self.threads[0], self._worker(worker)
        standing = self.world.standing(thread, who)
        pieces = exchanges(standing) if most == 1 else turns(standing)
        assume(len(pieces) > 1)
        start = data.draw(st.integers(0, len(pieces) - 1))
        taken = pieces[start : start + most][: len(pieces) - 1]  # an empty state is no turn's end
        keys = [key for piece in taken for key in piece]
        self.world.take_back(thread, who, keys)

    @precondition(lambda self: self.world.archive is None or not self.world.archive.away)
    @rule(thread=st.integers(0, 3), worker=st.integers(0, 1), is_all=st.booleans())
    def user_deletes(self, thread: int, worker: int, *, is_all: bool) -> None:
        assert self.world is not None
        one = self.threads[thread % len(self.threads)]
        of_user = [each for each in self.threads if each.resource == one.resource]
        owner = one.resource if is_all else None
        self.world.delete(of_user if is_all else [one], self._worker(worker), owner)

    @rule(data=st.data(), worker=st.integers(0, 1))
    def user_pins(self, data: st.DataObject, worker: int) -> None:
        assert self.world is not None
        thread, who = self.threads[0], self._worker(worker)
        keys = [
            str(message.id)
            for message in self.world.standing(thread, who)
            if message.type in {"human", "ai"}
            and message.text.strip()
            and (str(message.id) in thread.told.pinned or len(thread.told.pinned) < MAX_PINS)
        ]
        assume(keys)
        self.world.pin(thread, who, data.draw(st.sampled_from(keys)))

    @rule()
    def operator_moves_to_another_checkpointer(self) -> None:
        assert self.world is not None
        unfinished = (
            worker.graph.get_state(thread.config).next
            for thread in self.threads
            for worker in self.world.workers
        )
        assume(not any(unfinished))
        self.world.swap_saver()


TestConversations = Conversations.TestCase
TestConversations.settings = hypothesis_settings(
    deadline=None,
    max_examples=12 * EXAMPLES or 2,
    stateful_step_count=20,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ],
)
