"""One look at the conversation, and the cycles that act on what `plan` decides.

`look` is what the gate does; `observe_cycle` and `reflect_cycle` are flows that yield questions to
a model and events, in the order in which the world should see them. Nothing here calls, waits or
stores.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, Literal, TypeVar

from langchain_core.messages import BaseMessage

from langgraph_om.core.config import ObservationConfig, ReflectionConfig, Thresholds
from langgraph_om.core.context import dropped_from_view
from langgraph_om.core.events import Event, iso, status_data
from langgraph_om.core.groups import log_text, previous_observations, reflected_groups
from langgraph_om.core.observer import Flow, ModelCall, ModelReply, ObserverInput, observe
from langgraph_om.core.parsing import Parsed
from langgraph_om.core.plan import Decision, back_off, plan
from langgraph_om.core.record import MemoryRecord, derive_id, fold, log_tokens
from langgraph_om.core.reflector import ReflectorInput, reflect
from langgraph_om.core.tokens import TokenCounter
from langgraph_om.core.transcript import TimedMessage, TranscriptLimits, render_transcript
from langgraph_om.core.window import Window, message_time, open_window
from langgraph_om.errors import ObserverError

__all__ = ["CycleFlow", "Identity", "Look", "Settings", "look", "observe_cycle", "reflect_cycle"]

ResultT = TypeVar("ResultT")

CycleFlow = Generator[ModelCall | Event, ModelReply | None, None]
"""Yields questions (and is sent replies) and events (and is sent nothing)."""

REFLECTION_TARGET = 0.75
"""A reflection is dense enough below this part of the log it read (or below the threshold)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user set, resolved; everything that cycles need to know."""

    thresholds: Thresholds
    counter: TokenCounter
    timezone: tzinfo
    observation: ObservationConfig = field(default_factory=ObservationConfig)
    reflection: ReflectionConfig = field(default_factory=ReflectionConfig)
    scope: str = "thread"
    on_error: Literal["continue", "abort", "raise"] = "continue"
    message_time: Callable[[BaseMessage], datetime | None] | None = None
    max_input_tokens: int | None = None

    def marker(self) -> dict[str, Any]:
        """Describe the limits in force, for start and activation parts."""
        return {
            "messageTokens": self.thresholds.message_tokens,
            "observationTokens": self.thresholds.observation_tokens,
            "scope": self.scope,
        }


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose conversation it is, as the run's configuration says."""

    thread_id: str = ""
    resource_id: str | None = None


# --- The gate ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the conversation found."""

    record: MemoryRecord
    """The memory with this look's own events folded in."""
    window: Window
    decision: Decision
    events: list[Event]
    """What to fold and to show; ends with the status when the Actor goes on."""


def look(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    identity: Identity,
    now: datetime,
    *,
    must_proceed: bool = False,
) -> Look:
    """Count what is new, decide, and state both windows when the Actor goes on.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        messages: The whole conversation.
        identity: Whose conversation it is.
        now: The current time.
        must_proceed: Whether there is no room left for work (few supersteps remain).
    """
    window = open_window(record, messages, settings.counter)
    events = [*_opening(settings, record, identity), *_counting(settings, record, window, now)]
    record = fold(record, [events])
    decision = plan(record, window, settings.thresholds, now)
    if must_proceed and decision.kind != "abort":
        decision = Decision("proceed")
    if decision.kind == "proceed":
        turn = record["turn"]
        step = turn["step"] + 1 if turn["request"] == window.request else 0
        stepped: Event = {"type": "stepped", "request": window.request, "step": step}
        record = fold(record, [stepped])
        data = status_data(record, window, settings.thresholds, step=step)
        events += [stepped, *trim_notice(settings, record, window)]
        events.append({"type": "status", "data": data})
    return Look(record, window, decision, events)


def trim_notice(settings: Settings, record: MemoryRecord, window: Window) -> list[Event]:
    """Say when the Actor's view has to leave messages out to keep to `max_input_tokens`."""
    dropped = dropped_from_view(window, log_tokens(record), settings.max_input_tokens)
    if not dropped:
        return []
    return [
        {
            "type": "view-trimmed",
            "dropped_messages": dropped,
            "dropped_tokens": window.weight(0, dropped),
            "limit": settings.max_input_tokens,
            "record_id": record["id"],
            "thread_id": record["thread_id"],
        }
    ]


