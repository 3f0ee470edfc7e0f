"""The one object users hold: options in, public methods out.

It has no rules of its own: `core` decides what to do with a conversation, and its runner does it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

from langgraph_om import adoption, deletion, searching
from langgraph_om.archive import ArchivedThread
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.effects import Requests
from langgraph_om.core.record.standing import StandingInstruction, read_rules
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.deletion import PruneReport
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.extract import read_extracted
from langgraph_om.features.recall import answer_call, find_tool
from langgraph_om.features.working_memory import WorkingMemory
from langgraph_om.handle import ThreadMemory, Updates
from langgraph_om.models.providers import name_actor
from langgraph_om.options import (
    MemoryOptions,
    NoMiddleware,
    read_options,
    signature_of_options,
    takes_options,
)
from langgraph_om.reading import read_time
from langgraph_om.runtime.acting import awaited, threaded, waited
from langgraph_om.runtime.actor import SecondTries
from langgraph_om.runtime.flows import supervise
from langgraph_om.runtime.hooks import is_async
from langgraph_om.runtime.runner import RunScope, StepRunner, check_health
from langgraph_om.runtime.tools import binds_tools
from langgraph_om.runtime.turn import StepResult, take_step
from langgraph_om.searching import SearchHit, list_threads
from langgraph_om.tools.view import (
    MemoryView,
    build_view,
    read_generations,
    read_log_as_of,
    read_status,
    restore,
)

KindT = TypeVar("KindT")

logger = logging.getLogger("langgraph_om")

_NO_STATUS = (
    "the node `om_status` did not run before this call, so the model is given the conversation "
    "as it is. A run that began with memory turned off and resumes with it on causes this; "
    "otherwise draw the edges into that node: `builder.add_edge(START, 'om_status')`, and "
    "`builder.add_edge('tools', 'om_status')` if there are tools"
)


class ObservationalMemory(metaclass=NoMiddleware):
    """Long-term memory for an agent's conversation.

    Args:
        model (ModelValue | None): Model of the Observer and the Reflector: `"provider/model"`, a
            chat model, a runnable over messages, a `ModelByInputTokens`, a function of the run's
            configuration that returns one of these, or a list of fallbacks, whose entries may also
            be `{"model": ..., "max_retries": n}`. `None` and `"default"`: the Actor's own model, as
            read by `create_memory_agent`, the middleware and `with_second_try`; if it is
            unknown, `google/gemini-flash-lite-latest`.
        options: The memory's options by name, described in `MemoryOptions`.

    Raises:
        ConfigurationError: When a setting is out of range or contradicts another; the message names
            it, its value and what to pass.
    """

    __signature__ = signature_of_options()

    @takes_options(MemoryOptions)
    def __init__(self, *args: Any, **options: Any) -> None:
        self._options = MemoryOptions(*args, **options)
        self._runner = runner = read_options(self._options)
        self.enabled, self.messages_key = runner.runs.enabled, runner.messages_key
        self.archive, self.buffering = runner.archive, runner.buffering

    def _bind_recall(self, actor: Any) -> None:
        if self._options.retrieval != "auto":
            return
        if actor is not None and not binds_tools(actor):
            logger.warning(NO_TOOLS)
            return
        self._options = self._options.change(retrieval=True)
        kept = self._options.change(archive=self.archive, buffering=self.buffering)
        self._runner = read_options(kept)

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
        """The context window of the Actor's model, in tokens; `None` while it is unknown.

        It comes from `max_input_tokens` or the model's profile, which `create_memory_agent`, the
        middleware and `with_second_try(model.invoke)` read. `thresholds` fit into it. What a thread
        learns from a rejected prompt holds for that thread alone; see `status`.
        """
        return self._runner.actor.window

    @property
    def tools(self) -> list[BaseTool]:
        """The tools to bind to the Actor's model, in addition to the agent's own."""
        parts = self._runner.settings.parts
        if not self.enabled:
            return []
        return [
            *([] if parts.recall is None else parts.recall.list_tools()),
            *([] if parts.working is None else parts.working.list_tools()),
        ]

    def with_second_try(self, call: Callable[[list[BaseMessage]], Any]) -> Callable[..., Any]:
        """Return a function that calls the Actor's model with memory and retries with less.

        For your own graph, in place of `llm_input_messages`:

            ask = memory.with_second_try(model.invoke)

            def agent(state):
                return {"messages": [ask(state, system="You are a travel companion.")]}

        If the provider rejects the prompt, or answers a long one with nothing, the prompt is first
        halved: enormous messages become previews, then the oldest messages are left out, then
        the oldest observations. Next, attachments are only named, and content is sent as plain
        text. The state does not change, and `data-om-view-trimmed` says what was left out.

        Args:
            call: Calls the model with messages; it may be a coroutine function, such
                as `model.ainvoke`.

        Returns:
            A function that takes the state and, by name, `system` and `config`, as
            `llm_input_messages` does, and returns the answer. Async if `call` is.
        """
        model = getattr(call, "__self__", None)
        self._runner.actor.meet(model)
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
        self._runner.actor.meet(model, system=system)
        view = self.llm_input_messages(state, system=system, config=config)
        name = name_actor(model)
        return SecondTries(self._runner, state, system, model=name, config=config), view

    def llm_input_messages(
        self,
        state: Any,
        *,
        system: str | SystemMessage | None = None,
        config: RunnableConfig | None = None,
    ) -> list[BaseMessage]:
        """Return the messages to call the Actor's model with.

        Args:
            state: The graph's state, with the conversation and `om`: what a node is given, a
                `StateSnapshot`, or what a server's client returns.
            system: The agent's own system prompt, when it is not among the messages.
            config: The run's configuration; inside a node, you need not pass it.

        Returns:
            One system message with the observations, a reminder, and the messages that are not
            observed yet. Without observations, with memory switched off, or when `om_status`
            did not run before (which logs a warning): the conversation as it is.

        Raises:
            ConfigurationError: When the state has no `om`; the node has to see it.
        """
        runner = self._runner
        messages, is_on = runner.conversation(state), runner.runs.is_on(config)
        if is_on:
            look = runner.look(runner.record(state), messages, runner.read_state(state), config)
            if look.record["id"]:
                return runner.actor_input(look, system)
        if is_on and messages:
            runner.runs.warn_once(_NO_STATUS)
        head = SystemMessage(system) if isinstance(system, str) else system
        return [*([head] if head is not None else []), *messages]

    def status(self, state: Any) -> dict[str, Any]:
        """Return the `data` of `data-om-status` for a state; calls no model.

        Args:
            state: As for `llm_input_messages`; may be empty for a thread that never ran.
        """
        return read_status(self._runner, state)

    def view(self, state: Any, *, history: Any = None) -> MemoryView:
        """Return a readable summary of a state's memory; calls no model.

        Args:
            state: As for `llm_input_messages`; may be empty for a thread that never ran.
            history: As `states` in `history`, to show what each generation changed; `None`: only
                what is remembered now.

        Raises:
            ConfigurationError: When `state` is not a state, or has no memory.
        """
        return build_view(self._runner, state, history)

    def history(self, states: Any, limit: int = 10) -> list[MemoryRecord]:
        """Return the last record of each generation of a log, newest first.

        To restore an earlier one, use `graph.update_state(config, {"om": record})` for a thread and
        `restore` for a resource; the messages after its cursor are then observed again.

        Args:
            states: `graph.get_state_history(config)`, what a server's client returns for a
                thread's history, or any states, newest first; with `scope="resource"` the id of a
                resource.
            limit: How many generations to return at most.
        """
        return read_generations(self._runner, states, limit)

    def restore(self, resource_id: str, generation: int) -> MemoryRecord:
        """Restore an earlier generation of a resource's log, as a new one.

        Its threads adopt it in their next step. What was observed since is observed again,
        except for evicted messages.

        Args:
            resource_id: The owner of the log.
            generation: The `generation` of an entry of `history`.

        Raises:
            ArchiveError: When the archive's storage fails.
            ConfigurationError: When there is no such generation, or no log is shared.
        """
        return restore(self._runner, resource_id, generation)

    def observations_as_of(self, states: Any, time: datetime | str) -> str:
        """Return the observation log as it was at a time.

        Args:
            states: `graph.get_state_history(config)`, or a state; with `scope="resource"` the id
                of a resource.
            time: A time, or its ISO text; without a zone it is in the memory's `timezone`.
        """
        moment = read_time("time", time, self._runner.settings.timezone)
        return read_log_as_of(self._runner, states, moment)

    def rules(self, state: Any) -> list[StandingInstruction]:
        """Return the user's standing instructions that are in force, oldest first; calls no model.

        The user ends one by saying so; `forget` with its words ends it as well.

        Args:
            state: As for `llm_input_messages`; may be empty for a thread that never ran.
        """
        return read_rules(self._runner.record(state))

    def extracted(self, state: Any, kind: type[KindT], name: str | None = None) -> KindT | None:
        """Return an extracted value from a state's memory; calls no model.

        Args:
            state: As for `llm_input_messages`; may be empty for a thread that never ran.
            kind: The schema of the value, as in `observation={"extract": {name: kind}}`; `str` for
                a text.
            name: Its name, if several have this schema.

        Returns:
            The value, an object of the schema or a text; `None` until one is found.

        Raises:
            ConfigurationError: When no value, or several, have this schema.
        """
        return read_extracted(self._runner, state, kind, name)

    @property
    def working_memory(self) -> WorkingMemory | None:
        """The working memory, as the option sets it; `None` without one."""
        working = self._runner.settings.parts.working
        return None if working is None else working.memory

    # --- Recall and search -----------------------------------------------------------------------

    @property
    def recall_tool(self) -> BaseTool | None:
        """The tool that reads the original messages, if `retrieval` is on."""
        return find_tool(self._runner)

    def recall(
        self,
        /,
        state: Any,
        config: RunnableConfig | None = None,
        *,
        store: Any = None,
        **args: Any,
    ) -> dict[str, Any]:
        """Answer as the tool `recall` does, without a graph.

        Its searches omit the observations that an Actor with this state sees; `search` does not.

        Args:
            state: As for `llm_input_messages`, or a mapping with the conversation alone.
            config: The run's configuration, which names the user.
            store: The LangGraph store that is searched, with `retrieval={"vector": True}`.
            args: What the tool takes: `mode`, `query`, `cursor`, `thread_id`, `page`, `limit`,
                `detail`, `part_index`, `char_offset`, `before`, `after`.

        Returns:
            The result, or a single field `error` or `hint` that says what to pass instead.

        Raises:
            ConfigurationError: When `retrieval` is off, or a search has no store with an index.
        """
        return answer_call(self._runner, state, args, config, store)

    def search(
        self,
        query: str,
        *,
        thread_id: str | Sequence[str] | None = None,
        resource_id: str | None = None,
        state: Any = None,
        before: datetime | str | None = None,
        after: datetime | str | None = None,
        role: str | None = None,
        tool_name: str | None = None,
        limit: int = 8,
        store: Any = None,
    ) -> list[SearchHit]:
        """Find messages and observations by words, the best first; calls no model.

        Searches the archive, or a conversation that you pass. `retrieval` need not be on. The query
        has no operators; a query without words finds nothing.

        Args:
            thread_id: The thread to look in, or the ids of several. An empty list finds nothing, so
                a filter that leaves no threads never searches them all.
            resource_id: The user or entity to search; with `thread_id`, the owner of the thread:
                someone else's thread counts as nonexistent, and their state is refused.
            state: A conversation to look in instead of the archive: a list of messages, or a state
                as for `llm_input_messages`, with its observations.
            before: Only what was said before this time, or its ISO text; without a zone it is
                in the memory's `timezone`.
            after: Only what was said at this time or later.
            role: Only messages of this role: `"user"`, `"assistant"` or `"tool"`.
            tool_name: Only calls of this tool and their results.
            limit: How many hits to return at most, 1000 or fewer.
            store: With `retrieval={"vector": True}`, the LangGraph store with the vectors, so that
                messages with a similar meaning are found too.

        Raises:
            ConfigurationError: When no place to look is given, or an argument is invalid.
            ArchiveError: When the archive's storage fails.
        """
        return searching.search(
            self._runner,
            query,
            limit,
            thread_id=thread_id,
            resource_id=resource_id,
            state=state,
            store=store,
            before=before,
            after=after,
            role=role,
            tool_name=tool_name,
        )

    def threads(
        self,
        resource_id: str,
        *,
        before: datetime | str | None = None,
        after: datetime | str | None = None,
        limit: int = 20,
        page: int = 0,
        graph: Any = None,
    ) -> list[ArchivedThread]:
        """Return the threads of a user or entity with titles and times, newest update first.

        Args:
            before: Only threads created before this time, or its ISO text.
            after: Only threads created at this time or later.
            page: Page of `limit` threads, from 0.
            graph: The agent's graph, to list threads without an archive: they are found by the
                `resource_id` in their runs' `configurable`. This reads all checkpoints of the user.

        Raises:
            ConfigurationError: When there is neither archive nor checkpointer, or an argument
                is invalid.
            ArchiveError: When the archive's storage fails.
        """
        pages = {"limit": limit, "page": page, "graph": graph}
        return list_threads(self._runner, resource_id, before=before, after=after, **pages)

    arecall, asearch, athreads = threaded(recall), threaded(search), threaded(threads)

    # --- One thread ------------------------------------------------------------------------------

    def of(
        self,
        graph: Any,
        config: RunnableConfig,
        *,
        as_node: str | None = None,
        wait: float = 30.0,
    ) -> ThreadMemory:
        """Return the memory of one thread, to view and change it.

            thread = memory.of(agent, {"configurable": {"thread_id": "trip"}})
            thread.remember("User is allergic to hazelnuts")
            print(thread.view())

        Nothing is read yet; a thread that never ran has a blank memory.

        Args:
            graph: The agent's compiled graph, with memory and a checkpointer, or a `RemoteGraph`.
            config: The thread: `{"configurable": {"thread_id": ...}}`, and `resource_id` if a
                log is shared. A thread that belongs to another resource is refused. With a
                `checkpoint_id`, it is the memory back then, and a change begins a fork there; with
                a `checkpoint_ns`, that of a subgraph.
            as_node: As for `graph.update_state`, which writes the changes; needed if the thread was
                imported and several nodes could have answered last.
            wait: The most seconds that a change waits for a run under way. With 0, it is written at
                once, and such a run may overwrite it.

        Raises:
            ConfigurationError: When `graph` is not a graph, or has no checkpointer, or no thread is
                named.
        """
        return ThreadMemory(self._runner, graph, config, as_node=as_node, wait=wait)

    @property
    def updates(self) -> Updates:
        """A person's changes as updates of `om`, for a tool, a node, or `update_state`."""
        return Updates(self._runner)

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
        """Do the work of memory before one call of the Actor's model.

        Args:
            record: The memory that the last step returned; `None` at first.
            messages: The whole conversation, with ids if messages may be identical.
            thread_id: The thread's id, for the record and the events.
            config: Configuration with callbacks for the Observer's and Reflector's calls.
            final: Whether the Actor has answered and no call follows; nothing is observed then.
            working_memory: With that option, the value to show: a text or a JSON object, such as
                `memory.working_memory.get(store, resource_id)`.
        """
        runner, scope = self._runner, RunScope(self._runner, config)
        if runner.settings.parts.working is not None:
            runner.settings.parts.working.accept(scope, working_memory)
        elif working_memory is not None:
            msg = (
                "`working_memory` was passed to a step; also pass "
                "ObservationalMemory(working_memory=...)"
            )
            raise ConfigurationError(msg)
        flow = take_step(runner, record, messages, thread_id, scope, is_final=final)
        return (yield from supervise(flow, runner.context(config))).result

    astep = awaited(step)

    @waited
    def observe_messages(
        self,
        record: MemoryRecord | None,
        messages: Sequence[BaseMessage],
        *,
        thread_id: str = "",
        config: RunnableConfig | None = None,
    ) -> Requests[StepResult]:
        """Do what a thread's `observe` does, without a graph. Use it with `step`.

        Args:
            record: The memory that the last step returned; `None` at first.
            messages: The whole conversation.
            thread_id: The thread's id, as for `step`.
            config: As for `step`.
        """
        return adoption.observe_messages(self._runner, record, messages, thread_id, config)

    aobserve_messages = awaited(observe_messages)

    # --- Health ----------------------------------------------------------------------------------

    @waited
    def check(self, *, ask: bool = False) -> Requests[list[str]]:
        """Return what keeps memory from working here, one sentence each; empty if all is well.

        For a readiness probe: reads the archive, and checks for the models' keys and packages.

        Args:
            ask: Whether to also call the Observer's model, which costs a few tokens.
        """
        flow = check_health(self._runner, ask=ask)
        return (yield from supervise(flow, self._runner.context())).result

    acheck = awaited(check)

    # --- Move and delete -------------------------------------------------------------------------

    def move_thread(
        self, thread_id: str, resource_id: str | None, to_resource_id: str, *, store: Any = None
    ) -> None:
        """Give a thread to another user or entity, with all its data in the archive and the store.

        The new owner's searches, lists and `recall` then include it, and the former owner's do not.
        Its jobs are dropped, and restarted in its next turn. If the former owner has a run under
        way, its next write is refused; the run's words stay in the checkpoint.

        The thread's record names the new owner from their first turn on, or at once if
        `memory.of(graph, config).move_to(...)` moves it. A user's working memory stays with them.

        Args:
            thread_id: The thread.
            resource_id: The owner; `None` if it has none.
            to_resource_id: The new owner.
            store: The graph's store; needed if search by meaning (`retrieval.vector`) has put
                texts there.

        Raises:
            ConfigurationError: When there is no such thread, it has another owner, it cannot be
                separated from a shared log, or data would remain that the call cannot
                reach. Nothing is moved then.
            ArchiveError: When the archive's storage fails; call again.
            Exception: Whatever the store raises; call again.
        """
        deletion.move_thread(self._runner, thread_id, resource_id, to_resource_id, store)

    @waited
    def delete_thread(
        self,
        thread_id: str,
        *,
        resource_id: str | None = None,
        store: Any = None,
        checkpointer: Any = None,
    ) -> Requests[list[str]]:
        """Delete a thread: its messages, observations, titles, search entries and jobs.

        Deletes from the archive, the store and, if you pass it, the checkpointer. A job that is
        running for the thread can no longer keep its result. Server runs that wait for the thread
        are deleted last of all.

        Args:
            resource_id: The owner; needed only without an archive.
            store: The graph's store; needed if search by meaning (`retrieval.vector`) has put
                texts there.
            checkpointer: The graph's checkpointer, to delete the thread's checkpoints too.

        Returns:
            The threads whose checkpoints may still hold words from it: this one, if given no
            `checkpointer`, and others of its resource that are shown its observations or messages.
            Their newest checkpoint holds these words until their next turn, older ones for good.

        Raises:
            ConfigurationError: When data would remain that the call cannot reach. Nothing is
                deleted then.
            ArchiveError: When the archive's storage fails, or keeps traces; call again.
            Exception: Whatever the checkpointer or the store raises, or the client of
                `ServerBuffering` if it can't be reached; call again. A run that remains there does
                nothing.
        """
        return deletion.delete_thread(self._runner, thread_id, resource_id, store, checkpointer)

    @waited
    def delete_resource(
        self, resource_id: str, *, store: Any = None, checkpointer: Any = None
    ) -> Requests[list[str]]:
        """Delete all threads of a resource, as `delete_thread` does, and its working memory.

        With a `checkpointer`, this includes threads that only it knows, such as those from before
        memory was added: all with this `resource_id` in a run's `configurable`. A thread that
        belongs to another resource in the archive stays.

        Args:
            store: The graph's store; needed if it has texts for search by meaning, or working
                memory.
            checkpointer: The graph's checkpointer, to delete the threads' checkpoints too.

        Returns:
            The threads whose checkpoints may still hold words from it: without a `checkpointer`,
            those the archive knew; with one, those of another resource.

        Raises:
            ConfigurationError: As `delete_thread`.
            ArchiveError: As `delete_thread`.
            Exception: As `delete_thread`.
        """
        return deletion.delete_resource(self._runner, resource_id, store, checkpointer)

    @waited
    def prune(
        self,
        older_than: timedelta | None = None,
        *,
        keep_observations: bool = False,
        store: Any = None,
        checkpointer: Any = None,
        dry_run: bool = False,
    ) -> Requests[PruneReport]:
        """Delete what is older than a limit, from archive, observations and store.

        Threads with no writes since then are deleted, as by `delete_thread`. Other threads lose
        their old messages in the archive at once, and their log loses the observations of these in
        the next turn. Old messages in checkpoints stay there, and are never archived again.
        Messages of unknown age stay, and so do standing instructions and what a person added or
        pinned.

        Works in batches, each in one transaction of the archive. A thread that continues in the
        meantime stays. If `prune` is interrupted, call it again, and delete the checkpoints of
        the threads that it logged.

        Args:
            older_than (timedelta | None): Age, such as `timedelta(days=90)`; `None`: the option
                `retention`.
            keep_observations (bool): Whether the remaining threads keep observations whose messages
                are all gone.
            store (BaseStore): The graph's store, as for `delete_thread`.
            checkpointer (BaseCheckpointSaver): The graph's checkpointer, to delete the threads'
                checkpoints too.
            dry_run (bool): Whether to only report what would be deleted.

        Returns:
            The ids of the deleted threads, and how many messages and observations others lost.

        Raises:
            ConfigurationError: Without an archive, without an age, or as `delete_thread`.
            ArchiveError: As `delete_thread`.
            Exception: As `delete_thread`.
        """
        age = self._options.retention if older_than is None else older_than
        keeps = {"keep_observations": keep_observations, "dry_run": dry_run}
        return deletion.prune(self._runner, age, store, checkpointer, **keeps)

    amove_thread = threaded(move_thread)
    adelete_thread = awaited(delete_thread)
    adelete_resource = awaited(delete_resource)
    aprune = awaited(prune)

    # --- Background work -------------------------------------------------------------------------

    @waited
    def run_job(
        self, request: Mapping[str, Any], *, config: RunnableConfig | None = None
    ) -> Requests[dict[str, Any]]:
        """Carry out a job that an `Executor` was given, in this process or any other.

        Args:
            request: The job, a `JobRequest`, unchanged or read back from JSON.
            config: Configuration with callbacks for the models' calls.

        Returns:
            The event that is its result, as plain JSON, for the executor's `peek`; its type is
            `buffering-failed` if the model failed.

        Raises:
            ConfigurationError: When this memory's settings differ from the sender's (the error
                names them), or the messages have changed; drop the job then.
            ArchiveError: When the archive's storage fails.
        """
        done = yield from supervise(*self._runner.run_request(request, config))
        return cast("dict[str, Any]", done.result)

    arun_job = awaited(run_job)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until no background job is running; the next step takes in the results.

        Args:
            timeout: The most seconds to wait; `None`: no limit.

        Returns:
            Whether nothing is left.
        """
        return self._runner.flush(timeout)

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 same as `flush`
        """Do the same as `flush` without blocking the event loop or, when canceled, a thread."""
        return await self._runner.aflush(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Start no more background jobs, wait for running ones, and close an archive opened by URL.

        Args:
            timeout: The most seconds to wait.

        Returns:
            Whether nothing is left.
        """
        is_done, archive = self._runner.close(timeout), self.archive
        if archive is not None and archive is not self._options.archive:
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


def runner_of(memory: ObservationalMemory) -> StepRunner:
    """Return what a memory runs its steps with; for the graphs and middleware of this package."""
    return memory._runner  # noqa: SLF001 the one place where it is handed out


NO_TOOLS = (
    "the model does not support tools, so recall is off; use a chat model that does, or pass "
    "retrieval=False"
)


def bind_recall(memory: ObservationalMemory, model: Any = None) -> None:
    """Turn `retrieval="auto"` on for an agent that gets the tool and whose model supports it."""
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
