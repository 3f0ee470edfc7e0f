"""The lines of a group's text: date headings, items with what belongs to them, and blanks.

A line at the outermost level that begins an item begins one; what follows up to the next item,
heading or end belongs to it, but for blank lines at its end. So each line is a heading, a blank, or
in exactly one item.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

from langgraph_om.core.content.dates import is_date_heading, observation_date
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.wire import Chunk, Group

_BULLET = r"(?:[-*+•–—‣◦▪▸●○·・]|\d{1,4}[.)]|[a-zA-Z]\)|\([a-z]\)|->|→)[ \t]"
ITEM = rf"[ \t]*+(?:{_BULLET}|(?:[-*+•]|[*_]{{2,3}})?[🔴🟡🟢✅📌]|\(\d{{1,2}}:\d\d)"
ITEM_START = re.compile(ITEM)

MARKS: Final = {"📌": 4, "🔴": 3, "✅": 3, "🟡": 2, "🟢": 1, "": 0}
"""The marks of items by their strength."""

_HEAD: Final = re.compile(
    rf"[ \t]*+(?:{_BULLET}[ \t]*+)?(?P<mark>[🔴🟡🟢✅📌]?)\ufe0f?[ \t]*+"
    r"(?:\((?P<time>\d{1,2}:\d\d)\)[ \t]*+)?"
)

_MAX_DATE_LINE_CHARS = 80


def is_date_line(line: str) -> bool:
    """Return whether a line is a date heading and nothing else."""
    return len(line) <= _MAX_DATE_LINE_CHARS and is_date_heading(line)


class LineSpan(NamedTuple):
    """Where an item stands in the text of its group."""

    heading: str
    """The date heading above it; empty without one."""
    start: int
    """Its first line."""
    end: int
    """The line after its last one."""


class ItemHead(NamedTuple):
    """What opens an item's first line."""

    mark: str
    time: str
    end: int
    """Where the words begin."""


def find_spans(text: str) -> list[LineSpan]:
    """Return where the items of a group's text stand, in order."""
    lines = text.split("\n")
    spans: list[LineSpan] = []
    heading, start, end, level = "", -1, -1, 0
    for at, line in enumerate(lines):
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip(" \t"))
        is_below = start >= 0 and indent > level
        is_heading = not is_below and is_date_line(line)
        if start >= 0 and not is_heading and (is_below or not ITEM_START.match(line)):
            end = at + 1
            continue
        if start >= 0:
            spans.append(LineSpan(heading, start, end))
        if is_heading:
            heading, start = line, -1
        else:
            start, end, level = at, at + 1, indent
    if start >= 0:
        spans.append(LineSpan(heading, start, end))
    return spans


def read_head(text: str) -> ItemHead:
    """Return the mark and the time that open an item, empty where it has none."""
    found = _HEAD.match(text)
    if found is None:  # every part of it may be missing
        return ItemHead("", "", 0)
    return ItemHead(found["mark"], found["time"] or "", found.end())


def cut_spans(text: str, spans: Iterable[LineSpan]) -> list[str]:
    """Return the lines of items."""
    lines = text.split("\n")
    return ["\n".join(lines[span.start : span.end]) for span in spans]


def replace_spans(text: str, cuts: Mapping[LineSpan, str]) -> str:
    """Return a group's text with some of its items replaced, or left out where they are empty.

    A heading below which no item is left goes with them, and so do blank lines that would stand
    twice or at an end.
    """
    lines, spans = text.split("\n"), find_spans(text)
    kept = [span for span in spans if cuts.get(span, " ")]
    if not kept:
        return ""
    inside = {at for span in spans for at in range(span.start, span.end)}
    headings = [at for at, line in enumerate(lines) if line.strip() and at not in inside]
    had, has = ({bisect_left(headings, span.start) for span in each} for each in (spans, kept))
    gone = {headings[place - 1] for place in had - has if place}
    gone |= {at for span in spans if span in cuts for at in range(span.start, span.end)}
    new = {span.end - 1: cuts[span] for span in kept if span in cuts}
    written: list[str] = []
    is_cut = False
    for at, line in enumerate(lines):
        if at in gone and at not in new:
            is_cut = True
        elif line.strip():
            written.append(new.get(at, line))
            is_cut = False
        elif not (is_cut and (not written or not written[-1].strip())):
            written.append(line)
    while is_cut and written and not written[-1].strip():
        written.pop()
    return "\n".join(written)


_ID_LENGTH: Final = 8


@dataclass(frozen=True, slots=True)
class LogItem:
    """One item of the log."""

    id: str
    """Of its day and its lines, so that it stays the same until these change."""
    group: Group
    span: LineSpan
    """Where it stands in the group's text."""
    text: str
    """Its lines, as they stand in the log."""
    chunk: str | None = None
    """Id of the chunk that holds it; `None` when it is in the log."""

    @property
    def head(self) -> ItemHead:
        """What opens its first line."""
        return read_head(self.text)

    @property
    def words(self) -> str:
        """Its lines without bullet, mark and time."""
        return self.text[self.head.end :]

    @property
    def day(self) -> date | None:
        """The day of its heading."""
        return observation_date(self.span.heading)


def list_items(groups: Iterable[Group], chunks: Sequence[Chunk] = ()) -> list[LogItem]:
    """Return all items of a log, and of what is buffered for it, in order."""
    places = [(group, None) for group in groups]
    held = [(group, chunk["id"]) for chunk in chunks for group in chunk["groups"]]
    seen: Counter[str] = Counter()
    items: list[LogItem] = []
    for group, chunk in [*places, *held]:
        spans = find_spans(group["text"])
        for span, text in zip(spans, cut_spans(group["text"], spans), strict=True):
            key = derive_id("item", group["thread_id"], span.heading.strip(), text)
            key = re.sub(r"[^0-9a-f]", "", key.rpartition("-")[2])[:_ID_LENGTH]
            seen[key] += 1
            name = key if seen[key] == 1 else f"{key}-{seen[key]}"
            items.append(LogItem(name, group, span, text, chunk))
    return items


def find_start(group: Mapping[str, Any]) -> str:
    """Return the oldest message of a group, from which `recall` reads on; empty for none."""
    ranges = group.get("ranges") or group.get("sources")
    return str(ranges[0][0]) if ranges else ""


def is_protected(group: Mapping[str, object]) -> bool:
    """Return whether a group holds an item that no reflection may change.

    A person pinned or wrote it, or it is a standing instruction.
    """
    return "keep" in group


def keep_protected(read: Sequence[Group], written: Sequence[Group]) -> list[Group]:
    """Return what takes the place of groups, with those that nobody else may change."""
    own = {group["id"]: group for group in read if is_protected(group)}
    if not own or [group for group in written if group["id"] in own] == list(own.values()):
        return list(written)
    result = [group for group in written if group["id"] not in own]
    for at, group in enumerate(read):
        if group["id"] in own:
            result.insert(_find_place(read[at + 1 :], result), group)
    return result


def _find_place(behind: Sequence[Group], written: Sequence[Group]) -> int:
    """Return the place before what became of the groups that stood behind one."""
    starts = {first for group in behind for first, _ in group["ranges"]}
    ids = {group["id"] for group in behind}
    for at, group in enumerate(written):
        if group["id"] in ids or any(first in starts for first, _ in group["ranges"]):
            return at
    return len(written)
