"""What nodes, hooks and the memory itself run a step with: flows, and what they are driven with.

The rules are the core's; here they meet the run's configuration, the executor and the storage.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.archive import StoreUse
from langgraph_om.core.actor.prompt import STATE_CHANNELS, assemble, find_day
from langgraph_om.core.config.settings import NOTHING_IN_STATE, Identity, InState, Parts, Settings
from langgraph_om.core.content.text import write_json
from langgraph_om.core.cycles.carry_out import (
    build_deferred,
    carry_out,
    describe_job,
    take_in_results,
)
from langgraph_om.core.effects import (
    AskModel,
    Call,
    CallReply,
    EffectFlow,
    ModelReply,
    Show,
    Submit,
    Work,
)
from langgraph_om.core.plan import Decision
from langgraph_om.core.record.fold import fold, is_folded
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.record.window import open_window
from langgraph_om.core.step import Step, count_and_collect, freeze_view, inspect, peek_pending
from langgraph_om.core.wire import Event, JobResult, MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.ask import Calls
from langgraph_om.models.pool import ModelPool
from langgraph_om.models.providers import name_actor
from langgraph_om.runtime.actor import Actor
from langgraph_om.runtime.executors import Executor, InlineBuffering
from langgraph_om.runtime.flows import RunContext, drive, run_in_thread
from langgraph_om.runtime.hooks import Hooks, log_failures
from langgraph_om.runtime.jobs import build_request, carry_out_request, do_job
from langgraph_om.runtime.run import (
    Runs,
    channel_of,
    conversation_of,
    read_stored_record,
    record_seen_from_outside,
    values_of,
)

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

JOB_DEADLINES = 5
"""A background job may take so many times the `deadline` of a turn."""


_NO_MODEL = (
    "memory's model %r can't be asked here, so nothing will be observed: %s, or name a model that "
    "can: ObservationalMemory(model=...)"
)


_MOST_UNSHOWN = 3
"""How many answers of the Actor may come before anybody has asked for its input."""

_POLL_SECONDS = 0.02


@dataclass
class RunScope:
    """The run around the steps of one turn."""

    runner: StepRunner
    config: RunnableConfig | None = None
    """`None`: it is found around the call, and so is the store."""
    state: Mapping[str, Any] | None = None
    """The graph's state; `None` outside of a graph."""
    store: Any = None
    is_streamed: bool = True
    """Whether somebody is told of what happens."""
    changes: dict[str, Any] = field(default_factory=dict)
    """What changes in the graph's state, beside the conversation and the record."""
    working: str | None = None
    """The working memory as the turn shows it; `None` until it was read."""


