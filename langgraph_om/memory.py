"""The one object users hold: resolved settings, models, clock, and the core applied to a state.

It has no policy of its own; what it does with a conversation is decided by `core.plan` and carried
out by the flows of `core.cycle`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import BaseMessage, SystemMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

from langgraph_om.archive import MessageArchive
from langgraph_om.archive.log_cache import LogCache
from langgraph_om.archive.writer import ArchiveWriter
from langgraph_om.core.actor.prompt import count_extra
from langgraph_om.core.config.checks import check_count
from langgraph_om.core.config.options import (
    ObservationConfig,
    ObservationOptions,
    ReflectionConfig,
    ReflectionOptions,
    RetrievalConfig,
    RetrievalOptions,
)
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.effects import CycleFlow
from langgraph_om.core.events import to_part
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import complete_record, log_tokens
from langgraph_om.core.record.shared_log import without_thread
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.step.status import build_status, build_trim_notice
from langgraph_om.core.tokens.counter import TokenCounter, count_messages
from langgraph_om.core.wire import Event, MemoryRecord, Part
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.inspection import (
    MemoryView,
    read_history,
    read_observations_as_of,
    read_resource_as_of,
    read_resource_history,
    restore_resource,
)
from langgraph_om.models.model_value import ModelValue
from langgraph_om.options import read_options, refuse_unknown_options
from langgraph_om.recall.search import StoreIndex
from langgraph_om.recall.tool import Recalling, build_recall_tool
from langgraph_om.runtime.drivers import Ended, advance
from langgraph_om.runtime.executors import BackgroundBuffering, Buffering
from langgraph_om.runtime.runner import StepRunner, discard, without_messages
from langgraph_om.runtime.state import read_stored_record, record_of, values_of

if TYPE_CHECKING:
    from sqlalchemy import Engine

logger = logging.getLogger("langgraph_om")


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step of memory came to, outside of any graph."""

    record: MemoryRecord
    """The memory to keep, and to hand in with the next step."""
    events: list[Part]
    """What happened, as `data-om-*` parts in order."""
    messages: list[BaseMessage]
    """What the Actor gets; empty when the turn was aborted."""
    aborted: bool
    """Whether a failure ended the turn (`on_error="abort"`)."""
    evicted: list[str] = field(default_factory=list)
    """With `evict=True`: ids of the messages that need not be handed in any more."""


