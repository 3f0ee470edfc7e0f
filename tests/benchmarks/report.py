"""What a benchmark is asked and what it answers, and how that is written down."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Options:
    """What may be chosen on the command line."""

    quick: bool = False
    """Whether smaller conversations and fewer repetitions do."""
    file: Path | None = None
    """A recorded conversation to replay, for benchmarks that take one."""

    def pick(self, full: ResultT, quick: ResultT) -> ResultT:
        """The value for this run."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Budget:
    """One promise and what came of it."""

    name: str
    target: str
    measured: str
    met: bool


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one benchmark."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    budgets: Sequence[Budget] = ()
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """Unrounded figures, for `--json`."""


def seconds(work: Callable[[], object]) -> float:
    """How much of the processor's time a piece of work takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def milliseconds(value: float) -> str:
    """A time in seconds, written in milliseconds."""
    return f"{value * 1000:.2f} ms"


def percent(part: float) -> str:
    return f"{part:+.0%}"


def text_table(report: Report) -> str:
    """A report as aligned text."""
    width = len(report.columns)
    rows = [[*map(str, row), *[""] * (width - len(row))] for row in [report.columns, *report.rows]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([report.title, "", *lines, *(f"  {note}" for note in report.notes)])


def markdown_table(budgets: Sequence[Budget]) -> str:
    """All budgets as one Markdown table; one that was missed says so."""
    lines = ["| budget | target | measured |", "|---|---|---|"]
    for budget in budgets:
        measured = budget.measured if budget.met else f"{budget.measured} (**missed**)"
        lines.append(f"| {budget.name} | {budget.target} | {measured} |")
    return "\n".join(lines)


def markdown(report: Report) -> str:
    """The table of a report as Markdown."""
    rows = [report.columns, ["---"] * len(report.columns), *report.rows]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def show_alone(run: Callable[[Options], Report], about: str, shorter: str) -> None:
    """Run one benchmark as a program of its own.

    Args:
        run: The benchmark.
        about: What it is for.
        shorter: What `--quick` makes of it.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help=shorter)
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    chosen = parser.parse_args()
    report = run(Options(quick=chosen.quick))
    print(markdown(report) if chosen.markdown else text_table(report))  # noqa: T201 its output
