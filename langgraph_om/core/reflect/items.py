"""The log as numbered items: a line with what belongs to it, and what it may be judged by.

A group's text is read line by line. A line at the outermost level that begins an item begins one;
what follows up to the next item, heading or end belongs to it, but for blank lines at its end. So
each line is a heading, a blank, or in exactly one item.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.observe.answer_lines import is_date_line
from langgraph_om.core.observe.answer_tags import ITEM_START
from langgraph_om.core.observe.thread_sections import wrap_section
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group

MARKS: Final = {"🔴": 3, "✅": 3, "🟡": 2, "🟢": 1, "": 0}
"""The marks of items by their strength."""

_HEAD: Final = re.compile(
    r"[ \t]*+(?:[-*+•][ \t]++)?(?P<mark>[🔴🟡🟢✅]?)\ufe0f?[ \t]*+"
    r"(?:\((?P<time>\d{1,2}:\d\d)\)[ \t]*+)?"
)
_INDENT: Final = re.compile(r"[ \t]*+")
_CAPTION: Final = re.compile(
    r"\[[^\[\]\n]{0,60}?\b(?:image|picture|photo|screenshot|video|gif)\b[^\[\]\n]*+\]",
    re.IGNORECASE,
)
_MAX_WORDS_BESIDE_PICTURE: Final = 6


@dataclass(frozen=True, slots=True)
class Span:
    """Where an item stands in the text of its group."""

    heading: str
    """The date heading above it; empty without one."""
    start: int
    """Its first line."""
    end: int
    """The line after its last one."""


@dataclass(frozen=True, slots=True)
class Item:
    """One numbered item of the log."""

    number: int
    """From 1 on, in the order in which the log is shown."""
    group: int
    """Index of its group in the log."""
    thread_id: str | None
    span: Span
    text: str
    """Its lines as the model is shown them."""
    tokens: int
    """Of the text in the log."""
    size: int
    """Characters of the text in the log."""


@dataclass(frozen=True, slots=True)
class Head:
    """What opens an item's first line."""

    mark: str
    time: str
    end: int
    """Where the words begin."""


def find_spans(text: str) -> list[Span]:
    """Return where the items of a group's text stand, in order."""
    lines = text.split("\n")
    spans: list[Span] = []
    heading, start, end, level = "", -1, -1, 0
    for at, line in enumerate(lines):
        if not line.strip():
            continue
        indent = _measure_indent(line)
        is_below = start >= 0 and indent > level
        is_heading = not is_below and is_date_line(line)
        if start >= 0 and not is_heading and (is_below or not ITEM_START.match(line)):
            end = at + 1
            continue
        if start >= 0:
            spans.append(Span(heading, start, end))
        if is_heading:
            heading, start = line, -1
        else:
            start, end, level = at, at + 1, indent
    if start >= 0:
        spans.append(Span(heading, start, end))
    return spans


def read_head(text: str) -> Head:
    """Return the mark and the time that open an item, empty where it has none."""
    found = _HEAD.match(text)
    if found is None:  # every part of it may be missing
        return Head("", "", 0)
    return Head(found["mark"], found["time"] or "", found.end())


def number_items(
    groups: Sequence[Group], counter: TokenCounter, shown: Sequence[str] | None = None
) -> list[Item]:
    """Return the items of a log, numbered thread by thread, the quietest thread first.

    Args:
        groups: The log.
        counter: What counts tokens.
        shown: What the model is shown of each group, where that is not its text. An item that it
            leaves out has no number.
    """
    items: list[Item] = []
    for index in order_groups(groups):
        group = groups[index]
        view = group["text"] if shown is None else shown[index]
        paired = pair_spans(group["text"], view)
        own = cut_spans(group["text"], paired)
        said = cut_spans(view, paired.values())
        for span, text, seen in zip(paired, own, said, strict=True):
            items.append(
                Item(
                    number=len(items) + 1,
                    group=index,
                    thread_id=group["thread_id"],
                    span=span,
                    text=seen,
                    tokens=counter.count_text(text),
                    size=len(text),
                )
            )
    return items


def order_groups(groups: Sequence[Group]) -> list[int]:
    """Return the places of all groups, thread by thread, the one whose last is oldest first."""
    places: dict[str | None, list[int]] = {}
    for at, group in enumerate(groups):
        places.setdefault(group["thread_id"], []).append(at)
    return [at for own in sorted(places.values(), key=lambda own: own[-1]) for at in own]


def render_items(items: Sequence[Item], show_id: ShowId | None = None) -> str:
    """Write items with their numbers and sizes, under their days.

    Args:
        items: The items, in the order of their numbers.
        show_id: How the id of a thread is shown, in a section for each; `None`: no sections.
    """
    if show_id is None:
        return "\n".join(_write_lines(items))
    sections: dict[str | None, list[Item]] = {}
    for item in items:
        sections.setdefault(item.thread_id, []).append(item)
    return "\n\n".join(
        wrap_section(show_id(thread or ""), "\n".join(_write_lines(own)))
        for thread, own in sections.items()
    )


def identifies_by_picture(text: str) -> bool:
    """Return whether an item holds little but the caption of a picture."""
    body = text[read_head(text).end :]
    rest, count = _CAPTION.subn("", body)
    return count > 0 and len(rest.split()) <= _MAX_WORDS_BESIDE_PICTURE


def pair_spans(text: str, view: str) -> dict[Span, Span]:
    """Return where in a view of a text its items stand; those that the view hides are missing.

    Where the view has as many, they are the same ones; else only those are known that it shows
    unchanged.
    """
    spans = find_spans(text)
    if text == view:
        return dict(zip(spans, spans, strict=True))
    views = find_spans(view)
    if len(views) == len(spans):
        return dict(zip(spans, views, strict=True))
    places: dict[str, list[int]] = {}
    for at, item in enumerate(cut_spans(text, spans)):
        places.setdefault(item, []).append(at)
    paired: dict[Span, Span] = {}
    after = 0
    for span, item in zip(views, cut_spans(view, views), strict=True):
        found = places.get(item, [])
        at = bisect_left(found, after)
        if at < len(found):
            after = found[at] + 1
            paired[spans[found[at]]] = span
    return paired


def cut_spans(text: str, spans: Iterable[Span]) -> list[str]:
    """Return the lines of items."""
    lines = text.split("\n")
    return ["\n".join(lines[span.start : span.end]) for span in spans]


# --- Lines ---------------------------------------------------------------------------------------


def _measure_indent(line: str) -> int:
    found = _INDENT.match(line)
    return found.end() if found else 0


def _write_lines(items: Sequence[Item]) -> Iterator[str]:
    heading: str | None = None
    for item in items:
        if item.span.heading != heading:
            if heading is not None:
                yield ""
            if item.span.heading:
                yield escape(item.span.heading)
            heading = item.span.heading
        note = " picture" if identifies_by_picture(item.text) else ""
        yield f"[{item.number} ~{item.tokens}{note}] {escape(item.text.lstrip())}"
