"""Groups of a log, a day each."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, cast

from support.inside import Group
from support.words import Words

AT = "2026-03-02T09:00:00+00:00"
FIRST_DAY = date(2026, 3, 1)


def group(
    name: str, text: str, first: int = 0, last: int = 0, thread: str | None = "t", **fields: Any
) -> Group:
    """A group of these messages; `fields` are those that are of interest, or wrong."""
    made: dict[str, Any] = {
        "id": name,
        "kind": "observation",
        "ranges": [[f"{thread}{first}", f"{thread}{last}"]],
        "thread_id": thread,
        "observed_at": AT,
        "text": text,
        "tokens": Words().count_text(text),
    }
    return cast("Group", {**made, **fields})


def heading(day: int) -> str:
    told = FIRST_DAY + timedelta(days=day)
    return f"Date: {told:%b} {told.day}, {told.year}"


# --- What the Observer is shown ------------------------------------------------------------------


def day_log(day: int, *items: str) -> str:
    return "\n".join([heading(day), *items])
