"""What a flow wants, turned into requests of three kinds that a driver fulfils.

A call, with or without a limit of time; a pause; flows side by side. Here limits are measured,
events shown, hooks told of and costs counted; nothing here waits.

A cycle has one deadline for its questions and the hooks that change them. Outside of it are the
lifecycle hooks, which have a limit of their own, and the storage, which has none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables import ensure_config

from langgraph_om.core.effects import (
    AskModel,
    CallHook,
    HookReply,
    JobState,
    ModelReply,
    PeekJobs,
    ReadTally,
    Storage,
    StorageReply,
    Tally,
    Together,
    WaitForJob,
    Warn,
)
from langgraph_om.core.events import describe_cycle
from langgraph_om.core.plan import Decision
from langgraph_om.core.wire import CycleStarted, Event, MemoryRecord
from langgraph_om.models.ask import (
    BackOff,
    Calls,
    Choose,
    Done,
    attempt_models,
    prepare_question,
    read_reply,
)
from langgraph_om.runtime.hooks import Hooks, read_hook_reply

logger = logging.getLogger("langgraph_om")

ResultT = TypeVar("ResultT")

LIFECYCLE_SECONDS = 5.0
"""A lifecycle hook is waited for this long at most, or for the deadline where that is shorter."""

RunFlow = Generator[Any, Any, ResultT]
"""A flow that may also yield `Work` and `Show`."""


# --- What is run, and with what ------------------------------------------------------------------


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


class Jobs(Protocol):
    """What is asked of an executor."""

    def peek(self, cycle_id: str) -> JobState:
        """Return how far a job is."""

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        """Wait for a job, so many seconds at most."""


def discard(event: Event) -> None:
    """Discard an event; outside a graph, `step` returns events instead of streaming them."""


@dataclass(frozen=True)
class RunContext:
    """What a driver needs to run a flow."""

    calls: Calls
    hooks: Hooks
    jobs: Jobs
    carry_out: Callable[[Work], RunFlow[None]]
    """Makes the cycle that carries out a decision."""
    storage: Sequence[object] = ()
    """What has the methods that flows call; empty without an archive."""
    emit: Callable[[Event], None] = discard
    """Shows an event at the moment it happens."""
    work: Callable[[Work], Any] | None = None
    """Has a decision carried out elsewhere, and returns the events that it came to."""
    opening: Event | None = None
    """The event that announced the flow before it was driven."""


@dataclass(frozen=True, slots=True)
class Driven(Generic[ResultT]):
    """What came of a flow."""

    result: ResultT
    events: list[Event]
    """Those of its cycles, in order; those that change memory have yet to be folded."""
    tally: Tally
    """What its questions cost, since the start of its cycle."""


@dataclass(slots=True)
class _Cycle:
    """How far a flow is."""

    ends_at: float
    about: Mapping[str, Any] = field(default_factory=dict)
    """What its questions are about, since its start."""
    tally: Tally = field(default_factory=Tally)
    begun: set[str] = field(default_factory=set)
    """The cycles that it said the start of."""
    events: list[Event] = field(default_factory=list)

    def begin(self, event: CycleStarted) -> None:
        """Take in the start of a cycle."""
        self.begun.add(event["cycle_id"])
        self.about, self.tally = describe_cycle(event), Tally()

    def seconds_left(self) -> float:
        return max(0.0, self.ends_at - time.monotonic())


# --- What a driver is asked for ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A function to call; what it returns is awaited where it has to be."""

    function: Callable[[], Any]
    name: str
    seconds: float | None = None
    """How long to wait at most, before it is left behind; `None`: as long as it takes."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Time to let pass, or less where there is something to wait for."""

    seconds: float
    wait: Callable[[float], Any] | None = None
    """Waits so many seconds at most, and returns "running" until it is over."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Supervised flows that go on at the same time."""

    flows: Sequence[Generator[Any, Any, Any]]


Request = Call | Pause | SideBySide
Requests = Generator[Request, Any, ResultT]


def supervise(
    flow: RunFlow[ResultT], context: RunContext, beside: _Cycle | None = None
) -> Requests[Driven[ResultT]]:
    """Turn what a flow wants into requests, and show its events.

    Args:
        flow: The flow.
        context: What it is run with.
        beside: The cycle of which it is a part, with others side by side.
    """
    if beside is None:
        cycle = _Cycle(time.monotonic() + context.calls.deadline)
        if context.opening is not None:
            yield from _tell(context.opening, context, cycle)
    else:
        cycle = _Cycle(beside.ends_at, beside.about)
    reply: Any = None
    with closing(flow):
        while True:
            try:
                effect = flow.send(reply)
            except StopIteration as done:
                log_failures(cycle.events)
                return Driven(done.value, cycle.events, cycle.tally)
            reply = _REPLIES.get(type(effect), _take_event)(effect, context, cycle)
            if isinstance(reply, Generator):  # there is something to wait for
                reply = yield from reply


def _ask_model(effect: AskModel, context: RunContext, cycle: _Cycle) -> Requests[ModelReply]:
    call = replace(effect, about=cycle.about)
    reply = yield from _ask(call, context.calls, cycle.seconds_left())
    cycle.tally.note(reply)
    return reply


