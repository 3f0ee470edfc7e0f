"""The walk through the code names what is there, and pages that read easily go on doing so."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from support.option_tables import PAGE, fill_in
from support.plain_words import MEAN_WORDS, PLAIN, SECTION_WORDS, measure, pages

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "maintainers" / "architecture.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", TEXT)))


@cache
def names_of(path: Path) -> set[str]:
    """The names that a module defines, and those of its classes with the class before them."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            found |= {node.name, *(f"{node.name}.{method.name}" for method in methods)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_what_the_walk_through_the_code_names_is_there() -> None:
    assert len([path for path, name in NAMED if name]) > 40
    for path, name in NAMED:
        file = (ROOT if path.startswith("tests/") else ROOT / "langgraph_om") / path
        assert file.is_file(), file
        assert name in {"", *names_of(file)}, file


def test_the_notes_for_agents_are_short_and_name_what_is_there() -> None:
    text = (ROOT / "AGENTS.md").read_text("utf-8")
    assert len(text.splitlines()) <= 60
    named = [each for each in re.findall(r"[\w./-]+/[\w./-]+", text) if each[0] != "/"]
    assert len(named) > 8
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_the_tables_of_options_say_what_the_options_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert fill_in(text) == text, "run `cd tests && python -m support.option_tables`"


def test_pages_in_plain_words_stay_so() -> None:
    measured = pages()
    for page in sorted(PLAIN):
        it = measured[page]
        assert it.long == (), f"{page}: make two sentences of each"
        assert it.mean <= MEAN_WORDS, page
        assert it.section <= SECTION_WORDS, f"{page}: put a heading between"


def test_sentences_are_measured_as_a_reader_sees_them() -> None:
    it = measure(
        "# Title\n\nOne two `code of a line` four. It has\ntwo [links](to.md#here).\n\n"
        "- A point.\n- Another one: `x.y`. Third.\n\n```python\nleft = out\n```\n\n"
        "## Next\n\n| cell | " + "word " * 31 + "|\n|---|---|\n"
    )
    assert it.sentences == 5
    assert it.mean == (4 + 4 + 2 + 3 + 1) / 5
    assert [each.split()[0] for each in it.long] == ["word"]
    assert it.section == 14
