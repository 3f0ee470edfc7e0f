"""One table of what a user feels, before and now: `python tests/benchmarks/run.py --against REF`.

    [--quick] [--only PART ...] [--write]    `--hold`: only the ratios of CI

Each row is measured in processes that take turns: one with the package as it is at REF, one with
this one, and agents without memory beside them. REF is checked out into a temporary folder; the
scripts are these. `--write` puts the table into `docs/maintainers/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from report import median

from processes import HERE, ROOT, Worker, by_turns, checked_out, git, run_python

NOTES = ROOT / "docs/maintainers/benchmarks.md"
MARKS = "<!-- the table of run.py -->\n", "<!-- its end -->\n"
KINDS = {
    "ready": ("ready-made agent", "bare"),
    "middleware": ("middleware", "create_agent"),
    "own graph": ("own graph", "bare"),
}
"""Ways in: their names, and the agents beside which they are measured."""
IMPORTS = {
    "`import langgraph_om`": "import langgraph_om",
    "import of `create_memory_agent`": "from langgraph_om import create_memory_agent",
}
BOUNDS = {"a turn at 1,000 messages": 2.6, "its bytes": 1.9, "`evict`, 5,000 against 300": 1.6}
"""What CI holds, of what the bare agent takes: about a third to a half more than was measured."""


class Row(NamedTuple):
    """A line of the table."""

    what: str
    aim: str
    before: str
    now: str
    ratio: str = ""


@dataclass
class Run:
    """What is compared, and how thoroughly."""

    trees: Mapping[str, Path]
    quick: bool
    notes: list[str] = field(default_factory=list)

    def row(
        self,
        what: str,
        aim: str,
        values: Mapping[str, float],
        write: Callable[[float], str],
        *,
        is_met: bool = True,
    ) -> Row:
        """Write a figure of both versions."""
        now, before = values["now"], values.get("before")
        told = write(now) + ("" if is_met else ": missed")
        if before is None:
            return Row(what, aim, "", told)
        ratio = f"×{now / before:.2f}" if before > 0 < now else ""
        return Row(what, aim, write(before), told, ratio)


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


def kilobytes(size: float) -> str:
    return f"{size / 1000:,.1f} KB"


def mebibytes(size: float) -> str:
    return f"{size / 1024**2:.0f} MiB"


def times(ratio: float) -> str:
    return f"×{ratio:.2f}"


# --- Parts ---------------------------------------------------------------------------------------


def start(run: Run) -> Iterator[Row]:
    """What an import takes beyond LangGraph's own."""
    for what, statement in IMPORTS.items():
        program = (
            "import time, langgraph.graph; started = time.process_time()\n"
            f"{statement}\nprint(time.process_time() - started)"
        )
        taken = by_rounds(run, 3 if run.quick else 7, "-c", program)
        yield run.row(
            f"{what}, beyond `langgraph.graph`",
            "120 ms",
            taken,
            milliseconds,
            is_met=taken["now"] < 0.12,
        )


def by_rounds(run: Run, rounds: int, *arguments: str) -> dict[str, float]:
    """Run a program of both versions by turns, and return the least that it told."""
    told: dict[str, list[float]] = {name: [] for name in run.trees}
    for round_ in range(rounds):
        for name in [*run.trees][:: -1 if round_ % 2 else 1]:
            told[name].append(run_python(run.trees[name], *arguments))
    return {name: min(each) for name, each in told.items()}


def adoption(run: Run) -> Iterator[Row]:
    """The first step on a thread that memory has never seen."""
    size = 2_500 if run.quick else 20_000
    taken = by_rounds(run, 2 if run.quick else 3, str(HERE / "turns.py"), "adoption", str(size))
    aim = 1.5 * size / 20_000
    yield run.row(
        f"adoption of {size:,} messages, models included",
        f"{aim:.2g} s",
        taken,
        lambda value: f"{value:.2f} s",
        is_met=taken["now"] < aim,
    )


class Case(NamedTuple):
    """An agent whose turns are measured."""

    kind: str
    size: int
    side: str
    channels: str = "delta"


Taken = dict[Case, list[dict[str, float]]]


