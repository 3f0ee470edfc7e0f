"""What was remembered once: earlier generations of a log, and the log as of a time.

In thread scope the past is in the thread's checkpoints, which a caller hands in as LangGraph's
`graph.get_state_history(config)`; nothing here reads a checkpointer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, tzinfo
from typing import Any

from langgraph_om.core.history import last_of_generations, log_as_of, newest_by
from langgraph_om.core.record import MemoryRecord, readable
from langgraph_om.core.state import values_of
from langgraph_om.errors import ConfigurationError

__all__ = ["history", "observations_as_of"]


def history(source: Any, limit: int) -> list[MemoryRecord]:
    """Return the last record of each generation, newest first.

    Args:
        source: States of one thread, newest first, or a single one.
        limit: How many generations to return at most.

    Raises:
        ConfigurationError: When the source is something else.
    """
    return last_of_generations(_records(source), limit)


def observations_as_of(source: Any, time: datetime | str, timezone: tzinfo) -> str:
    """Return the observation log as it was at a time.

    Args:
        source: States of one thread, newest first, or a single one; a single state knows only what
            its log still has.
        time: A time, or its ISO text; a day stands for its beginning.
        timezone: What a time without a zone is read in.

    Raises:
        ConfigurationError: When time or source can not be read.
    """
    moment = _moment(time, timezone)
    record = newest_by(_records(source), moment)
    return log_as_of(record, moment) if record is not None else ""


def _records(source: Any) -> Iterator[tuple[datetime | None, MemoryRecord]]:
    """Yield the records of states, each with the time it was saved."""
    is_state = isinstance(source, Mapping) or hasattr(source, "values")
    if not is_state and (isinstance(source, str) or not isinstance(source, Iterable)):
        msg = (
            f"the history of {source!r} can not be read; hand in "
            f"`graph.get_state_history(config)`, or a state"
        )
        raise ConfigurationError(msg)
    for state in [source] if is_state else source:
        created = None if is_state else getattr(state, "created_at", None)
        values = values_of(state)
        stored = values.get("om") if isinstance(values, Mapping) else getattr(values, "om", None)
        at = datetime.fromisoformat(created) if isinstance(created, str) else None
        yield at, readable(stored)


def _moment(time: object, timezone: tzinfo) -> datetime:
    try:
        read = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        read = None
    if not isinstance(read, datetime):
        msg = f"`time` is {time!r}; write a datetime or ISO text such as '2026-03-02T18:00'"
        raise ConfigurationError(msg)
    return read if read.tzinfo is not None else read.replace(tzinfo=timezone)
