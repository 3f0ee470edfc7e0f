"""Keep a working memory in each step: write what the Observer found, and read what there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Self

from pydantic import InstanceOf
from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions, Advice, ShownValue
from langgraph_om.core.config.checks import Hint, Preset, Takes
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.values import Answer, Wanted
from langgraph_om.core.page.html import count
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.wire import Chunk, Event, MemoryRecord, WorkingUpdate
from langgraph_om.core.working import (
    NAME,
    WORKING_NAME,
    add_updates,
    find_known,
    find_unwritten,
    had_failed,
    list_updates,
)
from langgraph_om.runtime.context import RunFlow
from langgraph_om.working.memory import WorkingMemory
from langgraph_om.working.runs import WorkingOfGraph

_MANY_WAITING: Final = 5
"""Changes that no turn has written."""


class WorkingOptions(TypedDict, total=False):
    """The option of working memory."""

    working_memory: Annotated[
        WorkingMemory | None,
        Takes(InstanceOf[WorkingMemory] | None),
        Hint("a WorkingMemory(...)"),
        Preset(None),
    ]
    """A `WorkingMemory`: what is always known of a user. The Actor keeps it up to date with a tool,
    or the Observer with what it observes."""


def list_shown(record: MemoryRecord) -> Iterator[ShownValue]:
    """Yield the value for the page of a memory, as it is once all that was found is written."""
    if "working" not in record:
        return
    waiting, error = len(find_unwritten(record, record["resource_id"])), record["working"]["error"]
    notes = [f"{count(waiting, 'change')} found, written by the next turn"] if waiting else []
    notes += [f"not all of the newest change was taken: {error}"] if error else []
    yield ShownValue("working memory", find_known(record), tuple(notes))


def list_advice(record: MemoryRecord) -> Iterator[Advice]:
    """Yield what to do about changes that were not written."""
    kept = record.get("working")
    if kept is None:
        return
    if kept["error"]:
        yield Advice(
            "working-memory",
            f"the newest change of the working memory was not taken, or not all of it: "
            f"{kept['error']}",
        )
    waiting = len(find_unwritten(record, record["resource_id"]))
    if waiting >= _MANY_WAITING:
        yield Advice(
            "working-memory",
            f"{waiting} changes of the working memory wait to be written. Each turn writes them: "
            f"see that turns run with this memory, and that the store answers",
        )


class KnownOfUser(Feature):
    """Writes what the Observer finds for a working memory, and reads it where a turn begins."""

    name = NAME
    additions = Additions(beside={"observed": add_updates}, shown=list_shown, advice=list_advice)

    def __init__(self, memory: WorkingMemory) -> None:
        self._memory = memory

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `working_memory`."""
        memory = setup.options["working_memory"]
        return cls(memory) if memory is not None else None

    def collect(self, step: Step) -> RunFlow[None]:
        """Write what observations found, and read the memory where a turn begins."""
        if step.is_final and step.scope.state is not None:
            return
        source = self._source(step)
        if source is None:  # as where a thread is adopted
            return
        step.apply((yield from source.refresh(step.record)))
        self._show(step, source)

    def read(self, step: Step) -> RunFlow[None]:
        """Read the memory for a run in which nothing is written."""
        source = self._source(step)
        if source is not None:
            yield from source.refresh(step.record)
            self._show(step, source)

    def _source(self, step: Step) -> Any:
        scope = step.scope
        if WORKING_NAME not in scope.kept and scope.state is not None:
            scope.kept[WORKING_NAME] = WorkingOfGraph(
                scope.runner, scope.state, step.messages, scope.config, scope.store
            )
        return scope.kept.get(WORKING_NAME)

    def _show(self, step: Step, source: Any) -> None:
        step.say(WORKING_NAME, source.block)
        step.scope.changes |= getattr(source, "changes", {})

    @property
    def value_names(self) -> Mapping[str, str]:
        """Return the name of the memory, where it is asked for."""
        if self._memory.managed_by != "observer":
            return {}
        return {WORKING_NAME: "the working memory where the Observer keeps it"}

    def values(self, info: CycleInfo, chunks: Sequence[Chunk]) -> Sequence[Wanted]:
        """Return the memory where the Observer keeps it; other threads change that of the user."""
        form, is_own = info.settings.working, info.operation == "observation"
        if form is None or not (is_own or info.settings.working_scope == "resource"):
            return []
        ahead = [update for chunk in chunks for update in list_updates(chunk)]
        known = find_known(info.record, ahead)
        has_failed = is_own and had_failed(info.record, ahead)
        return [Wanted(WORKING_NAME, form, known, has_failed)]

    def write_entries(self, info: CycleInfo, answers: Sequence[Answer]) -> list[WorkingUpdate]:
        """Write the answer as an update."""
        return [_write_update(info, answer) for answer in answers]

    def announce(
        self, info: CycleInfo, at: datetime, entries: Sequence[WorkingUpdate]
    ) -> list[Event]:
        """Return the event that says why it could not be told.

        Changes are told by the step that writes them.
        """
        failed = [update["error"] for update in entries if "error" in update]
        if not failed:
            return []
        return [info.event("extracted", at, name=WORKING_NAME, error=failed[-1])]

    def is_due(self, step: Step) -> bool:
        """Tell whether something waits to be written."""
        return step.settings.working is not None and bool(
            find_unwritten(step.record, step.record["resource_id"])
        )


def _write_update(info: CycleInfo, answer: Answer) -> WorkingUpdate:
    update: WorkingUpdate = {
        "cycle_id": info.cycle_id,
        "resource_id": info.record["resource_id"],
        "known": answer.value.known,
    }
    if answer.error is not None:
        return {**update, "error": answer.error}
    if answer.patch is not None:
        return {**update, "patch": answer.patch}
    return {**update, "known": None}
