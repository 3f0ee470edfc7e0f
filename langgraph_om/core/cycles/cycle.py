"""What all cycles are made of: what their events have in common, how they begin and how they end.

A cycle is described first: by what it reads, its start event, and a flow that asks the model and
returns the event with which it ends. It is run in one of two modes: while the turn waits for it, or
ahead of need, beside the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.effects import EffectFlow, ReadTally, ResultT, Tally, Warn, stops_run
from langgraph_om.core.events import describe_cycle, iso
from langgraph_om.core.observe.parse_answer import ParsedAnswer
from langgraph_om.core.plan import back_off
from langgraph_om.core.record.record import count_failures
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import (
    Backoff,
    CycleEnded,
    CycleStarted,
    Event,
    Hints,
    MemoryRecord,
    Operation,
    Waived,
)
from langgraph_om.errors import ConfigurationError, ModelTierError, ObserverError

Mode = Literal["blocking", "ahead"]
"""Whether the turn waits for a cycle, or it runs ahead of need."""


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
    mode: Mode = "blocking"

    @property
    def _prefix(self) -> str:
        return "observation" if self.mode == "blocking" else "buffering"

    def about(self) -> dict[str, Any]:
        """Say which cycle it is, for traces and hooks."""
        started = self.event(f"{self._prefix}-start", self.started)
        return describe_cycle(cast("CycleStarted", started))

    def event(self, kind: str, at: datetime, **fields: Any) -> Event:
        """Make an event of this cycle."""
        event = {
            "type": kind,
            "operation": self.operation,
            "cycle_id": self.cycle_id,
            "at": iso(at),
            "record_id": self.record["id"],
            "thread_id": self.record["thread_id"],
            "resource_id": self.record["resource_id"],
            "tokens": self.tokens,
            **fields,
        }
        return cast("Event", event)

    def start(self, **fields: Any) -> CycleStarted:
        """Make the event with which the cycle begins."""
        event = self.event(
            f"{self._prefix}-start",
            self.started,
            **{
                "thread_ids": [self.record["thread_id"]],
                "config": self.settings.marker(),
                **fields,
            },
        )
        return cast("CycleStarted", event)

    def end(self, tally: Tally, **fields: Any) -> CycleEnded:
        """Make the event with which the cycle ends well."""
        return self._close("end", tally, **fields)

    def fail(self, tally: Tally, error: ObserverError, **fields: Any) -> CycleEnded:
        """Make the event that says that nothing came of the cycle."""
        return self._close("failed", tally, error=str(error), **fields)

    def _close(self, kind: str, tally: Tally, **fields: Any) -> CycleEnded:
        at = self.last_reply(tally)
        took = max(0, round((at - self.started).total_seconds() * 1000))
        kind = f"{self._prefix}-{kind}"
        event = self.event(kind, at, duration_ms=took, usage=tally.usage(), **fields)
        return cast("CycleEnded", event)

    def last_reply(self, tally: Tally) -> datetime:
        """Return when the last question was answered; the cycle's start when none was asked."""
        return tally.at or self.started

    def failures(self, size: int) -> Backoff:
        """Count one more failure, and tell at which size the operation is tried again."""
        threshold = self.settings.thresholds.due(self.operation)
        count = count_failures(self.record, self.operation) + 1
        retry_at = back_off(count, size, threshold)
        return {"failures": count, "at_tokens": size, "retry_at_tokens": retry_at}

    def rest_after(self, size: int) -> dict[str, int]:
        """Tell the size at which a log is reflected again that is still due after a reflection.

        A log that cannot be condensed is left in peace for longer each time.
        """
        due = self.settings.thresholds.observation_tokens
        if size < due:
            return {}
        attempt = self.record["attempts"].get(self.operation)
        times = (attempt.get("still_large", 0) if attempt is not None else 0) + 1
        retry_at = back_off(times, size, due)
        return {
            "failures": 0,
            "still_large": times,
            "at_tokens": size,
            "retry_at_tokens": retry_at,
        }


