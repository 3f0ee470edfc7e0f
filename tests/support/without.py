"""Take one feature out of a copy of the package, and see that everything else holds.

    python -m support.without                    # without each: imports and type-checks
    python -m support.without inject --tests     # and passes the tests of everything else
    python -m support.without --tests today      # the tests of two features, others each day

A feature is a file or folder of `langgraph_om/features`, and the lines that name it in the table
there and among the public names of `langgraph_om/__init__.py`, and integrations for it alone, such
as `integrations/NAME.py` or `integrations/NAME_middleware.py`. Those that need it go with it. Tests
of a feature are `tests/unit/features/test_NAME.py` (or a folder of this name), those that are
marked `needs("NAME")`, and those that fail by the name of an option, a method or a class that went
with it; see `conftest.py`.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
FEATURES = ROOT / "langgraph_om" / "features"
COPIED = ("langgraph_om", "tests", "pyproject.toml", "README.md", "CHANGELOG.md", "docs")
COPIED += ("AGENTS.md", "examples", "mkdocs.yml", ".github", ".ci", "hatch_build.py", "LICENSE")


def names() -> list[str]:
    """The features that can be taken out."""
    found = (path.stem for path in FEATURES.iterdir() if path.suffix == ".py" or path.is_dir())
    return sorted(name for name in found if not name.startswith("__"))


def with_dependents(name: str) -> list[str]:
    """A feature and those that need it, as `needs = ("archive",)` on a class says."""
    chosen = [name]
    for other in names():
        files = [FEATURES / f"{other}.py", *sorted((FEATURES / other).rglob("*.py"))]
        text = "".join(file.read_text(encoding="utf-8") for file in files if file.exists())
        if re.search(rf"^    needs = \(.*\"{name}\".*\)$", text, re.MULTILINE):
            chosen += [each for each in with_dependents(other) if each not in chosen]
    return chosen


def take_out(name: str, root: Path) -> None:
    """Remove a feature, its tests and its lines of the table from a copy.

    Raises:
        ValueError: When the table does not name it.
    """
    features, tests = root / "langgraph_om" / "features", root / "tests" / "unit" / "features"
    for path in (features / name, features / f"{name}.py", tests / name, tests / f"test_{name}.py"):
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
    table = features / "__init__.py"
    text = table.read_text(encoding="utf-8")
    rows = remove_rows(text, f"langgraph_om.features.{name}")
    if rows == text:
        msg = f"the table of features has no import of {name!r}"
        raise ValueError(msg)
    # Its option may be a part of another one's, whose file is a table as well.
    for path in features.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(remove_rows(text, f"langgraph_om.features.{name}"), encoding="utf-8")
    public = root / "langgraph_om" / "__init__.py"
    text = remove_rows(public.read_text(encoding="utf-8"), f"langgraph_om.features.{name}")
    for path in (root / "langgraph_om" / "integrations").glob(f"{name}*.py"):
        if path.stem == name or path.stem.startswith(f"{name}_"):
            path.unlink()
            text = remove_rows(text, f"langgraph_om.integrations.{path.stem}")
    public.write_text(text, encoding="utf-8")


def remove_rows(text: str, module: str) -> str:
    """Return the table without a module's import and the lines that hold nothing but its names."""
    lines, gone, imported = text.splitlines(), set[int](), set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{module}."):
            imported |= {alias.asname or alias.name for alias in node.names}
            gone |= set(range(node.lineno - 1, node.end_lineno or node.lineno))
    named = re.compile(r'\s*"?(\w+)"?,?')
    row = re.compile(r'\s*"([\w.]+)": \(.*\),')  # the names of a module
    for at, line in enumerate(lines):
        match, own = named.fullmatch(line), row.fullmatch(line)
        is_row = own is not None and f"langgraph_om.{own[1]}.".startswith(f"{module}.")
        if is_row or (match is not None and match[1] in imported):
            gone.add(at)
    return "\n".join(line for at, line in enumerate(lines) if at not in gone) + "\n"


