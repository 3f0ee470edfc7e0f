"""The record while events are folded into it, and what several kinds of events do to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langgraph_om.core.record.record import HINTS
from langgraph_om.core.titles.state import is_named
from langgraph_om.core.wire import LogChange, MemoryRecord


class Draft(dict[str, Any]):
    """A record being folded: its first level is a copy, deeper values are still shared."""

    owns_counts: bool = False
    """Whether the token counts are a copy too; replaying a long channel copies them once."""


def add_to_outbox(record: MemoryRecord, cycle_id: str, **change: Any) -> None:
    """Note a change that the shared log does not have yet; without a thread id there is none."""
    if not record["thread_id"]:
        return
    hints = {name: record[name] for name in HINTS}
    item = {"id": cycle_id, "cursor": record["cursor"], "hints": hints, **change}
    record["outbox"] = [*record["outbox"], cast("LogChange", item)]


def set_hints(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take over the hints that the event has; the others stay, and so does a person's title."""
    for hint in HINTS:
        if event.get(hint) is not None and not (hint == "thread_title" and is_named(record)):
            record[hint] = event[hint]