def _ask(call: AskModel, calls: Calls, seconds: float) -> Requests[ModelReply]:
    tries, done = attempt_models(call, calls, seconds), None
    try:
        while True:
            step = tries.send(done)  # type: ignore[arg-type]  # a generator is begun with None
            if isinstance(step, BackOff):
                yield Pause(step.seconds)
                done = Done()
                continue
            if isinstance(step, Choose):
                function: Callable[[], Any] = partial(step.function, ensure_config(calls.config))
            else:
                function = partial(prepare_question, call, calls, step)
            done = yield Call(function, f"om_{call.role}", step.seconds)
    except StopIteration as end:
        return read_reply(end.value, calls.clock())
    except Exception as error:  # noqa: BLE001 whatever a model raises is an answer to the flow
        return ModelReply(calls.clock(), error=error)


def _read_tally(effect: ReadTally, context: RunContext, cycle: _Cycle) -> Tally:
    del effect, context
    return cycle.tally


def _call_hook(effect: CallHook, context: RunContext, cycle: _Cycle) -> Requests[HookReply]:
    return (yield from _call_hook_within(effect, context, cycle.seconds_left()))


def _call_hook_within(effect: CallHook, context: RunContext, seconds: float) -> Requests[HookReply]:
    function = partial(context.hooks.functions[effect.name], *effect.arguments)
    done: Done = yield Call(function, effect.name, seconds)
    return read_hook_reply(effect.name, done, seconds)


def _call_storage(effect: Storage, context: RunContext, cycle: _Cycle) -> Requests[StorageReply]:
    method = _find_method(context.storage, effect.method)
    began = time.monotonic()
    done: Done = yield Call(partial(method, *effect.arguments, **effect.options), "om_archive")
    seconds = time.monotonic() - began
    cycle.ends_at += seconds
    return StorageReply(done.answer, done.error, seconds)


def _find_method(parts: Sequence[object], name: str) -> Callable[..., Any]:
    for part in parts:
        method: Callable[..., Any] | None = getattr(part, name, None)
        if method is not None:
            return method
    msg = f"the storage has no method {name!r}"
    raise AttributeError(msg)


def _peek_jobs(
    effect: PeekJobs, context: RunContext, cycle: _Cycle
) -> Requests[dict[str, JobState]]:
    del cycle

    def peek() -> dict[str, JobState]:
        return {name: context.jobs.peek(key) for name, key in effect.cycle_ids.items()}

    if not context.storage:
        return peek()
    done: Done = yield Call(peek, "om_archive")  # it may look into the archive
    found: dict[str, JobState] = _unwrap(done)
    return found


def _wait_for_job(effect: WaitForJob, context: RunContext, cycle: _Cycle) -> Requests[JobState]:
    """Wait for half of what is left; the other half is for asking instead."""
    wait_for = partial(context.jobs.wait, effect.cycle_id)
    state: JobState = yield Pause(cycle.seconds_left() / 2, wait_for)
    return state


def _run_together(effect: Together, context: RunContext, cycle: _Cycle) -> Requests[list[Any]]:
    parts: list[Driven[Any]] = yield SideBySide(
        [supervise(flow, context, cycle) for flow in effect.flows]
    )
    for part in parts:
        cycle.tally.add(part.tally)
    return [part.result for part in parts]


def _do_work(effect: Work, context: RunContext, cycle: _Cycle) -> Requests[list[Event]]:
    del cycle
    if context.work is not None:
        done: Done = yield Call(partial(context.work, effect), "om_work")
        events: list[Event] = _unwrap(done)
        return events
    return (yield from supervise(context.carry_out(effect), context)).events


def _log_warning(effect: Warn, context: RunContext, cycle: _Cycle) -> None:
    del context, cycle
    logger.warning(effect.text, *effect.arguments)


def _show(effect: Show, context: RunContext, cycle: _Cycle) -> None:
    del cycle
    for event in effect.events:
        context.emit(event)


def _take_event(event: Event, context: RunContext, cycle: _Cycle) -> Requests[None]:
    cycle.events.append(event)
    context.emit(event)
    yield from _tell(event, context, cycle)


def _tell(event: Event, context: RunContext, cycle: _Cycle) -> Requests[None]:
    """Tell the user's callbacks of an event; the time that takes is not the cycle's.

    Only of cycles that began in this flow: whoever runs a background job tells of its end.
    """
    began = time.monotonic()
    if event["type"] in ("observation-start", "buffering-start"):
        cycle.begin(event)
    elif event.get("cycle_id") not in cycle.begun:
        return
    context.hooks.tell(event)
    call = context.hooks.about(event)
    if call is not None:
        limit = min(LIFECYCLE_SECONDS, context.calls.deadline)
        yield from _call_hook_within(call, context, limit)
    cycle.ends_at += time.monotonic() - began


_REPLIES: Mapping[type, Callable[[Any, RunContext, _Cycle], Any]] = {
    AskModel: _ask_model,
    ReadTally: _read_tally,
    CallHook: _call_hook,
    Storage: _call_storage,
    PeekJobs: _peek_jobs,
    WaitForJob: _wait_for_job,
    Together: _run_together,
    Work: _do_work,
    Warn: _log_warning,
    Show: _show,
}
"""What is done for each effect; anything else is an event."""


def _unwrap(done: Done) -> Any:
    if done.error is not None:
        raise done.error
    return done.answer


def log_failures(events: Sequence[Event]) -> None:
    """Log what the stream shows too, for those who do not watch it."""
    for event in events:
        if event["type"] == "tripwire":
            logger.warning(
                "thread %r: the turn ends without an answer: %s",
                event["thread_id"],
                event["reason"],
            )
        elif (
            event["type"] in ("observation-failed", "buffering-failed")
            and event.get("failures")
            and not event.get("discarded")
        ):
            logger.warning(
                "thread %r: %s failed (%d in a row), its messages stay as they are: %s",
                event["thread_id"],
                event["operation"],
                event["failures"],
                event["error"],
            )
