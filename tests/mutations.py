"""Draws faults from across the package, and shows which of them the tests catch.

`python tests/mutations.py --count 20 --seed 1` plants one fault after another in a copy of the
repository: another operator, another bound, a condition turned around, or a call left out. It runs
the tests of the README on each, until the first failure. Paths after `--` run those tests instead.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGE = "langgraph_om"
TESTS = ("-n", "2")
OTHER = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "*",
    ast.And: "or",
    ast.Or: "and",
}
"""What is planted in the place of an operator."""


@dataclass(frozen=True)
class Mutation:
    """One fault: what stands at a place of a file, and what is to stand there."""

    path: str
    line: int
    start: int
    end: int
    text: str

    def apply(self, root: Path) -> str:
        """Plant the fault, and return the file as it was."""
        file = root / self.path
        before = file.read_bytes()
        file.write_bytes(before[: self.start] + self.text.encode() + before[self.end :])
        return before.decode()


def find_faults(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield each part of a function that could be wrong, and its faulty text."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield node, f"{ast.unparse(left)} {OTHER[type(operator)]} {ast.unparse(right)}"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OTHER:
            other = OTHER[type(operator)]
            yield node, f"({ast.unparse(left)} {other} {ast.unparse(right)})"
        case ast.BoolOp(op=operator, values=values):
            between = f" {OTHER[type(operator)]} "
            yield node, f"({between.join(f'({ast.unparse(value)})' for value in values)})"
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int(number)):
            yield node, str(number + 1)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield test, f"(not ({ast.unparse(test)}))"
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield node, "pass"
        case ast.Expr(value=ast.YieldFrom()):
            yield node, "yield from ()"


def find_mutations(path: Path) -> list[Mutation]:
    """List the faults that can be planted in the functions of a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    bodies = [
        statement
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in function.body
    ]
    nodes = {id(node): node for body in bodies for node in ast.walk(body)}
    inside = {
        # A change within an f-string would have to keep its quotes; a bare number there is format.
        id(part)
        for node in nodes.values()
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    }
    found: list[Mutation] = []
    for node in nodes.values():
        if id(node) in inside:
            continue
        for place, text in find_faults(node):
            start = starts[place.lineno - 1] + place.col_offset  # type: ignore[attr-defined]
            end = starts[place.end_lineno - 1] + place.end_col_offset  # type: ignore[attr-defined]
            name = str(path.relative_to(ROOT))
            found.append(Mutation(name, place.lineno, start, end, text))  # type: ignore[attr-defined]
    return found


def draw(count: int, seed: int) -> list[Mutation]:
    """Draw faults by a seed, from as many files as there are faults."""
    chance = random.Random(seed)  # noqa: S311
    paths = sorted(ROOT.glob(f"{PACKAGE}/**/*.py"))
    files = [found for path in paths if (found := find_mutations(path))]
    weights = [len(found) for found in files]
    drawn: dict[str, Mutation] = {}
    while len(drawn) < min(count, len(files)):
        found = chance.choices(files, weights)[0]
        drawn.setdefault(found[0].path, chance.choice(found))
    return list(drawn.values())


def is_caught(root: Path, tests: list[str], minutes: float) -> bool:
    """Return whether the tests fail; tests that come to no end have failed too."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    given = {"env": os.environ | {"PYTHONPATH": str(root)}, "timeout": minutes * 60}
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, check=False, **given)  # noqa: S603
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    """Plant each fault in turn, and print which are caught."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20, help="faults to draw")
    parser.add_argument("--seed", type=int, default=1, help="the same seed draws the same faults")
    parser.add_argument("--minutes", type=float, default=15, help="how long the tests may take")
    parser.add_argument("--list", action="store_true", help="print the faults, run nothing")
    parser.add_argument("tests", nargs="*", default=list(TESTS), help="arguments for pytest")
    chosen = parser.parse_args()
    caught = 0
    drawn = draw(chosen.count, chosen.seed)
    with tempfile.TemporaryDirectory(prefix="om-mutations-") as folder:
        root = Path(folder) / "copy"
        skipped = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "site")
        shutil.copytree(ROOT, root, ignore=skipped)
        if not chosen.list and is_caught(root, chosen.tests, chosen.minutes):
            msg = "The tests fail before anything is planted."
            raise SystemExit(msg)
        for mutation in drawn:
            before = mutation.apply(root)
            verdict = "drawn "
            if not chosen.list:
                verdict = "caught" if is_caught(root, chosen.tests, chosen.minutes) else "MISSED"
                caught += verdict == "caught"
            (root / mutation.path).write_text(before)
            line = before.splitlines()[mutation.line - 1].strip()
            report(
                f"{verdict} {mutation.path}:{mutation.line}", f"    {line}", f"    {mutation.text}"
            )
    report(f"{caught} of {len(drawn)} caught")


def report(*lines: str) -> None:
    """Print lines at once, so that a reader can follow a long run."""
    print(*lines, sep="\n", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
