"""Run the benchmarks: `python tests/benchmarks/run.py [NAME ...] [--all] [--quick] [--json FILE]`.

With `--against REF`, whole turns are measured beside those of that version, pair by pair; `--all`
does so with the newest release that has a tag.

Everything is offline and repeatable but the times. Targets are printed beside what was measured and
fail nothing: a benchmark informs, tests decide. With `--hold`, a target that is missed is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import bench_archive
import bench_blocking
import bench_bytes
import bench_evict
import bench_facts
import bench_inspector
import bench_pairs
import bench_peers
import bench_prefix
import bench_ratios
import bench_reflections
import bench_standing
import bench_step
from report import Budget, Options, Report, markdown_table, text_table

BENCHMARKS: dict[str, Callable[[Options], Report]] = {
    "step": bench_step.run,
    "blocking": bench_blocking.run,
    "prefix": bench_prefix.run,
    "bytes": bench_bytes.run,
    "archive": bench_archive.run,
    "evict": bench_evict.run,
    "peers": bench_peers.run,
    "facts": bench_facts.run,
    "inspector": bench_inspector.run,
    "reflections": bench_reflections.run,
    "standing": bench_standing.run,
    "ratios": bench_ratios.run,
}
LONG = ("archive", "evict", "peers", "facts", "inspector", "standing", "ratios")
"""Run only by name or with `--all`."""


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 the tables are the program's output


def machine() -> str:
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load} at the start"


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure memory against its budgets.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--all", action="store_true", help=f"also {', '.join(LONG)}")
    parser.add_argument("--quick", action="store_true", help="smaller and less exact")
    parser.add_argument("--hold", action="store_true", help="a target that is missed is an error")
    parser.add_argument("--against", metavar="REF", help="also this version, pair by pair")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    parser.add_argument("--file", type=Path, help="a conversation for `prefix`, `peers` to replay")
    parser.add_argument("--picture", type=Path, metavar="FOLDER", help="where `peers` draws one")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; the names are {', '.join(BENCHMARKS)}")
    return options


def main() -> int:
    chosen = read_options()
    against = chosen.against or (bench_pairs.newest_release() if chosen.all else None)
    usual = [name for name in BENCHMARKS if chosen.all or name not in LONG]
    names = usual if chosen.all else chosen.names or ([] if chosen.against else usual)
    if "peers" in names:
        bench_peers.check(chosen.picture)
    benchmarks = {**BENCHMARKS, "peers": partial(bench_peers.run, picture=chosen.picture)}
    options = Options(quick=chosen.quick, file=chosen.file)
    if against:
        benchmarks["pairs"] = partial(bench_pairs.run, ref=against)
        names = [*names, "pairs"]
    figures: dict[str, object] = {"machine": machine()}
    say(machine())
    budgets: list[Budget] = []
    for name in names:
        started = time.perf_counter()
        report = benchmarks[name](options)
        budgets += report.budgets
        figures[name] = asdict(report)
        say(f"\n{text_table(report)}\n  ({name}: {time.perf_counter() - started:.0f} s)")
    if budgets:
        say(f"\n{markdown_table(budgets)}")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2, default=str) + "\n", "utf-8")
    return int(chosen.hold and not all(each.met for each in budgets))


if __name__ == "__main__":
    raise SystemExit(main())
