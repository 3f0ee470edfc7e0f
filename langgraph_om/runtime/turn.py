"""One turn of memory before a call of the Actor's model, however decisions are carried out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.events import to_part
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.step.inspect import Inspection
from langgraph_om.core.step.resent import without_messages
from langgraph_om.core.wire import Event, MemoryRecord, Part
from langgraph_om.runtime.context import RunFlow, Work
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.state import read_messages

Index = Callable[[Inspection, Sequence[BaseMessage]], None]
"""Makes what an inspection found new searchable."""


class WorkingSource(Protocol):
    """The working memory of a run, which is written and read before each inspection."""

    @property
    def block(self) -> str:
        """What the Actor is shown of it; empty for nothing."""

    def refresh(self, record: MemoryRecord) -> RunFlow[list[Event]]:
        """Write what observations found, and read it; return what changes in the record."""


class WorkingOfCaller(WorkingSource, Protocol):
    """One that the caller of a step hands in and keeps."""

    value: Any


class NoWorking:
    """There is no working memory."""

    block = ""
    value: Any = None

    def refresh(self, record: MemoryRecord) -> RunFlow[list[Event]]:
        """Do nothing."""
        del record
        yield from ()
        return []


@dataclass(slots=True)
class Outcome:
    """What a turn has come to so far."""

    record: MemoryRecord
    messages: list[BaseMessage]
    """The conversation without what was removed."""
    events: list[Event] = field(default_factory=list)
    """What happened, in order."""
    evicted: list[str] = field(default_factory=list)
    """Ids of the messages that were removed."""
    is_aborted: bool = False
    """Whether a failure ends the turn without an answer."""

    def take_inspection(self, seen: Inspection) -> None:
        """Take in what was found; its events are folded already."""
        self.record = seen.record
        self.events += seen.events
        self.evicted += seen.evicted
        self.messages = list(without_messages(self.messages, seen.evicted))

    def fold(self, events: Sequence[Event]) -> None:
        """Take in what a decision came to."""
        self.record = fold(self.record, [events])
        self.events += events


def turn(
    runner: StepRunner,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    identity: Identity,
    *,
    config: RunnableConfig | None = None,
    is_final: bool = False,
    index: Index | None = None,
    working: WorkingSource | None = None,
) -> RunFlow[Outcome]:
    """Inspect the conversation and have carried out what is due, until the Actor may go on.

    Args:
        runner: What the turn is run with.
        record: The memory of the thread.
        messages: The whole conversation.
        identity: Whose conversation it is.
        config: The run's configuration, where it is not found around the call.
        is_final: Whether the Actor has answered; nothing is carried out then.
        index: Called after each inspection, with what it found and the conversation.
        working: The working memory of the run, if there is one.
    """
    outcome, is_stuck = Outcome(record, list(messages)), False
    known = NoWorking() if working is None else working
    while True:
        noted = yield from known.refresh(outcome.record)
        seen = yield from runner.inspect(
            outcome.record,
            outcome.messages,
            identity,
            must_proceed=is_stuck,
            is_final=is_final,
            working=known.block,
            config=config,
        )
        if index is not None:
            index(seen, outcome.messages)
        outcome.take_inspection(seen)
        outcome.fold(noted)
        decision = seen.decision
        if decision.kind in ("proceed", "abort"):
            outcome.is_aborted = decision.kind == "abort"
            return outcome
        if decision.kind == "buffer" and runner.buffers_in_background:
            started = yield from runner.start_job(
                outcome.record, outcome.messages, decision, config
            )
            outcome.fold([started])
            return outcome
        inspected = outcome.record
        outcome.fold((yield Work(outcome.record, outcome.messages, decision)))
        is_stuck = outcome.record == inspected  # the same would be due again, without an end


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step of memory came to, outside of any graph."""

    record: MemoryRecord
    """The memory to keep, and to hand in with the next step."""
    events: list[Part]
    """What happened, as `data-om-*` parts in order."""
    messages: list[BaseMessage]
    """What the Actor gets; empty when the turn was aborted."""
    aborted: bool
    """Whether a failure ended the turn (`on_error="abort"`)."""
    evicted: list[str] = field(default_factory=list)
    """With `evict=True`: ids of the messages that need not be handed in any more."""
    working_memory: Any = None
    """The working memory that was handed in, with what the Observer found where it keeps that."""


def take_step(
    runner: StepRunner,
    record: MemoryRecord | None,
    messages: Sequence[BaseMessage],
    thread_id: str,
    config: RunnableConfig | None,
    *,
    is_final: bool,
    working: WorkingOfCaller | None = None,
) -> RunFlow[StepResult]:
    """Run a turn outside of any graph, and end with the Actor's input.

    Args:
        runner: What the turn is run with.
        record: The memory that the last step returned; `None` at first.
        messages: The whole conversation.
        thread_id: The thread's id; without one it is looked for in the configuration.
        config: The run's configuration.
        is_final: Whether the Actor has answered.
        working: The working memory, if there is one.
    """
    memory, conversation = complete_record(record), read_messages(messages)
    known: WorkingOfCaller = NoWorking() if working is None else working
    if not runner.is_on(config):
        view = list(conversation)
        return StepResult(memory, [], view, aborted=False, working_memory=known.value)
    if runner.is_read_only(config):
        seen = runner.record_to_show(memory, conversation, config)
        view = runner.actor_input(seen, conversation, working=known.block)
        return StepResult(memory, [], view, aborted=False, working_memory=known.value)
    identity = runner.identity(config, thread_id=thread_id)
    outcome = yield from turn(
        runner, memory, conversation, identity, config=config, is_final=is_final, working=known
    )
    return conclude(runner, outcome, known)


def conclude(
    runner: StepRunner, outcome: Outcome, working: WorkingOfCaller | None = None
) -> StepResult:
    """Say what a turn outside of any graph came to."""
    known: WorkingOfCaller = NoWorking() if working is None else working
    parts = [part for event in outcome.events if (part := to_part(event)) is not None]
    view = (
        []
        if outcome.is_aborted
        else runner.actor_input(outcome.record, outcome.messages, working=known.block)
    )
    return StepResult(
        outcome.record,
        parts,
        view,
        aborted=outcome.is_aborted,
        evicted=outcome.evicted,
        working_memory=known.value,
    )
