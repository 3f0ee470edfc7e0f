"""A working memory within one run: written and read before each inspection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langgraph.config import get_store

from langgraph_om.core.effects import call_storage
from langgraph_om.core.events import iso
from langgraph_om.core.wire import Event, Extracted, MemoryRecord, WorkingRead, WorkingUpdate
from langgraph_om.core.working import WORKING_NAME, Joined, find_unwritten, join_updates
from langgraph_om.runtime.context import RunFlow
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.working.memory import SHOWN_KEY, VALUE_KEY, Refreshed, Working, read_shown

# Note what a step has written and read of a working memory that the Observer keeps.


def note_working(
    record: MemoryRecord,
    resource_id: str | None,
    joined: Joined,
    updates: Sequence[WorkingUpdate],
    now: datetime,
) -> list[Event]:
    """Return the events that keep what was read in the record, and tell of what was written.

    Args:
        record: The memory of the thread.
        resource_id: Whose run it is.
        joined: What was written and read.
        updates: What was to be written.
        now: The current time.
    """
    kept = record.get("working")
    is_known = kept is not None and (kept["resource_id"], kept["value"]) == (
        resource_id,
        joined.value,
    )
    if is_known and not updates:
        return []
    read: WorkingRead = {
        "type": "working-read",
        "resource_id": resource_id,
        "value": joined.value,
        "written": [update["cycle_id"] for update in updates],
        "error": joined.error,
    }
    if not updates:
        return [read]
    told: Extracted = {
        "type": "extracted",
        "operation": "observation",
        "cycle_id": updates[-1]["cycle_id"],
        "at": iso(now),
        "record_id": record["id"],
        "thread_id": record["thread_id"],
        "resource_id": resource_id,
        "tokens": 0,
        "name": WORKING_NAME,
    }
    events: list[Event] = [read]
    if joined.value != joined.previous:
        events.append({**told, "value": joined.value, "previous": joined.previous})
    if joined.error is not None:
        events.append({**told, "error": joined.error})
    return events


class WorkingOfGraph:
    """The working memory in a run of a graph: in its state and its store.

    Args:
        runner: What the run's steps are run with.
        state: The graph's state.
        messages: The conversation.
        config: The run's configuration; `None`: it is found around the call, and so is the store.
        store: The graph's store, where there is no run around the call.
    """

    def __init__(
        self,
        runner: StepRunner,
        state: Mapping[str, Any],
        messages: Sequence[BaseMessage],
        config: RunnableConfig | None = None,
        store: Any = None,
    ) -> None:
        self._runner, self._messages = runner, messages
        self._config, self._store = config, store
        self._known = {key: state.get(key) for key in (VALUE_KEY, SHOWN_KEY)}
        self._is_read = False
        self.changes: dict[str, Any] = {}
        """What changes in the state."""

    @property
    def block(self) -> str:
        """What the Actor is shown of it; empty for nothing."""
        return read_shown({**self._known, **self.changes}) or ""

    def refresh(self, record: MemoryRecord) -> RunFlow[list[Event]]:
        """Write what observations found, and read it where a turn begins.

        Returns:
            What that changes in the memory of the thread.
        """
        runner = self._runner
        if not isinstance(runner.beside, Working):
            return []
        given = self._config
        is_kept = runner.settings.working is not None and not runner.is_read_only(given)
        whose = runner.identity(given).resource_id
        updates = find_unwritten(record, whose) if is_kept else []
        if self._is_read and not updates:
            return []
        known = {**self._known, **self.changes}
        config, store = (ensure_config(), get_store()) if given is None else (given, self._store)
        done: Refreshed = yield from call_storage(
            "refresh_working_memory", known, self._messages, config, store, updates
        )
        self._is_read = True
        self.changes |= done.changes
        if done.joined is None or not is_kept:
            return []
        return note_working(record, whose, done.joined, updates, runner.clock())


class WorkingOfStep:
    """The working memory of a step without a graph, which the caller hands in and keeps.

    Args:
        runner: What the step is run with.
        working: The memory.
        value: What the caller has.
        config: The run's configuration.
    """

    def __init__(
        self, runner: StepRunner, working: Working, value: Any, config: RunnableConfig | None
    ) -> None:
        self._runner, self._working, self._config = runner, working, config
        self.value = working.memory.check(value)

    @property
    def block(self) -> str:
        """What the Actor is shown of it; empty for nothing."""
        return self._working.render(self.value, self._config)

    def refresh(self, record: MemoryRecord) -> RunFlow[list[Event]]:
        """Merge what observations found into the value; return what changes in the record."""
        runner = self._runner
        if runner.settings.working is None or runner.is_read_only(self._config):
            return []
        whose = runner.identity(self._config).resource_id
        updates = find_unwritten(record, whose)
        joined = join_updates(self._working.memory.form, self.value, updates)
        self.value = joined.value
        yield from ()
        return note_working(record, whose, joined, updates, runner.clock())
