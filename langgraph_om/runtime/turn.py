"""One turn of memory before a call of the Actor's model, however decisions are carried out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.events import to_part
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.step.inspect import Inspection
from langgraph_om.core.wire import Event, MemoryRecord, Part
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.supervise import RunFlow, Work

Index = Callable[[MemoryRecord, Sequence[BaseMessage]], None]
"""Makes what is new in a log searchable."""


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
        self.messages = without_messages(self.messages, seen.evicted)

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
) -> RunFlow[Outcome]:
    """Inspect the conversation and have carried out what is due, until the Actor may go on.

    Args:
        runner: What the turn is run with.
        record: The memory of the thread.
        messages: The whole conversation.
        identity: Whose conversation it is.
        config: The run's configuration, where it is not found around the call.
        is_final: Whether the Actor has answered; nothing is carried out then.
        index: Called after each inspection, with the memory and the conversation.
    """
    outcome, is_stuck = Outcome(record, list(messages)), False
    while True:
        seen = yield from runner.inspect(
            outcome.record,
            outcome.messages,
            identity,
            must_proceed=is_stuck,
            is_final=is_final,
        )
        if index is not None:
            index(seen.record, outcome.messages)
        outcome.take_inspection(seen)
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


def take_step(
    runner: StepRunner,
    record: MemoryRecord | None,
    messages: Sequence[BaseMessage],
    thread_id: str,
    config: RunnableConfig | None,
    *,
    is_final: bool,
) -> RunFlow[StepResult]:
    """Run a turn outside of any graph, and end with the Actor's input.

    Args:
        runner: What the turn is run with.
        record: The memory that the last step returned; `None` at first.
        messages: The whole conversation.
        thread_id: The thread's id; without one it is looked for in the configuration.
        config: The run's configuration.
        is_final: Whether the Actor has answered.
    """
    memory, conversation = complete_record(record), convert_to_messages(messages)
    if not runner.is_on(config):
        return StepResult(memory, [], list(conversation), aborted=False)
    identity = runner.identity(config, thread_id=thread_id)
    outcome = yield from turn(
        runner, memory, conversation, identity, config=config, is_final=is_final
    )
    parts = [part for event in outcome.events if (part := to_part(event)) is not None]
    view = [] if outcome.is_aborted else runner.actor_input(outcome.record, outcome.messages)
    return StepResult(
        outcome.record, parts, view, aborted=outcome.is_aborted, evicted=outcome.evicted
    )


def without_messages(
    messages: Sequence[BaseMessage], evicted: Collection[str]
) -> list[BaseMessage]:
    """Return a conversation without the messages that were removed from it."""
    gone = set(evicted)
    return [message for message in messages if message.id not in gone] if gone else list(messages)
