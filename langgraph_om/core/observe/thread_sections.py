"""The tag that opens a thread's section: how an id is written in it, and which ids are read there.

An id is any text. In the tag it is one line without a character that could end the attribute.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final

from langgraph_om.core.record.record import derive_id

ShowId = Callable[[str], str]
"""Tells how models are shown a thread's id: as it is, or as a hash. No two ids look the same."""

CLOSE: Final = "</thread>"

_NAMED: Final = {"&": "amp", "<": "lt", ">": "gt", '"': "quot"}
_CHARACTERS: Final = {name: char for char, name in _NAMED.items()} | {"apos": "'"}
_ENTITY: Final = re.compile(r"&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w{2,4}));", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(
    r"""[ \t]++([a-z][\w-]*+)[ \t]*+=[ \t]*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'=]++))""",
    re.IGNORECASE,
)


def opening(shown_id: str, *, current: bool = False) -> str:
    """Write the tag that opens a section.

    Args:
        shown_id: The id, as models are shown it.
        current: Whether it is the thread that the Actor is in.
    """
    mark = ' current="yes"' if current else ""
    return f'<thread id="{attribute(shown_id)}"{mark}>'


def in_section(shown_id: str, text: str) -> str:
    """Put a text, which holds no such tags of its own, into the section of a thread."""
    return f"{opening(shown_id)}\n{text}\n{CLOSE}"


def attribute(text: str) -> str:
    """Write any text so that it can stand between the quotes of an attribute."""
    return "".join(map(_written, text))


def _written(char: str) -> str:
    if char in _NAMED:
        return f"&{_NAMED[char]};"
    return char if char.isprintable() and char != "'" else f"&#{ord(char)};"


def read_id(attributes: str) -> str | None:
    """Read the id among the attributes of a tag; `None` unless there is exactly one."""
    ids: list[str] = []
    at = 0
    end = len(attributes.rstrip(" \t"))
    while at < end:
        match = _ATTRIBUTE.match(attributes, at)
        if match is None:
            return None
        if match[1].casefold() == "id":
            ids.append(next(value for value in match.groups()[1:] if value is not None))
        at = match.end()
    return _ENTITY.sub(_character, ids[0]) if len(ids) == 1 else None


def _character(entity: re.Match[str]) -> str:
    hexadecimal, decimal, name = entity.groups()
    if name:
        return _CHARACTERS.get(name.lower(), entity[0])
    code = int(hexadecimal, 16) if hexadecimal else int(decimal)
    return chr(code) if code <= sys.maxunicode else entity[0]


def hidden_id(thread_id: str) -> str:
    """Write a thread id so that it can not be read, always the same way."""
    return derive_id("thread", thread_id)