SURFACE = """
from dataclasses import fields
from inspect import signature
import langgraph_om, langgraph_om.integrations.agent
from langgraph_om import ObservationalMemory, ObservationConfig, ThreadMemory
from langgraph_om.features import FeatureUpdates, list_configs

print(*langgraph_om.__all__, *signature(ObservationalMemory).parameters)
for kind in (ObservationalMemory, ThreadMemory, FeatureUpdates):
    print(*(f"{kind.__name__}.{name}" for name in dir(kind)))
for option, kind in {"observation": ObservationConfig, **list_configs()}.items():
    for field in fields(kind):
        print(f"{option}.{field.name} {kind.__name__}.{field.name}")
"""
"""Prints the names that users write: classes, functions and options, and after a dot the keys of
options, fields and methods."""


@contextmanager
def copy_without(name: str) -> Iterator[Path]:
    """Return a copy of the repository without a feature, and remove it at the end."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for part in COPIED:
            source = ROOT / part
            if source.is_dir():  # while others may compile what is in it
                shutil.copytree(source, root / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, root / part)
        for each in with_dependents(name):
            take_out(each, root)
        yield root


def run(root: Path, *command: str, **env: str) -> tuple[bool, str]:
    """Run a Python module in a copy, and return whether it ended well and what it printed."""
    done = subprocess.run(  # noqa: S603 our own modules
        [sys.executable, *command],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), **env},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode == 0, done.stdout


def check_types(chosen: list[str], lane: int) -> list[str]:
    """Import and type-check the package without each feature; return where that failed."""
    # One cache for many copies, which differ in a few modules.
    cache, failed = ROOT / ".mypy_cache" / f"without-{lane}", []
    for name in chosen:
        with copy_without(name) as root:
            holds, said = run(root, "-c", SURFACE)
            if holds:
                holds, said = run(root, "-m", "mypy", "langgraph_om", MYPY_CACHE_DIR=str(cache))
        if not holds:
            failed.append(name)
        sys.stdout.write(f"imports and types without {name}: {'hold' if holds else said}\n")
        sys.stdout.flush()
    return failed


def check_tests(name: str) -> bool:
    """Return whether the tests of everything else pass without a feature; laws are left out."""
    sys.stdout.write(f"tests without {name}:\n")
    with copy_without(name) as root:
        kept = run(root, "-c", SURFACE)[1].split()
        gone = set(run(ROOT, "-c", SURFACE)[1].split()) - set(kept)
        env = {"OM_WITHOUT": name, "OM_GONE": " ".join(sorted(gone))}
        chosen = ("--ignore", "tests/laws")
        holds, said = run(root, "-m", "pytest", "-q", "-n", "2", *chosen, **env)
        sys.stdout.write(said)
        if not holds:  # as in .ci/run: the failed ones alone, since a crowd may be their reason
            chosen += ("-m", "", "--last-failed", "--last-failed-no-failures", "none")
            holds, said = run(root, "-m", "pytest", "-v", "-n", "0", *chosen, **env)
            said = f"FAILED ONCE: the same tests alone\n{said}"
            sys.stdout.write(said)
    sys.stdout.flush()
    return holds


def two_of_today() -> list[str]:
    """Two features, another two each day."""
    known, day = names(), datetime.now(UTC).toordinal()
    return [known[(2 * day + at) % len(known)] for at in range(2)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*names(), []], help="all without one")
    parser.add_argument("--tests", nargs="?", const="all", choices=["all", "today"])
    asked = parser.parse_args()
    chosen = asked.name or names()
    tested = two_of_today() if asked.tests == "today" else chosen if asked.tests else []
    lanes = chosen[::2], chosen[1::2]
    with ThreadPoolExecutor(len(lanes)) as pool:
        failed = [name for found in pool.map(check_types, lanes, (0, 1)) for name in found]
    failed += [name for name in tested if name not in failed and not check_tests(name)]
    said = f"does not hold without: {', '.join(failed)}" if failed else "holds without each"
    sys.stdout.write(f"{said}\n")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
