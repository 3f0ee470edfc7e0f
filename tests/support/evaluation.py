"""The examples that evaluate memory, run in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
sys.path.append(str(EXAMPLES))

import evaluate  # noqa: E402 an example, which has its rooms beside it

DATA = ROOT / "tests" / "data" / "evaluation"
LONGMEMEVAL, LOCOMO = DATA / "longmemeval.json", DATA / "locomo.json"
KEYS = {"GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"}
SMALL = ("--message-tokens", 300, "--observation-tokens", 300)

Row = dict[str, Any]
Judged = Callable[[Callable[[str], str]], list[str]]
"""Lets a reply stand for the judge's; returns what the judge is asked."""


class Evaluation:
    """Runs the example, or another one that is like it, in this process and a folder of its own."""

    def __init__(
        self,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        main: Callable[[list[str]], int] = evaluate.main,
        given: Sequence[object] = (),
    ) -> None:
        self.folder, self.capsys, self.main, self.given = folder, capsys, main, given

    def run(self, *options: object) -> tuple[object, str, str]:
        arguments = (*self.given, *options, "--work", self.folder / "work")
        try:
            code: object = self.main([*map(str, arguments)])
        except SystemExit as ended:
            code = ended.code
        return code, *self.capsys.readouterr()

    def figures(self, *options: object, code: int = 0) -> Row:
        file = self.folder / "figures.json"
        ended, printed, errors = self.run(*options, "--json", file)
        assert ended == code, printed + errors
        found: Row = json.loads(file.read_text(encoding="utf-8"))
        return found

    def refuse(self, complaint: str, *options: object) -> None:
        """Check that it says in a line why it does not begin."""
        code, printed, errors = self.run(*options)
        assert (code, printed, errors.count("\n")) == (2, "", 1)
        assert complaint in errors

    def rows(self, kind: str) -> list[Row]:
        text = (self.folder / "work" / "results.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        return [row for row in rows if row["kind"] == kind]
