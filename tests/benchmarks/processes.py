"""Processes that take turns, each with a version of the package: this one, or a former one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def environment(tree: Path = ROOT) -> dict[str, str]:
    """What makes a process import the package of a tree, and these scripts."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (tree, ROOT / "tests", HERE))),
        "PYTHONDONTWRITEBYTECODE": "",  # as where a package is installed
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), "langgraph-om-benchmarks")),
    }


class Worker:
    """A process that answers a line of input with a line of JSON."""

    def __init__(self, command: Sequence[str], tree: Path = ROOT) -> None:
        self._process = subprocess.Popen(  # noqa: S603 our own scripts
            [sys.executable, *command] if command[0].endswith(".py") else [*command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(tree),
        )

    def read(self) -> Any:
        """Wait for what it says next.

        Raises:
            ChildProcessError: When it says nothing any more.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            msg = "a process of the benchmark ended too early; what it wrote stands above"
            raise ChildProcessError(msg)
        return json.loads(line)

    def ask(self) -> Any:
        """Let it take a turn."""
        assert self._process.stdin is not None
        print("go", file=self._process.stdin, flush=True)
        return self.read()

    def close(self) -> None:
        """End it, by the end of its input where it still listens."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()


def by_turns(workers: Mapping[Any, Worker], turns: int) -> dict[Any, list[Any]]:
    """Let all take turns, each round in another order, and return what they answered."""
    answers: dict[Any, list[Any]] = {key: [] for key in workers}
    order = [*workers]
    for _ in range(turns):
        order = [*order[1:], order[0]]
        for key in order:
            answers[key].append(workers[key].ask())
    return answers


def tell(answer: object) -> None:
    """Write a line for the process that asked."""
    print(json.dumps(answer), flush=True)  # noqa: T201 read by the other process


def run_python(tree: Path, *arguments: str) -> Any:
    """Run a program to its end, and return the JSON in its last line."""
    command = [sys.executable, *arguments]
    done = subprocess.run(  # noqa: S603 our own scripts
        command, env=environment(tree), cwd=tree, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def checked_out(ref: str) -> Iterator[Path]:
    """A former version in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "former")
        git("worktree", "add", "--detach", "--quiet", str(tree), ref)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return done.stdout
