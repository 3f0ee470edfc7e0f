"""What the Reflector answered, as edits: items to drop, to shorten and to join.

    drop 3, 7, 9-12
    14: * 🔴 (10:02) shorter text
    21+25: * 🟡 (11:40) joined text

Lines of no such form are passed over, so a remark of the model's spoils nothing. Whether an edit
can be applied is judged elsewhere (`check_edits`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from langgraph_om.core.content.text import sanitize
from langgraph_om.core.observe.parse_answer import strip_reasoning

Numbers = tuple[tuple[int, int], ...]
"""Numbers of items as ranges: first and last."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Items that go."""

    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Rewording:
    """A text that takes the place of one item, or of several that are joined in it."""

    numbers: Numbers
    text: str


Edit = Drop | Rewording

_NUMBER = r"\[?#?\d{1,9}\]?"
_DASH = r"(?:-|\u2013|\u2014|\.\.|\bto\b)"
_RANGE = rf"{_NUMBER}(?:[ \t]{{0,3}}{_DASH}[ \t]{{0,3}}{_NUMBER})?"
_LINE_START = r"[ \t]{0,8}(?:[-*>•][ \t]{1,3})?[*_`]{0,3}"
_VERB = r"(?:drop|dropped|delete|remove|omit)"
_DROP: Final = re.compile(
    rf"{_LINE_START}{_VERB}[*_`]{{0,3}}[ \t]{{0,3}}:?[*_`]{{0,3}}[ \t]{{0,3}}(?P<numbers>[^\n]*)",
    re.IGNORECASE,
)
_WORDED: Final = re.compile(
    rf"{_LINE_START}(?:(?:join|shorten|merge|item|edit)[ \t]{{1,3}})?"
    rf"(?P<numbers>{_RANGE}(?:[ \t]{{0,3}}(?:\+|&|,|\band\b)[ \t]{{0,3}}{_RANGE})*+)"
    r"[*_`]{0,3}[ \t]{0,3}(?::|=>|->|→)[*_`]{0,3}(?:[ \t]++(?P<text>[^\n]*))?$",
    re.IGNORECASE,
)
_ECHO: Final = re.compile(
    r"[ \t]{0,8}(?P<numbers>\[\d{1,9}) ~\d{1,9}[^\]\n]{0,20}\]:?[ \t]++(?P<text>[^\n]+)"
)
"""An item in the form in which the log is shown."""
_LIST: Final = re.compile(
    rf"[ \t]*+{_RANGE}(?:[ \t]*+(?:(?:[,;+&]|\band\b)[ \t]*+){{0,2}}{_RANGE})*+"
    r"[ \t]*+[,;.]?[*_`]{0,3}[ \t]*+(?=$|[(:\u2013\u2014#])",
    re.IGNORECASE,
)
_REMARK: Final = re.compile(r"\([^()\n]{0,200}\)")
_ONE: Final = re.compile(
    rf"(?P<first>{_NUMBER})(?:[ \t]{{0,3}}{_DASH}[ \t]{{0,3}}(?P<last>{_NUMBER}))?", re.IGNORECASE
)
_BARE_DROP: Final = re.compile(rf"[\s(\[*_`-]*+{_VERB}[\s)\]*_`.]*+", re.IGNORECASE)
_NOT_DIGIT: Final = re.compile(r"\D+")


def parse_edits(text: str, *, cut_off: bool = False) -> list[Edit]:
    """Return the edits that an answer holds, in its order.

    Args:
        text: The whole answer, as the model wrote it.
        cut_off: Whether the provider said that the answer ended too early: its last edit may lack
            its end, and does not count.
    """
    lines = strip_reasoning(sanitize(text)).split("\n")
    edits = list(_read(lines))
    return edits[:-1] if cut_off else edits


def count_numbers(numbers: Numbers) -> int:
    """Return how many items are named, each as often as it is named."""
    return sum(last - first + 1 for first, last in numbers)


def _read(lines: Sequence[str]) -> Iterator[Edit]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if (dropped := _DROP.fullmatch(line)) is not None:
            listed = _REMARK.sub("", dropped["numbers"])
            while at < len(lines) and listed.rstrip().endswith(",") and _LIST.fullmatch(lines[at]):
                listed += lines[at]
                at += 1
            if (found := _LIST.match(listed)) is not None:
                yield Drop(_read_numbers(found[0]))
        elif (worded := _WORDED.fullmatch(line) or _ECHO.fullmatch(line)) is not None:
            numbers = _read_numbers(worded["numbers"])
            body = [worded["text"] or ""]
            if not body[0].strip() and at < len(lines) and not _is_edit(lines[at]):
                # the text begins on the line below
                body = [lines[at].strip(" \t")]
                at += 1
            while at < len(lines) and _is_below(lines[at]):
                body.append(lines[at].rstrip())
                at += 1
            said = "\n".join(body).strip()
            yield Drop(numbers) if _BARE_DROP.fullmatch(said) else Rewording(numbers, said)


def _is_below(line: str) -> bool:
    """Return whether a line is a sub-item of the text before it."""
    return line[:1] in (" ", "\t") and line.strip() != "" and not _is_edit(line)


def _is_edit(line: str) -> bool:
    return any(form.fullmatch(line) for form in (_WORDED, _DROP, _ECHO))


def _read_numbers(text: str) -> Numbers:
    ranges = []
    for found in _ONE.finditer(text):
        first = int(_NOT_DIGIT.sub("", found["first"]))
        last = int(_NOT_DIGIT.sub("", found["last"])) if found["last"] else first
        ranges.append((min(first, last), max(first, last)))
    return tuple(ranges)
