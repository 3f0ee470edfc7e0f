"""Render a memory as HTML: both windows, the log and what is beside it, what is ahead, its cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langgraph_om.core.content.text import show_key
from langgraph_om.core.page.generations import render_generations
from langgraph_om.core.page.html import Child, Html, element, join
from langgraph_om.core.page.log import Extra, render_items, render_log, write_words
from langgraph_om.core.page.style import BODY_STYLE, STYLE
from langgraph_om.core.page.values import render_values
from langgraph_om.core.page.words import (
    ACTIONS,
    Sizes,
    Window,
    count,
    describe_ahead,
    describe_overlooked,
    describe_sizes,
    describe_unread,
    explain_chunks,
    list_failures,
    list_hints,
    list_usage,
    list_windows,
    write_moment,
)
from langgraph_om.core.titles.state import find_shown_title
from langgraph_om.core.wire import MemoryRecord, StatusData, SteeredItem

_MAX_ACTS: Final = 20
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
)
"""What a browser lets the page do: show itself."""


def render_page(fragment: Html, title: str) -> str:
    """Return a page of its own around what `render_memory_view` wrote.

    Args:
        fragment: The content.
        title: Of the page.
    """
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
    named = find_shown_title(record) or record["thread_id"]
    if not named and record["scope"] == "resource":
        named = record["resource_id"] or ""
    return f"Memory of {show_key(named) if named else 'a thread'}"


def render_memory_view(
    record: MemoryRecord,
    status: StatusData,
    history: Sequence[MemoryRecord] = (),
    *,
    sizes: Sizes | None = None,
    is_closed: bool = False,
    extra: Extra | None = None,
    lead: Child = None,
) -> Html:
    """Render a memory.

    Args:
        record: The memory of a thread, or of a resource.
        status: The `data` of `data-om-status`.
        history: The last record of each generation, newest first, to show what each changed.
        sizes: What the Actor is sent in place of the conversation.
        is_closed: Whether nothing is made ahead of need any more.
        extra: What stands below each item, such as a form.
        lead: What stands before the log.
    """
    windows = [_render_window(window) for window in list_windows(status)]
    return frame(
        _render_head(record, sizes),
        _render_trouble(record),
        element("div", *windows, class_="meters"),
        _render_hints(record),
        lead,
        element("section", element("h2", "Observations"), render_log(record, extra)),
        render_values(record),
        _render_ahead(record, status, is_closed=is_closed),
        _render_acts(record.get("steered", [])),
        _render_usage(record),
        render_generations(history),
    )


def _render_head(record: MemoryRecord, sizes: Sizes | None) -> Html:
    facts = [
        f"Thread {show_key(record['thread_id'])}" if record["thread_id"] else "No thread id",
        f"of {show_key(record['resource_id'])}" if record["resource_id"] else "",
        "shared log" if record["scope"] == "resource" else "",
        f"generation {record['generation']}",
    ]
    said = element("p", f"Compression: {describe_sizes(sizes)}.", class_="sub") if sizes else None
    sub = element("p", " · ".join(filter(None, facts)), class_="sub")
    return element("header", element("h1", write_title(record), dir="auto"), sub, said)


def _render_trouble(record: MemoryRecord) -> Html | None:
    """Say what went wrong last, if anything."""
    lines = [
        element("p", element("b", f"{name.capitalize()} failed: "), text)
        for name, text in list_failures(record)
    ]
    trip = record.get("tripwire")
    if trip:
        lines.insert(0, element("p", element("b", "The last turn ended: "), trip["reason"]))
    if lines:
        calm = "Nothing is lost: the messages stay in the conversation, and are observed later."
        lines.append(element("p", calm))
    unread = filter(None, (describe_unread(record), describe_overlooked(record)))
    lines += [element("p", said.capitalize(), ".") for said in unread]
    return element("div", *lines, class_="card warn", role="status") if lines else None


def _render_window(window: Window) -> Html:
    whole = max(window.threshold, window.tokens, 1)
    ahead = 100 * window.ahead / whole
    rest = 100 * window.tokens / whole - ahead
    bar = element(
        "div",
        element("i", style=f"width:{ahead:.2f}%", class_="ahead") if ahead else None,
        element("i", style=f"width:{rest:.2f}%;background:var(--accent)") if rest > 0 else None,
        class_="bar",
        role="meter",
        aria_label=window.name,
        aria_valuenow=window.tokens,
        aria_valuemin=0,
        aria_valuemax=whole,
    )
    part = f", {window.ahead:,} of them observed ahead" if window.ahead else ""
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
        parts.append(element("details", said, render_items(groups)))
    reflection = record["reflection"]
    if reflection:
        text = (
            f"A reflection: {count(reflection['input_tokens'], 'token')} of the log, condensed to "
            f"{reflection['tokens']:,} ahead of need. It takes their place when the log reaches "
            f"its threshold."
        )
        parts.append(element("p", text, class_="note"))
    if not parts or record["pending"] or is_closed:
        line = describe_ahead(record, status, is_closed=is_closed).capitalize()
        parts.insert(0, element("p", f"{line}.", class_="note"))
    return element("section", element("h2", "Ahead of need"), *parts)


def _render_acts(acts: Sequence[SteeredItem]) -> Html | None:
    """Say what a person did to the log, newest first."""
    if not acts:
        return None
    rows = [
        element(
            "li",
            element("div", _describe_act(act), dir="auto"),
            element("div", f"{write_moment(act['at'])} · {act['id']}", class_="id"),
        )
        for act in reversed(acts[-_MAX_ACTS:])
    ]
    return element(
        "section", element("h2", "Changed by a person"), element("ul", *rows, class_="acts-done")
    )


def _describe_act(act: SteeredItem) -> Html:
    words = [
        element("b", ACTIONS[act["action"]].capitalize()),
        " (undone)" if act["undone"] else "",
        ": ",
    ]
    before, after = (_first_line(act["before"]), _first_line(act["after"]))
    if before and after and before != after:
        return join([*words, element("s", before), " → ", after])
    return join([*words, after or before])


def _first_line(group: object) -> str:
    if not isinstance(group, dict):
        return ""
    lines = str(group["text"]).split("\n")
    return write_words(lines[1] if len(lines) > 1 else lines[0])


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
