"""Render a memory as HTML: both windows, the log and what is beside it, what is ahead, its cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from itertools import groupby, pairwise
from typing import Any, Final

from langgraph_om.core.additions import ShownValue, find_label, is_shared, list_shown
from langgraph_om.core.content.text import compile_late, show_key
from langgraph_om.core.items import LogItem, is_protected, list_items, read_head
from langgraph_om.core.page.html import (
    BODY_STYLE,
    STYLE,
    Apart,
    Child,
    Html,
    Sizes,
    Window,
    count,
    describe_actor_window,
    describe_ahead,
    describe_room,
    describe_sizes,
    element,
    explain_chunks,
    join,
    list_hints,
    list_trouble,
    list_unread,
    list_usage,
    list_windows,
    write_moment,
)
from langgraph_om.core.record.record import log_tokens, write_log, write_range
from langgraph_om.core.wire import Group, MemoryRecord, StatusData


def diff_logs(before: MemoryRecord, after: MemoryRecord) -> list[str]:
    """Return the lines that differ, each behind ` `, `-` or `+`; `@@` where some are left out."""
    old, new = (write_log(record["log"]).split("\n") for record in (before, after))
    lines = [*unified_diff(old, new, lineterm="", n=1)][2:]
    return ["@@" if line.startswith("@@") else line for line in lines]


def render_generations(history: Sequence[MemoryRecord]) -> Html | None:
    """Render what each generation changed, newest first; nothing where there is only one.

    Args:
        history: The last record of each generation, newest first.
    """
    rows = [_render_change(after, before) for after, before in pairwise(history)]
    if not rows:
        return None
    return element("section", element("h2", "Generations"), *rows)


def _render_change(after: MemoryRecord, before: MemoryRecord) -> Html:
    sizes = f"{log_tokens(before):,} to {count(log_tokens(after), 'token')}"
    times = [group["observed_at"] for group in after["log"]]
    at = f", {write_moment(max(times))}" if times else ""
    title: list[Child] = [f"Generation {after['generation']} ", element("span", f"{sizes}{at}")]
    lines = [*_render_lines(diff_logs(before, after))]
    changes = element("pre", *lines) if lines else element("p", "The same text.", class_="note")
    return element("details", element("summary", *title), changes)


def _render_lines(lines: Sequence[str]) -> Iterator[Html]:
    kinds = {"+": "add", "-": "cut"}
    for line in lines:
        if line == "@@":
            yield element("span", "⋯\n", class_="gap")
        elif line.strip():
            yield element("span", f"{line}\n", class_=kinds.get(line[0]))


_DOTS: Final = {
    "🔴": ("red", "a fact, a decision, or what matters"),
    "🟡": ("amber", "a question or a request"),
    "🟢": ("green", "minor"),
    "✅": ("done", "done"),
    "📌": ("pin", "kept word for word"),
    "": ("", "no mark"),
}
_BY_PERSON: Final = compile_late(r" \((?P<said>[a-z]+ by a person)\)$")
"""How the first line of an item ends that a person wrote."""

_BULLET: Final = compile_late(r"^(\s*)(?:[-*+•][ \t]+(?:->[ \t]*)?|->[ \t]*)")


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


def render_log(record: MemoryRecord) -> Html:
    """Render the log."""
    shown = [group for group in record["log"] if group["text"]]
    if not shown:
        return element("p", "No observations yet.", class_="note")
    parts: list[Child] = []
    is_divided = is_shared(record)
    for thread, own in groupby(shown, key=lambda group: group["thread_id"] if is_divided else None):
        if is_divided:
            name = f"Thread {show_key(thread)}" if thread else "Several threads"
            parts.append(element("p", name, class_="thread"))
        parts += map(_render_day, split_days([*own]))
    return join(parts)


def render_apart(record: MemoryRecord, apart: Apart) -> Html:
    """Render what the Actor is shown apart from the log as a section of the page."""
    note = f"{describe_room(apart)}. Shown to the agent word for word, before the observations."
    parts: list[Child] = [element("h2", apart.title), element("p", note, class_="note")]
    if apart.groups:
        parts.append(render_log({**record, "log": [*apart.groups]}))
    parts += [
        element("p", element("b", "No room for: "), text, class_="card warn")
        for text in apart.left_out
    ]
    return element("section", *parts)


def _render_day(day: Day) -> Html:
    return join([element("h3", day.title), *_render_groups(day)])


def _render_groups(day: Day) -> Iterator[Html]:
    for group, items in day.groups:
        yield element("ul", *[_render_item(item) for item in items], class_="items")
        line = write_range(group).strip("_").replace("`", "")
        covered = line.removeprefix("range:").strip()
        if covered:
            yield element("p", f"messages {covered}", class_="range")


@dataclass(frozen=True, slots=True)
class ShownItem:
    """What of an item people read."""

    kind: str
    """Names the mark, such as `red`; empty for none."""
    meaning: str
    """What the mark says."""
    mark: str
    time: str
    """Such as `09:00`; empty for none."""
    words: str
    """Its first line."""
    badge: str
    """What says that nobody else changes it; empty for other items."""
    below: Sequence[str]
    """The lines below."""


def show_item(item: LogItem) -> ShownItem:
    """Return what of an item people read."""
    head = item.head
    kind, meaning = _DOTS.get(head.mark, _DOTS[""])
    first, _, below = item.words.partition("\n")
    by_person = _BY_PERSON.search(first)
    badge = by_person["said"] if by_person else "pinned"
    mark = "✓" if kind == "done" else head.mark
    is_kept = is_protected(item.group)
    lines = _list_below(below)
    return ShownItem(
        kind, meaning, mark, head.time, write_words(first), badge if is_kept else "", lines
    )


def _render_item(item: LogItem) -> Html:
    shown = show_item(item)
    said = [
        shown.words,
        " ",
        element("span", shown.badge, class_="badge") if shown.badge else None,
        " ",
        element("span", f"#{item.id}", class_="id", title="names this item"),
        *[element("div", line, class_="below") for line in shown.below],
    ]
    return element(
        "li",
        element(
            "span",
            shown.mark,
            class_=f"dot {shown.kind}".strip(),
            title=shown.meaning,
            role="img",
            aria_label=shown.meaning,
        ),
        " ",
        element("time", shown.time) if shown.time else element("span"),
        element("div", *said, dir="auto"),
    )


def write_words(line: str) -> str:
    """Return an item's first line without bullet, mark and time, and what says who wrote it."""
    return _BY_PERSON.sub("", line[read_head(line).end :].lstrip("*-+• "))


