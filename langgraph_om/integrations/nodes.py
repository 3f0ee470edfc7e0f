"""The graph's memory nodes: each reads the state, carries out its decision, and returns events.

The router and the nodes decide again from the state they see, by the same function as `om_status`.
A node that isn't due returns nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

from langchain_core.messages import RemoveMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import (
    ensure_config,
    set_config_context,
    var_child_runnable_config,
)
from langgraph.stream import ProtocolEvent, StreamChannel, StreamTransformer

from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.step import Step, decide
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.parts import Part
from langgraph_om.runtime.flows import ResultT, adrive, drive, run_in_thread
from langgraph_om.runtime.run import acting
from langgraph_om.runtime.runner import RunScope, StepRunner, only_folding


class MemoryTransformer(StreamTransformer):
    """Exposes the `data-om-*` parts of a run as `run.memory`.

    The agents of this package have it built in. For any other graph, pass it to
    `builder.compile(transformers=[MemoryTransformer])`, or as `transformers=` of one run.
    """

    required_stream_modes: ClassVar[tuple[str, ...]] = ("custom",)
    _native: ClassVar[bool] = True  # LangGraph's mark for an attribute of the run

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._parts: StreamChannel[Part] = StreamChannel()

    def init(self) -> dict[str, Any]:
        """Return the projection by its name."""
        return {"memory": self._parts}

    def process(self, event: ProtocolEvent) -> bool:
        """Copy the parts of memory to the projection; every event stays in the stream."""
        if event["method"] == "custom" and event["params"]["namespace"] == list(self.scope):
            data = event["params"]["data"]
            if isinstance(data, dict) and str(data.get("type")).startswith("data-om-"):
                self._parts.push(cast("Part", data))
        return True


# A node or router from functions, without a run of its own in traces beside the node's.
#
# `RunnableLambda` would trace it once more, and look at the function's signature in each call.


class PlainNode(Runnable[Any, Any]):
    """Calls a function with the state.

    Args:
        afunction: What is called in asynchronous runs; `None`: the function, in a thread.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        name: str,
        afunction: Callable[[Any], Coroutine[Any, Any, Any]] | None = None,
    ) -> None:
        self.name = name
        self._function = function
        self._afunction = afunction

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002, the name is the base class's
        """Return what the function makes of the state."""
        if _is_in_force(config):
            return self._function(input)
        with set_config_context(ensure_config(config)) as context:
            return context.run(self._function, input)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002, the name is the base class's
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Any:
        """Return what the asynchronous function makes of the state."""
        if self._afunction is None:
            return await super().ainvoke(input, config, **options)
        if _is_in_force(config):
            return await self._afunction(input)
        with set_config_context(ensure_config(config)) as context:
            return await asyncio.create_task(self._afunction(input), context=context)


def _is_in_force(config: RunnableConfig | None) -> bool:
    """Return whether LangGraph has set the context, as it does for a node, but not for a router."""
    return config is not None and config is var_child_runnable_config.get()


STATUS = "om_status"
"""Counts, decides, and states both windows once per agent step."""
ACTIVATE = "om_activate"
"""Makes buffered observations or a buffered reflection memory; asks no model."""
BUFFER = "om_buffer"
"""Starts a job ahead of need, or runs it."""
OBSERVE = "om_observe"
"""Observes the oldest messages of the window while the turn waits."""
REFLECT = "om_reflect"
"""Condenses the log while the turn waits."""

RESERVED_STEPS = 4
"""Supersteps that are left to the Actor: with fewer to go, `om_status` starts no work of its own.

A blocking cycle takes two (the work, and `om_status` again), the Actor's answer one, and one is
spare.
"""

