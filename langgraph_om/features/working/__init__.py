"""Keep a working memory in each step: write what the Observer found, and read what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Self, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langgraph.config import get_store
from pydantic import InstanceOf
from typing_extensions import TypedDict

from langgraph_om.core.additions import as_event
from langgraph_om.core.config.options import Hint, Preset, Takes
from langgraph_om.core.config.settings import Settings, Setup, Texts
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.questions import AskedValue, ValueAnswer
from langgraph_om.core.effects import EffectFlow, call_storage
from langgraph_om.core.record.window import Window
from langgraph_om.core.step.step import Feature, StateKey, Step
from langgraph_om.core.wire import Chunk, Event, MemoryRecord
from langgraph_om.features.working.memory import (
    SHOWN_KEY,
    UPDATE_TOOL,
    VALUE_KEY,
    Refreshment,
    Stored,
    Working,
    WorkingMemory,
    fold_state_value,
    read_shown,
    take_last,
    write_message,
)
from langgraph_om.features.working.record import (
    ADDITIONS,
    NAME,
    WORKING_NAME,
    JoinedUpdates,
    WorkingKeys,
    WorkingRead,
    WorkingUpdate,
    find_known,
    find_unwritten,
    had_failed,
    join_updates,
    list_updates,
)
from langgraph_om.features.working.storage import delete_stored
from langgraph_om.runtime.flows import RunFlow
from langgraph_om.runtime.runner import RunScope, StepRunner


class WorkingOptions(TypedDict, total=False):
    """The option of working memory."""

    working_memory: Annotated[
        WorkingMemory | None,
        Takes(InstanceOf[WorkingMemory] | None),
        Hint("a WorkingMemory(...)"),
        Preset(None),
    ]
    """A `WorkingMemory`: a short text or JSON object about the user that the Actor always sees.
    The Actor keeps it up to date with a tool, or the Observer with what it observes."""


def state_keys_of(memory: WorkingMemory) -> Mapping[str, StateKey]:
    """Return the keys of a graph's state that hold the value, and the block as it is shown."""
    is_input = memory.scope == "thread"
    return {
        VALUE_KEY: StateKey(Stored, fold_state_value, is_input=is_input),
        SHOWN_KEY: StateKey(str, take_last, is_private=True, is_shown=True),
    }


# Within a run: written and read before each inspection.


def note_working(
    runner: StepRunner,
    record: MemoryRecord,
    joined: JoinedUpdates,
    updates: Sequence[WorkingUpdate],
    whose: str | None,
) -> list[Event]:
    """Return the events that keep what was read in the record, and tell of what was written."""
    kept = cast("WorkingKeys", record).get("working")
    is_known = kept is not None and (kept["resource_id"], kept["value"]) == (whose, joined.value)
    if is_known and not updates:
        return []
    read: WorkingRead = {
        "type": "working-read",
        "resource_id": whose,
        "value": joined.value,
        "written": [update["cycle_id"] for update in updates],
        "error": joined.error,
    }
    events = [as_event(read)]
    if updates:
        now, cycle_id = runner.clock(), updates[-1]["cycle_id"]
        info = CycleInfo(runner.settings, record, "observation", cycle_id, 0, now)
        tell = partial(info.event, "extracted", now, name=WORKING_NAME, resource_id=whose)
        if joined.value != joined.previous:
            events.append(tell(value=joined.value, previous=joined.previous))
        if joined.error is not None:
            events.append(tell(error=joined.error))
    return events


class WorkingOfGraph:
    """The working memory in a run of a graph: in its state and its store."""

    def __init__(self, scope: RunScope, working: Working, messages: Sequence[BaseMessage]) -> None:
        self._runner, self._working, self._messages = scope.runner, working, messages
        self._config, self._store = scope.config, scope.store
        self._known = {key: (scope.state or {}).get(key) for key in (VALUE_KEY, SHOWN_KEY)}
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
        given = self._config
        is_observed = self._working.memory.managed_by == "observer"
        is_kept = is_observed and not runner.runs.is_read_only(given)
        whose = runner.identity(given).resource_id
        updates = find_unwritten(record, whose) if is_kept else []
        if self._is_read and not updates:
            return []
        known = {**self._known, **self.changes}
        config, store = (ensure_config(), get_store()) if given is None else (given, self._store)
        done: Refreshment = yield from call_storage(
            "refresh_working_memory", known, self._messages, config, store, updates
        )
        self._is_read = True
        self.changes |= done.changes
        if done.joined is None or not is_kept:
            return []
        return note_working(runner, record, done.joined, updates, whose)


class WorkingOfStep:
    """The working memory of a step without a graph, which the caller hands in and keeps."""

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
        if self._working.memory.managed_by != "observer" or runner.runs.is_read_only(self._config):
            return []
        whose = runner.identity(self._config).resource_id
        updates = find_unwritten(record, whose)
        joined = join_updates(self._working.memory.form, self.value, updates)
        self.value = joined.value
        yield from ()
        return note_working(runner, record, joined, updates, whose)