@dataclass
class StepRunner:
    """What one memory runs its steps with; `ObservationalMemory` sets it up and holds it."""

    runs: Runs
    actor: Actor
    """The agent's models, and the limits that fit them."""
    models: ModelPool
    hooks: Hooks
    buffering: Executor
    clock: Callable[[], datetime]
    deadline: float
    """Seconds that one cycle may take."""
    messages_key: str = "messages"
    store_uses: frozenset[StoreUse] = field(init=False, default=frozenset())
    """For what the graph's store is used."""
    _unshown: int = field(init=False, default=0)
    """How many answers came while nobody asked for the Actor's input; no count once somebody has.
    """

    def __post_init__(self) -> None:
        parts = self.settings.parts
        self.store_uses = list_store_uses(parts)
        for part in (parts.archive, parts.recall, parts.working):
            if part is not None:
                part.connect(self)

    @property
    def settings(self) -> Settings:
        """The settings, with limits that fit the Actor's models."""
        return self.actor.settings

    def __reduce__(self) -> Any:
        """Refuse to be copied to another process."""
        msg = (
            "neither a memory nor an agent with one can be pickled: it holds threads and "
            "connections; build it in the process that uses it"
        )
        raise TypeError(msg)

    # --- The run ---------------------------------------------------------------------------------

    def identity(self, config: RunnableConfig | None = None, *, thread_id: str = "") -> Identity:
        """Tell whose conversation a run is about."""
        who, archiving = self.runs.identity(config, thread_id), self.settings.parts.archive
        return who if archiving is None else archiving.identify(who)

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
    def archive(self) -> SQLAlchemyArchive | None:
        """Where conversations are kept outside of the graph's state; `None` for nowhere."""
        return self.settings.parts.storage

    @property
    def buffers_in_background(self) -> bool:
        """Whether jobs run beside the conversation, in threads or elsewhere."""
        return not isinstance(self.buffering, InlineBuffering)

    @property
    def has_last_step(self) -> bool:
        """Whether there is something to do after the Actor's answer."""
        parts = self.settings.parts
        return parts.archive is not None or (parts.titles is not None and parts.titles.are_asked)

    @property
    def removes_by(self) -> str:
        """The option that has messages taken out of a graph's state; empty where none are."""
        return "" if self.settings.parts.evict is None else "evict"

    @property
    def is_closed(self) -> bool:
        """Whether background jobs are not taken any more."""
        return bool(getattr(self.buffering, "is_closed", False))

    def context(
        self,
        config: RunnableConfig | None = None,
        *,
        streams: bool = False,
        actor: str = "",
    ) -> RunContext:
        """Return what a flow is run with.

        Args:
            streams: Whether events go to the run's custom stream as they happen.
            actor: The name of the Actor's model, outside of the agent's run.
        """
        model, counter = self.actor.find(actor), self.settings.counter
        calls = Calls(self.models, self.clock, self.deadline, counter, config, model)
        return RunContext(calls, self.hooks, self.buffering, streams)

    # --- Flows -----------------------------------------------------------------------------------

    def inspect(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        identity: Identity,
        *,
        scope: RunScope,
        must_proceed: bool = False,
        is_final: bool = False,
        previous: Step | None = None,
    ) -> EffectFlow[Step]:
        """Inspect the conversation, log what failed, and show what happened.

        Args:
            previous: What has inspected these very messages before, in the same turn.
        """
        settings = self.actor.settings_of(record)
        is_again = previous is not None and previous.settings == settings
        step = Step(
            settings,
            record,
            messages,
            identity,
            self.clock(),
            scope=scope,
            is_final=is_final,
            is_again=is_again,
            before=previous.window if previous is not None and is_again else None,
            windows=self.actor.list_windows(record),
            in_state=self.read_state(scope.state),
        )
        yield from inspect(
            step,
            must_proceed=must_proceed,
            buffering_waits=not self.buffers_in_background,
        )
        log_failures(step.events)
        if step.lost:
            self._warn_of_loss(step)
        if record["id"] and step.record["log"] and self._unshown < _MOST_UNSHOWN:
            self._look_at_answers(step)
        if not record["id"]:
            self._look_at_history(step)
            if not must_proceed:
                self.models.check(self.actor.find())
            for _, name, needs in self.models.list_models(self.actor.find()):
                if needs:
                    self.runs.warn_once(_NO_MODEL, name, " and ".join(needs))
        for event in step.events:
            if event["type"] == "status":
                self.hooks.tell(event)
        yield Show(step.events)
        return step

    def _warn_of_loss(self, step: Step) -> None:
        """Warn, once, that something takes messages out before they are observed."""
        archived = self.archive is not None
        self.runs.warn_once(
            "thread %r: %d message(s) of about %d tokens left the conversation before they were "
            "observed, and %s. If a summarization middleware, a hook, a node or the caller "
            "shortens the conversation, remove that: memory keeps the prompt short, at "
            "`message_tokens`",
            step.record["thread_id"],
            len(step.lost),
            sum(step.lost),
            "only the archive has them" if archived else "memory knows nothing of them",
        )

    def _look_at_answers(self, step: Step) -> None:
        """Warn where the Actor answers, and nobody has asked for its input in this process."""
        known = step.former["token_cache"]["counts"]
        new = (entry.message for entry in step.window.uncounted if entry.key not in known)
        self._unshown += any(message.type == "ai" for message in new)
        if self._unshown == _MOST_UNSHOWN:
            self.runs.warn_once(
                "thread %r: observations are written, but no model sees them: the node that calls "
                "the Actor's model passes something else, such as `state['messages']`; pass "
                "`memory.llm_input_messages(state)`",
                step.record["thread_id"],
            )

    def _look_at_history(self, step: Step) -> None:
        """Look, where memory begins, whether it will begin again with as much in each run."""
        thresholds = step.settings.thresholds
        is_long = step.window.tokens >= (thresholds.buffer_tokens or thresholds.message_tokens)
        if is_long and any(
            entry.message.type == "ai" for entry in step.window.entries[: step.window.fresh_from]
        ):
            self.runs.warn_of_repetition(None, step.identity.thread_id)

    def resume(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> Step:
        """Return a step that goes on where another one has counted everything."""
        settings = self.actor.settings_of(record)
        who = Identity(record["thread_id"], record["resource_id"])
        step = Step(settings, record, messages, who, self.clock(), is_again=True)
        step.open()
        return step

    def work(self, step: Step, decision: Decision) -> Work:
        """Return the cycle that carries out a decision, waiting for what it needs."""
        flow = carry_out(step.settings, step.record, step.window, decision, self.clock())
        return Work(flow, step.record["turn"].get("waited_ms", 0) / 1000)

    def start_job(
        self, step: Step, decision: Decision, config: RunnableConfig | None = None
    ) -> EffectFlow[Event]:
        """Start a job in the background, and show that.

        Returns:
            Its start event; a failure when the executor has no room for it now.
        """
        settings, record, window, now = step.settings, step.record, step.window, self.clock()
        job = describe_job(settings, record, window, decision, now)
        whose, context = job.info.record, self._context_ahead(config)
        actor = name_actor(context.calls.actor)
        is_taken: bool = yield Submit(
            partial(
                self.buffering.submit,
                job.cycle_id,
                job.key,
                partial(do_job, job, context),
                thread_id=whose["thread_id"],
                resource_id=whose["resource_id"],
                about=job.about,
                deletion=(record.get("deletion") or 0),
                request=partial(build_request, job, step.messages, decision, now, actor),
            )
        )
        if not is_taken and self.is_closed:
            self.runs.warn_once(
                "the memory is closed and works without background jobs; a turn waits when its "
                "messages or observations exceed `block_after`"
            )
        started: Event = job.start if is_taken else build_deferred(settings, record, window, job)
        yield Show([started])
        return started

    def run_request(
        self, request: Mapping[str, Any], config: RunnableConfig | None = None
    ) -> tuple[EffectFlow[JobResult], RunContext]:
        """Return the flow that carries out a request, and what it is driven with."""
        actor = request.get("actor", "") if isinstance(request, Mapping) else ""
        context = self._context_ahead(config, actor)
        if actor and context.calls.actor is None and self.models.asks_actor:
            msg = (
                f"the job is for a memory that uses the agent's own model, {actor}, which this "
                f"process doesn't know: build the agent here with this memory, or name a model for "
                f"both, ObservationalMemory(model=...)"
            )
            raise ConfigurationError(msg)
        return carry_out_request(self.settings, request), context

    @property
    def job_seconds(self) -> float:
        """How long a background job may take."""
        return self.deadline * JOB_DEADLINES

    def _context_ahead(self, config: RunnableConfig | None, actor: str = "") -> RunContext:
        context = self.context(config, actor=actor)
        calls = replace(context.calls, deadline=self.job_seconds)
        return replace(context, calls=calls)

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
            with_reasoning: Whether reasoning that its provider binds to what stands before it is
                shown where it is valid.
        """
        self._unshown = _MOST_UNSHOWN + 1
        if self.actor.budget is not None and not self.actor.list_windows(step.record):
            self.runs.warn_once(
                "`token_budget` is a fraction of the Actor's context window, which isn't known: "
                "until a prompt is rejected as too long, the default limits hold; "
                "set `max_input_tokens`, or the `profile` of the model"
            )
        if step.view.leaves_out:
            self.runs.warn_once(
                "thread %r: the state holds more system messages than the %d tokens of "
                "`message_tokens`, so only the first and the newest are shown. Do not add one to "
                "the state in each turn; pass it when calling the model, such as "
                "`memory.llm_input_messages(state, system=...)`",
                step.record["thread_id"],
                step.settings.thresholds.message_tokens,
            )
        return assemble(step.view, step.record, system=system, with_reasoning=with_reasoning)

    def take_in(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> MemoryRecord:
        """Return a record with what came of its background jobs, as the next step will have it."""
        if not record["pending"]:
            return record
        settings = self.actor.read_window(record)[0]
        jobs = drive(peek_pending(record), self.context()).result
        window = open_window(record, messages, settings.counter)
        return fold(record, take_in_results(settings, record, window, jobs, self.clock()))

    def look(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        in_state: InState = NOTHING_IN_STATE,
        config: RunnableConfig | None = None,
    ) -> Step:
        """Return a step from which a view is made, and that changes nothing.

        Args:
            in_state: What the Actor is shown that no record holds.
        """
        who = self.identity(config) if self.runs.is_read_only(config) else None
        settings, now = self.actor.settings_for(record, messages, who), self.clock()
        today = now.astimezone(settings.timezone).date()
        if who is not None:  # nothing was inspected
            step = Step(settings, record, messages, who, now, in_state=in_state)
            count_and_collect(step)
            step.record = freeze_view(step, today)
            step.day = find_day(step.record, today)
            return step
        step = Step(
            settings,
            record,
            messages,
            Identity(record["thread_id"], record["resource_id"]),
            now,
            in_state=in_state,
            is_counted=True,
            day=find_day(record, today),
        )
        step.open()
        return step

    def read(
        self,
        scope: RunScope,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        identity: Identity,
    ) -> EffectFlow[Step]:
        """Read the working memory for a run in which nothing is inspected or written."""
        settings = self.actor.settings_for(record, messages, identity)
        step = Step(settings, record, messages, identity, self.clock(), scope=scope)
        if settings.parts.working is not None:
            yield from settings.parts.working.read(step)
        return step

    def catch_up(self, step: Step) -> EffectFlow[None]:
        """Archive what a tool is about to read, outside of inspections."""
        if step.settings.parts.archive is not None:
            yield from step.settings.parts.archive.before_tool(step)

    def read_state(self, state: Any) -> InState:
        """Return what the Actor is shown that a graph's state holds."""
        if state is None:
            return NOTHING_IN_STATE
        values, working = values_of(state, self.messages_key), self.settings.parts.working
        found = {name: value for name in STATE_CHANNELS if (value := channel_of(values, name))}
        return InState(
            "" if working is None else working.read_text(values), json.loads(write_json(found))
        )

    # --- Background work -------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until no background job is at work, and return whether none is left."""
        begun = time.monotonic()
        is_done = self.buffering.flush(timeout)
        return self._flush_index(timeout, begun) and is_done

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 same as `flush`
        """Do the same as `flush` without blocking the event loop, or a thread when cancelled."""
        begun = time.monotonic()
        while not await run_in_thread(self.flush, 0):  # which may ask a server
            if timeout is not None and time.monotonic() - begun >= timeout:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def forget(self, thread_ids: Sequence[str], resource_id: str | None = None) -> None:
        """Let go of jobs of threads, or a resource, that are deleted or moved in the archive.

        Raises:
            Exception: Whatever the executor raises, such as errors of its server.
        """
        self.buffering.forget(thread_ids, resource_id)

    def close(self, timeout: float = 5.0) -> bool:
        """Start no more background jobs, and return whether those at work have ended in time."""
        begun = time.monotonic()
        is_done = self.buffering.close(timeout)
        return self._flush_index(timeout, begun) and is_done

    def _flush_index(self, timeout: float | None, begun: float) -> bool:
        """Wait, as long as is left of a timeout, until what is new can be searched by meaning."""
        if self.settings.parts.meaning is None:
            return True
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - begun))
        return self.settings.parts.meaning.flush(left)


