"""What nodes, hooks and the memory itself run a step with: flows, and what they are driven with.

The rules are the core's; here they meet the run's configuration, the executor and the storage.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.archive import MessageArchive, StoreUse
from langgraph_om.core.actor.head import find_day
from langgraph_om.core.actor.prompt import assemble
from langgraph_om.core.actor.shown import FIXED_TOKENS
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.cycles.carry_out import build_deferred, carry_out, describe_job
from langgraph_om.core.cycles.cycle import Cycle, waive
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.plan import Decision, plan, plan_the_rest
from langgraph_om.core.record.fold import is_folded
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.step.inspect import count_and_collect, freeze_view, inspect
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import Event, JobResult, MemoryRecord
from langgraph_om.models.ask import Calls
from langgraph_om.models.pool import ModelPool
from langgraph_om.models.providers import write_schema
from langgraph_om.runtime.context import RunContext, RunFlow, Show, Work, discard
from langgraph_om.runtime.drivers import POLL_SECONDS
from langgraph_om.runtime.executors import BackgroundBuffering, Buffering, InPlace
from langgraph_om.runtime.flows import log_failures
from langgraph_om.runtime.hooks import Hooks
from langgraph_om.runtime.jobs.protocol import ForgettingExecutor
from langgraph_om.runtime.jobs.requests import (
    carry_out_request,
    submit_job,
)
from langgraph_om.runtime.run import ResourceId, Runs
from langgraph_om.runtime.state import (
    Spans,
    conversation_of,
    read_stored_record,
    record_seen_from_outside,
    values_of,
)

logger = logging.getLogger("langgraph_om")

JOB_DEADLINES = 5
"""A background job may take so many times the `deadline` of a turn."""


_NO_KEY = (
    "memory's model %r has no key: nothing can be observed once there is enough to observe; set "
    "the environment variable %s"
)


_WINDOW_PART = 0.8
"""How much of the Actor's window a prompt may take; the rest is for its answer, and for what is
counted otherwise."""
_LEAST_ROOM = 300


@dataclass
class RunScope:
    """The run around the steps of one turn, for features that ask it."""

    runner: StepRunner
    config: RunnableConfig | None = None
    """`None`: it is found around the call, and so is the store."""
    state: Mapping[str, Any] | None = None
    """The graph's state; `None` outside of a graph."""
    store: Any = None
    changes: dict[str, Any] = field(default_factory=dict)
    """What features change in the graph's state, beside the conversation and the record."""
    kept: dict[str, Any] = field(default_factory=dict)
    """By feature, what it keeps for the turn."""
    given: dict[str, Any] = field(default_factory=dict)
    """By name, what the caller of a step hands in for features."""