def _list_below(text: str) -> list[str]:
    lines = [line for line in text.split("\n") if line.strip()]
    depth = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return [_BULLET.sub(r"\1→ ", line[depth:]) for line in lines]


def list_values(record: MemoryRecord) -> list[ShownValue]:
    """Return the values as texts, those of which there is something to say."""
    shown = [replace(value, value=_write(value.value)) for value in list_shown(record)]
    return [value for value in shown if value.value or value.notes]


def render_values(record: MemoryRecord) -> Html | None:
    """Render them as a section of the page; `None` where there are none."""
    rows: list[Child] = []
    for value in list_values(record):
        notes = [element("p", note, class_="note") for note in value.notes]
        text = element("div", value.value, dir="auto", class_="value") if value.value else None
        rows += [element("dt", value.name), element("dd", text, *notes)]
    if not rows:
        return None
    card = element("div", element("dl", *rows), class_="card")
    return element("section", element("h2", "Beside the observations"), card)


def _write(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""


_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
)
"""What a browser lets the page do: show itself."""


def render_page(fragment: Html, title: str) -> str:
    """Return a page of its own around what `render_memory_view` wrote."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="referrer", content="same-origin"),
        element("title", title),
        element("style", Html(BODY_STYLE)),
    )
    body = element("body", element("main", fragment))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def frame(*children: Child) -> Html:
    """Return content with the style that it needs, which changes nothing around it."""
    return element("div", element("style", Html(STYLE)), *children, class_="om")


def write_title(record: MemoryRecord) -> str:
    """Return what a memory is of: the thread's title or id, or the resource."""
    named = find_label(record) or record["thread_id"]
    if not named and is_shared(record):
        named = record["resource_id"] or ""
    return f"Memory of {show_key(named) if named else 'a thread'}"


def select_log(record: MemoryRecord, apart: Sequence[Apart]) -> MemoryRecord:
    """Return a record whose log is without what the Actor is shown apart from it."""
    shown = {group["id"] for each in apart for group in each.groups}
    return {**record, "log": [group for group in record["log"] if group["id"] not in shown]}


