"""What changed in a log: from generation to generation, or between any two records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import pairwise

from langgraph_om.core.page.html import Child, Html, element
from langgraph_om.core.page.words import count, write_moment
from langgraph_om.core.record.record import log_tokens, write_log
from langgraph_om.core.wire import MemoryRecord


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