def _opening(settings: Settings, record: MemoryRecord, identity: Identity) -> list[Event]:
    if record["id"] and record["thread_id"] == identity.thread_id:
        return []
    return [
        {
            "type": "opened",
            "id": derive_id("om", settings.scope, identity.thread_id, identity.resource_id),
            "thread_id": identity.thread_id,
            "resource_id": identity.resource_id,
            "scope": settings.scope,
        }
    ]


def _counting(
    settings: Settings, record: MemoryRecord, window: Window, now: datetime
) -> list[Event]:
    """Note the tokens of new window messages, and when they were first seen.

    Only messages that arrive while memory watches are stamped: in a thread that it sees for the
    first time, those are the newest human message and what follows.
    """
    cache = record["token_cache"]
    known = cache["counts"]
    valid = known if cache["counter"] == settings.counter.identity else {}
    counts: dict[str, list[Any]] = {}
    stamps: dict[str, str] = {}
    first_look = not record["id"]
    for at, entry in enumerate(window.entries):
        cached = valid.get(entry.key)
        if cached is None or cached[0] != entry.digest:
            counts[entry.key] = [entry.digest, entry.tokens]
        arrived = at >= window.fresh_from if first_look else entry.key not in known
        if arrived and entry.key not in record["stamps"] and not _time(settings, entry, {}):
            stamps[entry.key] = iso(now)
    present = {entry.key for entry in window.entries}
    gone = [key for key in known if key not in present]
    if not (counts or stamps or gone):
        return []
    identity = settings.counter.identity
    return [
        {"type": "counted", "counter": identity, "counts": counts, "stamps": stamps, "gone": gone}
    ]


def _time(settings: Settings, entry: Any, stamps: Mapping[str, str]) -> datetime | None:
    return message_time(
        entry.message,
        entry.key,
        stamps,
        timezone=settings.timezone,
        custom=settings.message_time,
    )


# --- Blocking cycles -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Tally:
    """What the calls of one cycle cost."""

    at: datetime
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def metered(
        self, flow: Flow[ResultT]
    ) -> Generator[ModelCall | Event, ModelReply | None, ResultT]:
        """Pass a flow through, noting the time and the usage of each reply."""
        try:
            call = next(flow)
            while True:
                reply = yield call
                if reply is None:
                    msg = "a cycle that asks a model must be sent a `ModelReply`"
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
        return {
            "calls": self.calls,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
        }


@dataclass(frozen=True, slots=True)
class _Cycle:
    """What all events of one cycle have in common."""

    settings: Settings
    record: MemoryRecord
    operation: Literal["observation", "reflection"]
    cycle_id: str
    tokens: int
    started: datetime
    last_message: str | None

    def event(self, kind: str, at: datetime, **fields: Any) -> Event:
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

    def start(self) -> Event:
        return self.event(
            "observation-start",
            self.started,
            thread_ids=[self.record["thread_id"]],
            config=self.settings.marker(),
        )

    def end(self, tally: _Tally, **fields: Any) -> Event:
        return self.event(
            "observation-end",
            tally.at,
            duration_ms=_milliseconds(self.started, tally.at),
            usage=tally.usage(),
            **fields,
        )

    def failure(
        self, tally: _Tally, error: ObserverError, *, size: int, threshold: int
    ) -> CycleFlow:
        """Say that nothing came of the cycle, and what follows from that.

        Raises:
            ObserverError: The given one, with `on_error="raise"`.
        """
        failures = self.record["attempts"].get(self.operation, {}).get("failures", 0) + 1
        yield self.event(
            "observation-failed",
            tally.at,
            duration_ms=_milliseconds(self.started, tally.at),
            error=str(error),
            usage=tally.usage(),
            failures=failures,
            retry_at_tokens=back_off(failures, size, threshold),
        )
        if self.settings.on_error == "raise":
            raise error
        if self.settings.on_error == "abort":
            yield self.event(
                "tripwire", tally.at, reason=str(error), last_message=self.last_message
            )