def select_hints(settings: Settings, parsed: ParsedAnswer) -> Hints:
    """Return the hints of an answer that are asked for."""
    return {name: parsed.hints.get(name) for name in settings.hints}


def tell_left_out(tokens: int) -> dict[str, int]:
    """Return the field that tells how much no question had room for; none when all was shown."""
    return {"left_out_tokens": tokens} if tokens else {}


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle that can be run."""

    info: CycleInfo
    start: CycleStarted
    """The event with which it begins; of one that runs ahead it says what the cycle covers."""
    work: EffectFlow[CycleEnded]
    """Asks, and returns the event with which the cycle ends; whatever it raises fails it."""

    @property
    def cycle_id(self) -> str:
        """The cycle's id."""
        return self.info.cycle_id

    @property
    def key(self) -> str:
        """Of cycles with the same key, one runs ahead at a time."""
        return f"{self.info.record['id']}:{self.info.operation}"

    @property
    def about(self) -> Sequence[str]:
        """The threads that its result covers, beside the one that asked."""
        record = self.info.record
        told = self.start["thread_ids"]
        return [thread_id for thread_id in told if thread_id != record["thread_id"]]


def guard(info: CycleInfo, work: EffectFlow[ResultT]) -> EffectFlow[ResultT]:
    """Do the work of a cycle; an error of the code that it runs is logged, and fails the cycle.

    It fails, too, when its thread was deleted meanwhile: nothing that tells of the thread is kept.
    """
    try:
        end = yield from work
    except Exception as error:
        if isinstance(error, ObserverError | ConfigurationError) or stops_run(error):
            raise
        about = (info.record["thread_id"], info.operation, type(error).__name__, error)
        yield Warn("thread %r: code that an %s called raised %s: %s", about, error)
        # Its text may quote what a hook was to hide.
        msg = f"code that it called raised {type(error).__name__}; see the log"
        raise ObserverError(msg) from error
    archive = info.settings.parts.archive
    if archive is not None and (yield from archive.is_deleted(info.record)):
        msg = "the thread was deleted while the model was being asked"
        raise ObserverError(msg)
    return end


def run_blocking(
    cycle: Cycle, size: int, last_message: str | None
) -> EffectFlow[CycleEnded | None]:
    """Run a cycle while the turn waits, and return its end; `None` if nothing came of it.

    A question that no tier of a `ModelByInputTokens` covers ends the turn: the next will not fit
    either.

    Args:
        size: How many tokens the operation is about by now.
    """
    info = cycle.info
    yield cycle.start
    try:
        end = yield from guard(info, cycle.work)
    except ObserverError as error:
        tally: Tally = yield ReadTally()
        partial = error.observations or None
        yield info.fail(
            tally, error, observations=partial, last_message=last_message, **info.failures(size)
        )
        if info.settings.on_error == "raise":
            raise
        if info.settings.on_error == "abort" or isinstance(error.__cause__, ModelTierError):
            at = info.last_reply(tally)
            yield info.event("tripped", at, reason=str(error), last_message=last_message)
        return None
    yield end
    return end


def run_ahead(cycle: Cycle) -> EffectFlow[CycleEnded]:
    """Run a cycle ahead of need, and return the event with which it ends, well or not."""
    try:
        return (yield from guard(cycle.info, cycle.work))
    except ObserverError as error:
        tally: Tally = yield ReadTally()
        return cycle.info.fail(tally, error, observations=error.observations or None)


def waive(window: Window, operation: Operation) -> Waived:
    """Say that a turn does no more of an operation; others did it, or there may always be more."""
    return {"type": "waived", "operation": operation, "turn": window.turn}


def fit_room(shown: int, beside: int, room: int) -> int:
    """Return how many tokens to show where a question with so many was refused for its length.

    Args:
        beside: The tokens of the question without them.
        room: The tokens that a question may have; those of the refused one where nobody knows.
    """
    known = int(room * _FILLED) - beside
    return max(1, min(known, shown // 2) if room >= shown + beside - 1 else min(known, shown - 1))


_FILLED: Final = 0.9
"""A part of the room: pieces are not cut to the token."""
