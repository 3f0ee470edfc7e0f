"""Whole turns, adoption and import of two versions, in pairs: this one and a former one by turns.

    python tests/benchmarks/run.py --against REF [--quick]

The former version is checked out into a temporary folder. Both are measured by these scripts, in
processes of their own that take turns. Of each figure the least is taken.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from report import Options, Report, milliseconds

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SIZES, ADOPTED = (100, 1_000, 5_000, 20_000), 20_000
ROUNDS, TURNS = 3, 6
Figures = dict[str, float]
IMPORTS = {
    "import langgraph_om": "import langgraph_om",
    "import of an agent with memory": "from langgraph_om import create_memory_agent",
}


def measure(sizes: list[int]) -> Figures:
    """Measure the version that this process imports; seconds, or bytes."""
    from agents import extractive, remembering  # noqa: PLC0415 only the measured process needs them
    from bench_step import LONG, thread_of  # noqa: PLC0415
    from conversation import conversation  # noqa: PLC0415
    from turns_on_disk import time_turns  # noqa: PLC0415

    figures: Figures = {}
    for size in sizes:
        thread = thread_of(size, LONG)
        kinds = ("bare", "memory", "archive", "create_agent", "middleware", "own graph")
        for kind, found in time_turns(thread.messages, thread.record, kinds, TURNS).items():
            figures[f"turn of four steps, {size:,} messages, {kind}"] = found["seconds"]
            figures[f"the same, bytes of a checkpoint, {size:,} messages, {kind}"] = found["bytes"]
    model, messages = extractive(), conversation(min(ADOPTED, sizes[-1]), words=12)
    started = time.process_time()
    remembering(model, buffer_tokens=0).step(None, messages, thread_id="t")
    figures[f"adoption of {len(messages):,} messages, its models included"] = (
        time.process_time() - started
    )
    return figures


def run(options: Options, ref: str) -> Report:
    """Measure both versions by turns."""
    sizes = options.pick(SIZES, SIZES[:2])
    best: dict[str, Figures] = {"former": {}, "now": {}}
    with checked_out(ref) as former:
        for _ in range(options.pick(ROUNDS, 1)):
            for name, tree in (("former", former), ("now", ROOT)):
                for what, value in measure_in(tree, sizes).items():
                    best[name][what] = min(best[name].get(what, value), value)
    rows: list[list[object]] = [
        [what, _write(what, value), _write(what, now), f"x {now / value:.2f}"]
        for what, value in best["former"].items()
        if (now := best["now"].get(what)) is not None
    ]
    note = f"The least of {options.pick(ROUNDS, 1)} rounds of each, by turns. Times are of the CPU."
    return Report(f"Against {ref}", ["", "former", "now", "ratio"], rows, [], [note], dict(best))


def _write(what: str, value: float) -> str:
    return f"{value:,.0f} B" if "bytes" in what else milliseconds(value)


@contextmanager
def checked_out(ref: str) -> Iterator[Path]:
    """A former version in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "former")
        _git("worktree", "add", "--detach", "--quiet", str(tree), ref)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def newest_release() -> str | None:
    """Return the newest tag of a version, if there is one."""
    tags = _git("tag", "--list", "v*", "--sort=-v:refname", "--merged").split()
    return tags[0] if tags else None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return done.stdout


def measure_in(tree: Path, sizes: tuple[int, ...]) -> Figures:
    """Measure a version in processes of its own."""
    figures: Figures = {}
    for what, statement in IMPORTS.items():
        program = (
            "import time, langgraph.graph; started = time.process_time()\n"
            f"{statement}\nprint(time.process_time() - started)"
        )
        figures[f"{what}, beyond langgraph.graph"] = min(
            float(_python(tree, "-c", program)) for _ in range(ROUNDS)
        )
    told = _python(tree, str(HERE / "bench_pairs.py"), *map(str, sizes))
    return figures | json.loads(told.splitlines()[-1])


def _python(tree: Path, *arguments: str) -> str:
    own = {
        "PYTHONPATH": os.pathsep.join(map(str, (tree, ROOT / "tests", HERE))),
        "PYTHONDONTWRITEBYTECODE": "",  # as where a package is installed
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), "langgraph-om-benchmarks")),
    }
    done = subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        env={**os.environ, **own},
        cwd=tree,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    print(json.dumps(measure([*map(int, sys.argv[1:])])))  # noqa: T201 read by the other process
