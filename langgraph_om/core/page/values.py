"""Say what stands beside the log: the working memory that the Observer keeps, values by schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from langgraph_om.core.page.html import Child, Html, element
from langgraph_om.core.page.words import count
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.core.working.state import find_known, find_unwritten


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A value, and what there is to say of it."""

    name: str
    text: str
    """Empty where nothing was found yet."""
    notes: tuple[str, ...] = ()


def list_values(record: MemoryRecord) -> list[ShownValue]:
    """Return the working memory, then the values by schema in their order."""
    shown = [_show_working(record)] if "working" in record else []
    for name, found in record.get("extracted", {}).items():
        error = found["error"]
        notes = (f"the newest question about it found nothing: {error}",) if error else ()
        shown.append(ShownValue(name, _write(found["value"]), notes))
    return [value for value in shown if value.text or value.notes]


def render_values(record: MemoryRecord) -> Html | None:
    """Render them as a section of the page; `None` where there are none."""
    rows: list[Child] = []
    for value in list_values(record):
        notes = [element("p", note, class_="note") for note in value.notes]
        text = element("div", value.text, dir="auto", class_="value") if value.text else None
        rows += [element("dt", value.name), element("dd", text, *notes)]
    if not rows:
        return None
    card = element("div", element("dl", *rows), class_="card")
    return element("section", element("h2", "Beside the observations"), card)


def _show_working(record: MemoryRecord) -> ShownValue:
    """Show the value as it is once all that was found is written."""
    waiting = len(find_unwritten(record, record["resource_id"]))
    error = record["working"]["error"]
    notes = [f"{count(waiting, 'change')} found, written by the next turn"] if waiting else []
    notes += [f"not all of the newest change was taken: {error}"] if error else []
    return ShownValue("working memory", _write(find_known(record)), tuple(notes))


def _write(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""
