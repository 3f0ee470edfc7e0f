"""Read what was remembered: earlier generations of a log, the log as of a time, and a summary.

In thread scope the past is in the thread's checkpoints, which a caller passes as LangGraph's
`graph.get_state_history(config)`; nothing here reads a checkpointer. In resource scope it is in the
archive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from html import escape
from typing import Any

from langgraph_om.archive import MessageArchive
from langgraph_om.core.content.text import show_key
from langgraph_om.core.record.record import complete_record, write_log
from langgraph_om.core.record.shared_log import complete_log, to_record
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.runtime.state import read_stored_record, values_of

_MAX_TRIES = 50
_MAX_GENERATIONS = 1000

_BAR_WIDTH = 24
"""Characters of a full progress bar."""

_Dated = tuple[datetime | None, MemoryRecord]
"""When a record was saved, and the record."""


def read_history(source: Any, limit: int) -> list[MemoryRecord]:
    """Return the last record of each generation, newest first.

    Args:
        source: States of one thread, newest first, or a single one.
        limit: How many generations to return at most.

    Raises:
        ConfigurationError: When the source is anything else.
    """
    return _select_generations(_read_records(source), limit)


def read_observations_as_of(source: Any, time: datetime | str, timezone: tzinfo) -> str:
    """Return the observation log as it was at a time.

    Args:
        source: States of one thread, newest first, or a single one, which knows only what its log
            still has.
        time: A time, or its ISO text; a day means its beginning.
        timezone: The zone of a time without one.

    Raises:
        ConfigurationError: When the time or the source cannot be read.
    """
    moment = _read_moment(time, timezone)
    record = _find_newest_by(_read_records(source), moment)
    return _render_log_as_of(record, moment) if record is not None else ""


# --- With a shared log ---------------------------------------------------------------------------


def read_resource_history(
    archive: MessageArchive, resource_id: str, limit: int
) -> list[MemoryRecord]:
    """Return the last record of each generation of a resource's log, newest first."""
    return [
        to_record(entry["record"], resource_id, entry["revision"])
        for entry in archive.record_history(resource_id, limit=limit)
    ]


def read_resource_as_of(
    archive: MessageArchive, resource_id: str, time: datetime | str, timezone: tzinfo
) -> str:
    """Return the log of a resource as it was at a time."""
    moment = _read_moment(time, timezone)
    for entry in archive.record_history(resource_id, limit=1, until=moment):
        return _render_log_as_of(to_record(entry["record"], resource_id, entry["revision"]), moment)
    return ""


def restore_resource(
    archive: MessageArchive, resource_id: str, generation: int, now: datetime
) -> MemoryRecord:
    """Restore an earlier generation of a resource's log as a new generation.

    Raises:
        ConfigurationError: When there is no such generation.
        ArchiveError: When the storage fails, or the log keeps changing.
    """
    for _ in range(_MAX_TRIES):
        entries = archive.record_history(resource_id, limit=_MAX_GENERATIONS)
        former = next(
            (entry for entry in entries if entry["record"]["generation"] == generation), None
        )
        if former is None:
            known = ", ".join(str(entry["record"]["generation"]) for entry in entries) or "none"
            msg = f"`generation` is {generation!r}; those of {resource_id!r} are {known}"
            raise ConfigurationError(msg)
        newest = entries[0]
        record = {
            **complete_log(former["record"]),
            "generation": newest["record"]["generation"] + 1,
        }
        revision = newest["revision"]
        if archive.commit_record(resource_id, record, expected=revision, now=now):
            return to_record(record, resource_id, revision + 1)
    msg = f"the log of {resource_id!r} changed {_MAX_TRIES} times while it was restored"
    raise ArchiveError(msg)


# --- The records of a history --------------------------------------------------------------------


def _read_records(source: Any) -> Iterator[_Dated]:
    """Yield the record of each state, with the time it was saved."""
    is_state = isinstance(source, Mapping) or hasattr(source, "values")
    if not is_state and (isinstance(source, str) or not isinstance(source, Iterable)):
        msg = (
            f"the history of {source!r} cannot be read; pass "
            f"`graph.get_state_history(config)`, or a state"
        )
        raise ConfigurationError(msg)
    for state in [source] if is_state else source:
        created = None if is_state else _read_saving_time(state)
        at = datetime.fromisoformat(created) if isinstance(created, str) else None
        yield at, complete_record(read_stored_record(values_of(state, "messages")))


def _read_saving_time(state: Any) -> Any:
    """Return when a snapshot, or a server's state, was saved; `None` for bare values."""
    is_mapping = isinstance(state, Mapping)
    return state.get("created_at") if is_mapping else getattr(state, "created_at", None)


def _read_moment(time: object, timezone: tzinfo) -> datetime:
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        moment = None
    if not isinstance(moment, datetime):
        msg = f"`time` is {time!r}; pass a datetime or ISO text such as '2026-03-02T18:00'"
        raise ConfigurationError(msg)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone)


