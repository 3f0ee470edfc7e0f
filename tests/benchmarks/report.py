"""The outcome of a benchmark, and how it is written down."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one benchmark."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    notes: Sequence[str] = ()


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


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


def markdown(report: Report) -> str:
    """The table of a report as Markdown."""
    rows = [report.columns, ["---"] * len(report.columns), *report.rows]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)
