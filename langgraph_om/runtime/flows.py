"""Turn the effects of a flow into requests that a driver fulfils (`core/effects.py`).

Here limits are measured, events shown, hooks told of and costs counted; nothing here waits.

The cycles before one call of the Actor have one deadline together, for their questions and the
hooks that change them. Outside of it are the lifecycle hooks, which have a limit of their own, and
the storage, which has none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import ensure_config

from langgraph_om.core.content.text import for_terminal
from langgraph_om.core.effects import (
    AskModel,
    Call,
    CallHook,
    CallReply,
    CallWithConfig,
    FindPart,
    JobState,
    ModelReply,
    PeekJobs,
    ReadTally,
    Requests,
    SideBySide,
    Storage,
    Tally,
    Together,
    WaitForJob,
    Warn,
    call_function,
)
from langgraph_om.core.events import describe_cycle
from langgraph_om.core.plan import Decision
from langgraph_om.core.wire import CycleStarted, Event, MemoryRecord
from langgraph_om.models.ask import Calls, ask
from langgraph_om.runtime.executors import Executor
from langgraph_om.runtime.hooks import Hooks, read_hook_reply
from langgraph_om.runtime.telemetry import record_cycle

ResultT = TypeVar("ResultT")
ValueT = TypeVar("ValueT")

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
    emit: Callable[[Event], None] | None = None
    """Shows an event at the moment it happens; outside a graph `step` returns events instead."""
    jobs_may_wait: bool = False
    """Whether the executor may wait for an archive or a network, or raise."""
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


# What the log of the process says of cycles and failures, beside the stream.


logger = logging.getLogger("langgraph_om")


def _clean(record: logging.LogRecord) -> bool:
    """Take out of a line what would steer a terminal: errors quote what models and tools said."""
    said = record.getMessage()
    if (clean := for_terminal(said)) != said:
        record.msg, record.args = clean, ()
    if record.exc_info and not record.exc_text:
        record.exc_text = for_terminal(logging.Formatter().formatException(record.exc_info))
    return True


logger.addFilter(_clean)


def _log(line: Warn) -> None:
    level = logging.WARNING if line.error is None else logging.ERROR
    logger.log(level, line.text, *line.arguments, exc_info=line.error)


def log_failures(events: Sequence[Event]) -> None:
    """Log what failed, for those who run the agent."""
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
                "thread %r: %s failed (%d in a row), its %s stay as they are: %s",
                event["thread_id"],
                event["operation"],
                event["failures"],
                "observations" if event["operation"] == "reflection" else "messages",
                event["error"],
            )


def _log_cycles(events: Sequence[Event]) -> None:
    """Log each cycle that ended well, on one line."""
    for event in events:
        if event["type"] == "activation":
            logger.info(
                "thread %r: background %s is in force: %d tokens read, the log has %d",
                event["thread_id"],
                event["operation"],
                event["tokens"],
                event["observation_tokens"],
            )
        elif event["type"] in ("observation-end", "buffering-end"):
            usage = event["usage"]
            logger.info(
                "thread %r: %s of %d tokens%s took %.1f s and wrote %d tokens; "
                "model calls: %d, %d tokens in, %d out",
                event["thread_id"],
                event["operation"],
                event["tokens"],
                " in the background" if event["type"] == "buffering-end" else "",
                event["duration_ms"] / 1000,
                event["observation_tokens"],
                usage.get("calls", 0),
                usage.get("input_tokens", 0),
                usage.get("output_tokens", 0),
            )
            if left_out := event.get("left_out_tokens"):
                logger.warning(
                    "thread %r: about %d tokens inside an enormous message were not read; its "
                    "beginning and its end were, and `recall` reads the rest",
                    event["thread_id"],
                    left_out,
                )


LIFECYCLE_SECONDS = 5.0
"""A lifecycle hook is waited for this long at most, or for the deadline where that is shorter."""


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
        self.begun.add(event["cycle_id"])
        self.about, self.tally = describe_cycle(event), Tally()

    def seconds_left(self) -> float:
        return max(0.0, self.ends_at - time.monotonic())


def supervise(
    flow: RunFlow[ResultT], context: RunContext, beside: _Cycle | None = None
) -> Requests[FlowResult[ResultT]]:
    """Turn what a flow wants into requests, and show its events.

    Args:
        beside: The cycle of which it is a part, with others side by side.
    """
    if beside is None:
        cycle = _Cycle(time.monotonic() + context.calls.deadline)
        if context.opening is not None:
            yield from _tell(context.opening, context, cycle)
    else:
        cycle = _Cycle(beside.ends_at, beside.about)
    resume: Callable[[Any], Any] = flow.send
    reply: Any = None
    with closing(flow):
        while True:
            try:
                effect = resume(reply)
            except StopIteration as done:
                if cycle.events:
                    log_failures(cycle.events)
                    _log_cycles(cycle.events)
                return FlowResult(done.value, cycle.events, cycle.tally)
            perform: _Reply = _REPLIES.get(type(effect), _take_event)
            try:
                reply = perform(effect, context, cycle)
                if isinstance(reply, Generator):  # else there is nothing to wait for
                    reply = yield from reply
            except Exception as error:  # noqa: BLE001 it is raised where the flow asked for it
                resume, reply = flow.throw, error
            else:
                resume = flow.send


def _ask_model(effect: AskModel, context: RunContext, cycle: _Cycle) -> Requests[ModelReply]:
    call = replace(effect, about=cycle.about or effect.about)
    reply = yield from ask(call, context.calls, cycle.seconds_left())
    cycle.tally.note(reply)
    return reply


def _call_hook(effect: CallHook, context: RunContext, cycle: _Cycle) -> Requests[CallReply]:
    function = partial(context.hooks.functions[effect.name], *effect.arguments)
    return _call_within(cycle.seconds_left(), effect.name, function)


def _call_with_config(
    effect: CallWithConfig, context: RunContext, cycle: _Cycle
) -> Requests[CallReply]:
    function = partial(effect.function, ensure_config(context.calls.config))
    return _call_within(cycle.seconds_left(), effect.name, function)


def _call_within(seconds: float, name: str, function: Callable[[], Any]) -> Requests[CallReply]:
    done: CallReply = yield Call(function, name, seconds)
    return read_hook_reply(name, done, seconds)


def _call_storage(effect: Storage, context: RunContext, cycle: _Cycle) -> Requests[CallReply]:
    began = time.monotonic()
    done: CallReply = yield Call(
        partial(effect.method, *effect.arguments, **effect.options), "om_archive"
    )
    cycle.ends_at += time.monotonic() - began  # the storage has no limit
    return done


def _find_part(effect: FindPart, context: RunContext, cycle: _Cycle) -> object:
    return next(part for part in context.storage if isinstance(part, effect.kind))


def _peek_jobs(
    effect: PeekJobs, context: RunContext, cycle: _Cycle
) -> Requests[dict[str, JobState]]:

    def peek() -> dict[str, JobState]:
        return {name: context.jobs.peek(key) for name, key in effect.cycle_ids.items()}

    if not context.jobs_may_wait:
        return peek()
    done: CallReply = yield Call(peek, "om_archive")
    running: dict[str, JobState] = dict.fromkeys(effect.cycle_ids, "running")
    return _read_executor("peek", done, running)


def _wait_for_job(effect: WaitForJob, context: RunContext, cycle: _Cycle) -> Requests[JobState]:
    """Wait for half of what is left; the other half is for asking instead."""
    wait = partial(context.jobs.wait, effect.cycle_id, cycle.seconds_left() / 2)
    done: CallReply = yield Call(wait, "om_wait")
    otherwise: JobState = "running"
    return _read_executor("wait", done, otherwise)


def _submit(effect: Submit, context: RunContext, cycle: _Cycle) -> Requests[bool]:
    if not context.jobs_may_wait:
        return effect.function()
    done: CallReply = yield Call(effect.function, "om_submit")
    return bool(_read_executor("submit", done, otherwise=False))


def _read_executor(method: str, done: CallReply, otherwise: ValueT) -> ValueT:
    """Return what an executor's method returned, or something else where it failed."""
    if done.error is None:
        return cast("ValueT", done.value)
    logger.warning("the executor's `%s` failed, and the turn goes on: %r", method, done.error)
    return otherwise


