"""The blocking cycles: observation and reflection while the turn waits.

A cycle is a flow: it yields questions to a model, events in the order in which the world should see
them, and waits for a background job; whoever drives it asks, shows and waits. Nothing here calls,
sleeps or stores.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from langgraph_om.core.events import Event, iso
from langgraph_om.core.groups import log_text, previous_observations, reflected_groups
from langgraph_om.core.observer import Flow, ModelCall, ModelReply, ObserverInput, observe
from langgraph_om.core.parsing import Parsed
from langgraph_om.core.plan import Operation, back_off
from langgraph_om.core.record import (
    Group,
    MemoryRecord,
    derive_id,
    failures_of,
    log_tokens,
    newest_observed,
)
from langgraph_om.core.reflector import Reflection, ReflectorInput, reflect
from langgraph_om.core.settings import Settings
from langgraph_om.core.transcript import TimedMessage, TranscriptLimits, render_transcript
from langgraph_om.core.window import Entry, Window
from langgraph_om.errors import ObserverError

__all__ = [
    "Answer",
    "CycleFlow",
    "CycleInfo",
    "Tally",
    "Wait",
    "hints_of",
    "observe_cycle",
    "observer_input",
    "reflect_cycle",
    "reflector_input",
    "title_change",
    "written_groups",
]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Wait:
    """A background job whose result is worth waiting for."""

    cycle_id: str


Step = ModelCall | Wait | Event
"""What a cycle yields."""
Answer = ModelReply | Event | str | None
"""What it is sent: a reply to a `ModelCall`, a job's state to a `Wait`, nothing to an event."""

CycleFlow = Generator[Step, Answer, None]

REFLECTION_TARGET = 0.75
"""A reflection is dense enough below this part of the log it read (or below the threshold)."""


@dataclass(slots=True)
class Tally:
    """What the calls of one cycle cost, and when the last one ended."""

    at: datetime
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def metered(self, flow: Flow[ResultT]) -> Generator[Step, Answer, ResultT]:
        """Pass a flow through, noting the time and the usage of each reply."""
        try:
            call = next(flow)
            while True:
                reply = yield call
                if not isinstance(reply, ModelReply):
                    msg = f"a cycle that asks a model was sent {reply!r}; send a `ModelReply`"
                    raise TypeError(msg)
                self.at = reply.at
                self.calls += 1
                self.input_tokens += reply.usage.get("inputTokens", 0)
                self.output_tokens += reply.usage.get("outputTokens", 0)
                call = flow.send(reply)
        except StopIteration as done:
            result: ResultT = done.value
            return result

    def usage(self) -> dict[str, int]:
        """Return the costs as they stand in events and in the record."""
        return {
            "calls": self.calls,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
        }


@dataclass(frozen=True, slots=True)
class CycleInfo:
    """What all events of one cycle have in common."""

    settings: Settings
    record: MemoryRecord
    operation: Operation
    cycle_id: str
    tokens: int
    """What the cycle reads: message tokens of an observation, log tokens of a reflection."""
    started: datetime

    def event(self, kind: str, at: datetime, **fields: Any) -> Event:
        """Make an event of this cycle."""
        return {
            "type": kind,
            "operation": self.operation,
            "cycle_id": self.cycle_id,
            "at": iso(at),
            "record_id": self.record["id"],
            "thread_id": self.record["thread_id"],
            "tokens": self.tokens,
            **fields,
        }

    def start(self, kind: Literal["observation-start", "buffering-start"], **fields: Any) -> Event:
        """Make the event with which the cycle begins."""
        return self.event(
            kind,
            self.started,
            thread_ids=[self.record["thread_id"]],
            config=self.settings.marker(),
            **fields,
        )

    def end(self, kind: str, tally: Tally, **fields: Any) -> Event:
        """Make the event with which the cycle ends, well or not."""
        took = (tally.at - self.started).total_seconds()
        return self.event(
            kind, tally.at, duration_ms=max(0, round(took * 1000)), usage=tally.usage(), **fields
        )

    def failures(self, size: int) -> dict[str, int]:
        """Count one more failure, and tell at which size the operation is tried again."""
        threshold = self.settings.thresholds.due(self.operation)
        count = failures_of(self.record, self.operation) + 1
        retry_at = back_off(count, size, threshold)
        return {"failures": count, "at_tokens": size, "retry_at_tokens": retry_at}

    def rest_after(self, size: int) -> dict[str, int]:
        """Tell the size at which a log is reflected again that is still due after a reflection.

        A log that can not be condensed is left in peace for longer each time.
        """
        due = self.settings.thresholds.observation_tokens
        if size < due:
            return {}
        times = self.record["attempts"].get(self.operation, {}).get("still_large", 0) + 1
        retry_at = back_off(times, size, due)
        return {
            "failures": 0,
            "still_large": times,
            "at_tokens": size,
            "retry_at_tokens": retry_at,
        }


# --- What Observer and Reflector are told; blocking and in the background -------------------------


def observer_input(
    settings: Settings,
    record: MemoryRecord,
    entries: Sequence[Entry],
    *,
    known: Sequence[Group],
    hints: MemoryRecord | dict[str, Any],
) -> ObserverInput:
    """Put together what the Observer is told.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        entries: The messages to observe.
        known: The observations that it shall not repeat.
        hints: Where the continuation hints stand.
    """
    observation = settings.observation
    return ObserverInput(
        transcript=render_transcript(
            [TimedMessage(e.message, settings.time_of(e, record["stamps"])) for e in entries],
            timezone=settings.timezone,
            counter=settings.counter,
            limits=TranscriptLimits(text_tokens=settings.thresholds.message_tokens),
        ),
        previous=previous_observations(
            known, observation.previous_observer_tokens, settings.counter
        ),
        hints={
            "current_task": hints["current_task"],
            "suggested_response": hints["suggested_response"],
            "thread_title": record["thread_title"] if observation.thread_title else None,
        },
        instruction=observation.instruction,
        prompt=observation.prompt,
        thread_title=observation.thread_title,
    )


