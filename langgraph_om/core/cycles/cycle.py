"""What all cycles are made of: what their events have in common, and how they end.

A cycle is a flow: it yields questions to a model, calls of hooks, waits for a background job, and
events in the order in which the world should see them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.effects import EffectFlow, Tally
from langgraph_om.core.events import describe_cycle, iso
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.plan import back_off
from langgraph_om.core.record.record import count_failures
from langgraph_om.core.wire import (
    Backoff,
    Covers,
    CycleEnded,
    CycleStarted,
    Event,
    MemoryRecord,
    Operation,
    Stated,
)
from langgraph_om.errors import ModelTierError, ObserverError


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
    trigger: Literal["turn", "buffer"] = "turn"
    """Whether the turn waits for it, or it runs ahead of need."""

    def about(self) -> dict[str, Any]:
        """Say which cycle it is, for traces and hooks."""
        kind = "buffering-start" if self.trigger == "buffer" else "observation-start"
        return describe_cycle(cast("CycleStarted", self.event(kind, self.started)))

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

    def start(
        self, kind: Literal["observation-start", "buffering-start"], **fields: Any
    ) -> CycleStarted:
        """Make the event with which the cycle begins."""
        event = self.event(
            kind,
            self.started,
            **{
                "thread_ids": [self.record["thread_id"]],
                "config": self.settings.marker(),
                **fields,
            },
        )
        return cast("CycleStarted", event)

    def end(self, kind: str, tally: Tally, **fields: Any) -> CycleEnded:
        """Make the event with which the cycle ends, well or not."""
        at = self.last_reply(tally)
        took = (at - self.started).total_seconds()
        event = self.event(
            kind, at, duration_ms=max(0, round(took * 1000)), usage=tally.usage(), **fields
        )
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


def select_hints(settings: Settings, parsed: Parsed) -> Stated:
    """Return the continuation hints of an answer; the title only where titles are asked for."""
    return {
        "current_task": parsed.current_task,
        "suggested_response": parsed.suggested_response,
        "thread_title": parsed.thread_title if settings.observation.thread_title else None,
    }


def build_title_change(cycle: CycleInfo, at: datetime, title: str | None) -> EffectFlow[None]:
    """Say that the thread has a new title, if it has."""
    old = cycle.record["thread_title"]
    if cycle.settings.observation.thread_title and title is not None and title != old:
        yield cycle.event("thread-update", at, old_title=old, new_title=title)


def build_failed(
    cycle: CycleInfo, tally: Tally, error: ObserverError, size: int, last_message: str | None
) -> EffectFlow[None]:
    """Say that nothing came of the cycle, and what follows from that.

    A question that no tier of a `ModelByInputTokens` covers ends the turn: the next will not fit
    either.

    Raises:
        ObserverError: The given one, with `on_error="raise"`.
    """
    back_off = cycle.failures(size)
    partial = error.observations or None
    yield cycle.end(
        "observation-failed",
        tally,
        error=str(error),
        observations=partial,
        last_message=last_message,
        **back_off,
    )
    if cycle.settings.on_error == "raise":
        raise error
    if cycle.settings.on_error == "abort" or isinstance(error.__cause__, ModelTierError):
        yield cycle.event(
            "tripped", cycle.last_reply(tally), reason=str(error), last_message=last_message
        )


@dataclass(frozen=True, slots=True)
class Job:
    """Work to do beside the conversation."""

    cycle_id: str
    key: str
    """Of jobs with the same key, one runs at a time."""
    start: CycleStarted
    flow: EffectFlow[CycleEnded]
    """Returns the result: a `buffering-end` or `buffering-failed` event."""


def build_job(cycle: CycleInfo, covers: Covers, flow: EffectFlow[CycleEnded], **fields: Any) -> Job:
    """Describe the job of a cycle."""
    key = f"{cycle.record['id']}:{cycle.operation}"
    return Job(cycle.cycle_id, key, cycle.start("buffering-start", covers=covers, **fields), flow)
