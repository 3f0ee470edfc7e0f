"""Take one feature out of a copy of the package, and see that everything else holds.

    python -m support.without inject             # imports and type-checks
    python -m support.without inject --tests     # runs the tests of everything else too

A feature is a file or folder of `langgraph_om/features`, and the lines of the table there that name
it. Tests of a feature are `tests/unit/features/test_NAME.py` (or a folder of this name), and those
that are marked `needs("NAME")`.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FEATURES = ROOT / "langgraph_om" / "features"
COPIED = ("langgraph_om", "tests", "pyproject.toml", "README.md", "CHANGELOG.md", "docs")
COPIED += ("examples", "mkdocs.yml", ".github", ".ci")


def names() -> list[str]:
    """The features that can be taken out."""
    found = (path.stem for path in FEATURES.iterdir() if path.suffix == ".py" or path.is_dir())
    return sorted(name for name in found if not name.startswith("__"))


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
    table.write_text(rows, encoding="utf-8")


def remove_rows(text: str, module: str) -> str:
    """Return the table without a module's import and the lines that hold nothing but its names."""
    lines, gone, imported = text.splitlines(), set[int](), set[str]()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{module}."):
            imported |= {alias.asname or alias.name for alias in node.names}
            gone |= set(range(node.lineno - 1, node.end_lineno or node.lineno))
    gone |= {at for at, line in enumerate(lines) if line.strip(" ,") in imported}
    return "\n".join(line for at, line in enumerate(lines) if at not in gone) + "\n"


def run(name: str, *, with_tests: bool) -> bool:
    """Return whether the package holds without a feature."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for part in COPIED:
            source = ROOT / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, root / part)
        take_out(name, root)
        # One cache for all copies, which differ in a few modules.
        cache = str(ROOT / ".mypy_cache" / "without")
        env = {"PYTHONPATH": str(root), "MYPY_CACHE_DIR": cache}
        commands = [
            ["-c", "import langgraph_om, langgraph_om.memory, langgraph_om.integrations.agent"],
            ["-m", "mypy", "langgraph_om"],
        ]
        if with_tests:
            commands.append(["-m", "pytest", "-q", "-n", "2"])
        return all(
            subprocess.run(  # noqa: S603 our own modules
                [sys.executable, *command], cwd=root, env=env, check=False
            ).returncode
            == 0
            for command in commands
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*names(), []], help="all without one")
    parser.add_argument("--tests", action="store_true")
    asked = parser.parse_args()
    failed = [name for name in asked.name or names() if not run(name, with_tests=asked.tests)]
    said = f"does not hold without: {', '.join(failed)}" if failed else "holds without each"
    sys.stdout.write(f"{said}\n")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
