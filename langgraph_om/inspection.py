"""What was remembered once: earlier generations of a log, and the log as of a time.

In thread scope the past is in the thread's checkpoints, which a caller hands in as LangGraph's
`graph.get_state_history(config)`; nothing here reads a checkpointer. In resource scope it is in the
archive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, tzinfo
from typing import Any

from langgraph_om.archive import MessageArchive
from langgraph_om.core.history import last_of_generations, log_as_of, newest_by
from langgraph_om.core.record.record import MemoryRecord, readable
from langgraph_om.core.record.shared_log import as_record
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.runtime.state import values_of

MOST_TRIES = 50
MOST_GENERATIONS = 1000


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


# --- With a shared log ---------------------------------------------------------------------------


def resource_history(archive: MessageArchive, resource_id: str, limit: int) -> list[MemoryRecord]:
    """Return the last record of each generation of a resource's log, newest first."""
    return [
        as_record(entry["record"], resource_id, entry["revision"])
        for entry in archive.record_history(resource_id, limit=limit)
    ]


def resource_as_of(
    archive: MessageArchive, resource_id: str, time: datetime | str, timezone: tzinfo
) -> str:
    """Return the log of a resource as it was at a time."""
    moment = _moment(time, timezone)
    for entry in archive.record_history(resource_id, limit=1, until=moment):
        return log_as_of(as_record(entry["record"], resource_id, entry["revision"]), moment)
    return ""


def restore_resource(
    archive: MessageArchive, resource_id: str, generation: int, now: datetime
) -> MemoryRecord:
    """Put an earlier generation of a resource's log in force again, as a new one.

    Raises:
        ConfigurationError: When there is no such generation.
        ArchiveError: When the storage fails, or the log changes all the time.
    """
    for _ in range(MOST_TRIES):
        entries = archive.record_history(resource_id, limit=MOST_GENERATIONS)
        former = next((e for e in entries if e["record"]["generation"] == generation), None)
        if former is None:
            known = ", ".join(str(entry["record"]["generation"]) for entry in entries) or "none"
            msg = f"`generation` is {generation!r}; those of {resource_id!r} are {known}"
            raise ConfigurationError(msg)
        newest = entries[0]
        record = {**former["record"], "generation": newest["record"]["generation"] + 1}
        revision = newest["revision"]
        if archive.commit_record(resource_id, record, expected=revision, now=now):
            return as_record(record, resource_id, revision + 1)
    msg = f"the log of {resource_id!r} changed {MOST_TRIES} times while it was restored"
    raise ArchiveError(msg)


# --- Reading -------------------------------------------------------------------------------------


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
