"""Three ratios that a user feels, with bounds that no noise reaches; CI holds them.

    python tests/benchmarks/run.py ratios --hold

The turn with memory is measured beside the bare agent's turn, in the same process by turns, and a
long conversation beside a short one.
"""

from __future__ import annotations

from bench_evict import Case, samples_of
from bench_step import LONG, thread_of
from report import Budget, Options, Report
from turns_on_disk import time_turns

SIZE, TURNS, ROUNDS = 1_000, 10, 3
SHORT, FAR = 300, 10_000
BOUNDS = {
    f"a turn of four steps at {SIZE:,} messages, of the bare agent's": 1.8,
    "the bytes that it writes, of the bare agent's": 1.9,
    f"a turn with `evict` at {FAR:,} messages, of one at {SHORT:,}": 1.6,
}
"""About half as much again as was measured."""


def run(options: Options) -> Report:
    thread = thread_of(SIZE, LONG)
    rounds = options.pick(ROUNDS, 1)
    turns = time_turns(thread.messages, thread.record, ("bare", "memory"), TURNS, rounds=rounds)
    cases = [Case("evict", mark, is_held=mark == SHORT) for mark in (SHORT, FAR)]
    evicting = samples_of(cases)
    short, far = (evicting[case]["median"] for case in cases)
    found = [
        turns["memory"]["seconds"] / turns["bare"]["seconds"],
        turns["memory"]["bytes"] / turns["bare"]["bytes"],
        far / short,
    ]
    budgets = [
        Budget(name, f"< x {bound}", f"x {ratio:.2f}", ratio < bound)
        for (name, bound), ratio in zip(BOUNDS.items(), found, strict=True)
    ]
    rows = [[each.name, each.measured, each.target] for each in budgets]
    return Report(
        "Ratios",
        ["", "measured", "bound"],
        rows,
        budgets,
        [],
        dict(zip(BOUNDS, found, strict=True)),
    )