def take_turns(run: Run, cases: Sequence[Case], turns: int) -> Taken:
    """Let all agents take turns; the first turn of each does not count."""
    with ExitStack() as stack:
        workers = {
            case: stack.enter_context(
                closing(
                    Worker(
                        [str(HERE / "turns.py"), case.kind, str(case.size), case.channels],
                        run.trees.get(case.side, ROOT),
                    )
                )
            )
            for case in cases
        }
        first = {case: worker.read() for case, worker in workers.items()}
        answers = by_turns(workers, turns)
    return {case: [first[case], *answers[case]] for case in cases}


def ratio_of(taken: Taken, case: Case, base: Case) -> float:
    """How a turn stands to that of another agent, as the median of turns side by side."""
    pairs = zip(taken[case][1:], taken[base][1:], strict=True)
    return median([own["seconds"] / other["seconds"] for own, other in pairs])


def bytes_of(turns: Sequence[Mapping[str, float]]) -> float:
    """Bytes of a turn."""
    return (turns[-1]["bytes"] - turns[0]["bytes"]) / (len(turns) - 1)


def turns(run: Run) -> Iterator[Row]:
    """Whole turns of four steps through each way in."""
    sizes = (100, 1_000) if run.quick else (100, 1_000, 5_000, 20_000)
    for size in sizes:
        bare = {kind: Case(kind, size, "now") for kind in ("bare", "create_agent")}
        cases = [Case(kind, size, side) for side in run.trees for kind in (*KINDS, "archive")]
        two = Case("second channel", size, "now")
        rounds = 6 if run.quick or size > 5_000 else 12
        taken = take_turns(run, [*bare.values(), two, *cases], rounds)
        for kind, (name, beside) in {
            **KINDS,
            "archive": ("ready-made agent, archive", "bare"),
        }.items():
            base = bare[beside]
            least = min(turn["seconds"] for turn in taken[base][1:])
            parts = {side: ratio_of(taken, Case(kind, size, side), base) - 1 for side in run.trees}
            added = {side: least * part for side, part in parts.items()}
            is_met = added["now"] < 0.01 if size == 100 else parts["now"] < 0.15
            row = run.row(
                f"turn at {size:,} messages, {name}: added to {1000 * least:.0f} ms",
                "10 ms" if size == 100 else "15 %",
                added,
                lambda value, least=least: f"{milliseconds(value)}, {value / least:.0%}",  # type: ignore[misc]
                is_met=is_met,
            )
            yield row
        part = ratio_of(taken, two, bare["bare"]) - 1
        least = min(turn["seconds"] for turn in taken[bare["bare"]][1:])
        yield Row(
            f"turn at {size:,} messages, LangGraph alone with two extra channels",
            "",
            "",
            f"{milliseconds(part * least)}, {part:.0%}",
        )
        for kind, (name, beside) in KINDS.items():
            sides = {side: taken[Case(kind, size, side)] for side in run.trees}
            base = bare[beside]
            if size == sizes[1]:
                yield run.row(
                    f"bytes of such a turn, {name} (alone: {kilobytes(bytes_of(taken[base]))})",
                    "",
                    {side: bytes_of(each) for side, each in sides.items()},
                    kilobytes,
                )
            if size == sizes[-1]:
                alone = mebibytes(taken[base][-1]["resident"])
                yield run.row(
                    f"process at {size:,} messages, {name} (alone: {alone})",
                    "",
                    {side: each[-1]["resident"] for side, each in sides.items()},
                    mebibytes,
                )


def plain(run: Run) -> Iterator[Row]:
    """Bytes with plain channels, whose checkpoints hold everything."""
    for size in (1_000,) if run.quick else (1_000, 5_000):
        alone = {kind: Case(kind, size, "now", "plain") for kind in ("bare", "create_agent")}
        idle = Case("idle node", size, "now", "plain")
        cases = [Case(kind, size, side, "plain") for side in run.trees for kind in KINDS]
        taken = take_turns(run, [*alone.values(), idle, *cases], 2)
        for kind, (name, beside) in KINDS.items():
            base = bytes_of(taken[alone[beside]])
            grown = {
                side: bytes_of(taken[Case(kind, size, side, "plain")]) / base for side in run.trees
            }
            yield run.row(
                f"bytes per turn at {size:,} messages, plain channels, {name}, vs. the bare agent",
                "×1.15",
                grown,
                times,
                is_met=grown["now"] <= 1.15,
            )
        node = bytes_of(taken[idle]) / bytes_of(taken[alone["bare"]])
        yield Row(
            f"the same, LangGraph alone with an idle node, {size:,}",
            "",
            "",
            times(node),
        )