class KnownOfUser(Feature):
    """Writes what the Observer finds for a working memory, and reads it where a turn begins."""

    name = NAME
    additions = ADDITIONS
    prompts = __package__
    writing_tools = (UPDATE_TOOL,)
    store_use = "working"
    kept_in_store = "the working memory in the graph's store"

    def __init__(self, memory: WorkingMemory | None = None) -> None:
        self.memory = WorkingMemory() if memory is None else memory
        self.uses_store = self.memory.scope == "resource"
        self._is_observed = self.memory.managed_by == "observer"
        self._working = Working(self.memory)
        self._tools: Sequence[BaseTool] = ()

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `working_memory`."""
        memory = setup.options["working_memory"]
        return cls(memory) if memory is not None else None

    def connect(self, runner: StepRunner) -> Sequence[object]:
        """Return what writes and reads the memory in the runs of an agent."""
        self._working = Working(self.memory, runner.runs, runner.messages_key)
        self._tools = self._working.tools if runner.enabled else ()
        return (self._working,) if runner.enabled else ()

    def list_tools(self) -> Sequence[BaseTool]:
        """Return the tool with which the Actor keeps it up to date, where it does."""
        return self._tools

    @property
    def state_keys(self) -> Mapping[str, StateKey]:
        """Return the keys of the value and of the block."""
        return state_keys_of(self.memory)

    @property
    def job_settings(self) -> Mapping[str, Any]:
        """Return the form that the Observer is asked for."""
        return {WORKING_NAME: self.memory.form if self._is_observed else None}

    def accept(self, scope: RunScope) -> None:
        """Take the value that the caller of a step hands in."""
        value = scope.given.pop(WORKING_NAME, None)
        scope.kept[WORKING_NAME] = WorkingOfStep(scope.runner, self._working, value, scope.config)

    def collect(self, step: Step) -> RunFlow[None]:
        """Write what observations found, and read the memory where a turn begins."""
        if step.is_final and step.scope.state is not None:
            return
        source = self._source(step)
        if source is None:  # as where a thread is adopted
            return
        step.apply((yield from source.refresh(step.record)))
        self._show(step, source)

    def settle(
        self, scope: RunScope, record: MemoryRecord, messages: Sequence[BaseMessage]
    ) -> RunFlow[Sequence[Event]]:
        """Write what observations found, so that other threads of the user know it.

        Without a store, as of a graph on a server, the thread's next turn does that.
        """
        is_reached = self.memory.scope == "thread" or scope.store is not None
        if not (is_reached and self._is_observed and find_unwritten(record, record["resource_id"])):
            return []
        source = WorkingOfGraph(scope, self._working, messages)
        events = yield from source.refresh(record)
        if VALUE_KEY in source.changes:
            scope.changes[VALUE_KEY] = source.changes[VALUE_KEY]
        return events

    def read(self, step: Step) -> RunFlow[None]:
        """Read the memory for a run in which nothing is written."""
        source = self._source(step)
        if source is not None:
            yield from source.refresh(step.record)
            self._show(step, source)

    def _source(self, step: Step) -> Any:
        scope = step.scope
        if WORKING_NAME not in scope.kept and scope.state is not None:
            scope.kept[WORKING_NAME] = WorkingOfGraph(scope, self._working, step.messages)
        return scope.kept.get(WORKING_NAME)

    def _show(self, step: Step, source: Any) -> None:
        step.say(WORKING_NAME, source.block)
        step.scope.changes |= getattr(source, "changes", {})

    @property
    def value_names(self) -> Mapping[str, str]:
        """Return the name of the memory, where it is asked for."""
        words = "the working memory where the Observer keeps it"
        return {WORKING_NAME: words} if self._is_observed else {}

    def values(self, info: CycleInfo, chunks: Sequence[Chunk]) -> Sequence[AskedValue]:
        """Return the memory where the Observer keeps it; other threads change that of the user."""
        is_own = info.operation == "observation"
        if info.operation == "reflection":
            return []
        if not self._is_observed or not (is_own or self.memory.scope == "resource"):
            return []
        ahead = [update for chunk in chunks for update in list_updates(chunk)]
        known = find_known(info.record, ahead)
        has_failed = is_own and had_failed(info.record, ahead)
        return [AskedValue(WORKING_NAME, self.memory.form, known, has_failed)]

    def write_entries(
        self, info: CycleInfo, answers: Sequence[ValueAnswer]
    ) -> EffectFlow[list[WorkingUpdate]]:
        """Write the answer as an update."""
        yield from ()
        updates: list[WorkingUpdate] = []
        for answer in answers:
            whose = info.record["resource_id"]
            update: WorkingUpdate = {"cycle_id": info.cycle_id, "resource_id": whose, "known": None}
            if answer.error is not None or answer.patch is not None:
                update["known"] = answer.value.known
            if answer.error is not None:
                update["error"] = answer.error
            elif answer.patch is not None:
                update["patch"] = answer.patch
            updates.append(update)
        return updates

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

    def delete_resource(self, resource_id: str, thread_ids: Sequence[str], store: Any) -> None:
        """Delete what the graph's store has of a resource."""
        delete_stored(store, resource_id)


class WorkingText(Feature):
    """Shows the block that a graph's state holds before the live request, whoever put it there.

    A `WorkingMemoryMiddleware` beside memory does, whose own messages memory's view replaces.
    """

    name = WORKING_NAME
    lives_by = WORKING_NAME

    def read_text(self, state: Any) -> str:
        """Return the block that a graph's state holds."""
        return read_shown(state) or ""

    def aside(
        self, settings: Settings, record: MemoryRecord, window: Window, texts: Texts
    ) -> BaseMessage | None:
        """Show it."""
        return write_message(texts[self.name])


class HasWorkingMemory:
    """What a memory says of its working memory."""

    _runner: StepRunner

    @property
    def working_memory(self) -> WorkingMemory | None:
        """The working memory, as the option has it; `None` without one."""
        feature = self._runner.settings.features.find(NAME)
        return cast("KnownOfUser", feature).memory if feature is not None else None