def _select_generations(records: Iterable[_Dated], limit: int) -> list[MemoryRecord]:
    """Return the last record of each generation.

    Args:
        records: Records, newest first; no more are read than are needed.
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


def _find_newest_by(records: Iterable[_Dated], time: datetime) -> MemoryRecord | None:
    """Return the record that was in force at a time.

    Args:
        records: Records, newest first; one of unknown time counts as in force.
        time: An aware time.
    """
    return next((record for at, record in records if at is None or at <= time), None)


def _render_log_as_of(record: MemoryRecord, time: datetime) -> str:
    """Render the groups of a log that were written by a time."""
    written = [
        group for group in record["log"] if datetime.fromisoformat(group["observed_at"]) <= time
    ]
    return write_log(written)


# --- The summary ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class MemoryView:
    """A readable summary of a thread's memory.

    `str(view)` is plain text; a notebook shows it with two progress bars.
    """

    record: MemoryRecord
    status: Mapping[str, Any]
    """The `data` of `data-om-status`."""
    conversation_tokens: int
    """Tokens of the whole conversation, with what `evict` removed of it."""
    prompt_tokens: int
    """Tokens of observations and unobserved messages, which is what the Actor is sent of it."""
    is_closed: bool = False
    """Whether the memory was closed, so that nothing is buffered any more."""

    @property
    def compression_ratio(self) -> float:
        """Tokens of the conversation per token that the Actor is sent; 1.0 without memory."""
        return self.conversation_tokens / self.prompt_tokens if self.prompt_tokens else 1.0

    def __str__(self) -> str:
        """Return the summary as plain text."""
        lines = [self._write_title(), *(_render_bar_line(*row) for row in self._list_windows())]
        lines += [
            f"buffered: {self._describe_buffered()}",
            f"compression: {self._describe_compression()}",
        ]
        lines += [f"{name}: {value}" for name, value in self._list_hints()]
        return "\n".join([*lines, "", write_log(self.record["log"]) or "(no observations yet)"])

    def __repr__(self) -> str:
        """Return the summary, for an interactive prompt."""
        return str(self)

    def _repr_html_(self) -> str:
        """Return the summary as HTML; all text of the conversation is escaped."""
        rows = "".join(_render_bar_html(*row) for row in self._list_windows())
        facts = [
            ("buffered", self._describe_buffered()),
            ("compression", self._describe_compression()),
        ]
        items = "".join(
            f"<li><b>{escape(name)}</b>: {escape(value)}</li>"
            for name, value in [*facts, *self._list_hints()]
        )
        log = escape(write_log(self.record["log"])) or "<i>no observations yet</i>"
        return (
            f"<div><b>{escape(self._write_title())}</b><table>{rows}</table><ul>{items}</ul>"
            f"<pre style='white-space:pre-wrap'>{log}</pre></div>"
        )

    def _write_title(self) -> str:
        named = self.record["thread_title"] or self.record["thread_id"] or "(no thread id)"
        return f"memory of {show_key(named)}, generation {self.record['generation']}"

    def _list_windows(self) -> list[tuple[str, int, int]]:
        active = self.status["windows"]["active"]
        return [
            (name, active[name]["tokens"], active[name]["threshold"])
            for name in ("messages", "observations")
        ]

    def _describe_buffered(self) -> str:
        buffered = self.status["windows"]["buffered"]
        chunks, reflection = buffered["observations"], buffered["reflection"]
        count = chunks["chunks"]
        working = [name for name in ("observation", "reflection") if name in self.record["pending"]]
        return (
            f"{count} chunk{'' if count == 1 else 's'} for {chunks['messageTokens']} tokens "
            "of messages"
            + (", a reflection" if reflection["inputObservationTokens"] else "")
            + (f"; at work: {' and '.join(working)}" if working else "")
            + ("; the memory is closed, no more is buffered" if self.is_closed else "")
        )

    def _describe_compression(self) -> str:
        return (
            f"{self.compression_ratio:.1f} to 1 "
            f"({self.conversation_tokens} tokens of conversation, {self.prompt_tokens} shown)"
        )

    def _list_hints(self) -> list[tuple[str, str]]:
        names = {"current_task": "current task", "suggested_response": "suggested response"}
        values: Mapping[str, Any] = self.record
        failures = [
            (f"last failure of {name}", f"{last['error']} ({last['failures']} in a row)")
            for name, last in self.record["attempts"].items()
            if last.get("error") and last["failures"]
        ]
        return [*failures, *((title, values[key]) for key, title in names.items() if values[key])]


def _render_bar_line(name: str, tokens: int, threshold: int) -> str:
    full = min(_BAR_WIDTH, round(_BAR_WIDTH * tokens / threshold)) if threshold else 0
    return f"{name:<12} [{'#' * full}{'.' * (_BAR_WIDTH - full)}] {tokens} of {threshold} tokens"


def _render_bar_html(name: str, tokens: int, threshold: int) -> str:
    return (
        f"<tr><td>{escape(name)}</td>"
        f"<td><progress value='{min(tokens, threshold)}' max='{threshold}'></progress></td>"
        f"<td>{tokens} of {threshold} tokens</td></tr>"
    )