class ObservationalMemory(StepRunner):
    """Long-term memory for an agent's conversation.

    Args:
        model: Model of the Observer and the Reflector: `"provider/model"`, a chat model, a runnable
            over messages, a `ModelByInputTokens`, a function of the run's configuration that
            returns one of these, or a list of fallbacks, whose entries may also be
            `{"model": ..., "max_retries": n}`. `"default"` is `google/gemini-2.5-flash`, and so is
            nothing at all.
        enabled: Whether memory does anything; an agent with `enabled=False` works as without it.
        scope: `"thread"`: each thread has its own memory. `"resource"` is not available in this
            version.
        share_token_budget: Whether messages may use the room that observations leave, and the other
            way round.
        retrieval: Whether the Actor gets the tool `recall`, with which it reads the messages behind
            its observations: a flag, a `RetrievalConfig` or a mapping. Without an archive it reads
            the current thread; with one, all threads of the resource.
        observation: Settings of the Observer, an `ObservationConfig` or a mapping.
        reflection: Settings of the Reflector, a `ReflectionConfig` or a mapping.
        archive: Where messages and observations are kept beside the checkpointer: a URL such as
            `"sqlite:///memory.db"` or `"postgresql://..."`, an SQLAlchemy engine, or a
            `MessageArchive`.
        evict: Whether observed messages are removed from the conversation once the archive has
            them, so that a thread's state stays small however long it gets.
        resource_id: The user or entity a thread belongs to; `None`: `configurable["resource_id"]`.
        messages_key: The state's key of the conversation.
        token_counter: What counts tokens; `None`: `EstimatingCounter()`.
        max_input_tokens: Tokens of observations and messages together, above which messages are
            left out of the Actor's view, oldest first; the agent's own prompt and tools come on
            top. `None`: no limit.
        message_time: Tells the time of a message, where the application knows better.
        timezone: IANA name or `tzinfo` in which the Observer reads times.
        on_error: What follows when the Observer or Reflector fails: `"continue"` with raw messages,
            `"abort"` the turn without an answer, or `"raise"`.
        deadline: Seconds after which a turn stops waiting for one cycle, retries included.
        obscure_thread_ids: Whether thread ids are hashed before a model sees them; `None`: with
            `scope="resource"`.
        hooks: Functions, sync or async, by name. `on_observation_start`, `on_observation_end`,
            `on_reflection_start` and `on_reflection_end` are told of a cycle (a mapping) and change
            nothing. `before_observation` gets copies of the messages and returns those to show the
            Observer; `after_observation`, `before_reflection` and `after_reflection` get a text
            and return one; each is also given a mapping about the cycle, and `None` keeps what was
            given. When one of these four fails, so does the cycle: nothing unredacted is kept.
        on_debug_event: Called with a mapping for each internal event, its `type` one of
            `observation_triggered`, `observation_complete`, `reflection_triggered`,
            `reflection_complete` and `step_progress`; what it raises is logged.
        buffering: How background work is run: `BackgroundBuffering()` (the default),
            `InlineBuffering()` or `ParallelBuffering()`.
        clock: Tells the current time, aware; `None`: the system's clock.

    Raises:
        ConfigurationError: When a setting is out of range or contradicts another; the message names
            it, its value and what to pass.
    """

    @refuse_unknown_options
    def __init__(
        self,
        model: ModelValue | None = None,
        *,
        enabled: bool = True,
        scope: Literal["thread", "resource"] = "thread",
        share_token_budget: bool = False,
        retrieval: bool | RetrievalConfig | RetrievalOptions = False,
        observation: ObservationConfig | ObservationOptions | None = None,
        reflection: ReflectionConfig | ReflectionOptions | None = None,
        archive: str | Engine | MessageArchive | None = None,
        evict: bool = False,
        resource_id: str | Callable[[RunnableConfig], str | None] | None = None,
        messages_key: str = "messages",
        token_counter: TokenCounter | None = None,
        max_input_tokens: int | None = None,
        message_time: Callable[[BaseMessage], datetime | None] | None = None,
        timezone: str | tzinfo = "UTC",
        on_error: Literal["continue", "abort", "raise"] = "continue",
        deadline: float = 60.0,
        obscure_thread_ids: bool | None = None,
        hooks: Mapping[str, Callable[..., Any]] | None = None,
        on_debug_event: Callable[[dict[str, Any]], Any] | None = None,
        buffering: Buffering | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        # First of all, while the locals are the parameters.
        given = {name: value for name, value in locals().items() if name != "self"}
        options = read_options(**given)
        self.enabled, self.settings = options.enabled, options.settings
        self.messages_key, self.resource_id = options.messages_key, options.resource_id
        self._models, self._hooks = options.models, options.hooks
        self._clock, self._deadline = options.clock, options.deadline
        self.archive, self.buffering = options.archive, options.buffering
        self._archiving = self._sharing = None
        if self.archive is not None:
            self._archiving = ArchiveWriter(self.archive, options.evicts)
            if self.settings.scope == "resource":
                self._sharing = LogCache(self.archive, self.settings)
            if isinstance(self.buffering, BackgroundBuffering):
                self.buffering.share(self.archive)
        retrieving = options.retrieval
        self._index = StoreIndex() if retrieving and retrieving.vector else None
        self._recalling = (
            Recalling(retrieving, self.settings, self.archive, self.settings.hides_ids, self._index)
            if retrieving
            else None
        )

    def __repr__(self) -> str:
        return f"ObservationalMemory(enabled={self.enabled}, thresholds={self.thresholds})"

    # --- What users ask --------------------------------------------------------------------------

    @property
    def thresholds(self) -> Thresholds:
        """The limits in force, in tokens."""
        return self.settings.thresholds

    @cached_property
    def recall_tool(self) -> BaseTool | None:
        """The tool that pages back to raw messages, when `retrieval` is on."""
        if self._recalling is None or not self.enabled:
            return None
        config = self._recalling.config
        return build_recall_tool(
            self.answer_recall, reaches_others=config.scope == "resource", searches=config.vector
        )

    @property
    def tools(self) -> list[BaseTool]:
        """The tools to bind to the Actor's model, beside the agent's own."""
        return [self.recall_tool] if self.recall_tool is not None else []

    def llm_input_messages(
        self,
        state: Any,
        *,
        system: str | SystemMessage | None = None,
        config: RunnableConfig | None = None,
    ) -> list[BaseMessage]:
        """Return what the Actor's model is called with.

        Args:
            state: The graph's state: a mapping or an object with the conversation and `om`.
            system: The agent's own system prompt, when it is not among the messages.
            config: The run's configuration; inside a node it is found without being passed.

        Returns:
            One system message with the observations, a reminder, and the messages that are not
            observed yet. Without observations, or with memory switched off: the conversation as it
            is.

        Raises:
            ConfigurationError: When the state has no `om`, so that the node does not see the
                memory, or when the gate did not run before.
        """
        messages = self.conversation(state)
        if not self.is_on(config):
            head = SystemMessage(system) if isinstance(system, str) else system
            return [*([head] if head is not None else []), *messages]
        record = record_of(state)
        if not record["id"] and messages:
            msg = (
                "the memory's gate did not run before this node; draw the edges into it: "
                "`builder.add_edge(START, 'om_status')`, and `builder.add_edge('tools', "
                "'om_status')` where there are tools"
            )
            raise ConfigurationError(msg)
        return self._actor_input(record, messages, system, self.settings.max_input_tokens)

    def shortened_input(
        self, state: Any, *, system: str | SystemMessage | None = None
    ) -> tuple[list[BaseMessage], Part | None]:
        """Return a shorter input, for when the provider says that the other one is too long.

        Args:
            state: The graph's state.
            system: The agent's own system prompt.

        Returns:
            The input without the older half of the window, whole exchanges only, and the
            `data-om-view-trimmed` part that says so; `None` when there is nothing to leave out.
        """
        record, messages = record_of(state), self.conversation(state)
        window = self._window(record, messages)
        overhead = log_tokens(record) + window.request_tokens
        overhead += count_extra(record, self.settings.guide)
        settings = replace(self.settings, max_input_tokens=overhead + window.tokens // 2)
        notice = build_trim_notice(settings, record, window)
        part = to_part(notice[0]) if notice else None
        view = self._actor_input(record, messages, system, settings.max_input_tokens)
        return view, part

    def status(self, state: Any) -> dict[str, Any]:
        """Return the `data` of `data-om-status` for a state; asks no model."""
        values = values_of(state)
        record = record_of(values)
        window = open_window(record, self.conversation(values), self.settings.counter)
        return self._status(record, window)

    def view(self, state: Any) -> MemoryView:
        """Return a readable summary of a state's memory; asks no model."""
        values = values_of(state)
        record, messages = record_of(values), self.conversation(values)
        window = open_window(record, messages, self.settings.counter)
        return MemoryView(
            record=record,
            status=self._status(record, window),
            conversation_tokens=count_messages(self.settings.counter, messages),
            prompt_tokens=window.tokens + log_tokens(record),
        )

    def recall(
        self,
        state: Any,
        config: RunnableConfig | None = None,
        *,
        store: Any = None,
        **args: Any,
    ) -> dict[str, Any]:
        """Answer as the tool `recall` does, without a graph.

        Args:
            state: The graph's state, or a mapping with the conversation.
            config: The run's configuration, which says whose conversation it is.
            store: The LangGraph store that is searched, with `retrieval={"vector": True}`.
            args: What the tool takes: `mode`, `query`, `cursor`, `threadId`, `page`, `limit`,
                `detail`, `partIndex`, `charOffset`, `before`, `after`.

        Returns:
            What was asked for, or one field `error` or `hint` that says what to write instead.

        Raises:
            ConfigurationError: When `retrieval` is off, or a search has no store with an index.
        """
        return self.answer_recall(state, args, config=config, store=store)

    async def arecall(
        self,
        state: Any,
        config: RunnableConfig | None = None,
        *,
        store: Any = None,
        **args: Any,
    ) -> dict[str, Any]:
        """Do the same as `recall` without blocking the event loop."""
        return await asyncio.to_thread(self.recall, state, config, store=store, **args)

    def answer_recall(
        self,
        state: Any,
        arguments: Mapping[str, Any],
        *,
        config: RunnableConfig | None = None,
        store: Any = None,
    ) -> dict[str, Any]:
        """Answer what a model wrote, names and values of any kind."""
        if self._recalling is None:
            msg = "`retrieval` is off, so there is nothing to recall from; write retrieval=True"
            raise ConfigurationError(msg)
        values, who = values_of(state), self.identity(config)
        record = complete_record(read_stored_record(values))
        try:
            if who.thread_id:
                self.keep(values, config)
        except ArchiveError as error:
            return self._recalling.unreadable(who, error)
        messages = self.conversation(values)
        return self._recalling.answer(arguments, who, record, messages, store)

    def history(self, states: Any, limit: int = 10) -> list[MemoryRecord]:
        """Return the last record of each generation of a log, newest first.

        A former one of a thread is put in force again by `graph.update_state(config, {"om":
        record})`, one of a resource by `restore`; the messages after its cursor are then observed
        anew.

        Args:
            states: `graph.get_state_history(config)`, or any states, newest first; with
                `scope="resource"` the id of a resource.
            limit: How many generations to return at most.
        """
        check_count("limit", limit)
        if isinstance(states, str) and self._sharing is not None:
            return read_resource_history(self._sharing.archive, states, limit)
        return read_history(states, limit)

    def restore(self, resource_id: str, generation: int) -> MemoryRecord:
        """Put an earlier generation of a resource's log in force again, as a new one.

        Its threads take it over with their next step. What was observed since is observed anew,
        but for messages that left the conversation by `evict`.

        Raises:
            ArchiveError: When the archive's storage fails.
            ConfigurationError: When there is no such generation, or no log is shared.
        """
        if self._sharing is None:
            msg = (
                '`restore` is for scope="resource"; a thread\'s record is put in force again by '
                '`graph.update_state(config, {"om": record})`'
            )
            raise ConfigurationError(msg)
        return restore_resource(self._sharing.archive, resource_id, generation, self._clock())

    def observations_as_of(self, states: Any, time: datetime | str) -> str:
        """Return the observation log as it was at a time.

        Args:
            states: `graph.get_state_history(config)`, or a state; with `scope="resource"` the id
                of a resource.
            time: A time, or its ISO text; without a zone it is one of the memory's `timezone`.
        """
        if isinstance(states, str) and self._sharing is not None:
            return read_resource_as_of(self._sharing.archive, states, time, self.settings.timezone)
        return read_observations_as_of(states, time, self.settings.timezone)

    def _status(self, record: MemoryRecord, window: Window) -> dict[str, Any]:
        step = max(0, record["turn"]["step"])
        return build_status(record, window, self.thresholds, step=step)

    # --- Deletion --------------------------------------------------------------------------------

    def delete_thread(
        self, thread_id: str, *, resource_id: str | None = None, store: Any = None
    ) -> None:
        """Delete what is kept of a thread outside of its checkpoints, which stay the caller's.

        Messages, observation groups, jobs and search entries are gone then, and a job that is at
        work for the thread cannot keep its result any more.

        Args:
            thread_id: The thread.
            resource_id: Whose it is, where no archive knows.
            store: The graph's store, where recall searches.

        Raises:
            ArchiveError: When the archive's storage fails.
        """
        owner = resource_id
        if self._archiving is not None:
            known = self._archiving.archive.thread(thread_id)
            owner = known.resource_id if known is not None else resource_id
            if owner is not None:
                change = partial(without_thread, thread_id=thread_id)
                self._archiving.archive.rewrite_records(owner, change, self._clock())
            self._archiving.archive.delete_thread(thread_id)
            if owner is not None:  # what was at work on it may have come to the log meanwhile
                self._archiving.archive.rewrite_records(owner, change, self._clock())
            self._archiving.forget(thread_id)
        if store is not None:
            (self._index or StoreIndex()).delete_thread(thread_id, owner, store)

    def delete_resource(self, resource_id: str, *, store: Any = None) -> None:
        """Delete what is kept of all threads of a resource outside of their checkpoints.

        Args:
            resource_id: The resource.
            store: The graph's store, where recall searches.

        Raises:
            ArchiveError: When the archive's storage fails.
        """
        if self._archiving is not None:
            self._archiving.archive.delete_resource(resource_id)
            self._archiving.forget(None)
        if store is not None:
            (self._index or StoreIndex()).delete_resource(resource_id, store)

    async def adelete_thread(
        self, thread_id: str, *, resource_id: str | None = None, store: Any = None
    ) -> None:
        """Do the same as `delete_thread` without blocking the event loop."""
        await asyncio.to_thread(self.delete_thread, thread_id, resource_id=resource_id, store=store)

    async def adelete_resource(self, resource_id: str, *, store: Any = None) -> None:
        """Do the same as `delete_resource` without blocking the event loop."""
        await asyncio.to_thread(self.delete_resource, resource_id, store=store)

    # --- Without a graph -------------------------------------------------------------------------

    def step(
        self,
        record: MemoryRecord | None,
        messages: Sequence[BaseMessage],
        *,
        thread_id: str = "",
        config: RunnableConfig | None = None,
        final: bool = False,
    ) -> StepResult:
        """Do what memory has to do before one call of the Actor's model.

        Args:
            record: The memory that the last step returned; `None` at first.
            messages: The whole conversation, with ids where they should be told apart.
            thread_id: The thread's id, for the record and the events.
            config: Configuration with callbacks for the Observer's and Reflector's calls.
            final: Whether the Actor has answered and no call follows; nothing is observed then.
        """
        steps = self._steps(record, messages, thread_id, config, final=final)
        done: list[Event] | None = None
        while not isinstance(flow := advance(steps, done), Ended):
            done = self.run(flow, discard, config)
        return flow.result

    async def astep(
        self,
        record: MemoryRecord | None,
        messages: Sequence[BaseMessage],
        *,
        thread_id: str = "",
        config: RunnableConfig | None = None,
        final: bool = False,
    ) -> StepResult:
        """Do the same as `step` without blocking the event loop."""
        steps = self._steps(record, messages, thread_id, config, final=final)
        done: list[Event] | None = None
        while not isinstance(flow := await self.aadvance(steps, done), Ended):
            done = await self.arun(flow, discard, config)
        return flow.result

    def _steps(
        self,
        record: MemoryRecord | None,
        messages: Sequence[BaseMessage],
        thread_id: str,
        config: RunnableConfig | None,
        *,
        final: bool,
    ) -> Generator[CycleFlow, list[Event] | None, StepResult]:
        """Yield the cycles that are due, fold what comes back, and end with the Actor's input."""
        memory, messages = complete_record(record), convert_to_messages(messages)
        if not self.is_on(config):
            return StepResult(memory, [], list(messages), aborted=False)
        identity = self.identity(config, thread_id=thread_id)
        events: list[Event] = []
        evicted: list[str] = []
        while True:
            seen = self.look(memory, messages, identity, is_final=final)
            memory = seen.record
            events += seen.events
            evicted += seen.evicted
            messages = without_messages(messages, seen.evicted)
            kind = seen.decision.kind
            if kind == "buffer" and self.buffers_in_background:
                started = self.start_job(memory, messages, seen.decision, config)
                memory = fold(memory, [started])
                events.append(started)
                break
            if kind in ("proceed", "abort"):
                break
            done = (yield self.cycle(memory, messages, seen.decision)) or []
            memory = fold(memory, [done])
            events += done
        parts = [part for event in events if (part := to_part(event)) is not None]
        limit = self.settings.max_input_tokens
        view = [] if kind == "abort" else self._actor_input(memory, messages, None, limit)
        return StepResult(memory, parts, view, aborted=kind == "abort", evicted=evicted)


def check_memory(value: object) -> ObservationalMemory:
    """Read a memory.

    Raises:
        ConfigurationError: When it is something else.
    """
    if isinstance(value, ObservationalMemory):
        return value
    msg = f"`memory` is {value!r}; write an ObservationalMemory(...)"
    raise ConfigurationError(msg)
