"""Take one feature out of a copy of the package, and see that everything else holds.

    python -m support.without inject             # imports and type-checks
    python -m support.without inject --tests     # runs the tests of the core too

A feature is a file of `langgraph_om/features` and a row of the table there. What is named after it
in `tests/` goes with it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FEATURES = ROOT / "langgraph_om" / "features"
COPIED = ("langgraph_om", "tests", "pyproject.toml", "README.md", "CHANGELOG.md", "docs")


def names() -> list[str]:
    """The features that can be taken out."""
    return sorted(path.stem for path in FEATURES.glob("*.py") if path.stem != "__init__")


def take_out(name: str, root: Path) -> None:
    """Remove a feature's file and its row from a copy.

    Raises:
        ValueError: When the table has no such row.
    """
    (root / "langgraph_om" / "features" / f"{name}.py").unlink()
    table = root / "langgraph_om" / "features" / "__init__.py"
    text = table.read_text(encoding="utf-8")
    found = re.search(rf"^from langgraph_om\.features\.{name} import (\w+)\n", text, re.MULTILINE)
    if found is None:
        msg = f"the table of features has no import of {name!r}"
        raise ValueError(msg)
    text = text.replace(found[0], "")
    text, rows = re.subn(rf"^        {found[1]}\(.*\n", "", text, flags=re.MULTILINE)
    if rows != 1:
        msg = f"the table of features has {rows} rows of {found[1]}"
        raise ValueError(msg)
    table.write_text(text, encoding="utf-8")


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
            commands.append(["-m", "pytest", "-q", "-x", "tests/unit/core", "tests/laws"])
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
