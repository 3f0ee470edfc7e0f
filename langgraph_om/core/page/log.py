"""The log on a page: by thread and day, item by item, each with its mark, time and id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from langgraph_om.core.content.text import show_key
from langgraph_om.core.items.lines import read_head
from langgraph_om.core.items.listing import LogItem, list_items
from langgraph_om.core.items.steer import CORRECTED, NOTED
from langgraph_om.core.page.html import Child, Html, element, join
from langgraph_om.core.record.record import write_range
from langgraph_om.core.wire import Group, MemoryRecord

_DOTS: Final = {
    "🔴": ("red", "a fact, a decision, or what matters"),
    "🟡": ("amber", "a question or a request"),
    "🟢": ("green", "minor"),
    "✅": ("done", "done"),
    "": ("", "no mark"),
}
_BADGES: Final = {
    "pinned": "pinned",
    "remembered": "noted by a person",
    "corrected": "corrected by a person",
}

_BULLET: Final = re.compile(r"^(\s*)(?:[-*+•][ \t]+(?:->[ \t]*)?|->[ \t]*)")

Extra = Callable[[LogItem], Child]
"""What stands below an item; `None` for nothing."""


@dataclass
class Day:
    """The items below one heading."""

    heading: str
    groups: list[tuple[Group, list[LogItem]]] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The heading as it is read; undated items have none."""
        text = self.heading.strip(" \t#*_")
        return text.partition(":")[2].strip(" *_") or text or "Undated"


def split_days(groups: Sequence[Group]) -> list[Day]:
    """Return a log by its headings; groups that go on with a day stand below the same one."""
    days: list[Day] = []
    for item in list_items(groups):
        heading = item.span.heading.strip()
        if not days or days[-1].heading != heading:
            days.append(Day(heading))
        own = days[-1].groups
        if not own or own[-1][0] is not item.group:
            own.append((item.group, []))
        own[-1][1].append(item)
    return days


def render_log(record: MemoryRecord, extra: Extra | None = None) -> Html:
    """Render the log.

    Args:
        record: The memory of the thread, or of a resource.
        extra: What stands below each item.
    """
    shown = [group for group in record["log"] if group["text"]]
    if not shown:
        return element("p", "No observations yet.", class_="note")
    parts: list[Child] = []
    is_shared = record["scope"] == "resource"
    for thread, own in groupby(shown, key=lambda group: group["thread_id"] if is_shared else None):
        if is_shared:
            name = f"Thread {show_key(thread)}" if thread else "Several threads"
            parts.append(element("p", name, class_="thread"))
        parts += [_render_day(day, extra) for day in split_days([*own])]
    return join(parts)


def render_items(groups: Iterable[Group]) -> Html:
    """Render the items of groups that are no part of the log yet."""
    return join([_render_day(day, None) for day in split_days([*groups])])


def _render_day(day: Day, extra: Extra | None) -> Html:
    return join([element("h3", day.title), *_render_groups(day, extra)])


def _render_groups(day: Day, extra: Extra | None) -> Iterator[Html]:
    for group, items in day.groups:
        yield element("ul", *[_render_item(item, extra) for item in items], class_="items")
        line = write_range(group).strip("_").replace("`", "")
        covered = line.removeprefix("range:").strip()
        if covered:
            yield element("p", f"messages {covered}", class_="range")


def _render_item(item: LogItem, extra: Extra | None) -> Html:
    head = item.head
    kind, meaning = _DOTS.get(head.mark, _DOTS[""])
    first, _, below = item.words.partition("\n")
    origin = item.group.get("person")
    said = [
        write_words(first),
        " ",
        element("span", _BADGES[origin], class_="badge") if origin in _BADGES else None,
        " ",
        element("span", f"#{item.id}", class_="id", title="names this item"),
        *[element("div", line, class_="below") for line in _list_below(below)],
        extra(item) if extra is not None else None,
    ]
    mark = "✓" if kind == "done" else head.mark
    return element(
        "li",
        element(
            "span",
            mark,
            class_=f"dot {kind}".strip(),
            title=meaning,
            role="img",
            aria_label=meaning,
        ),
        " ",
        element("time", head.time) if head.time else element("span"),
        element("div", *said, dir="auto"),
    )


def write_words(line: str) -> str:
    """Return an item's first line without bullet, mark and time, and what says who wrote it."""
    words = line[read_head(line).end :].lstrip("*-+• ")
    for origin in (NOTED, CORRECTED):
        words = words.removesuffix(f" {origin}")
    return words


def _list_below(text: str) -> list[str]:
    """Return the lines below an item, arrows in place of their bullets, indented as they are."""
    lines = [line for line in text.split("\n") if line.strip()]
    depth = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return [_BULLET.sub(r"\1→ ", line[depth:]) for line in lines]
