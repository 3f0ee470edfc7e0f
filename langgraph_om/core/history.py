"""Earlier states of a memory: the last record of each generation, and the log as it was once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from langgraph_om.core.record.record import MemoryRecord
from langgraph_om.core.reflect.regroup import log_text

Dated = tuple[datetime | None, MemoryRecord]
"""A record and when it was saved."""


def last_of_generations(records: Iterable[Dated], limit: int) -> list[MemoryRecord]:
    """Return the last record of each generation.

    Args:
        records: Records, newest first; only as many are read as are needed.
        limit: How many generations to return at most.
    """
    found: dict[int, MemoryRecord] = {}
    for _, record in records:
        if not record["id"]:
            break  # nothing older has memory either
        if record["generation"] not in found:
            if len(found) == limit:
                break
            found[record["generation"]] = record
    return list(found.values())


def newest_by(records: Iterable[Dated], time: datetime) -> MemoryRecord | None:
    """Return the record that was in force at a time.

    Args:
        records: Records, newest first; one of unknown time counts as in force.
        time: An aware time.
    """
    return next((record for at, record in records if at is None or at <= time), None)


def log_as_of(record: MemoryRecord, time: datetime) -> str:
    """Render the groups of a log that had been written by a time."""
    written = [
        group for group in record["log"] if datetime.fromisoformat(group["observed_at"]) <= time
    ]
    return log_text(written)