def render_memory_view(
    record: MemoryRecord,
    status: StatusData,
    history: Sequence[MemoryRecord] = (),
    *,
    sizes: Sizes | None = None,
    is_closed: bool = False,
    apart: Sequence[Apart] = (),
    sections: Sequence[Child] = (),
) -> Html:
    """Render a memory.

    Args:
        record: The memory of a thread, or of a resource.
        status: The `data` of `data-om-status`.
        history: The last record of each generation, newest first, to show what each changed.
        is_closed: Whether nothing is done in the background any more.
    """
    windows = [_render_window(window) for window in list_windows(status)]
    log = select_log(record, apart)
    return frame(
        _render_head(record, sizes, describe_actor_window(status)),
        _render_trouble(record),
        element("div", *windows, class_="meters"),
        _render_hints(record),
        *[render_apart(record, each) for each in apart],
        element("section", element("h2", "Observations"), render_log(log)),
        render_values(record),
        _render_ahead(record, status, is_closed=is_closed),
        *sections,
        _render_usage(record),
        render_generations(history),
    )


def _render_head(record: MemoryRecord, sizes: Sizes | None, actor: str) -> Html:
    facts = [
        f"Thread {show_key(record['thread_id'])}" if record["thread_id"] else "No thread id",
        f"of {show_key(record['resource_id'])}" if record["resource_id"] else "",
        "shared log" if is_shared(record) else "",
        f"generation {record['generation']}",
    ]
    said = element("p", f"Compression: {describe_sizes(sizes)}.", class_="sub") if sizes else None
    sub = element("p", " · ".join(filter(None, facts)), class_="sub")
    reads = element("p", f"The agent's model reads {actor}.", class_="sub") if actor else None
    return element("header", element("h1", write_title(record), dir="auto"), sub, said, reads)


def _render_trouble(record: MemoryRecord) -> Html | None:
    lines = [element("p", element("b", f"{name}: "), why) for name, why in list_trouble(record)]
    if lines:
        calm = "Nothing is lost: the messages stay in the conversation, and are observed later."
        lines.append(element("p", calm))
    lines += [element("p", said.capitalize(), ".") for said in list_unread(record)]
    return element("div", *lines, class_="card warn", role="status") if lines else None


def _render_window(window: Window) -> Html:
    ahead, rest = window.shares
    bar = element(
        "div",
        element("i", style=f"width:{ahead:.2f}%", class_="ahead") if ahead else None,
        element("i", style=f"width:{rest:.2f}%;background:var(--accent)") if rest > 0 else None,
        class_="bar",
        role="meter",
        aria_label=window.name,
        aria_valuenow=window.tokens,
        aria_valuemin=0,
        aria_valuemax=window.whole,
    )
    part = f", {window.ahead:,} of them observed in the background" if window.ahead else ""
    numbers = f"{window.tokens:,} of {count(window.threshold, 'token')}{part}"
    head = element(
        "div",
        element("b", window.name.capitalize()),
        " ",
        element("span", numbers),
        class_="meter-head",
    )
    return element("div", head, bar, element("p", window.meaning.capitalize() + ".", class_="note"))


def _render_hints(record: MemoryRecord) -> Html | None:
    rows: list[Child] = []
    for name, text in list_hints(record):
        rows += [element("dt", name.capitalize()), element("dd", text, dir="auto")]
    return element("div", element("dl", *rows), class_="card") if rows else None


def _render_ahead(record: MemoryRecord, status: StatusData, *, is_closed: bool) -> Html:
    parts: list[Child] = []
    explained = explain_chunks(status)
    if explained:
        parts.append(element("p", explained, class_="note"))
        groups = [group for chunk in record["chunks"] for group in chunk["groups"]]
        said = element("summary", "What they will add")
        parts.append(element("details", said, *map(_render_day, split_days(groups))))
    reflection = record["reflection"]
    if reflection:
        text = (
            f"A reflection: {count(reflection['input_tokens'], 'token')} of the log, condensed in "
            f"the background to {reflection['tokens']:,}. It takes their place when the log "
            f"reaches its threshold."
        )
        parts.append(element("p", text, class_="note"))
    if not parts or record["pending"] or is_closed:
        line = describe_ahead(record, status, is_closed=is_closed).capitalize()
        parts.insert(0, element("p", f"{line}.", class_="note"))
    return element("section", element("h2", "Ready in the background"), *parts)


def _render_usage(record: MemoryRecord) -> Html | None:
    rows = list_usage(record)
    if not rows:
        return None
    head = element(
        "tr",
        element("td"),
        *[element("th", name, scope="col") for name in ("Calls", "Tokens in", "Tokens out")],
    )
    lines = [
        element(
            "tr",
            element("th", name.capitalize(), scope="row"),
            *[element("td", f"{n:,}") for n in numbers],
        )
        for name, *numbers in rows
    ]
    table = element("div", element("table", head, *lines), class_="wide")
    return element("section", element("h2", "What memory's models cost so far"), table)
