"""One turn of memory before a call of the Actor's model, however decisions are carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import NOTHING_IN_STATE, Identity
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.events import to_part
from langgraph_om.core.record.fold import fold_events
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.step import Step
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.parts import Part
from langgraph_om.runtime.run import read_messages
from langgraph_om.runtime.runner import RunScope, StepRunner

FINISH: Final = "om_finish"
"""The node that takes the last step of a turn, after the Actor's answer; only where a feature asks
for it."""


@dataclass(slots=True)
class Outcome:
    """What a turn has come to so far."""

    record: MemoryRecord
    messages: Sequence[BaseMessage]
    """The conversation without what was removed."""
    events: list[Event] = field(default_factory=list)
    """What happened, in order."""
    removed: list[str] = field(default_factory=list)
    """Ids of the messages that were removed."""
    is_aborted: bool = False
    """Whether a failure ends the turn without an answer."""
    step: Step | None = None
    """What was inspected last."""

    def take_inspection(self, step: Step) -> None:
        """Take in what was found; its events are folded already."""
        self.step, self.record = step, step.record
        self.events += step.events
        self.removed += step.removed
        self.messages = step.messages

    def fold(self, events: Sequence[Event]) -> None:
        """Take in what a decision came to."""
        self.record = fold_events(self.record, events)
        self.events += events


def turn(
    runner: StepRunner,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    identity: Identity,
    scope: RunScope,
    *,
    is_final: bool = False,
) -> EffectFlow[Outcome]:
    """Inspect the conversation and have carried out what is due, until the Actor may go on.

    Args:
        is_final: Whether the Actor has answered; nothing is carried out then.
    """
    outcome, is_stuck = Outcome(record, list(messages)), False
    while True:
        step = yield from runner.inspect(
            outcome.record,
            outcome.messages,
            identity,
            scope=scope,
            must_proceed=is_stuck,
            is_final=is_final,
            previous=outcome.step,
        )
        outcome.take_inspection(step)
        decision = step.decision
        if decision.kind in ("proceed", "abort"):
            outcome.is_aborted = decision.kind == "abort"
            return outcome
        if decision.kind == "buffer" and runner.buffers_in_background:
            started = yield from runner.start_job(step, decision, scope.config)
            outcome.fold([started])
            return outcome
        inspected = outcome.record
        outcome.fold((yield runner.work(step, decision)))
        is_stuck = outcome.record == inspected  # the same would be due again, without an end


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step of memory, outside of any graph."""

    record: MemoryRecord
    """The memory to keep, and to pass to the next step."""
    events: list[Part]
    """What happened, as `data-om-*` parts in order."""
    messages: list[BaseMessage]
    """What the Actor gets; empty when the turn was aborted."""
    aborted: bool
    """Whether a failure ended the turn (`on_error="abort"`)."""
    evicted: list[str] = field(default_factory=list)
    """With `evict=True`: ids of the messages that no longer need to be passed."""


def take_step(
    runner: StepRunner,
    record: MemoryRecord | None,
    messages: Sequence[BaseMessage],
    thread_id: str,
    scope: RunScope,
    *,
    is_final: bool,
) -> EffectFlow[StepResult]:
    """Run a turn outside of any graph, and end with the Actor's input.

    Args:
        record: The memory that the last step returned; `None` at first.
        thread_id: The thread's id; without one it is looked for in the configuration.
    """
    memory, conversation = complete_record(record), read_messages(messages)
    access = runner.runs.access(scope.config)
    if access == "none":
        return StepResult(memory, [], list(conversation), aborted=False)
    identity = runner.identity(scope.config, thread_id=thread_id)
    if access == "read":
        shown = (yield from runner.read(scope, memory, conversation, identity)).in_state
        view = runner.actor_input(runner.look(memory, conversation, shown, scope.config))
        return StepResult(memory, [], view, aborted=False)
    outcome = yield from turn(runner, memory, conversation, identity, scope, is_final=is_final)
    return conclude(runner, outcome)


def conclude(runner: StepRunner, outcome: Outcome) -> StepResult:
    """Say what a turn outside of any graph came to."""
    parts = [part for event in outcome.events if (part := to_part(event)) is not None]
    view: list[BaseMessage] = []
    if not outcome.is_aborted:
        step = outcome.step
        if step is None or step.is_final:
            shown = step.in_state if step is not None else NOTHING_IN_STATE
            step = runner.look(outcome.record, outcome.messages, shown)
        view = runner.actor_input(step)
    return StepResult(
        outcome.record,
        parts,
        view,
        aborted=outcome.is_aborted,
        evicted=outcome.removed,
    )
