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
from operator import is_
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.archive import StoreUse
from langgraph_om.core.actor.in_sight import STATE_CHANNELS
from langgraph_om.core.actor.prompt import assemble, count_instructions, find_day
from langgraph_om.core.config.settings import NOTHING_IN_STATE, Identity, InState, Parts, Settings
from langgraph_om.core.config.thresholds import (
    ANY_MODEL,
    find_smallest,
    join_windows,
    select_learned,
)
from langgraph_om.core.content.parts import is_summary
from langgraph_om.core.content.text import write_json
from langgraph_om.core.cycles.carry_out import (
    build_deferred,
    carry_out,
    describe_job,
    take_in_results,
)
from langgraph_om.core.cycles.cycle import waive
from langgraph_om.core.effects import EffectFlow, Show, Submit, Work
from langgraph_om.core.plan import Decision, plan, plan_the_rest
from langgraph_om.core.record.fold import fold, is_folded
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.step.inspect import count_and_collect, freeze_view, inspect, peek_pending
from langgraph_om.core.step.step import Step
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.wire import ActorWindow, Event, JobResult, MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.ask import Calls
from langgraph_om.models.pool import ModelPool
from langgraph_om.models.providers import (
    find_image_provider,
    find_tools,
    find_window,
    name_actor,
    write_schema,
)
from langgraph_om.runtime.executors import (
    Executor,
    ForgettingExecutor,
    InlineBuffering,
)
from langgraph_om.runtime.flows import RunContext, drive
from langgraph_om.runtime.hooks import Hooks
from langgraph_om.runtime.job_requests import build_request, carry_out_request, do_job
from langgraph_om.runtime.run import ResourceId, Runs, find_acting
from langgraph_om.runtime.state import (
    channel_of,
    conversation_of,
    read_stored_record,
    record_seen_from_outside,
    values_of,
)
from langgraph_om.runtime.telemetry import log_failures

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

_WINDOW_PART = 0.8
"""How much of the Actor's window a prompt may take; the rest is for its answer, and for what is
counted otherwise."""
_LEAST_ROOM = 300
_MOST_INSPECTED = 15
"""Threads that are between a step and the call of the Actor's model, at most; of more, the window
is opened again."""
_POLL_SECONDS = 0.02
_MOST_LEARNED = 15
"""Threads for which it is kept how long a prompt was refused: their records have it soon."""


@dataclass
class RunScope:
    """The run around the steps of one turn."""

    runner: StepRunner
    config: RunnableConfig | None = None
    """`None`: it is found around the call, and so is the store."""
    state: Mapping[str, Any] | None = None
    """The graph's state; `None` outside of a graph."""
    store: Any = None
    changes: dict[str, Any] = field(default_factory=dict)
    """What changes in the graph's state, beside the conversation and the record."""
    working: str | None = None
    """The working memory as the turn shows it; `None` until it was read."""


