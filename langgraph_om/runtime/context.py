"""What a flow of a run may yield beside the effects of the core, and what it is driven with."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.messages import BaseMessage

from langgraph_om.core.effects import Tally
from langgraph_om.core.plan import Decision
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.models.ask import Calls
from langgraph_om.runtime.hooks import Hooks
from langgraph_om.runtime.jobs.protocol import Executor

ResultT = TypeVar("ResultT")

RunFlow = Generator[Any, Any, ResultT]
"""A flow that may also yield `Work` and `Show`."""


@dataclass(frozen=True, slots=True)
class Work:
    """A decision to carry out. The reply has the events that it came to."""

    record: MemoryRecord
    messages: Sequence[BaseMessage]
    decision: Decision


@dataclass(frozen=True, slots=True)
class Show:
    """Events that no cycle of this flow is told of: those of an inspection, or a job's start."""

    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Submit:
    """A job to be given to the executor. The reply says whether it was taken."""

    function: Callable[[], bool]


def discard(event: Event) -> None:
    """Discard an event; outside a graph, `step` returns events instead of streaming them."""


@dataclass(frozen=True)
class RunContext:
    """What a driver needs to run a flow."""

    calls: Calls
    hooks: Hooks
    jobs: Executor
    carry_out: Callable[[Work], RunFlow[None]]
    """Makes the cycle that carries out a decision."""
    storage: Sequence[object] = ()
    """What has the methods that flows call; empty where no feature brings any."""
    emit: Callable[[Event], None] = discard
    """Shows an event at the moment it happens."""
    work: Callable[[Work], Any] | None = None
    """Has a decision carried out elsewhere, and returns the events that it came to."""
    jobs_are_here: bool = True
    """Whether the executor is one of this package: it never waits for a network, nor raises."""
    opening: Event | None = None
    """The event that announced the flow before it was driven."""


@dataclass(frozen=True, slots=True)
class FlowResult(Generic[ResultT]):
    """What came of a flow."""

    result: ResultT
    events: list[Event]
    """Those of its cycles, in order; those that change memory have yet to be folded."""
    tally: Tally
    """What its questions cost, since the start of its cycle."""
