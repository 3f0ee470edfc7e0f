"""What a run that may write nothing is shown: the memory as it is, before a new live request."""

from __future__ import annotations

from datetime import date, datetime

from langgraph_om.core.actor.recalled import find_recalled
from langgraph_om.core.events import iso
from langgraph_om.core.step.inspect import Inspection
from langgraph_om.core.wire import Head, MemoryRecord


def freeze_view(found: Inspection, today: date, now: datetime) -> MemoryRecord:
    """Return a record from which the Actor's view is made, and which nobody keeps.

    Reasoning that its provider has bound to what stands before it is shown from the live request
    on: since then the view holds still, and what was before nobody has tracked.

    Args:
        found: What an inspection would have counted.
        today: The day, where the record knows of none that its dates are relative to.
        now: The current time.
    """
    record, window = found.record, found.window
    blank: Head = {
        "after": None,
        "seen": None,
        "digest": "",
        "log": "",
        "as_of": today.isoformat(),
        "at": iso(now),
    }
    head: Head = {**(record.get("head") or blank), "after": window.request}
    frozen: MemoryRecord = {
        **record,
        "turn": {"request": window.request, "step": 0},
        "head": head,
    }
    if not find_recalled(record, window.request):  # of another request
        frozen.pop("recalled", None)
    return frozen
