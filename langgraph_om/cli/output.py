"""Write to the terminal: plain text, with colours where `rich` is installed, or JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from langgraph_om.core.content.text import CONTROL, DIRECTION, SURROGATE, for_terminal, sanitize

_STYLES: Final = {"+": "green", "-": "red", "@": "bright_black"}


def write_json(value: Any, indent: int | None = None) -> str:
    """Return JSON in which whatever could steer a terminal is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    for steering in (CONTROL, DIRECTION, SURROGATE):
        text = steering.sub(_escape, text)
    return text


def _escape(found: re.Match[str]) -> str:
    return "".join(f"\\u{ord(mark):04x}" for mark in found[0])


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command writes."""

    as_json: bool
    """Whether one JSON value is written, and nothing else."""

    def value(self, value: Any) -> None:
        """Write a JSON value, for programs."""
        print(write_json(value, indent=2))  # noqa: T201 a command

    def text(self, text: str, style: str | None = None) -> None:
        """Write lines; what a model or a user said cannot steer the terminal."""
        clean = for_terminal(text)
        console = self._console()
        if console is None:
            print(clean)  # noqa: T201 a command
        else:
            console.print(clean, style=style, markup=False, highlight=False, soft_wrap=True)

    def diff(self, lines: Iterable[str]) -> None:
        """Write lines that begin with what became of them."""
        for line in lines:
            self.text(line, _STYLES.get(line[:1]))

    def table(self, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Write rows below each other, columns aligned."""
        cells = [[sanitize(str(cell), " ") for cell in row] for row in [names, *rows]]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for at, row in enumerate(cells):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.text(line.rstrip(), "bold" if at == 0 else None)

    def _console(self) -> Any:
        if not sys.stdout.isatty() or find_spec("rich") is None:
            return None
        from rich.console import Console  # noqa: PLC0415 optional

        return Console()
