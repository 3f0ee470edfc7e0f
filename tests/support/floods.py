"""Answers of a model that has lost its way, of any size."""

from __future__ import annotations

from collections.abc import Callable

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


DAY = "Date: Mar 2, 2026"


def tagged(text: str) -> str:
    return f"<observations>\n{text}\n</observations>"


ANSWER_FLOODS: dict[str, Callable[[int], str]] = {
    "lists of HTML": lambda size: tagged("<ul><li>" * (size // 8)),
    "items of HTML": lambda size: tagged("<ul>" + "<li>tea\n" * (size // 8)),
    "half tags of HTML": lambda size: tagged("<li>" + "</li" * (size // 5)),
    "blanks in HTML": lambda size: tagged(f"<li>a{' ' * size}b"),
    "openings of CDATA": lambda size: tagged("<![CDATA[" * (size // 9)),
    "openings of CDATA on lines": lambda size: tagged("<![CDATA[\n" * (size // 10)),
    "thoughts inside": lambda size: tagged("<think></think>\n" * (size // 16)),
    "thoughts that are not closed": lambda size: "<thought>\n" * (size // 10),
    "scratchpads": lambda size: "<scratchpad></scratchpad>\n" * (size // 26),
    "blocks": lambda size: "<observations>\n* a\n</observations>\n" * (size // 35),
    "days": lambda size: f"<observations>\n{DAY}\n* a\n</observations>\n" * (size // 54),
    "self-closed blocks": lambda size: "<observations/>\n" * (size // 16),
    "nothing": lambda size: tagged("No new observations.\n" * (size // 21)),
    "a long line of nothing": lambda size: tagged("no new " * (size // 7)),
    "dots": lambda size: tagged("* ...\n" * (size // 6)),
    "brackets": lambda size: tagged(f"* {'<' * size}"),
    "brackets of dates": lambda size: tagged("Date: <" * (size // 7)),
    "refusals": lambda size: "- I'm sorry, but I can't assist\n" * (size // 32),
    "sorry": lambda size: tagged("- I'm sorry " * (size // 12)),
    "I": lambda size: tagged("I " * (size // 2)),
    "table": lambda size: tagged("| a |\n" * (size // 6)),
    "bars": lambda size: tagged("|" * size),
    "braces": lambda size: "{" * size + "}",
    "JSON": lambda size: '{"observations": [' + '"* 🔴 tea",' * (size // 12) + '"* 🔴 tea"]}',
    "bold": lambda size: tagged("*" * size),
    "a list without tags": lambda size: "* 🔴 (10:00) tea\n" * (size // 16),
}
"""Answers that grow without end in the forms that are tidied: lists, marks, thoughts, JSON."""
