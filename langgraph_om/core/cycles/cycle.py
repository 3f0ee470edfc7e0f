"""What flows are made of: what they yield and are sent, what a cycle costs, and its events.

A cycle is a flow: it yields questions to a model, calls of hooks, events in the order in which the
world should see them, and waits for a background job; whoever drives it asks, calls, shows and
waits. Nothing here calls, sleeps or stores.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeVar

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.events import Event, iso
from langgraph_om.core.hooks import HookCall, HookReply
from langgraph_om.core.observe.observer import Flow, ModelCall, ModelReply
from langgraph_om.core.plan import Operation, back_off
from langgraph_om.core.record.record import MemoryRecord, failures_of, outward

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Wait:
    """A background job whose result is worth waiting for."""

    cycle_id: str


@dataclass(frozen=True, slots=True)
class Together:
    """Flows that go on at the same time; none of them yields anything but calls."""

    flows: Sequence[Generator[Any, Any, Any]]


Step = ModelCall | HookCall | Wait | Together | Event
"""What a cycle yields."""
Answer = ModelReply | HookReply | Event | list[Any] | str | None
"""What it is sent: a reply to a `ModelCall` or `HookCall`, a job's state to a `Wait`, what each
flow returned to a `Together`, nothing to an event."""

CycleFlow = Generator[Step, Answer, None]


def hooked(flow: Generator[HookCall, HookReply, ResultT]) -> Generator[Step, Answer, ResultT]:
    """Pass calls of hooks through."""
    try:
        call = next(flow)
        while True:
            reply = yield call
            if not isinstance(reply, HookReply):
                msg = f"a cycle that calls a hook was sent {reply!r}; send a `HookReply`"
                raise TypeError(msg)
            call = flow.send(reply)
    except StopIteration as done:
        result: ResultT = done.value
        return result


@dataclass(slots=True)
class Tally:
    """What the calls of one cycle cost, and when the last one ended."""

    at: datetime
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def metered(
        self, flow: Flow[ResultT], about: Mapping[str, Any]
    ) -> Generator[Step, Answer, ResultT]:
        """Pass a flow through: say what it asks for, note the time and the usage of each reply."""
        try:
            call = next(flow)
            while True:
                reply = yield replace(call, about=about)
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

    def add(self, other: Tally) -> None:
        """Take in what another part of the cycle cost."""
        self.at = max(self.at, other.at)
        self.calls += other.calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens

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
    trigger: Literal["turn", "buffer"] = "turn"
    """Whether the turn waits for it, or it runs ahead of need."""

    def about(self) -> dict[str, Any]:
        """Say which cycle it is, for traces and hooks."""
        return {
            "operation": outward(self.operation),
            "trigger": self.trigger,
            "cycle_id": self.cycle_id,
            "record_id": self.record["id"],
            "thread_id": self.record["thread_id"],
            "resource_id": self.record["resource_id"],
        }

    def event(self, kind: str, at: datetime, **fields: Any) -> Event:
        """Make an event of this cycle."""
        return {
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

    def start(self, kind: Literal["observation-start", "buffering-start"], **fields: Any) -> Event:
        """Make the event with which the cycle begins."""
        return self.event(
            kind,
            self.started,
            **{
                "thread_ids": [self.record["thread_id"]],
                "config": self.settings.marker(),
                **fields,
            },
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