def _milliseconds(start: datetime, end: datetime) -> int:
    return max(0, round((end - start).total_seconds() * 1000))


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
    after = record["cursor"][-1] if record["cursor"] else None
    attempt = record["attempts"].get("observation", {}).get("failures", 0)
    cycle = _Cycle(
        settings,
        record,
        "observation",
        derive_id(
            "observe", record["id"], after, attempt, *(f"{e.key}:{e.digest}" for e in entries)
        ),
        window.weight(0, count),
        started,
        window.last_key,
    )
    tally = _Tally(started)
    yield cycle.start()
    try:
        parsed = yield from tally.metered(observe(_observer_input(settings, record, window, count)))
    except ObserverError as error:
        yield from cycle.failure(
            tally, error, size=window.tokens, threshold=settings.thresholds.message_tokens
        )
        return
    text = parsed.observations if parsed.status == "ok" else ""
    observed_tokens = settings.counter.count_text(text)
    yield cycle.end(
        tally,
        after=after,
        cursor=window.cursor_after(count),
        observation_tokens=observed_tokens,
        observations=text,
        current_task=parsed.current_task,
        suggested_response=parsed.suggested_response,
        thread_title=_new_title(settings, parsed),
        group={
            "id": cycle.cycle_id,
            "kind": "observation",
            "ranges": [[entries[0].key, entries[-1].key]],
            "thread_id": record["thread_id"],
            "observed_at": iso(tally.at),
            "text": text,
            "tokens": observed_tokens,
        },
    )
    yield from _title_change(cycle, tally, parsed)


def _observer_input(
    settings: Settings, record: MemoryRecord, window: Window, count: int
) -> ObserverInput:
    observation = settings.observation
    transcript = render_transcript(
        [
            TimedMessage(entry.message, _time(settings, entry, record["stamps"]))
            for entry in window.entries[:count]
        ],
        timezone=settings.timezone,
        counter=settings.counter,
        limits=TranscriptLimits(text_tokens=settings.thresholds.message_tokens),
    )
    return ObserverInput(
        transcript=transcript,
        previous=previous_observations(
            record["log"], observation.previous_observer_tokens, settings.counter
        ),
        hints={
            "current_task": record["current_task"],
            "suggested_response": record["suggested_response"],
            "thread_title": record["thread_title"] if observation.thread_title else None,
        },
        instruction=observation.instruction,
        prompt=observation.prompt,
        thread_title=observation.thread_title,
    )


def _new_title(settings: Settings, parsed: Parsed) -> str | None:
    return parsed.thread_title if settings.observation.thread_title else None


def _title_change(cycle: _Cycle, tally: _Tally, parsed: Parsed) -> CycleFlow:
    title = _new_title(cycle.settings, parsed)
    if title is not None and title != cycle.record["thread_title"]:
        yield cycle.event(
            "thread-update",
            tally.at,
            old_title=cycle.record["thread_title"],
            new_title=title,
        )


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
    threshold = settings.thresholds.observation_tokens
    attempt = record["attempts"].get("reflection", {}).get("failures", 0)
    cycle = _Cycle(
        settings,
        record,
        "reflection",
        derive_id("reflect", record["id"], attempt, *(group["id"] for group in groups)),
        tokens,
        started,
        window.last_key,
    )
    tally = _Tally(started)
    request = ReflectorInput(
        log=log_text(groups),
        tokens=tokens,
        target=max(1, min(threshold, round(tokens * REFLECTION_TARGET))),
        instruction=settings.reflection.instruction,
        prompt=settings.observation.prompt,
    )
    yield cycle.start()
    try:
        result = yield from tally.metered(reflect(request, settings.counter))
    except ObserverError as error:
        yield from cycle.failure(tally, error, size=tokens, threshold=threshold)
        return
    written = reflected_groups(
        groups,
        result.text,
        cycle_id=cycle.cycle_id,
        reflected_at=iso(tally.at),
        counter=settings.counter,
    )
    after = sum(group["tokens"] for group in written)
    yield cycle.end(
        tally,
        group_ids=[group["id"] for group in groups],
        groups=written,
        observation_tokens=after,
        observations=result.text,
        current_task=result.current_task,
        # A log that stays above its threshold is not reflected again before it has grown.
        retry_at_tokens=back_off(1, after, threshold) if after >= threshold else None,
    )
