"""The one object users hold: options in, public methods out.

It has no rule of its own: what it does with a conversation is decided by `core` and carried out by
its runner.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Self, Unpack, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

from langgraph_om.adoption import Adoptable, ObservingActs
from langgraph_om.core.additions import find_removed
from langgraph_om.core.config.options import check_count
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.effects import Requests, call_function
from langgraph_om.core.record.fold import check_record
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.step.inspect import build_status
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.core.wire import MemoryRecord, StatusData
from langgraph_om.deletion import Deletable
from langgraph_om.errors import ConfigurationError
from langgraph_om.features import FeatureActs, FeatureMethods
from langgraph_om.inspection import (
    MemoryView,
    read_history,
    read_observations_as_of,
    render_log_as_of,
)
from langgraph_om.models.model_value import ModelValue
from langgraph_om.models.providers import name_actor
from langgraph_om.options import (
    MemoryOptions,
    NoMiddleware,
    read_options,
    signature_of_options,
    with_defaults,
)
from langgraph_om.runtime.acting import awaited, threaded, waited
from langgraph_om.runtime.flows import supervise
from langgraph_om.runtime.hooks import is_async
from langgraph_om.runtime.runner import RunScope, StepRunner
from langgraph_om.runtime.second_try import SecondTries
from langgraph_om.runtime.tools import binds_tools
from langgraph_om.runtime.turn import StepResult, take_step
from langgraph_om.searching import Searchable, SearchingActs, read_time

logger = logging.getLogger("langgraph_om")

_NO_STATUS = (
    "the node `om_status` did not run before this call, so the model is given the conversation "
    "as it is. A run that began with memory switched off and is resumed with it is like that; "
    "otherwise draw the edges into that node: `builder.add_edge(START, 'om_status')`, and "
    "`builder.add_edge('tools', 'om_status')` where there are tools"
)


class ObservationalMemory(FeatureMethods, Searchable, Adoptable, Deletable, metaclass=NoMiddleware):
    """Long-term memory for an agent's conversation.

    Args:
        model: Model of the Observer and the Reflector: `"provider/model"`, a chat model, a runnable
            over messages, a `ModelByInputTokens`, a function of the run's configuration that
            returns one of these, or a list of fallbacks, whose entries may also be
            `{"model": ..., "max_retries": n}`. `None` and `"default"`: the Actor's own model, as
            `create_memory_agent`, the middleware and `with_second_try` know it; where nobody knows
            it, `google/gemini-flash-lite-latest`.
        options: The options of the memory by name, each with its meaning in `MemoryOptions`.

    Raises:
        ConfigurationError: When a setting is out of range or contradicts another; the message names
            it, its value and what to write.
    """

    __signature__ = signature_of_options()

    def __init__(self, model: ModelValue | None = None, **options: Unpack[MemoryOptions]) -> None:
        self._given = model, options
        self._runner = runner = read_options(with_defaults(model, options))
        self.enabled, self.messages_key = runner.enabled, runner.messages_key
        self.archive, self.buffering = runner.archive, runner.buffering

    def _bind_recall(self, actor: Any) -> None:
        model, options = self._given
        if options.get("retrieval", "auto") != "auto":
            return
        if actor is not None and not binds_tools(actor):
            logger.warning(NO_TOOLS)
            return
        self._given = model, {**options, "retrieval": True}
        kept = {"archive": self.archive, "buffering": self.buffering}
        self._runner = read_options(with_defaults(model, {**self._given[1], **kept}))

    def __reduce__(self) -> Any:
        """Refuse to be copied to another process."""
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
        middleware and `with_second_try(model.invoke)` read. `thresholds` fit into it. What a thread
        learns from a refused prompt holds for that thread alone, see `status`.
        """
        return self._runner.window

    @property
    def tools(self) -> list[BaseTool]:
        """The tools to bind to the Actor's model, beside the agent's own."""
        hooks = self._runner.settings.features.having("list_tools") if self.enabled else ()
        return [tool for list_tools in hooks for tool in list_tools()]

    def with_second_try(self, call: Callable[[list[BaseMessage]], Any]) -> Callable[..., Any]:
        """Return a function that calls the Actor's model with memory, again with less if refused.

        For a graph of your own, in whose node it takes the place of `llm_input_messages`:

            ask = memory.with_second_try(model.invoke)

            def agent(state):
                return {"messages": [ask(state, system="You are a travel companion.")]}

        If the provider refuses the prompt, or answers a long one with nothing, half of its length
        goes first: enormous messages become previews, then the oldest messages are left out, then
        the oldest observations. Then attachments are named instead, and content is sent as plain
        text. The state does not change, and `data-om-view-trimmed` says what was left out.

        Args:
            call: Calls the model with messages; what it returns is awaited where it is a coroutine
                function, such as `model.ainvoke`.

        Returns:
            A function of the state and, by name, of `system` and `config`, as those of
            `llm_input_messages`; it returns the answer. A coroutine function for one.
        """
        model = getattr(call, "__self__", None)
        self._runner.meet_actor(model)
        if is_async(call):

            async def aask(state: Any, **options: Any) -> Any:
                tries, view = self._try(model, state, **options)
                return await tries.aask(call, view)

            return aask

        def ask(state: Any, **options: Any) -> Any:
            tries, view = self._try(model, state, **options)
            return tries.ask(call, view)

        return ask

    def _try(
        self,
        model: Any,
        state: Any,
        *,
        system: str | SystemMessage | None = None,
        config: RunnableConfig | None = None,
    ) -> tuple[SecondTries, list[BaseMessage]]:
        self._runner.meet_actor(model, system=system)
        view = self.llm_input_messages(state, system=system, config=config)
        name = name_actor(model)
        return SecondTries(self._runner, state, system, model=name, config=config), view

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
        messages, is_on = runner.conversation(state), runner.runs.is_on(config)
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
        record, messages = self._runner.record(state), self._runner.conversation(state)
        record = self._runner.take_in(record, messages)
        return cast("dict[str, Any]", self._build_status(record, self._open(record, messages)))

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
        messages = self._runner.conversation(state)
        record = self._runner.take_in(record, messages)
        window = self._open(record, messages)
        return MemoryView(
            record=record,
            status=self._build_status(record, window),
            conversation_tokens=find_removed(record).tokens
            + count_messages(self._runner.settings.counter, messages),
            prompt_tokens=window.tokens + log_tokens(record),
            is_closed=self._runner.is_closed,
            history=self.history(history) if history is not None else (),
            apart=self._runner.list_apart(record),
            sections=[
                written
                for write in self._runner.settings.features.having("section")
                if (written := write(record)) is not None
            ],
        )

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
        read = self._runner.settings.features.first("read_history")
        if isinstance(states, str) and read is not None:
            records: list[MemoryRecord] = read(self.archive, states, limit)
            return records
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
        restore = self._runner.settings.features.first("restore")
        if restore is None:
            msg = (
                '`restore` is for scope="resource"; a thread\'s record is put in force again by '
                '`graph.update_state(config, {"om": record})`'
            )
            raise ConfigurationError(msg)
        record: MemoryRecord = restore(self.archive, resource_id, generation, self._runner.clock())
        return record

    def observations_as_of(self, states: Any, time: datetime | str) -> str:
        """Return the observation log as it was at a time.

        Args:
            states: `graph.get_state_history(config)`, or a state; with `scope="resource"` the id
                of a resource.
            time: A time, or its ISO text; without a zone it is one of the memory's `timezone`.
        """
        settings = self._runner.settings
        moment = read_time("time", time, settings.timezone)
        read = settings.features.first("read_history")
        if isinstance(states, str) and read is not None:
            found = read(self.archive, states, 1, moment)
            return render_log_as_of(found[0], moment) if found else ""
        return read_observations_as_of(states, moment)

    def _open(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> Window:
        return open_window(record, messages, self._runner.read_window(record)[0].counter)

    def _build_status(self, record: MemoryRecord, window: Window) -> StatusData:
        step = max(0, record["turn"]["step"])
        settings, actor = self._runner.read_window(record)
        return build_status(record, window, settings.thresholds, step=step, actor=actor)

    # --- One thread ------------------------------------------------------------------------------

    def of(
        self,
        graph: Any,
        config: RunnableConfig,
        *,
        as_node: str | None = None,
        wait: float = 30.0,
    ) -> ThreadMemory:
        """Return the memory of one thread, to see it and to change it.

            thread = memory.of(agent, {"configurable": {"thread_id": "trip"}})
            thread.remember("User is allergic to hazelnuts")
            print(thread.view())

        Nothing is read yet; a thread that never ran has a blank memory.

        Args:
            graph: The agent's compiled graph, with memory and a checkpointer, or a `RemoteGraph`.
            config: The thread: `{"configurable": {"thread_id": ...}}`, and `resource_id` where a
                log is shared. A thread that belongs to another resource is refused. With a
                `checkpoint_id`, it is the memory as of then, and a change begins a fork there; with
                a `checkpoint_ns`, that of a subgraph.
            as_node: As for `graph.update_state`, with which changes are written; needed where the
                thread was imported, and several nodes could have answered last.
            wait: Seconds that a change waits at most for a run under way to end. 0: it is written
                at once, and a run that goes on writes over it.

        Raises:
            ConfigurationError: When the graph is none, or has no checkpointer, or no thread is
                named.
        """
        return ThreadMemory(self, graph, config, as_node=as_node, wait=wait)

    # --- Without a graph -------------------------------------------------------------------------

    @waited
    def step(
        self,
        record: MemoryRecord | None,
        messages: Sequence[BaseMessage],
        *,
        thread_id: str = "",
        config: RunnableConfig | None = None,
        final: bool = False,
        working_memory: Any = None,
    ) -> Requests[StepResult]:
        """Do what memory has to do before one call of the Actor's model.

        Args:
            record: The memory that the last step returned; `None` at first.
            messages: The whole conversation, with ids where they should be told apart.
            thread_id: The thread's id, for the record and the events.
            config: Configuration with callbacks for the Observer's and Reflector's calls.
            final: Whether the Actor has answered and no call follows; nothing is observed then.
            working_memory: With that option, the value to show: a text or a JSON object, such as
                `memory.working_memory.get(store, resource_id)`.
        """
        runner, scope = self._runner, self._scope(config, working_memory=working_memory)
        flow = take_step(runner, record, messages, thread_id, scope, is_final=final)
        return (yield from supervise(flow, runner.context(config))).result

    astep = awaited(step)

    def _scope(self, config: RunnableConfig | None, **given: Any) -> RunScope:
        """Return the run around a step, with what its caller hands in for features."""
        scope = RunScope(self._runner, config, given=given)
        for accept in self._runner.settings.features.having("accept"):
            accept(scope)
        for name, value in scope.given.items():
            if value is not None:
                msg = f"`{name}` is given to a step; pass ObservationalMemory({name}=...) too"
                raise ConfigurationError(msg)
        return scope

    # --- Background work -------------------------------------------------------------------------

    @waited
    def run_job(
        self, request: Mapping[str, Any], *, config: RunnableConfig | None = None
    ) -> Requests[dict[str, Any]]:
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
        done = yield from supervise(*self._runner.run_request(request, config))
        return cast("dict[str, Any]", done.result)

    arun_job = awaited(run_job)

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
        """Start no more background jobs, wait for those at work, and close the archive of a URL.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether nothing is left.
        """
        is_done, archive = self._runner.close(timeout), self.archive
        if archive is not None and archive is not self._given[1].get("archive"):
            archive.close()
        return is_done

    aclose = threaded(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


class ThreadMemory(FeatureActs, ObservingActs, SearchingActs):
    """The memory of one thread: `memory.of(graph, config)`.

    Each method reads or writes the thread as it is then, and has a coroutine function of the same
    name with an `a` before it: `await thread.aremember(...)`. Those that change memory return the
    id of the act, and raise `ThreadBusyError` where a run under way would write over it.
    """

    def __init__(self, memory: ObservationalMemory, *thread: Any, **options: Any) -> None:
        super().__init__(runner_of(memory), *thread, **options)
        self._memory = memory

    @waited
    def view(self, *, history: bool = False) -> Requests[MemoryView]:
        """Return a readable summary; asks no model.

        Args:
            history: Whether to show what each of the last ten generations of the log changed.
        """
        state = yield from self._read()
        states = (yield from self._list_generations(10)) if history else None
        read = partial(self._memory.view, state, history=states)
        view: MemoryView = yield from call_function(read, "om_view")
        if view.record["thread_id"]:
            return view
        return replace(view, record={**view.record, "thread_id": self.thread_id})

    @waited
    def status(self) -> Requests[dict[str, Any]]:
        """Return the `data` of `data-om-status`; asks no model."""
        read = partial(self._memory.status, (yield from self._read()))
        status: dict[str, Any] = yield from call_function(read, "om_view")
        return status

    @waited
    def history(self, limit: int = 10) -> Requests[list[MemoryRecord]]:
        """Return the last record of each generation of the log in the thread, newest first.

        Args:
            limit: How many generations to return at most.
        """
        check_count("limit", limit)
        yield from self._read()
        return self._memory.history((yield from self._list_generations(limit)), limit)

    aview, astatus, ahistory = awaited(view), awaited(status), awaited(history)

    def _list_generations(self, limit: int) -> Requests[list[Any]]:
        """Return the newest state of each generation; no more are read than are needed."""
        found: list[Any] = []

        def take(state: Any) -> bool:
            numbers = [self._runner.stored_record(each)["generation"] for each in (*found, state)]
            if numbers[-1] not in numbers[:-1]:
                found.append(state)
            return len(found) <= limit

        yield from self._walk(take)
        return found

    def delete(self) -> list[str]:
        """Delete the thread: messages, observations, search entries, jobs and checkpoints.

        Returns:
            As `delete_thread` of the memory: the threads whose checkpoints are left and may hold
            words of it. The thread itself is one of them behind a `RemoteGraph`; delete it with the
            server's client.

        Raises:
            ConfigurationError: As `delete_thread` of the memory.
            ArchiveError: As `delete_thread` of the memory.
        """
        return self._memory.delete_thread(self.thread_id, **self._reach())

    async def adelete(self) -> list[str]:
        """Do the same as `delete` without blocking the event loop."""
        return await self._memory.adelete_thread(self.thread_id, **self._reach())

    def _reach(self) -> dict[str, Any]:
        saver = getattr(self._graph, "checkpointer", None)
        return {
            "resource_id": self._runner.runs.find_resource(self._config),
            "store": getattr(self._graph, "store", None),
            "checkpointer": saver if hasattr(saver, "delete_thread") else None,
        }


def runner_of(memory: ObservationalMemory) -> StepRunner:
    """Return what a memory runs its steps with; for the graphs and middleware of this package."""
    return memory._runner  # noqa: SLF001 the one place where it is handed out


NO_TOOLS = (
    "the model takes no tools, so it can't call `recall`: recall is off; use a chat model that "
    "takes tools, or pass retrieval=False"
)


def bind_recall(memory: ObservationalMemory, model: Any = None) -> None:
    """Turn `retrieval="auto"` on for an agent that is given the tool, and whose model takes it."""
    memory._bind_recall(model)  # noqa: SLF001 the one place where the runner is made anew


def check_memory(value: object) -> ObservationalMemory:
    """Read a memory.

    Raises:
        ConfigurationError: When it is something else.
    """
    if isinstance(value, ObservationalMemory):
        return value
    msg = f"`memory` is {value!r}; pass an ObservationalMemory(...)"
    raise ConfigurationError(msg)