def reflector_input(settings: Settings, groups: Sequence[Group]) -> ReflectorInput:
    """Put together what the Reflector is told."""
    tokens = sum(group["tokens"] for group in groups)
    threshold = settings.thresholds.observation_tokens
    return ReflectorInput(
        log=log_text(groups),
        tokens=tokens,
        target=max(1, min(threshold, round(tokens * REFLECTION_TARGET))),
        instruction=settings.reflection.instruction,
        prompt=settings.observation.prompt,
    )


def written_groups(
    cycle: CycleInfo, sources: Sequence[Group], result: Reflection, tally: Tally
) -> list[Group]:
    """Make the groups that take the place of those a reflection read."""
    return reflected_groups(
        sources,
        result.text,
        cycle_id=cycle.cycle_id,
        reflected_at=iso(tally.at),
        counter=cycle.settings.counter,
    )


# --- Observation ---------------------------------------------------------------------------------


def observe_cycle(
    settings: Settings, record: MemoryRecord, window: Window, count: int, started: datetime
) -> CycleFlow:
    """Observe the window's oldest messages while the turn waits.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        window: Its unobserved messages.
        count: How many of them to observe; 1 or more.
        started: The current time.
    """
    entries = window.entries[:count]
    after = newest_observed(record)
    attempt = failures_of(record, "observation")
    parts = [f"{entry.key}:{entry.digest}" for entry in entries]
    cycle_id = derive_id("observe", record["id"], after, attempt, *parts)
    tokens = window.weight(0, count)
    cycle = CycleInfo(settings, record, "observation", cycle_id, tokens, started)
    tally = Tally(started)
    yield cycle.start("observation-start")
    request = observer_input(settings, record, entries, known=record["log"], hints=record)
    try:
        parsed = yield from tally.metered(observe(request))
    except ObserverError as error:
        yield from _failed(cycle, tally, error, window.tokens, window.last_key)
        return
    text = parsed.observations
    written = settings.counter.count_text(text)
    group: Group = {
        "id": cycle_id,
        "kind": "observation",
        "ranges": [[entries[0].key, entries[-1].key]],
        "thread_id": record["thread_id"],
        "observed_at": iso(tally.at),
        "text": text,
        "tokens": written,
    }
    yield cycle.end(
        "observation-end",
        tally,
        after=after,
        cursor=window.cursor_after(count),
        group=group,
        observation_tokens=written,
        observations=text,
        **hints_of(settings, parsed),
    )
    yield from title_change(cycle, tally.at, parsed.thread_title)


def hints_of(settings: Settings, parsed: Parsed) -> dict[str, str | None]:
    """Return the continuation hints of an answer; the title only where titles are asked for."""
    return {
        "current_task": parsed.current_task,
        "suggested_response": parsed.suggested_response,
        "thread_title": parsed.thread_title if settings.observation.thread_title else None,
    }


def title_change(cycle: CycleInfo, at: datetime, title: str | None) -> CycleFlow:
    """Say that the thread has a new title, if it has."""
    old = cycle.record["thread_title"]
    if cycle.settings.observation.thread_title and title is not None and title != old:
        yield cycle.event("thread-update", at, old_title=old, new_title=title)


def _failed(
    cycle: CycleInfo, tally: Tally, error: ObserverError, size: int, last_message: str | None
) -> CycleFlow:
    """Say that nothing came of the cycle, and what follows from that.

    Raises:
        ObserverError: The given one, with `on_error="raise"`.
    """
    failed = cycle.failures(size)
    partial = error.observations or None
    yield cycle.end(
        "observation-failed",
        tally,
        error=str(error),
        observations=partial,
        last_message=last_message,
        **failed,
    )
    if cycle.settings.on_error == "raise":
        raise error
    if cycle.settings.on_error == "abort":
        yield cycle.event("tripped", tally.at, reason=str(error), last_message=last_message)


# --- Reflection ----------------------------------------------------------------------------------


def reflect_cycle(
    settings: Settings, record: MemoryRecord, window: Window, started: datetime
) -> CycleFlow:
    """Condense the whole log while the turn waits.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        window: Its unobserved messages.
        started: The current time.
    """
    groups = record["log"]
    tokens = log_tokens(record)
    attempt = failures_of(record, "reflection")
    cycle_id = derive_id("reflect", record["id"], attempt, *(group["id"] for group in groups))
    cycle = CycleInfo(settings, record, "reflection", cycle_id, tokens, started)
    tally = Tally(started)
    yield cycle.start("observation-start")
    try:
        result = yield from tally.metered(
            reflect(reflector_input(settings, groups), settings.counter)
        )
    except ObserverError as error:
        yield from _failed(cycle, tally, error, tokens, window.last_key)
        return
    written = written_groups(cycle, groups, result, tally)
    size = sum(group["tokens"] for group in written)
    yield cycle.end(
        "observation-end",
        tally,
        group_ids=[group["id"] for group in groups],
        groups=written,
        observation_tokens=size,
        observations=result.text,
        current_task=result.current_task,
        **cycle.rest_after(size),
    )