def _run_together(effect: Together, context: RunContext, cycle: _Cycle) -> Requests[list[Any]]:
    parts: list[FlowResult[Any]] = yield SideBySide(
        [supervise(flow, context, cycle) for flow in effect.flows]
    )
    for part in parts:
        cycle.tally.add(part.tally)
    return [part.result for part in parts]


def _do_work(effect: Work, context: RunContext, cycle: _Cycle) -> Requests[list[Event]]:
    # What its turn has waited already is not there to wait any more.
    waited = effect.record["turn"].get("waited_ms", 0) / 1000
    calls = replace(context.calls, deadline=max(0.0, context.calls.deadline - waited))
    within = replace(context, calls=calls)
    return (yield from supervise(context.carry_out(effect), within)).events


def _show(effect: Show, context: RunContext, cycle: _Cycle) -> None:
    if context.emit is not None:
        for event in effect.events:
            context.emit(event)


def _take_event(event: Event, context: RunContext, cycle: _Cycle) -> Requests[None]:
    cycle.events.append(event)
    _show(Show([event]), context, cycle)
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
    record_cycle(event)
    context.hooks.tell(event)
    call = context.hooks.about(event)
    if call is not None:
        limit = min(LIFECYCLE_SECONDS, context.calls.deadline)
        function = partial(context.hooks.functions[call.name], *call.arguments)
        yield from _call_within(limit, call.name, function)
    cycle.ends_at += time.monotonic() - began


_Reply = Callable[[Any, RunContext, _Cycle], Any]

_REPLIES: Mapping[type, _Reply] = {
    AskModel: _ask_model,
    ReadTally: lambda _, __, cycle: cycle.tally,
    CallHook: _call_hook,
    CallWithConfig: _call_with_config,
    FindPart: _find_part,
    Storage: _call_storage,
    PeekJobs: _peek_jobs,
    WaitForJob: _wait_for_job,
    Submit: _submit,
    Together: _run_together,
    Work: _do_work,
    Warn: lambda warn, *_: _log(warn),
    Show: _show,
}
"""What is done for each effect; anything else is an event."""


def call_graph(
    graph: Any, method: str, *arguments: Any, as_node: str | None = None
) -> Requests[Any]:
    """Call a method of a compiled graph by its sync name, for a thread outside of its runs.

    Raises:
        Exception: What the graph raises.
    """
    options = {} if as_node is None else {"as_node": as_node}
    sync, awaited = (
        partial(getattr(graph, name), *arguments, **options) for name in (method, f"a{method}")
    )
    return call_function(sync, "om_graph", awaited)
