"""The notebook of the examples runs, and shows what it printed when it was saved.

`OM_UPDATE_TOUR=1 pytest tests/examples/test_tour.py` saves what it prints now.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "tour.ipynb"

Cell = dict[str, Any]
Scope = dict[str, Any]


def run_cell(cell: Cell, scope: Scope) -> tuple[str, Any]:
    """Run a cell as a kernel does; return what it printed, and its last expression's value."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, cell["id"], "exec"), scope)  # noqa: S102 - the very code users run
        shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
        value = eval(compile(shown, cell["id"], "eval"), scope) if shown else None  # noqa: S307
    return printed.getvalue(), value


def outputs(printed: str, value: Any, count: int) -> list[dict[str, Any]]:
    """Return the outputs of a cell as a notebook has them; of a value, its text alone."""
    found: list[dict[str, Any]] = []
    if printed:
        lines = printed.splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        head = {"data": data, "execution_count": count, "metadata": {}}
        found.append({**head, "output_type": "execute_result"})
    return found


@pytest.fixture(scope="module")
def tour() -> tuple[Scope, list[Cell], list[Cell]]:
    """What the notebook's code leaves behind; its code cells as saved, and as run now."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    scope: Scope = {"__name__": "__main__"}
    saved = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(NOTEBOOK.parent))
        run = [
            {**cell, "execution_count": count, "outputs": outputs(*run_cell(cell, scope), count)}
            for count, cell in enumerate(saved, start=1)
        ]
    if os.environ.get("OM_UPDATE_TOUR"):
        at = {cell["id"]: cell for cell in run}
        notebook["cells"] = [at.get(cell["id"], cell) for cell in notebook["cells"]]
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        NOTEBOOK.write_text(text, encoding="utf-8")
        saved = run
    return scope, saved, run


def text_of(cells: list[Cell], word: str) -> str:
    """Return what the one cell shows whose code holds a word."""
    (cell,) = [cell for cell in cells if word in "".join(cell["source"])]
    parts = [
        line
        for output in cell["outputs"]
        for line in output.get("text") or output["data"]["text/plain"]
    ]
    return "".join(parts)


def test_the_tour_shows_what_it_prints(tour: tuple[Scope, list[Cell], list[Cell]]) -> None:
    _, saved, run = tour
    # Ids differ from run to run, and a few tokens with them.
    shown = [
        re.sub(r"[\d,]+|[█░]+", "#", str([cell["outputs"] for cell in cells]))
        for cells in (run, saved)
    ]
    assert shown[0] == shown[1]
    assert [cell["execution_count"] for cell in saved] == list(range(1, len(saved) + 1))


def test_the_tour_corrects_finds_and_forks(tour: tuple[Scope, list[Cell], list[Cell]]) -> None:
    _, _, run = tour
    asked = text_of(run, "in shown[1:]")
    assert asked.startswith("False\n")
    assert "7 July" in asked
    corrected = text_of(run, ").correct(")
    assert "8 July" in corrected
    assert "Minister (noted by a person)" in corrected
    searched = text_of(run, "memory.search")
    assert searched.startswith("False\n")
    assert "tool: " in searched
    assert "The old ones, with the green band" in searched
    here, fork = re.findall(r"\[(.+)\]", text_of(run, "get_state_history"))
    assert here == "True, True, True, True"
    assert fork == "False, False, False, True"
    assert "8 July" in text_of(run, "here.config")
