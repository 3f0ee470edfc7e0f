"""The graph's memory nodes: each reads the state, carries out its decision, and returns events.

`MemoryNodes` is what a graph is wired with. The router and the nodes decide anew from what they
see, by the same function as the gate; a node whose turn it is not returns nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.config import get_stream_writer

from langgraph_om.core.cycle import CycleFlow
from langgraph_om.core.events import Event, to_part
from langgraph_om.core.record import MemoryRecord, readable
from langgraph_om.memory import ObservationalMemory, folded

__all__ = ["OBSERVE", "REFLECT", "STATUS", "MemoryNodes"]

STATUS = "om_status"
"""The gate: counts, decides, and states both windows once per agent step."""
OBSERVE = "om_observe"
"""Observes the oldest messages of the window while the turn waits."""
REFLECT = "om_reflect"
"""Condenses the log while the turn waits."""

RESERVED_STEPS = 4
"""Supersteps that are left to the Actor: with fewer to go, the gate starts no work of its own.

A blocking cycle takes two (the work, and the gate again), the Actor's answer one, and one is spare.
"""

Update = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MemoryNodes:
    """The functions behind the memory nodes of one graph."""

    memory: ObservationalMemory
    before: str
    """The node the gate leads to: the one that calls the Actor's model."""
    end: str
    """Where an aborted turn goes."""
    writes_always: bool
    """Whether the channel is kept as deltas, which stay cheap only when every step writes one."""

    def status(self, state: Mapping[str, Any]) -> Update:
        """Count, decide, and state both windows when the Actor is next."""
        if not self.memory.is_on():
            return self._update([])
        seen = self.memory.look(
            self._record(state),
            self.memory.conversation(state),
            self.memory.identity(),
            must_proceed=_must_proceed(state),
        )
        for event in seen.events:
            emit(event)
        return self._update(folded(seen.events))

    def route(self, state: Mapping[str, Any]) -> str:
        """Name the next node; reads nothing but the state."""
        if not self.memory.is_on():
            return self.before
        decision = self.memory.decide(self._record(state), self.memory.conversation(state))
        if decision.kind == "abort":
            return self.end
        if decision.kind == "proceed" or _must_proceed(state):
            return self.before
        return {"observe": OBSERVE, "reflect": REFLECT}[decision.kind]

    def observe(self, state: Mapping[str, Any]) -> Update:
        """Observe, if that is what is due."""
        flow = self._flow(state, "observe")
        return {"om": folded(self.memory.run(flow, emit))} if flow else {}

    async def aobserve(self, state: Mapping[str, Any]) -> Update:
        """Observe without blocking the event loop."""
        flow = self._flow(state, "observe")
        return {"om": folded(await self.memory.arun(flow, emit))} if flow else {}

    def reflect(self, state: Mapping[str, Any]) -> Update:
        """Reflect, if that is what is due."""
        flow = self._flow(state, "reflect")
        return {"om": folded(self.memory.run(flow, emit))} if flow else {}

    async def areflect(self, state: Mapping[str, Any]) -> Update:
        """Reflect without blocking the event loop."""
        flow = self._flow(state, "reflect")
        return {"om": folded(await self.memory.arun(flow, emit))} if flow else {}

    def _flow(self, state: Mapping[str, Any], kind: str) -> CycleFlow | None:
        record, messages = self._record(state), self.memory.conversation(state)
        if not self.memory.is_on():
            return None
        decision = self.memory.decide(record, messages)
        return self.memory.cycle(record, messages, decision) if decision.kind == kind else None

    def _record(self, state: Mapping[str, Any]) -> MemoryRecord:
        return readable(state.get("om"))

    def _update(self, events: list[Event]) -> Update:
        return {"om": events} if events or self.writes_always else {}


def _must_proceed(state: Mapping[str, Any]) -> bool:
    remaining = state.get("remaining_steps")
    return remaining is not None and remaining <= RESERVED_STEPS


def emit(event: Event) -> None:
    """Show an event on the run's custom stream."""
    part = to_part(event)
    if part is not None:
        get_stream_writer()(part)