@dataclass
class StepRunner:
    """What one memory runs its steps with; `ObservationalMemory` sets it up and holds it."""

    settings: Settings
    models: ModelPool
    hooks: Hooks
    buffering: Executor
    clock: Callable[[], datetime]
    deadline: float
    """Seconds that one cycle may take."""
    messages_key: str = "messages"
    resource_id: ResourceId = None
    enabled: bool = True
    budget: Callable[[int], Settings] | None = None
    """Returns the settings for the Actor's window, in tokens, where the budget is a part of it."""
    store_uses: frozenset[StoreUse] = field(init=False, default=frozenset())
    """For what the graph's store is used."""
    runs: Runs = field(init=False)
    windows: dict[str, ActorWindow] = field(init=False, default_factory=dict)
    """How long a prompt the Actor's models read, by their names, as far as this process knows."""
    learned: dict[str, dict[str, ActorWindow]] = field(init=False, default_factory=dict)
    """The same for one thread alone, by the id of its record, where a prompt was refused."""
    left_out: dict[str, frozenset[str]] = field(init=False, default_factory=dict)
    """By the names of the Actor's models, the forms of content that helped when left out."""
    tool_tokens: int = field(init=False, default=0)
    """What the Actor's tools count, as far as they are known."""
    _configured: Settings = field(init=False)
    """The settings while nobody knows what the Actor's model reads."""
    _models: dict[str, Any] = field(init=False, default_factory=dict)
    """The Actor's models that were told so far, by their names."""
    _met: Any = field(init=False, default=None)
    """The one that was told last."""
    _unshown: int = field(init=False, default=0)
    """How many answers came while nobody asked for the Actor's input; no count once somebody has.
    """
    _images: EstimatingCounter | None = field(init=False, default=None)
    """Counts as the Actor's model counts images; `None` where that is the usual way."""
    _actor: tuple[Sequence[Any], Any] = field(init=False, default=((), None))
    """The Actor's tools and its system prompt, as far as they are known."""
    _storage: list[object] = field(init=False, default_factory=list)
    """What flows call."""
    _inspected: dict[str, Step] = field(init=False, default_factory=dict)
    """By the id of a record, the last step of a thread, until the Actor's input is made of it."""

    def __post_init__(self) -> None:
        self.runs = Runs(self.resource_id, self.enabled)
        self._configured = self.settings
        self.learn_window(self.settings.max_input_tokens, "option")
        self.store_uses = list_store_uses(self.settings.parts)
        self._storage = self._connect(self.settings.parts)

    def _connect(self, parts: Parts) -> list[object]:
        """Tell the parts what the memory runs with; return what flows call as storage."""
        storage: list[object] = []
        if parts.archive is not None:
            storage += parts.archive.connect(self)
        if parts.sharing is not None and parts.storage is not None:
            storage.append(parts.sharing.connect(parts.storage))
        if parts.meaning is not None:
            parts.meaning.connect(parts.storage)
        if parts.recall is not None:
            parts.recall.connect(self)
        if parts.working is not None:
            storage += parts.working.connect(self)
        if parts.inject is not None:
            storage.append(parts.inject.connect(parts))
        return storage

    # --- The Actor's window ----------------------------------------------------------------------

    @property
    def window(self) -> int | None:
        """The most that the Actor's models read, in tokens; `None` where nobody has said."""
        smallest = find_smallest(self.windows)
        return None if smallest is None else smallest["tokens"]

    def find_window(self, record: MemoryRecord, model: str) -> int | None:
        """Return the most that one of the Actor's models reads, as far as that is known.

        Args:
            record: The memory of the thread, which may know it from another process.
        """
        windows = self.list_windows(record)
        own = {name: windows[name] for name in {ANY_MODEL, model} & windows.keys()}
        smallest = find_smallest(own if model else windows)
        return None if smallest is None else smallest["tokens"]

    def list_windows(self, record: MemoryRecord) -> dict[str, ActorWindow]:
        """Return the windows that count for a thread, by the names of models."""
        known = self.windows
        learned = self.learned.get(record["id"])
        if learned is not None:
            known = join_windows(known, learned)
        if "windows" not in record or not self.enabled or self._configured.max_input_tokens:
            return known
        return join_windows(known, select_learned(record, self._models))

    def settings_of(self, record: MemoryRecord) -> Settings:
        """Return the settings of a thread, with what it has learned.

        These do not hold for other threads: whoever may write to a thread may write to its record.
        """
        windows, settings = self.list_windows(record), self.settings
        smallest = None if windows is self.windows else find_smallest(windows)
        if smallest is not None:
            settings = self._warn_of_scaling(smallest["tokens"], self._fit(smallest["tokens"]))
        return settings.count_like(record).in_zone(record.get("timezone"))

    def settings_for(
        self, record: MemoryRecord, messages: Sequence[BaseMessage], who: Identity | None = None
    ) -> Settings:
        """Return the settings of a thread where no step looks at it, in its user's zone.

        Args:
            who: Who the run is for, which dates as its step would; `None` outside of a run, where
                the zone so far counts, if there was a step.
        """
        settings = self.settings_of(record)
        if who is None and record["id"]:
            return settings
        said = None if who is None else who.timezone
        return settings.in_zone(settings.choose_zone(messages, said, self.clock()))

    def read_window(self, record: MemoryRecord) -> tuple[Settings, ActorWindow | None]:
        """Return the settings and the Actor's window as somebody sees them who looks at a thread.

        Where this process has met no Actor, as in the command, the record tells of its window.
        """
        smallest = find_smallest(self.list_windows(record))
        if smallest is not None:
            return self.settings_of(record), smallest
        kept = find_smallest(record.get("windows", {}))
        settings = self.settings if kept is None else self._fit(kept["tokens"])
        return settings.count_like(record).in_zone(record.get("timezone")), kept

    @property
    def agent_prompt(self) -> Any:
        """The agent's own system prompt, a text or a message, as far as this process knows."""
        return self._actor[1]

    def meet_actor(self, model: Any, tools: Sequence[Any] = (), system: Any = None) -> None:
        """Keep messages and observations to what the Actor's model can read.

        Limits are scaled down together where a prompt might grow beyond a part of the window; of
        several models the smallest one counts. What is too small is never made larger again.
        Images count as the first model with a formula of its own counts them.

        Args:
            model: The chat model, perhaps with tools bound or with fallbacks, or a method of one.
            system: The agent's own system prompt: a text, a message or `None`.
        """
        name = name_actor(model)
        if model is not None:
            self._met = self._models[name] = model
        self._count_images_as(model)
        before = self._actor
        self._actor = (before[0] or tools or find_tools(model), before[1] or system)
        if self._actor != before:
            count = self.settings.counter.count_text
            self.tool_tokens = sum(map(count, map(write_schema, self._actor[0])))
            self._fit_all()
        if not self._configured.max_input_tokens:  # which says it in the place of the profile
            self.learn_window(find_window(model), "profile", name)

    def find_actor(self, name: str = "") -> Any:
        """Return the Actor's model: of the run around, of a name, or else the one met last."""
        return find_acting() or (self._models.get(name) if name else None) or self._met

    def _count_images_as(self, model: Any) -> None:
        if self._images is not None or not self._configured.counts_as_actor:
            return
        provider = find_image_provider(model)
        if provider is not None:
            self._images = EstimatingCounter(provider=provider)
            self._configured = self._configured.count_with(self._images)
            self.settings = self.settings.count_with(self._images)
            self._fit_all()

    def learn_window_of(self, record: MemoryRecord, model: str, tokens: int) -> None:
        """Note how long a prompt one of the Actor's models reads, for one thread alone."""
        known = self.learned.get(record["id"], {})
        told: dict[str, ActorWindow] = {model: {"tokens": tokens, "source": "refused"}}
        others = [(key, each) for key, each in self.learned.items() if key != record["id"]]
        own = (record["id"], join_windows(known, told))
        self.learned = dict([*others[-_MOST_LEARNED:], own])

    def learn_window(
        self,
        tokens: int | None,
        source: Literal["option", "profile"],
        model: str = ANY_MODEL,
    ) -> None:
        """Note how long a prompt one of the Actor's models reads; a larger window changes nothing.

        Args:
            tokens: The most that it reads; `None` where that is not known.
        """
        known = self.windows.get(model)
        if not self.enabled or tokens is None or (known and known["tokens"] <= tokens):
            return
        self.windows = {**self.windows, model: {"tokens": tokens, "source": source}}
        self._fit_all()

    def note_left_out(self, model: str, form: str, what: str) -> None:
        """Note that one of the Actor's models took a prompt without a form that it refused."""
        self.left_out[model] = self.left_out.get(model, frozenset()) | {form}
        self.runs.warn_once(
            "the Actor's model %r refused a prompt and took it without %s", model, what
        )

    def _fit_all(self) -> None:
        if self.window is not None:
            self.settings = self._warn_of_scaling(self.window, self._fit(self.window))

    def _fit(self, window: int) -> Settings:
        """Return the settings for a window."""
        before, system = self._resolve_budget(window), self._actor[1]
        if self._images is not None:
            before = before.count_with(self._images)
        own = system.text if isinstance(system, BaseMessage) else system or ""
        beside = before.counter.count_text(own) + self.tool_tokens + count_instructions(before)
        return before.fit(max(_LEAST_ROOM, int(window * _WINDOW_PART) - beside))

    def _warn_of_scaling(self, window: int, settings: Settings) -> Settings:
        limits = settings.thresholds
        if limits.scaled_from is not None:
            self.runs.warn_once(
                "the Actor's model reads %d tokens, and messages and observations may grow to %d "
                "before a turn waits: all limits are scaled down, so that they grow to %d; set a "
                "smaller `token_budget` to choose them yourself",
                window,
                limits.scaled_from,
                limits.largest_tokens,
            )
        return settings

    def _resolve_budget(self, window: int) -> Settings:
        if self.budget is None:
            return self._configured
        try:
            return self.budget(window)
        except ConfigurationError as error:  # no reason to end a turn
            self.runs.warn_once(
                "`token_budget` is a part of what the Actor's model reads, %d tokens, and cannot "
                "be kept: %s. The limits are scaled down from those without it",
                window,
                error,
            )
            return self._configured

    def __reduce__(self) -> Any:
        """Refuse to be copied to another process."""
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
            "`%s` blocks the event loop that it is called in until the models have answered; await "
            "`%s`",
            method,
            ".a".join(method.split(".")),
        )

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

    def settings_in_force(self, record: MemoryRecord) -> Settings:
        """Return the settings of a step: once closed, those of a memory that buffers nothing."""
        settings = self.settings_of(record)
        if not self.is_closed or settings.thresholds.buffer_tokens is None:
            return settings
        self.runs.warn_once(
            "the memory is closed and goes on without background work; a turn waits where its "
            "messages or observations exceed `block_after`"
        )
        return replace(settings, thresholds=settings.thresholds.without_buffering())

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
        model, counter = self.find_actor(actor), self.settings.counter
        calls = Calls(self.models, self.clock, self.deadline, counter, config, model)
        return RunContext(calls, self.hooks, self.buffering, tuple(self._storage), streams)

    # --- Flows -----------------------------------------------------------------------------------

    def inspect(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        identity: Identity,
        *,
        scope: RunScope | None = None,
        must_proceed: bool = False,
        is_final: bool = False,
    ) -> EffectFlow[Step]:
        """Inspect the conversation, log what failed, and show what happened."""
        around = RunScope(self) if scope is None else scope
        step = Step(
            self.settings_in_force(record),
            record,
            messages,
            identity,
            self.clock(),
            scope=around,
            is_final=is_final,
            windows=self.list_windows(record),
            in_state=self.read_state(around.state),
        )
        yield from inspect(
            step,
            must_proceed=must_proceed,
            buffering_waits=not self.buffers_in_background,
        )
        log_failures(step.events)
        if step.lost and not any(map(is_summary, step.messages)):  # of which the middleware warns
            self._warn_of_loss(step)
        if record["id"] and step.record["log"] and self._unshown < _MOST_UNSHOWN:
            self._look_at_answers(step)
        if not record["id"]:
            self._look_at_history(step)
            if not must_proceed:
                self.models.check(self.find_actor())
            for _, name, needs in self.models.list_models(self.find_actor()):
                if needs:
                    self.runs.warn_once(_NO_MODEL, name, " and ".join(needs))
        for event in step.events:
            if event["type"] == "status":
                self.hooks.tell(event)
        yield Show(step.events)
        self._hand_on(step)
        return step

    def _hand_on(self, step: Step) -> None:
        """Keep a step for the nodes behind it, whose window and view are the same.

        Without it a turn of four steps opens twelve windows and makes eight views, not four.
        """
        self._inspected.pop(step.record["id"], None)
        if step.decision.kind == "proceed" and not (step.removed or step.is_final):
            others = [*self._inspected.items()][-_MOST_INSPECTED:]
            self._inspected = dict([*others, (step.record["id"], step)])

    def _find_inspected(
        self, record: MemoryRecord, messages: Sequence[BaseMessage], settings: Settings
    ) -> Step | None:
        """Return the step that has inspected exactly this; `None` if there is none."""
        step = self._inspected.get(record["id"])
        is_same = (
            step is not None
            and step.settings == settings
            and step.record == record
            and len(step.messages) == len(messages)
            and all(map(is_, step.messages, messages))
        )
        return step if is_same else None

    def _warn_of_loss(self, step: Step) -> None:
        """Warn, once for a thread, that something takes messages out before they are observed."""
        archived = self.archive is not None
        rest = "only the archive has them" if archived else "memory knows nothing of them"
        self.runs.warn_once(
            f"thread {step.record['thread_id']!r}: {len(step.lost)} message(s) of about "
            f"{sum(step.lost)} tokens left the conversation before they were observed, and {rest}. "
            f"If a hook, a node or the caller shortens the conversation, leave that out: memory "
            f"keeps the prompt short by itself, at `message_tokens`"
        )

    def _look_at_answers(self, step: Step) -> None:
        """Warn where the Actor answers, and nobody has asked for its input in this process."""
        known = step.former["token_cache"]["counts"]
        new = (entry.message for entry in step.window.entries if entry.key not in known)
        self._unshown += any(message.type == "ai" for message in new)
        if self._unshown == _MOST_UNSHOWN:
            self.runs.warn_once(
                "thread %r: observations are made, and no model is shown them: the node that calls "
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

    def decide(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> Decision:
        """Decide what is next, from a record in which everything is counted already."""
        settings = self.settings_in_force(record)
        step = self._find_inspected(record, messages, settings)
        window = self._window(settings, record, messages) if step is None else step.window
        return plan(record, window, settings.thresholds, self.clock(), settings.parts)

    def decide_rest(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> Decision:
        """Decide what is next where all of a conversation shall be observed."""
        settings = self.settings_in_force(record)
        return plan_the_rest(record, self._window(settings, record, messages), settings.thresholds)

    def work(
        self, record: MemoryRecord, messages: Sequence[BaseMessage], decision: Decision
    ) -> Work:
        """Return the cycle that carries out a decision, waiting for what it needs."""
        settings = self.settings_in_force(record)
        window = self._window(settings, record, messages)
        flow = carry_out(settings, record, window, decision, self.clock())
        return Work(flow, record["turn"].get("waited_ms", 0) / 1000)

    def start_job(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        decision: Decision,
        config: RunnableConfig | None = None,
    ) -> EffectFlow[Event]:
        """Start a job in the background, and show that.

        Returns:
            Its start event; a failure when the executor has no room for it now.
        """
        settings, now = self.settings_of(record), self.clock()
        window = self._window(settings, record, messages)
        job = yield from describe_job(settings, record, window, decision, now)
        if job is None:
            started: Event = waive(window, decision.operation)
        else:
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
                    request=partial(build_request, job, messages, decision, now, actor),
                )
            )
            if not is_taken and settings.parts.sharing is not None:
                yield from settings.parts.sharing.release(record, decision.operation)
            started = job.start if is_taken else build_deferred(settings, record, window, job)
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
                f"the job is for memory that asks the agent's own model, {actor}, which this "
                f"process has not met: build the agent here with this memory, or name a model for "
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

    def _window(
        self, settings: Settings, record: MemoryRecord, messages: Sequence[BaseMessage]
    ) -> Window:
        """Open the window of a conversation that was inspected in this step."""
        return open_window(record, messages, settings.counter, is_counted=True)

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
        if self.budget is not None and not self.list_windows(step.record):
            self.runs.warn_once(
                "`token_budget` is a part of what the Actor's model reads, and nobody has said how "
                "much that is: until a prompt is refused as too long, the limits are those without "
                "it; set `max_input_tokens`, or the `profile` of the model"
            )
        if step.view.leaves_out:
            self.runs.warn_once(
                "thread %r: the state holds more system messages than the %d tokens of "
                "`message_tokens`, so only the first and the newest are shown. Do not add one to "
                "the state in each turn; pass it to the call of the model, such as "
                "`memory.llm_input_messages(state, system=...)`",
                step.record["thread_id"],
                step.settings.thresholds.message_tokens,
            )
        return assemble(step.view, step.record, system=system, with_reasoning=with_reasoning)

    def take_in(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> MemoryRecord:
        """Return a record with what came of its background jobs, as the next step will have it."""
        if not record["pending"]:
            return record
        settings = self.read_window(record)[0]
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
        settings, now = self.settings_for(record, messages, who), self.clock()
        today = now.astimezone(settings.timezone).date()
        if who is not None:  # nothing was inspected
            step = Step(settings, record, messages, who, now, in_state=in_state)
            count_and_collect(step)
            step.record = freeze_view(step, today)
            step.day = find_day(step.record, today)
            return step
        known = self._find_inspected(record, messages, settings)
        if known is not None and known.in_state == in_state:
            self._inspected.pop(record["id"], None)  # the input is made of it once
            return known
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
        settings = self.settings_for(record, messages, identity)
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
        while not await asyncio.to_thread(self.flush, 0):  # which may ask a server
            if timeout is not None and time.monotonic() - begun >= timeout:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def forget(self, thread_ids: Sequence[str], resource_id: str | None = None) -> None:
        """Let go of jobs of threads, or a resource, that are deleted or moved in the archive.

        Raises:
            Exception: Whatever the executor raises, such as errors of its server.
        """
        if isinstance(self.buffering, ForgettingExecutor):
            self.buffering.forget(thread_ids=thread_ids, resource_id=resource_id)

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
