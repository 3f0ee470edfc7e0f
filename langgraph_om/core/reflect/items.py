"""The log as numbered items: a line with what belongs to it, and what it may be judged by.

A group's text is read line by line. A line at the outermost level that begins an item begins one;
what follows up to the next item, heading or end belongs to it, but for blank lines at its end. So
each line is a heading, a blank, or in exactly one item.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.items.lines import Span, cut_spans, find_spans, read_head
from langgraph_om.core.observe.thread_sections import wrap_section
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group

_CAPTION: Final = re.compile(
    r"\[[^\[\]\n]{0,60}?\b(?:image|picture|photo|screenshot|video|gif)\b[^\[\]\n]*+\]",
    re.IGNORECASE,
)
_MAX_WORDS_BESIDE_PICTURE: Final = 6


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


# --- Lines ---------------------------------------------------------------------------------------


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
