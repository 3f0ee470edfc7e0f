"""The one object users hold: options in, public methods out.

It has no rule of its own: what it does with a conversation is decided by `core` and carried out by
its runner.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from pydantic import TypeAdapter

from langgraph_om.adoption import Adoptable
from langgraph_om.archive import MessageArchive, StoreUse
from langgraph_om.core.config.checks import check_count
from langgraph_om.core.config.options import (
    ObservationConfig,
    ObservationOptions,
    ReflectionConfig,
    ReflectionOptions,
    RetrievalConfig,
    RetrievalOptions,
    ThreadTitleOptions,
)
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.record.fold import check_record
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.step.count_new import build_status
from langgraph_om.core.tokens.counter import TokenCounter, count_messages
from langgraph_om.core.wire import MemoryRecord, StatusData
from langgraph_om.core.working import WORKING_NAME
from langgraph_om.deletion import Deletable
from langgraph_om.errors import ConfigurationError
from langgraph_om.inspection import (
    MemoryView,
    read_history,
    read_observations_as_of,
    read_resource_as_of,
    read_resource_history,
    restore_resource,
)
from langgraph_om.models.model_value import ModelValue
from langgraph_om.models.providers import find_window, name_actor
from langgraph_om.options import NoMiddleware, read_options, refuse_unknown_options
from langgraph_om.recall.arguments import refuse_unknown_arguments
from langgraph_om.recall.meaning import StoreIndex
from langgraph_om.recall.tool import Recalling, build_recall_tool
from langgraph_om.runtime.drivers import adrive, drive
from langgraph_om.runtime.executors import BackgroundBuffering, Buffering
from langgraph_om.runtime.hooks import is_async
from langgraph_om.runtime.jobs.server import ServerBuffering
from langgraph_om.runtime.runner import RunScope, StepRunner
from langgraph_om.runtime.second_try import SecondTries
from langgraph_om.runtime.turn import StepResult, take_step
from langgraph_om.searching import Searchable
from langgraph_om.steering import Steerable
from langgraph_om.working.memory import Working, WorkingMemory
from langgraph_om.working.runs import WorkingOfStep

if TYPE_CHECKING:
    from sqlalchemy import Engine


KindT = TypeVar("KindT")

_NO_STATUS = (
    "the node `om_status` did not run before this call, so the model is given the conversation "
    "as it is. A run that began with memory switched off and is resumed with it is like that; "
    "otherwise draw the edges into that node: `builder.add_edge(START, 'om_status')`, and "
    "`builder.add_edge('tools', 'om_status')` where there are tools"
)


class ObservationalMemory(Searchable, Adoptable, Steerable, Deletable, metaclass=NoMiddleware):
    """Long-term memory for an agent's conversation.

    Args:
        model: Model of the Observer and the Reflector: `"provider/model"`, a chat model, a runnable
            over messages, a `ModelByInputTokens`, a function of the run's configuration that
            returns one of these, or a list of fallbacks, whose entries may also be
            `{"model": ..., "max_retries": n}`. `"default"` is `google/gemini-2.5-flash`, and so is
            nothing at all.
        enabled: Whether memory does anything; an agent with `enabled=False` works as without it.
        scope: Whose log it is. `"thread"`: each thread has its own. `"resource"`: all threads of
            a `resource_id` share one, which the `archive` keeps; each thread adds what is observed
            of its messages, and its Actor is also shown what the other threads said lately.
        token_budget: Tokens that messages and observations may take in the Actor's prompt together,
            at most, or a part of the Actor's window, such as `("fraction", 0.6)`. Both thresholds
            follow from it; one that is given stays, and the other gets the rest. While nobody has
            said how much the Actor's model reads, a fraction counts as `None`: as the thresholds
            say.
        share_token_budget: Whether messages may use the room that observations leave, and the other
            way round. `None`: with a `token_budget` alone, not beside a threshold that is given.
        retrieval: Whether the Actor gets the tool `recall`, with which it reads the messages behind
            its observations: a flag, a `RetrievalConfig` or a mapping. Without an archive it reads
            the current thread; with one, all threads of the resource. With `{"inject": True}` each
            new message of the user is searched for, too, and shown with what is found.
        observation: Settings of the Observer, an `ObservationConfig` or a mapping.
        reflection: Settings of the Reflector, a `ReflectionConfig` or a mapping.
        archive: Where messages and observations are kept beside the checkpointer: a URL such as
            `"sqlite:///memory.db"` or `"postgresql://..."`, an SQLAlchemy engine, or a
            `MessageArchive`.
        evict: Whether observed messages are removed from the conversation once the archive has
            them, so that a thread's state stays small however long it gets.
        resource_id: The user or entity a thread belongs to; `None`: the run's
            `resource_id`, in `context` or `configurable`.
        messages_key: The state's key of the conversation.
        token_counter: What counts tokens; `None`: `EstimatingCounter()`.
        max_input_tokens: The Actor's window: the most tokens that its model reads, with the agent's
            own prompt and tools. It takes the place of the model's profile; thresholds are scaled
            down to fit into four fifths of it, and what messages and observations have beyond it
            is left out of the view, oldest messages first. `None`: the profile tells it, or the
            first prompt that is refused.
        preview_tokens: Tokens above which a message is shown to the Actor as its beginning, its end
            and the call of `recall` that reads the rest, so with `retrieval` alone: one number, or
            one for results and arguments of tools and one for what a user or the Actor wrote. The
            Observer has the message itself. `None`: all messages are shown whole.
        cache_seconds: How long the Actor's provider keeps a prompt in its cache, in seconds. After
            a longer pause the dates in the Actor's view ("2 weeks ago") are as of the day on which
            the conversation goes on; until then they hold still while nothing is observed.
        gap_markers: Whether the Actor is told of pauses of an hour or more by a line before the
            user message that follows, such as `[2 days later: Mon, May 4, 2026, 09:12]`.
        continuation_hints: Whether the Observer states a current task and suggests a reply, and
            the Actor is shown them.
        working_memory: What is always known of a user, a `WorkingMemory`, which the Actor keeps up
            to date with a tool, or the Observer with what it observes.
        thread_title: Whether a thread is given a title after its first answer, which is renewed
            when the Observer suggests another: a flag, or a mapping with `model` (the Observer's
            where it is left out) and `instructions` (a text, or a function of the run's
            configuration). `set_title` sets one that memory never changes.
        message_time: Tells the time of a message, where the application knows better.
        timezone: IANA name or `tzinfo` in which the Observer reads times.
        on_error: What follows when the Observer or Reflector fails: `"continue"` with raw messages,
            `"abort"` the turn without an answer, or `"raise"`.
        deadline: Seconds that all cycles before one call of the Actor may take together, retries
            included.
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
            `InlineBuffering()`, `ParallelBuffering()`, `ServerBuffering()` or an `Executor` of
            your own.
        clock: Tells the current time, aware; `None`: the system's clock.

    Raises:
        ConfigurationError: When a setting is out of range or contradicts another; the message names
            it, its value and what to write.
    """

    @refuse_unknown_options
    def __init__(
        self,
        model: ModelValue | None = None,
        *,
        enabled: bool = True,
        scope: Literal["thread", "resource"] = "thread",
        token_budget: int | tuple[Literal["fraction"], float] | None = None,
        share_token_budget: bool | None = None,
        retrieval: bool | RetrievalConfig | RetrievalOptions = False,
        observation: ObservationConfig | ObservationOptions | None = None,
        reflection: ReflectionConfig | ReflectionOptions | None = None,
        archive: str | Engine | MessageArchive | None = None,
        evict: bool = False,
        resource_id: str | Callable[[RunnableConfig], str | None] | None = None,
        messages_key: str = "messages",
        token_counter: TokenCounter | None = None,
        max_input_tokens: int | None = None,
        preview_tokens: int | tuple[int, int] | None = (20_000, 50_000),
        cache_seconds: float = 300.0,
        gap_markers: bool = False,
        continuation_hints: bool = True,
        working_memory: WorkingMemory | None = None,
        thread_title: bool | ThreadTitleOptions = False,
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
        self.enabled, self.messages_key = options.enabled, options.messages_key
        self.archive, self.buffering = options.archive, options.buffering
        self.working_memory = options.working_memory
        if self.archive is not None and isinstance(
            self.buffering, BackgroundBuffering | ServerBuffering
        ):
            self.buffering.share(self.archive)
        retrieving, settings = options.retrieval, options.settings
        index = StoreIndex(self.archive) if retrieving and retrieving.vector else None
        self._runner = StepRunner(
            settings,
            options.models,
            options.hooks,
            options.buffering,
            options.clock,
            options.deadline,
            budget=options.budget,
            messages_key=options.messages_key,
            resource_id=options.resource_id,
            enabled=options.enabled,
            archive=options.archive,
            index=index,
            store_uses=_list_store_uses(retrieving, options.working_memory),
            recalling=(
                Recalling(retrieving, settings, options.archive, settings.hides_ids, index)
                if retrieving
                else None
            ),
        )
        self._working: Working | None = None
        if options.working_memory is not None:
            self._working = Working(options.working_memory, self._runner.runs, self.messages_key)
            self._runner.beside = self._working if options.enabled else None

    def __reduce__(self) -> Any:
        """Refuse to be copied to another process.

        Raises:
            TypeError: Always.
        """
        return self._runner.__reduce__()

    def __repr__(self) -> str:
        return f"ObservationalMemory(enabled={self.enabled}, thresholds={self.thresholds})"

    # --- What users ask --------------------------------------------------------------------------

    @property
    def thresholds(self) -> Thresholds:
        """The limits in force, in tokens."""
        return self._runner.settings.thresholds

    @property
    def actor_window(self) -> int | None:
        """The most that the Actor's model reads, in tokens; `None` while nobody has said.

        `max_input_tokens` says it, or the model's profile, which `create_memory_agent`, the
        middleware and `with_second_try(model.invoke)` read; else the first prompt that is refused
        as too long. `thresholds` fit into it. What a thread has learned in another process holds
        for that thread alone, see `status`.
        """
        return self._runner.window

    @cached_property
    def recall_tool(self) -> BaseTool | None:
        """The tool that pages back to raw messages, when `retrieval` is on."""
        recalling = self._runner.recalling
        if recalling is None or not self.enabled:
            return None
        config = recalling.config
        return build_recall_tool(
            self._runner.answer_recall,
            reaches_others=config.scope == "resource",
            by_meaning=config.vector,
        )

    @property
    def tools(self) -> list[BaseTool]:
        """The tools to bind to the Actor's model, beside the agent's own."""
        own = [self.recall_tool] if self.recall_tool is not None else []
        return [*own, *self._working_tools]

    @cached_property
    def _working_tools(self) -> list[BaseTool]:
        return self._working.tools if self._working is not None and self.enabled else []

    def with_second_try(self, call: Callable[[list[BaseMessage]], Any]) -> Callable[..., Any]:
        """Return a function that calls the Actor's model with memory, again with less if refused.

        For a graph of your own, in whose node it takes the place of `llm_input_messages`:

            ask = memory.with_second_try(model.invoke)

            def agent(state):
                return {"messages": [ask(state, system="You are a travel companion.")]}

        Where the provider says that the prompt is too long, enormous messages are shown as previews
        first, then the oldest messages are left out, then the oldest observations; four times at
        most. The state does not change by it, and `data-om-view-trimmed` says what was left out.

        Args:
            call: Calls the model with messages; what it returns is awaited where it is a coroutine
                function, such as `model.ainvoke`.

        Returns:
            A function of the state and, by name, of `system` and `config`, as those of
            `llm_input_messages`; it returns the answer. A coroutine function for one.
        """
        model = getattr(call, "__self__", None)
        name = name_actor(model)
        self._runner.meet_actor(name, find_window(model))
        if is_async(call):

            async def aask(state: Any, **options: Any) -> Any:
                tries, view = self._try(name, state, **options)
                return await tries.aask(call, view)

            return aask

        def ask(state: Any, **options: Any) -> Any:
            tries, view = self._try(name, state, **options)
            return tries.ask(call, view)

        return ask

    def _try(
        self,
        model: str,
        state: Any,
        *,
        system: str | SystemMessage | None = None,
        config: RunnableConfig | None = None,
    ) -> tuple[SecondTries, list[BaseMessage]]:
        view = self.llm_input_messages(state, system=system, config=config)
        return SecondTries(self._runner, state, system, model=model, config=config), view

    def shorten(
        self,
        state: Any,
        error: Exception,
        *,
        refused: Sequence[BaseMessage] | None = None,
        system: str | SystemMessage | None = None,
    ) -> list[BaseMessage]:
        """Return a smaller input for the Actor, after its provider refused one.

        Args:
            state: As for `llm_input_messages`.
            error: What the model's client raised; how long the prompt may be is read from it.
            refused: The input that was refused, where it was an earlier answer of this method;
                `None`: that of `llm_input_messages`.
            system: The agent's own system prompt, when it is not among the messages.

        Raises:
            Exception: The error itself, where it is another one, or nothing can be left out.
        """
        return SecondTries(self._runner, state, system, refused=refused).find(error)

    def llm_input_messages(
        self,
        state: Any,
        *,
        system: str | SystemMessage | None = None,
        config: RunnableConfig | None = None,
    ) -> list[BaseMessage]:
        """Return what the Actor's model is called with.

        Args:
            state: The graph's state, with the conversation and `om`: what a node is given, a
                `StateSnapshot`, or what a server's client returns.
            system: The agent's own system prompt, when it is not among the messages.
            config: The run's configuration; inside a node it is found without being passed.

        Returns:
            One system message with the observations, a reminder, and the messages that are not
            observed yet. Without observations, with memory switched off, or when `om_status`
            did not run before, of which a warning is logged: the conversation as it is.

        Raises:
            ConfigurationError: When the state has no `om`, so that the node does not see the
                memory.
        """
        runner = self._runner
        messages, is_on = runner.conversation(state), runner.is_on(config)
        if is_on:
            look = runner.look(runner.record(state), messages, runner.read_texts(state), config)
            if look.record["id"]:
                return runner.actor_input(look, system)
        if is_on and messages:
            runner.runs.warn_once(_NO_STATUS)
        head = SystemMessage(system) if isinstance(system, str) else system
        return [*([head] if head is not None else []), *messages]

    def status(self, state: Any) -> dict[str, Any]:
        """Return the `data` of `data-om-status` for a state; asks no model.

        Args:
            state: As for `llm_input_messages`; blank for a thread that never ran.
        """
        record = self._runner.record(state)
        return cast("dict[str, Any]", self._build_status(record, self._open_window(record, state)))

    def view(self, state: Any, *, history: Any = None) -> MemoryView:
        """Return a readable summary of a state's memory; asks no model.

        Args:
            state: As for `llm_input_messages`; blank for a thread that never ran.
            history: As `states` for `history`, to show what each generation changed; `None`: only
                what is remembered now.

        Raises:
            ConfigurationError: When it is no state, or has no memory.
        """
        record = self._runner.record(state)
        check_record(record)
        window = self._open_window(record, state)
        messages = self._runner.conversation(state)
        return MemoryView(
            record=record,
            status=self._build_status(record, window),
            conversation_tokens=record.get("evicted_tokens", 0)
            + count_messages(self._runner.settings.counter, messages),
            prompt_tokens=window.tokens + log_tokens(record),
            is_closed=self._runner.is_closed,
            history=self.history(history) if history is not None else (),
        )

    def extracted(self, state: Any, kind: type[KindT], name: str | None = None) -> KindT | None:
        """Return a value by schema out of a state's memory; asks no model.

        Args:
            state: As for `llm_input_messages`; blank for a thread that never ran.
            kind: The schema of the value, as in `observation={"extract": {name: kind}}`.
            name: Its name, where several have this schema.

        Returns:
            The value, an object of the schema; `None` where nothing was found yet.

        Raises:
            ConfigurationError: When no value, or several, have this schema.
        """
        wanted = self._runner.settings.observation.extract or {}
        names = [each for each in wanted if wanted[each] is kind and name in (None, each)]
        if len(names) != 1:
            known = ", ".join(sorted(wanted)) or "none"
            asked = f"{kind!r}" if name is None else f"{kind!r} and the name {name!r}"
            msg = (
                f"{len(names)} values have the schema {asked}; pass the schema and `name` of one "
                f"of `observation.extract`, which are: {known}"
            )
            raise ConfigurationError(msg)
        kept = self._runner.record(state).get("extracted", {}).get(names[0])
        if kept is None or kept["value"] is None:
            return None
        return TypeAdapter(kind).validate_json(json.dumps(kept["value"]))

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
            state: As for `llm_input_messages`, or a mapping with the conversation alone.
            config: The run's configuration, which says whose conversation it is.
            store: The LangGraph store that is searched, with `retrieval={"vector": True}`.
            args: What the tool takes: `mode`, `query`, `cursor`, `thread_id`, `page`, `limit`,
                `detail`, `part_index`, `char_offset`, `before`, `after`, `role`, `tool_name`.

        Returns:
            What was asked for, or one field `error` or `hint` that says what to write instead.

        Raises:
            ConfigurationError: When `retrieval` is off, or a search has no store with an index.
            TypeError: When there is no such argument.
        """
        refuse_unknown_arguments(args)
        return self._runner.answer_recall(state, args, config=config, store=store)

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

    def history(self, states: Any, limit: int = 10) -> list[MemoryRecord]:
        """Return the last record of each generation of a log, newest first.

        A former one of a thread is put in force again by `graph.update_state(config, {"om":
        record})`, one of a resource by `restore`; the messages after its cursor are then observed
        anew.

        Args:
            states: `graph.get_state_history(config)`, what a server's client returns for a
                thread's history, or any states, newest first; with `scope="resource"` the id of a
                resource.
            limit: How many generations to return at most.
        """
        check_count("limit", limit)
        archive = self._shared_archive
        if isinstance(states, str) and archive is not None:
            return read_resource_history(archive, states, limit)
        return read_history(states, limit)

    def restore(self, resource_id: str, generation: int) -> MemoryRecord:
        """Put an earlier generation of a resource's log in force again, as a new one.

        Its threads take it over with their next step. What was observed since is observed anew,
        but for messages that left the conversation by `evict`.

        Args:
            resource_id: The user or entity whose log it is.
            generation: The `generation` of an entry of `history`.

        Raises:
            ArchiveError: When the archive's storage fails.
            ConfigurationError: When there is no such generation, or no log is shared.
        """
        archive = self._shared_archive
        if archive is None:
            msg = (
                '`restore` is for scope="resource"; a thread\'s record is put in force again by '
                '`graph.update_state(config, {"om": record})`'
            )
            raise ConfigurationError(msg)
        return restore_resource(archive, resource_id, generation, self._runner.clock())

    def observations_as_of(self, states: Any, time: datetime | str) -> str:
        """Return the observation log as it was at a time.

        Args:
            states: `graph.get_state_history(config)`, or a state; with `scope="resource"` the id
                of a resource.
            time: A time, or its ISO text; without a zone it is one of the memory's `timezone`.
        """
        archive, timezone = self._shared_archive, self._runner.settings.timezone
        if isinstance(states, str) and archive is not None:
            return read_resource_as_of(archive, states, time, timezone)
        return read_observations_as_of(states, time, timezone)

    @property
    def _shared_archive(self) -> MessageArchive | None:
        """The archive with the logs of resources; `None` where each thread has its own."""
        return self.archive if self._runner.settings.scope == "resource" else None

    def _open_window(self, record: MemoryRecord, state: Any) -> Window:
        runner = self._runner
        counter = runner.read_window(record)[0].counter
        return open_window(record, runner.conversation(state), counter)

    def _build_status(self, record: MemoryRecord, window: Window) -> StatusData:
        step = max(0, record["turn"]["step"])
        settings, actor = self._runner.read_window(record)
        return build_status(record, window, settings.thresholds, step=step, actor=actor)

    # --- Without a graph -------------------------------------------------------------------------

    def step(
        self,
        record: MemoryRecord | None,
        messages: Sequence[BaseMessage],
        *,
        thread_id: str = "",
        config: RunnableConfig | None = None,
        final: bool = False,
        working_memory: Any = None,
    ) -> StepResult:
        """Do what memory has to do before one call of the Actor's model.

        Args:
            record: The memory that the last step returned; `None` at first.
            messages: The whole conversation, with ids where they should be told apart.
            thread_id: The thread's id, for the record and the events.
            config: Configuration with callbacks for the Observer's and Reflector's calls.
            final: Whether the Actor has answered and no call follows; nothing is observed then.
            working_memory: With that option, the value to show: a text or a JSON object, such as
                `memory.working_memory.get(store, resource_id)`. Where the Observer keeps it, the
                result has it as it is then, to be kept.
        """
        runner, scope = self._runner, self._take_working(working_memory, config)
        flow = take_step(runner, record, messages, thread_id, scope, is_final=final)
        return drive(flow, runner.context(config)).result

    async def astep(
        self,
        record: MemoryRecord | None,
        messages: Sequence[BaseMessage],
        *,
        thread_id: str = "",
        config: RunnableConfig | None = None,
        final: bool = False,
        working_memory: Any = None,
    ) -> StepResult:
        """Do the same as `step` without blocking the event loop."""
        runner, scope = self._runner, self._take_working(working_memory, config)
        flow = take_step(runner, record, messages, thread_id, scope, is_final=final)
        return (await adrive(flow, runner.context(config))).result

    def _take_working(self, value: Any, config: RunnableConfig | None) -> RunScope:
        scope = RunScope(self._runner, config)
        if self._working is not None:
            source = WorkingOfStep(self._runner, self._working, value, config)
            scope.kept[WORKING_NAME] = source
        if self._working is not None or value is None:
            return scope
        msg = (
            "`working_memory` is given to a step; pass "
            "ObservationalMemory(working_memory=WorkingMemory(...)) too"
        )
        raise ConfigurationError(msg)

    # --- Background work -------------------------------------------------------------------------

    def run_job(
        self, request: Mapping[str, Any], *, config: RunnableConfig | None = None
    ) -> dict[str, Any]:
        """Carry out a job that an `Executor` was given, in this process or any other.

        Args:
            request: The job, a `JobRequest`, as it was or as its JSON was read again.
            config: Configuration with callbacks for the models' calls.

        Returns:
            The event that is its result, plain JSON, for the executor's `peek`; one of type
            `buffering-failed` where the model failed.

        Raises:
            ConfigurationError: When this memory has other settings than the one that asked, which
                the error names, or the messages are not as they were: drop the job then.
            ArchiveError: When the archive's storage fails.
        """
        flow, context = self._runner.run_request(request, config)
        return cast("dict[str, Any]", drive(flow, context).result)

    async def arun_job(
        self, request: Mapping[str, Any], *, config: RunnableConfig | None = None
    ) -> dict[str, Any]:
        """Do the same as `run_job` without blocking the event loop."""
        flow, context = self._runner.run_request(request, config)
        return cast("dict[str, Any]", (await adrive(flow, context)).result)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until no background job is at work; results are taken in by the next step.

        Args:
            timeout: Seconds to wait at most; `None`: as long as it takes.

        Returns:
            Whether nothing is left.
        """
        return self._runner.flush(timeout)

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 same as `flush`
        """Do the same as `flush` without blocking the event loop, or a thread when cancelled."""
        return await self._runner.aflush(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Start no more background jobs and wait for those at work.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether nothing is left.
        """
        return self._runner.close(timeout)

    async def aclose(self, timeout: float = 5.0) -> bool:  # noqa: ASYNC109 same as `close`
        """Do the same as `close` without blocking the event loop."""
        return await asyncio.to_thread(self.close, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def runner_of(memory: ObservationalMemory) -> StepRunner:
    """Return what a memory runs its steps with; for the graphs and middleware of this package."""
    return memory._runner  # noqa: SLF001 the one place where it is handed out


def check_memory(value: object) -> ObservationalMemory:
    """Read a memory.

    Raises:
        ConfigurationError: When it is something else.
    """
    if isinstance(value, ObservationalMemory):
        return value
    msg = f"`memory` is {value!r}; pass an ObservationalMemory(...)"
    raise ConfigurationError(msg)


def _list_store_uses(
    retrieving: RetrievalConfig | None, working: WorkingMemory | None
) -> frozenset[StoreUse]:
    uses: set[StoreUse] = set()
    if retrieving is not None and retrieving.vector:
        uses.add("index")
    if working is not None and working.scope == "resource":
        uses.add("working")
    return frozenset(uses)