StateUpdate = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MemoryNodes:
    """The functions behind the memory nodes of one graph."""

    runner: StepRunner
    before: str
    """The node that `om_status` leads to: the one that calls the Actor's model."""
    end: str
    """Where an aborted turn goes."""
    writes_always: bool
    """Whether the channel is kept as deltas, which stay cheap only when every step writes one."""
    actor: Any = None
    """The model of this graph's agent, where it is known before a run."""

    def drive(self, flow: EffectFlow[ResultT]) -> ResultT:
        """Run a flow in a node of this graph."""
        with acting(self.actor):
            return drive(flow, self.runner.context(streams=True)).result

    async def adrive(self, flow: EffectFlow[ResultT]) -> ResultT:
        """Do the same without blocking the event loop."""
        with acting(self.actor):
            return (await adrive(flow, self.runner.context(streams=True))).result

    def status(self, state: Mapping[str, Any]) -> StateUpdate:
        """Count, collect, decide, and state both windows when the Actor is next."""
        return self.drive(self._status(state))

    async def astatus(self, state: Mapping[str, Any]) -> StateUpdate:
        """Do the same in a thread of its own: the loop's are few, users' functions may block."""
        return await run_in_thread(self.status, state)

    def finish(self, state: Mapping[str, Any]) -> StateUpdate:
        """Count and archive the Actor's last answer."""
        return self.drive(self.finish_flow(state))

    async def afinish(self, state: Mapping[str, Any]) -> StateUpdate:
        """Count and archive the Actor's last answer without blocking the event loop."""
        return await self.adrive(self.finish_flow(state))

    def _status(self, state: Mapping[str, Any]) -> EffectFlow[StateUpdate]:
        runner = self.runner
        access = runner.runs.access()
        if access == "none":
            return self._update([])
        messages, record, who = runner.conversation(state), self._record(state), runner.identity()
        scope = RunScope(runner, state=state)
        if access == "read":
            yield from runner.read(scope, record, messages, who)
            return {**self._update([]), **scope.changes}
        step = yield from runner.inspect(
            record,
            messages,
            who,
            scope=scope,
            must_proceed=_must_proceed(state),
        )
        update = {**self._update(only_folding(step.events)), **self._removals(step.removed)}
        return {**update, **scope.changes}

    def finish_flow(self, state: Mapping[str, Any]) -> EffectFlow[StateUpdate]:
        """Inspect the state behind the Actor's last answer."""
        runner = self.runner
        if not runner.runs.may_write():
            return self._update([])
        record, messages = self._record(state), runner.conversation(state)
        who = runner.identity()
        scope = RunScope(runner, state=state)
        seen = yield from runner.inspect(record, messages, who, scope=scope, is_final=True)
        return self._update(only_folding(seen.events)) | self._removals(seen.removed)

    def route(self, state: Mapping[str, Any]) -> str:
        """Name what comes next, a key of `targets`; reads nothing but the state."""
        if not self.runner.runs.may_write():
            return "proceed"
        kind = decide(self._resume(state)).kind
        return "proceed" if kind != "abort" and _must_proceed(state) else kind

    def targets(self) -> dict[str, str]:
        """Return the node for each answer of `route`."""
        targets = {
            "proceed": self.before,
            "activate": ACTIVATE,
            "observe": OBSERVE,
            "reflect": REFLECT,
            "abort": self.end,
        }
        if self.runner.settings.thresholds.buffer_tokens is not None:
            targets["buffer"] = BUFFER
        return targets

    def work(self, kind: str, state: Mapping[str, Any]) -> StateUpdate:
        """Carry out the decision, if it is of this kind."""
        return self.drive(self._work(kind, state))

    async def awork(self, kind: str, state: Mapping[str, Any]) -> StateUpdate:
        """Carry out the decision without blocking the event loop."""
        return await self.adrive(self._work(kind, state))

    def _work(self, kind: str, state: Mapping[str, Any]) -> EffectFlow[StateUpdate]:
        runner, step = self.runner, self._resume(state)
        decision = decide(step)
        if decision.kind != kind or not runner.runs.is_on():
            return {}
        if kind == "buffer" and runner.buffers_in_background:
            events = [(yield from runner.start_job(step, decision))]
        else:
            events = yield runner.work(step, decision)
        return {"om": only_folding(events)}

    def node(self, kind: str, name: str) -> RunnableLambda[Any, Any]:
        """Make the graph node that carries out decisions of one kind."""
        return RunnableLambda(partial(self.work, kind), partial(self.awork, kind), name=name)

    def _resume(self, state: Mapping[str, Any]) -> Step:
        return self.runner.resume(self._record(state), self.runner.conversation(state))

    def _record(self, state: Mapping[str, Any]) -> MemoryRecord:
        return complete_record(state.get("om"))

    def _removals(self, keys: list[str]) -> StateUpdate:
        removed = [RemoveMessage(id=key) for key in keys]
        return {self.runner.messages_key: removed} if removed else {}

    def _update(self, events: list[Event]) -> StateUpdate:
        return {"om": events} if events or self.writes_always else {}


def _must_proceed(state: Mapping[str, Any]) -> bool:
    remaining = state.get("remaining_steps")
    return remaining is not None and remaining <= RESERVED_STEPS