@dataclass
class StepRunner:
    """What one memory runs its steps with; `ObservationalMemory` sets it up and holds it."""

    settings: Settings
    models: ModelPool
    hooks: Hooks
    buffering: Buffering
    clock: Callable[[], datetime]
    deadline: float
    """Seconds that one cycle may take."""
    messages_key: str = "messages"
    resource_id: ResourceId = None
    enabled: bool = True
    store_uses: frozenset[StoreUse] = field(init=False, default=frozenset())
    """For what the graph's store is used."""
    runs: Runs = field(init=False)
    spans: Spans = field(init=False, default_factory=Spans)
    window: int | None = field(init=False, default=None)
    """The most that the Actor's model reads, in tokens; `None` where nobody has said."""
    _storage: list[object] = field(init=False, default_factory=list)
    """What flows call."""
    _warned_closed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.runs = Runs(self.resource_id)
        features = self.settings.features.all
        kept = (feature.store_use for feature in features if feature.uses_store)
        self.store_uses = frozenset(filter(None, kept))
        for connect in self.settings.features.having("connect"):
            self._storage += connect(self)

    def fit_window(self, tokens: int | None, tools: Sequence[Any] = (), system: Any = None) -> None:
        """Keep messages and observations to what the Actor's model can read.

        Limits are scaled down together where a prompt might grow beyond a part of the window; of
        several models the smallest one counts. What is too small is never made larger again.

        Args:
            tokens: The most that the model reads; `None` where nobody says it.
            tools: The model's tools, as far as they are known.
            system: The agent's own system prompt: a text, a message or `None`.
        """
        if not self.enabled or tokens is None:
            return
        if self.window is not None and tokens >= self.window:
            return  # counted once: schemas of tools take a while
        self.window = tokens
        before = self.settings.thresholds
        own = system.text if isinstance(system, BaseMessage) else system or ""
        beside = sum(map(self.settings.counter.count_text, [own, *map(write_schema, tools)]))
        beside += FIXED_TOKENS + sum(
            count() for count in self.settings.features.having("instruction_tokens")
        )
        room = max(_LEAST_ROOM, int(tokens * _WINDOW_PART) - beside)
        self.settings = self.settings.fit(room)
        if before.largest_tokens > room:
            after = self.settings.thresholds
            self.runs.warn_once(
                "the Actor's model reads %d tokens, and messages and observations may grow to %d "
                "before a turn waits: all limits are scaled down, so that they grow to %d; set "
                "`token_budget` to choose them yourself",
                tokens,
                before.largest_tokens,
                after.largest_tokens,
            )

    def __reduce__(self) -> Any:
        """Refuse to be copied to another process.

        Raises:
            TypeError: Always.
        """
        msg = (
            "a memory cannot be pickled, nor an agent with one: it holds threads and connections; "
            "build it in the process that uses it"
        )
        raise TypeError(msg)

    def warn_in_coroutine(self, method: str) -> None:
        """Warn, once, where a method that asks models would hold up an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self.runs.warn_once(
            "`memory.%s` blocks the event loop that it is called in until the models have "
            "answered; await `memory.a%s`",
            method,
            method,
        )

    # --- The run ---------------------------------------------------------------------------------

    def is_on(self, config: RunnableConfig | None = None) -> bool:
        """Return whether memory is in force for this run (`om_enabled`)."""
        return self.enabled and self.runs.is_on(config)

    def is_read_only(self, config: RunnableConfig | None = None) -> bool:
        """Return whether memory is shown in this run and not written (`om_read_only`)."""
        return self.runs.is_read_only(config)

    def identity(self, config: RunnableConfig | None = None, *, thread_id: str = "") -> Identity:
        """Tell whose conversation a run is about."""
        who = self.runs.identity(config, thread_id)
        for identify in self.settings.features.having("identify"):
            who = identify(who)
        return who

    def conversation(self, state: Any) -> list[BaseMessage]:
        """Return the messages of a state of any kind."""
        return conversation_of(values_of(state, self.messages_key), self.messages_key)

    def record(self, state: Any) -> MemoryRecord:
        """Return the memory in a state of any kind; a blank one where nothing ran yet."""
        return record_seen_from_outside(state, self.messages_key)

    def stored_record(self, state: Any) -> MemoryRecord:
        """Return the memory in a state, a blank one also where the state has no place for it."""
        return complete_record(read_stored_record(values_of(state, self.messages_key)))

    @property
    def archive(self) -> MessageArchive | None:
        """Where conversations are kept outside of the graph's state; `None` for nowhere."""
        storage: MessageArchive | None = self.settings.features.storage
        return storage

    @property
    def buffers_in_background(self) -> bool:
        """Whether jobs run beside the conversation, in threads or elsewhere."""
        return not isinstance(self.buffering, InPlace)

    @property
    def jobs_are_here(self) -> bool:
        """Whether the executor never waits for a network."""
        return isinstance(self.buffering, BackgroundBuffering | InPlace)

    @property
    def has_last_step(self) -> bool:
        """Whether there is something to do after the Actor's answer."""
        return any(feature.has_last_step for feature in self.settings.features.all)

    @property
    def removes_by(self) -> str:
        """The option that has messages taken out of a graph's state; empty where none are."""
        found = (feature.removes_by for feature in self.settings.features.all)
        return next(filter(None, found), "")

    @property
    def is_closed(self) -> bool:
        """Whether background jobs are not taken any more."""
        return bool(getattr(self.buffering, "is_closed", False))

    @property
    def settings_in_force(self) -> Settings:
        """The settings of a step: once closed, those of a memory that buffers nothing."""
        if not self.is_closed or self.settings.thresholds.buffer_tokens is None:
            return self.settings
        if not self._warned_closed:
            self._warned_closed = True
            logger.warning(
                "the memory is closed and goes on without background work; a turn waits where its "
                "messages or observations exceed `block_after`"
            )
        thresholds = self.settings.thresholds.without_buffering()
        return replace(self.settings, thresholds=thresholds)

    def context(
        self,
        config: RunnableConfig | None = None,
        *,
        emit: Callable[[Event], None] = discard,
        work: Callable[[Work], Any] | None = None,
    ) -> RunContext:
        """Return what a flow is driven with.

        Args:
            config: The run's configuration, where it is not found around the call.
            emit: Shows an event at the moment it happens.
            work: Has a decision carried out elsewhere.
        """
        calls = Calls(self.models, self.clock, self.deadline, self.settings.counter, config)
        return RunContext(
            calls,
            self.hooks,
            self.buffering,
            self.carry_out,
            tuple(self._storage),
            emit,
            work,
            jobs_are_here=self.jobs_are_here,
        )

    # --- Flows -----------------------------------------------------------------------------------

    def inspect(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        identity: Identity,
        *,
        scope: RunScope | None = None,
        must_proceed: bool = False,
        buffering_waits: bool | None = None,
        is_final: bool = False,
    ) -> RunFlow[Step]:
        """Inspect the conversation, log what failed, and show what happened."""
        around = RunScope(self) if scope is None else scope
        waits = not self.buffers_in_background if buffering_waits is None else buffering_waits
        step = Step(
            self.settings_in_force,
            record,
            messages,
            identity,
            self.clock(),
            before=self.spans.recall(record["id"]),
            scope=around,
            is_final=is_final,
            texts={} if around.state is None else self.read_texts(around.state),
        )
        yield from inspect(step, must_proceed=must_proceed, buffering_waits=waits)
        self.spans.keep(step.record["id"], step.window.span)
        log_failures(step.events)
        if not record["id"]:
            self._look_at_history(step)
            for name, key in self.models.find_missing_keys().items():
                self.runs.warn_once(_NO_KEY, name, key)
        for event in step.events:
            if event["type"] == "status":
                self.hooks.tell(event)
        yield Show(step.events)
        return step

    def _look_at_history(self, step: Step) -> None:
        """Look, where memory begins, whether it will begin again with as much in each run."""
        thresholds = self.settings.thresholds
        is_long = step.window.tokens >= (thresholds.buffer_tokens or thresholds.message_tokens)
        if is_long and any(
            entry.message.type == "ai" for entry in step.window.entries[: step.window.fresh_from]
        ):
            self.runs.warn_of_repetition(None, step.identity.thread_id)

    def decide(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> Decision:
        """Decide what is next, from a record in which everything is counted already."""
        window, settings = self._window(record, messages), self.settings_in_force
        return plan(record, window, settings.thresholds, self.clock(), settings.features)

    def decide_rest(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> Decision:
        """Decide what is next where all of a conversation shall be observed."""
        window = self._window(record, messages)
        return plan_the_rest(record, window, self.settings_in_force.thresholds)

    def carry_out(self, work: Work) -> EffectFlow[None]:
        """Return the cycle that carries out a decision, waiting for what it needs."""
        window = self._window(work.record, work.messages)
        return carry_out(self.settings_in_force, work.record, window, work.decision, self.clock())

    def start_job(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        decision: Decision,
        config: RunnableConfig | None = None,
    ) -> RunFlow[Event]:
        """Start a job in the background, and show that.

        Returns:
            Its start event; a failure when the executor has no room for it now.
        """
        window, now = self._window(record, messages), self.clock()
        job = yield from describe_job(self.settings, record, window, decision, now)
        if job is None:
            started: Event = waive(window, decision.operation)
        else:
            context = self.job_context(job, config)
            is_taken = yield from submit_job(
                self.buffering, job, messages, decision, now=now, context=context
            )
            for release in () if is_taken else self.settings.features.having("release"):
                yield from release(record, decision.operation)
            started = job.start if is_taken else build_deferred(self.settings, record, window, job)
        yield Show([started])
        return started

    def job_context(self, job: Cycle, config: RunnableConfig | None = None) -> RunContext:
        """Return what a job is driven with, wherever it runs."""
        context = self.context(config)
        calls = replace(context.calls, deadline=self.deadline * JOB_DEADLINES)
        return replace(context, calls=calls, opening=job.start)

    def run_request(
        self, request: Mapping[str, Any], config: RunnableConfig | None = None
    ) -> tuple[EffectFlow[JobResult], RunContext]:
        """Return the flow that carries out a request, and what it is driven with."""
        context = self.context(config)
        calls = replace(context.calls, deadline=self.deadline * JOB_DEADLINES)
        return carry_out_request(self.settings, request), replace(context, calls=calls)

    def _window(
        self, record: MemoryRecord, messages: Sequence[BaseMessage], request: str | None = None
    ) -> Window:
        """Open the window of a conversation that was inspected in this step."""
        counter = self.settings.counter
        before = self.spans.recall(record["id"])
        return open_window(
            record, messages, counter, is_counted=True, request=request, before=before
        )

    # --- The Actor's input -----------------------------------------------------------------------

    def actor_input(
        self,
        step: Step,
        system: str | SystemMessage | None = None,
        *,
        with_reasoning: bool = True,
    ) -> list[BaseMessage]:
        """Return what the Actor is given.

        Args:
            step: What was inspected, or a look at it.
            system: The agent's own system prompt, when it is not among the messages.
            with_reasoning: Whether reasoning that its provider binds to what stands before it is
                shown where it is valid.
        """
        return assemble(
            step.view, step.record, step.messages, system=system, with_reasoning=with_reasoning
        )

    def look(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        texts: Mapping[str, str] | None = None,
        config: RunnableConfig | None = None,
    ) -> Step:
        """Return a step from which a view is made, and that changes nothing.

        Args:
            record: The memory, as the last inspection left it.
            messages: The whole conversation.
            texts: By feature, what it shows that no record holds.
            config: The run's configuration.
        """
        settings, now, shown = self.settings, self.clock(), dict(texts or {})
        today = now.astimezone(settings.timezone).date()
        if self.is_read_only(config):  # nothing was inspected
            step = Step(settings, record, messages, self.identity(config), now, texts=shown)
            count_and_collect(step)
            step.record = freeze_view(step, today)
            step.day = find_day(step.record, today)
            return step
        return Step(
            settings,
            record,
            messages,
            Identity(record["thread_id"], record["resource_id"]),
            now,
            before=self.spans.recall(record["id"]),
            texts=shown,
            is_counted=True,
            day=find_day(record, today),
        )

    def read(
        self,
        scope: RunScope,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        identity: Identity,
    ) -> RunFlow[Step]:
        """Have features read what a run is shown in which nothing is inspected or written."""
        step = Step(self.settings, record, messages, identity, self.clock(), scope=scope)
        for read in self.settings.features.having("read"):
            yield from read(step)
        return step

    def read_texts(self, state: Any) -> dict[str, str]:
        """Return, by feature, what it shows that a graph's state holds."""
        hooks = self.settings.features.having("read_text")
        return {read.__self__.name: read(state) for read in hooks}

    # --- Background work -------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until no background job is at work; results are taken in by the next step.

        Args:
            timeout: Seconds to wait at most; `None`: as long as it takes.

        Returns:
            Whether nothing is left.
        """
        begun = time.monotonic()
        is_done = self.buffering.flush(timeout)
        return self._flush_features(timeout, begun) and is_done

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 same as `flush`
        """Do the same as `flush` without blocking the event loop, or a thread when cancelled."""
        begun = time.monotonic()
        # One of this package is looked at in no time; another one may ask a server.
        while not (self.flush(0) if self.jobs_are_here else await asyncio.to_thread(self.flush, 0)):
            if timeout is not None and time.monotonic() - begun >= timeout:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def forget(self, *, thread_id: str | None = None, resource_id: str | None = None) -> None:
        """Let go of jobs of a thread, or a resource, that is deleted from the archive.

        Raises:
            Exception: Whatever the executor raises, such as errors of its server.
        """
        for forget in self.settings.features.having("forget"):
            forget(thread_id=thread_id, resource_id=resource_id)
        if isinstance(self.buffering, ForgettingExecutor):
            self.buffering.forget(thread_id=thread_id, resource_id=resource_id)

    def close(self, timeout: float = 5.0) -> bool:
        """Start no more background jobs and wait for those at work.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether nothing is left.
        """
        begun = time.monotonic()
        for close in self.settings.features.having("close"):
            close()
        is_done = self.buffering.close(timeout)
        return self._flush_features(timeout, begun) and is_done

    def _flush_features(self, timeout: float | None, begun: float) -> bool:
        """Wait, as long as is left of a timeout, for what features do beside the runs."""
        is_done = True
        for flush in self.settings.features.having("flush"):
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - begun))
            is_done = flush(left) and is_done
        return is_done


def only_folding(events: Sequence[Event]) -> list[Event]:
    """Return the events that change memory."""
    return list(filter(is_folded, events))
