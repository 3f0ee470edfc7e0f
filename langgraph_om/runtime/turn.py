"""One turn of memory before a call of the Actor's model, however the decisions are carried out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.record.fold import fold
from langgraph_om.core.step.inspect import Inspection
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.runtime.drivers import RunFlow, Work
from langgraph_om.runtime.runner import StepRunner

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
    outcome = Outcome(record, list(messages))
    while True:
        seen = yield from runner.inspect(
            outcome.record, outcome.messages, identity, is_final=is_final
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
        outcome.fold((yield Work(outcome.record, outcome.messages, decision)))


def without_messages(
    messages: Sequence[BaseMessage], evicted: Collection[str]
) -> list[BaseMessage]:
    """Return a conversation without the messages that were removed from it."""
    gone = set(evicted)
    return [message for message in messages if message.id not in gone] if gone else list(messages)
