"""Forms that hold an answer although they are not ours: CDATA, a list of HTML, JSON."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from langgraph_om.core.content.text import sanitize
from langgraph_om.core.observe.answer_tags import ITEM_LINE, LOG, REPLY, TASK, TITLE, Split

_CDATA_OPENS: Final = re.compile(r"\s*+(?:<!\[CDATA\[\s*+)+")
_CDATA_CLOSES: Final = "]]>"


def strip_cdata(text: str) -> str:
    """Drop the marks of CDATA that wrap a text."""
    opened = _CDATA_OPENS.match(text)
    if opened is None:
        return text
    return text[opened.end() :].rstrip().removesuffix(_CDATA_CLOSES)


_MAX_DEPTH: Final = 8
_LIST_TAG: Final = r"<(?P<closes>/?)(?P<name>[uo]l|li)(?:[ \t][^<>\n]{0,100})?>"
_LIST_LINE: Final = re.compile(rf"^[ \t]*+{_LIST_TAG}", re.IGNORECASE | re.MULTILINE)
_LIST_PARTS: Final = re.compile(r"(?=</?[uo]l\b|<li\b)|(?P<ends></li[ \t]{0,3}>)", re.IGNORECASE)


def read_html_list(text: str) -> str:
    """Write a list of HTML as our list; a text that is none stays as it is."""
    if "<" not in text or ITEM_LINE.search(text) or not _LIST_LINE.search(text):
        return text
    lines: list[str] = []
    depth, is_opened = 0, False
    for line in _LIST_PARTS.sub("\n", text).split("\n"):
        tag = _LIST_LINE.match(line)
        rest = line[tag.end() :].strip() if tag else line.rstrip()
        if tag and tag["name"].lower() != "li":
            depth = max(0, depth - 1) if tag["closes"] else min(_MAX_DEPTH, depth + 1)
        is_opened = is_opened or (tag is not None and tag["name"].lower() == "li")
        if rest:
            mark = f"{'  ' * max(0, depth - 1)}* " if is_opened else ""
            lines.append(f"{mark}{rest.lstrip() if mark else rest}")
            is_opened = False
    written = "\n".join(lines)
    return written if ITEM_LINE.search(written) else text


_HINTS: Final = {"current_task": TASK, "suggested_response": REPLY, "thread_title": TITLE}


def read_json(text: str) -> Split | None:
    """Read an answer that is a JSON object with our blocks as its fields.

    Returns:
        The text of `observations`, one text or a list of lines, as text without tags; `None` when
        the answer is anything else.
    """
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        fields: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    named = {name.strip().lower().replace("-", "_"): value for name, value in fields.items()}
    told = named.get(LOG)
    lines = [told] if isinstance(told, str) else told
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return None
    return Split(
        tagged=False,
        outside=[sanitize(line) for line in lines],
        hints={
            tag: sanitize(value)
            for name, tag in _HINTS.items()
            if isinstance(value := named.get(name), str)
        },
    )