def list_store_uses(parts: Parts) -> frozenset[StoreUse]:
    """Return for what the graph's store is used."""
    uses = set[StoreUse]()
    if parts.meaning is not None:
        uses.add(parts.meaning.store_use)
    if parts.working is not None and parts.working.uses_store:
        uses.add(parts.working.store_use)
    return frozenset(uses)


def only_folding(events: Sequence[Event]) -> list[Event]:
    """Return the events that change memory."""
    return list(filter(is_folded, events))


def check_health(runner: StepRunner, *, ask: bool) -> EffectFlow[list[str]]:
    """Return what keeps a memory from working here, a sentence each.

    Args:
        ask: Whether the Observer's model is asked a question.
    """
    problems: list[str] = []
    if runner.is_closed:
        problems.append("the memory is closed and starts no background jobs")
    if runner.archive is not None:
        read = partial(runner.archive.thread, "om-check")
        reached: CallReply = yield Call(read, "om_check", runner.deadline)
        if reached.error is not None:
            why = str(reached.error) or reached.failure
            problems.append(f"the archive cannot be reached: {why}")
    models = runner.models.list_models(runner.actor.find())
    missing = {name: " and ".join(needs) for _, name, needs in models if needs}
    problems += [f"memory's model {name!r} can't be asked: {why}" for name, why in missing.items()]
    if ask and not problems:
        question = HumanMessage("Are you there? Answer with one word.")
        answer: ModelReply = yield AskModel("observer", [question])
        if answer.error is not None:
            problems.append(f"the Observer's model didn't answer: {answer.error}")
    return problems
