"""One log for all threads of a resource, with `scope="resource"`.

The archive keeps the log; each thread has a copy of it in its record, sends what it changes there,
and takes in what others changed (`exchange`). What is unobserved in other threads is shown to the
Actor (`threads`), and observed when it becomes too much (`observing`), by one thread at a time.
Where a model reads or writes of several threads, each has a section (`sections`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from langgraph_om.core.actor.prompt import Framing
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.cycles.cycle import Mode
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.plan import is_waived, may_begin
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.outbox import count_others
from langgraph_om.core.record.sharing import complete_log, to_record
from langgraph_om.core.record.window import Window
from langgraph_om.core.reflect.edits import Division
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import OTHERS, Group, MemoryRecord, Operation
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.features.shared_log.cache import LogCache
from langgraph_om.features.shared_log.exchange import exchange, note_left_behind, select_refused
from langgraph_om.features.shared_log.observing import begin_others_ahead, observe_others_cycle
from langgraph_om.features.shared_log.sections import frame_sections, wrap_section
from langgraph_om.features.shared_log.threads import claim_reflection, release_log

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

_MAX_TRIES = 50
_MAX_GENERATIONS = 1000


class SharedLogs:
    """Has the threads of a resource share one log."""

    # --- A step ----------------------------------------------------------------------------------

    def check(self, identity: Identity) -> None:
        """Check that the run says with whom the log is shared.

        Raises:
            ConfigurationError: When it does not.
        """
        if not identity.resource_id:
            msg = (
                '`scope` is "resource" and the run has no resource id; write one into the '
                'configuration, {"configurable": {"resource_id": "..."}}, or set `resource_id`'
            )
            raise ConfigurationError(msg)

    def exchange(self, step: Step) -> EffectFlow[None]:
        """Exchange what is new with the log."""
        if not step.identity.thread_id:
            return
        known, unobserved = step.record, {entry.key for entry in step.window.entries}
        exchanged = yield from exchange(step.settings, known, step.messages, step.window, step.now)
        if not exchanged.events:
            return
        step.take_in(exchanged.record, exchanged.events)
        window = step.open()
        refused = select_refused(known, exchanged.record, step.messages[: window.start])
        noted = note_left_behind(
            step.settings, exchanged, step.messages, window, {*unobserved, *refused}
        )
        if noted:
            step.apply(noted)
            step.open()

    # --- The Actor's input -----------------------------------------------------------------------

    def frame(self, settings: Settings, record: MemoryRecord, groups: Sequence[Group]) -> Framing:
        """Put the observations of each thread into a section of its own."""
        frames = frame_sections(groups, settings.show_id, current=record["thread_id"])
        return Framing(load("actor_threads"), frames, bool(record.get("others", [])))

    def excerpts(self, record: MemoryRecord) -> dict[str, str]:
        """Return what the Actor is shown of other threads."""
        return {other["thread_id"]: other["text"] for other in record.get("others", [])}

    # --- Work ------------------------------------------------------------------------------------

    def find_due(self, record: MemoryRecord, window: Window) -> str | None:
        """Find out whether other threads have more unobserved messages than may stay so."""
        if is_waived(record, window, OTHERS):
            return None
        if not any(thread["observable"] for thread in record.get("others", [])):
            return None
        return OTHERS if may_begin(record, OTHERS, count_others(record)) else None

    work = staticmethod(observe_others_cycle)
    begin = staticmethod(begin_others_ahead)

    def claim(
        self,
        settings: Settings,
        record: MemoryRecord,
        window: Window,
        operation: Operation,
        mode: Mode,
    ) -> EffectFlow[bool]:
        """Ask to condense the log: one thread at a time may do it.

        What another thread does ahead of need is left to it until the log is as large again.
        """
        if operation != "reflection":
            return True
        limits = settings.thresholds
        if mode == "ahead" or limits.buffer_tokens is None:
            return (yield from claim_reflection(record, mode))
        leave_below = limits.block_observations_at(window.tokens) + limits.observation_tokens
        return (yield from claim_reflection(record, mode, leave_below=leave_below))

    release = staticmethod(release_log)

    def divide(self, settings: Settings) -> Division:
        """Show the Reflector the items of each thread in a section of its own."""

        def wrap(thread_id: str, text: str) -> str:
            return wrap_section(settings.show_id(thread_id), text)

        return Division(wrap, fill("reflector_threads"))

    # --- The archive -----------------------------------------------------------------------------

    def connect(self, archive: SQLAlchemyArchive) -> LogCache:
        """Return what remembers what is read of the logs of the archive."""
        return LogCache(archive)

    def read_history(
        self,
        archive: SQLAlchemyArchive,
        resource_id: str,
        limit: int,
        until: datetime | None = None,
    ) -> list[MemoryRecord]:
        """Return the last record of each generation of a resource's log, newest first."""
        return [
            to_record(entry["record"], resource_id, entry["revision"])
            for entry in archive.record_history(resource_id, limit=limit, until=until)
        ]

    def restore(
        self, archive: SQLAlchemyArchive, resource_id: str, generation: int, now: datetime
    ) -> MemoryRecord:
        """Restore an earlier generation of a resource's log as a new generation."""
        for _ in range(_MAX_TRIES):
            entries = archive.record_history(resource_id, limit=_MAX_GENERATIONS)
            by_number = {entry["record"]["generation"]: entry["record"] for entry in entries}
            if generation not in by_number:
                known = ", ".join(map(str, by_number)) or "none"
                msg = f"`generation` is {generation!r}; those of {resource_id!r} are {known}"
                raise ConfigurationError(msg)
            next_one = entries[0]["record"]["generation"] + 1
            record = {**complete_log(by_number[generation]), "generation": next_one}
            revision = entries[0]["revision"]
            if archive.commit_record(resource_id, record, expected=revision, now=now):
                return to_record(record, resource_id, revision + 1)
        msg = f"the log of {resource_id!r} changed {_MAX_TRIES} times while it was restored"
        raise ArchiveError(msg)
