"""How close and how fast the estimate of tokens is, by kind of text, as a Markdown table.

The true counts are those of `o200k_base`. Speed is that of texts seen before and, after the slash,
of the first count with nothing kept. The last row has the median of each figure over the kinds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from itertools import groupby
from statistics import median

from texts import Sample, samples

from langgraph_om.core.tokens import estimate
from langgraph_om.core.tokens.estimate import EstimatingCounter

COUNTER = EstimatingCounter()
ROUNDS = 5
MEGA = 1e6


def errors(found: list[Sample]) -> tuple[float, float]:
    """The median and the 95th percentile of the relative error, in percent."""
    values = sorted(abs(COUNTER.count_text(s.text) / s.tokens - 1) * 100 for s in found)
    return median(values), values[int(0.95 * len(values)) - 1]


def speed(found: list[Sample], *, rounds: int = ROUNDS) -> float:
    """Megabytes per second of CPU time, the best of some rounds."""
    size = sum(len(sample.text.encode()) for sample in found)
    times: list[float] = []
    for _ in range(rounds):
        started = time.process_time()
        for sample in found:
            COUNTER.count_text(sample.text)
        times.append(time.process_time() - started)
    return size / min(times) / MEGA


def row(name: str, values: Iterable[float]) -> str:
    """A row of the table."""
    return "| {} | {:.1f} %, {:.1f} % | {:.1f} / {:.1f} |".format(name, *values)


def main() -> None:
    """Print the table."""
    lines = [
        "| kind | error: median, 95th percentile | MB/s |",
        "|---|---|---|",
    ]
    figures: list[tuple[float, ...]] = []
    for kind, grouped in groupby(samples(), lambda sample: sample.kind):
        found = list(grouped)
        estimate._cost.cache_clear()
        cold = speed(found, rounds=1)
        figures.append((*errors(found), speed(found), cold))
        lines.append(row(kind, figures[-1]))
    lines.append(row("all", map(median, zip(*figures, strict=True))))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