def evict(run: Run) -> Iterator[Row]:
    """Turns of a long thread whose old messages leave the state."""
    short, far = 300, 3_000 if run.quick else 10_000
    cases = [Case("evict", size, side) for side in run.trees for size in (short, far)]
    alone = [Case("removed", size, "now") for size in (short, far)]
    taken = take_turns(run, [*cases, *alone], 10 if run.quick else 20)
    for what, read, write in (
        ("turn", lambda case: median([turn["seconds"] for turn in taken[case][1:]]), milliseconds),
        ("bytes per turn", lambda case: bytes_of(taken[case]), kilobytes),
        ("process", lambda case: taken[case][-1]["resident"], mebibytes),
    ):
        grown = {
            side: read(Case("evict", far, side)) / read(Case("evict", short, side))
            for side in run.trees
        }
        now = " and ".join(write(read(Case("evict", size, "now"))) for size in (short, far))
        yield run.row(
            f"`evict`: {what}, from {short} to {far:,} messages (now {now})",
            "×1.2",
            grown,
            times,
            is_met=grown["now"] < 1.2,
        )
    least, most = (taken[case][-1]["resident"] for case in alone)
    what = "the same, LangGraph alone, with all but 40 messages removed from its state"
    yield Row(what, "", "", times(most / least))


PARTS: dict[str, Callable[[Run], Iterator[Row]]] = {
    "start": start,
    "turns": turns,
    "plain": plain,
    "evict": evict,
    "adoption": adoption,
}


# --- The table -----------------------------------------------------------------------------------


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 what a waiting person reads


def measure(run: Run, parts: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of all parts that can be measured here."""
    for name in parts:
        started = time.perf_counter()
        try:
            yield from PARTS[name](run)
        except ChildProcessError as error:  # what others have measured is kept
            run.notes.append(f"The part {name!r} broke off: {error}.")
        progress(f"{name}: {time.perf_counter() - started:.0f} s")


def table(rows: Sequence[Row], side: str) -> str:
    lines = [f"| what | aim | before, {side} | now | ratio |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def hold_ratios() -> int:
    """Compare three ratios with bounds that no noise reaches."""
    run = Run({"now": ROOT}, quick=False)
    bare, ready = (Case(kind, 1_000, "now") for kind in ("bare", "ready"))
    short, far = (Case("evict", size, "now") for size in (300, 5_000))
    taken = take_turns(run, [bare, ready], 16) | take_turns(run, [short, far], 16)
    found = [
        ratio_of(taken, ready, bare),
        bytes_of(taken[ready]) / bytes_of(taken[bare]),
        ratio_of(taken, far, short),
    ]
    for (name, bound), ratio in zip(BOUNDS.items(), found, strict=True):
        print(f"{name}: {times(ratio)}, at most {times(bound)}")  # noqa: T201 the output
    return int(any(ratio > bound for ratio, bound in zip(found, BOUNDS.values(), strict=True)))


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a user feels, before and now.")
    parser.add_argument("--against", metavar="REF", help="before; the newest tag by default")
    parser.add_argument("--quick", action="store_true", help="five minutes, and less exact")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", default=[*PARTS])
    parser.add_argument("--write", action="store_true", help=f"into {NOTES.name}")
    parser.add_argument("--hold", action="store_true", help="only the three ratios that CI holds")
    chosen = parser.parse_args()
    if chosen.hold:
        return hold_ratios()
    ref = chosen.against or next(iter(git("tag", "--list", "v*", "--sort=-v:refname").split()), "")
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    commit = git("rev-parse", "--short", "HEAD").strip()
    about = f"{commit}, Python {platform.python_version()}, {os.cpu_count()} cores, load {load}"
    with checked_out(ref) if ref else nullcontext() as former:
        trees = {**({"before": former} if former else {}), "now": ROOT}
        run = Run(trees, chosen.quick)
        rows = [*measure(run, chosen.only)]
    text = "\n\n".join([f"Commit {about}.", table(rows, ref or "none"), *run.notes])
    print(text, flush=True)  # noqa: T201 the output
    if chosen.write:
        page = NOTES.read_text("utf-8")
        head, _, rest = page.partition(MARKS[0])
        _, _, tail = rest.partition(MARKS[1])
        NOTES.write_text(f"{head}{MARKS[0]}\n{text}\n\n{MARKS[1]}{tail}", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
