"""The pages of the documentation, and the Python code that stands in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def read_code(page: Path) -> str:
    """Return the Python code of a page, each line where it stands there."""
    code, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line == "```python"
        code.append(line if inside and not line.startswith("```") else "")
    return "\n".join(code)


def read_file(page: Path, name: str) -> str:
    """Return a file that a page shows whole, under its name."""
    text = page.read_text(encoding="utf-8")
    (code,) = re.findall(
        rf'^```py title="{re.escape(name)}"\n(.*?)^```', text, re.MULTILINE | re.DOTALL
    )
    return str(code)


def run_page(page: Path, **scope: Any) -> dict[str, Any]:
    """Run the Python code of a page, as a reader would copy it; return what it has defined.

    Args:
        page: The page.
        scope: What the page takes for given, such as `model`.
    """
    exec(compile(read_code(page), page, "exec", dont_inherit=True), scope)  # noqa: S102 what users copy
    return scope
