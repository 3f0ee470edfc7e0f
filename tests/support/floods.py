"""Answers of a model that has lost its way, of any size."""

from __future__ import annotations

FLOODS = {
    "open tags in a line": "<observations>",
    "open tags": "<observations>\n",
    "hint tags": "<current-task>\n",
    "quoted tags": "`<observations>",
    "think tags": "<think></think>\n",
    "angle brackets": "<",
    "entities": "&lt;",
    "newlines": "\n",
    "blank lines": " \n",
    "code fences": "```\n",
    "one line": "a",
    "spaces in an item": " ",
}


def flood(name: str, size: int) -> str:
    """So many characters of a kind of nonsense."""
    unit = FLOODS[name]
    text = unit * (size // len(unit))
    return f"* 🔴 a{text}b" if name == "spaces in an item" else text
