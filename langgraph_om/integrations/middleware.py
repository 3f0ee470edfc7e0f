"""Memory as middleware, for `create_agent` and so for deepagents.

A turn of memory runs where the model is called, and is written with the answer.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Annotated, Any, NotRequired, Self, cast, get_type_hints
from weakref import WeakKeyDictionary

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse, hook_config
from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
from langchain.agents.middleware.types import ExtendedModelResponse, OmitFromInput, PrivateStateAttr
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, SystemMessage
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.channels import DeltaChannel
from langgraph.channels.base import BaseChannel
from langgraph.graph import END
from langgraph.runtime import ExecutionInfo, Runtime
from langgraph.types import Command

from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.record.fold import fold, fold_one
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.step import StateKey, Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.integrations.channels import (
    MEMORY_SNAPSHOTS,
    check_removal,
    messages_reducer,
    typed_dict,
)
from langgraph_om.integrations.nodes import MemoryNodes, MemoryTransformer
from langgraph_om.memory import NO_TOOLS, ObservationalMemory, bind_recall, check_memory, runner_of
from langgraph_om.models.providers import name_actor
from langgraph_om.runtime.actor import SecondTries
from langgraph_om.runtime.flows import adrive, drive
from langgraph_om.runtime.run import RUNTIME, acting, read_configurable
from langgraph_om.runtime.runner import RunScope, StepRunner, only_folding
from langgraph_om.runtime.tools import binds_tools, refuse_second_recall
from langgraph_om.runtime.turn import Outcome, turn


class _AgentMemoryState(AgentState[Any]):
    """What the middleware adds to an agent's state."""

    om: NotRequired[Annotated[MemoryRecord, OmitFromInput, fold_one]]


def add_keys(base: Any, keys: Mapping[str, StateKey]) -> Any:
    """Return a state schema with the keys of features."""
    fields: dict[str, Any] = {}
    for name, key in keys.items():
        kind = key.channel
        if key.is_private:
            kind = Annotated[key.type, PrivateStateAttr, key.reducer]
        elif not key.is_input:
            kind = Annotated[key.type, OmitFromInput, key.reducer]
        fields[name] = NotRequired[kind]
    hints = get_type_hints(base, include_extras=True)
    return typed_dict(f"{base.__name__}WithKeys", {**hints, **fields})


class ObservationalMemoryAgentState(AgentState[Any]):
    """State for `create_agent(state_schema=...)`; both channels store only what changed."""

    messages: Annotated[list[AnyMessage], DeltaChannel(messages_reducer)]
    """The conversation."""
    om: NotRequired[
        Annotated[
            MemoryRecord, OmitFromInput, DeltaChannel(fold, snapshot_frequency=MEMORY_SNAPSHOTS)
        ]
    ]
    """The memory; part of the output, not of the input."""


class ObservationalMemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Long-term memory for an agent built with `create_agent` or deepagents.

    The conversation in the state stays as it is; the model is given the observations and the
    messages that are not observed yet. Put it last, so that it sees what other middleware changed.

    A run can pass `context={"om_enabled": False}`; a server shows a form for that with
    `create_agent(context_schema=MemoryContext)`, which middleware cannot set.

    Args:
        replaces: The name of the middleware that this one replaces. deepagents matches
            names: with `"SummarizationMiddleware"`, memory replaces its summarization,
            in its general-purpose subagent too. `None`: memory is added.
        as_node: Whether memory has its own node before the model's, so that its work is kept
            when the model fails. Each model call then takes another superstep and checkpoint.
            A memory with `evict=True`, `on_error="abort"` or `on_error="raise"` always has one, as
            does a subclass.
        options: Instead of `memory`: what `ObservationalMemory` takes.

    Raises:
        ConfigurationError: When `memory` and options are given, `replaces` is not a valid name,
            or the memory doesn't fit an agent's state.
    """

    state_schema = _AgentMemoryState
    transformers = (InternalCallTransformer, MemoryTransformer)

    memory: ObservationalMemory

    def __new__(
        cls,
        memory: ObservationalMemory | None = None,
        *,
        as_node: bool = False,
        replaces: str | None = None,  # noqa: ARG004 for `__init__`
        **options: Any,
    ) -> Self:
        """Make one with the hooks that its memory needs.

        `create_agent` looks for hooks on the class, and each that is there is a superstep.
        """
        if cls is not ObservationalMemoryMiddleware:
            return super().__new__(cls)
        memory = _read_memory(memory, options)
        runner = runner_of(memory)
        # Only a node ends a run, and removes a message that no other write of its step does.
        has_node = as_node or runner.removes_by or runner.settings.on_error != "continue"
        made = super().__new__(cast("type[Self]", _KINDS[bool(has_node), runner.has_last_step]))
        made.memory = memory
        return made

    def __init__(
        self,
        memory: ObservationalMemory | None = None,
        *,
        replaces: str | None = None,
        as_node: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        if replaces not in (None, _REPLACEABLE):
            msg = f"`replaces` is {replaces!r}; pass {_REPLACEABLE!r} or None"
            raise ConfigurationError(msg)
        self._name = replaces or "ObservationalMemoryMiddleware"
        if not hasattr(self, "memory"):  # of a subclass
            self.memory = _read_memory(memory, options)
        self.tools = self.memory.tools
        working = runner_of(self.memory).settings.parts.working
        if working is not None:
            self.state_schema = add_keys(_AgentMemoryState, working.state_keys)
        self._runner = runner_of(self.memory)
        self._turns = _Turns(self._runner)

    @property
    def name(self) -> str:
        """The same for subclasses, so that `create_agent` refuses two memories on one agent."""
        return self._name

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Inspect the conversation, and do the work that is due, before the model is called."""
        return _to_update(self._turns.take(state))

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same as `before_model` without blocking the event loop."""
        return _to_update(await self._turns.atake(state))

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Call the model with observations and recent messages instead of all messages."""
        with self._turns.within_run(request), acting(request.model):
            request = self._without_recall(request)
            if not self._meet(request):
                return handler(self._without_writing_tools(request))
            taken = _Taken() if self._has_node else self._turns.take_once(request)
            offered, view, tries = self._prepare(request, taken)
            begun_at = taken.answered
            answer = tries.ask(lambda shown: handler(_with_input(offered, shown)), view)
            return self._turns.conclude(taken, answer, begun_at)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Do the same as `wrap_model_call` without blocking the event loop."""
        with self._turns.within_run(request), acting(request.model):
            request = self._without_recall(request)
            if not self._meet(request):
                return await handler(self._without_writing_tools(request))
            taken = _Taken() if self._has_node else await self._turns.atake_once(request)
            offered, view, tries = self._prepare(request, taken)
            begun_at = taken.answered
            answer = await tries.aask(lambda shown: handler(_with_input(offered, shown)), view)
            return self._turns.conclude(taken, answer, begun_at)

    @property
    def _has_node(self) -> bool:
        """Whether a node before the model's takes memory's turn."""
        return type(self).before_model is not AgentMiddleware.before_model

    def _without_recall(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return a request without recall where the model takes no tools; memory goes on."""
        recall = self._runner.settings.parts.recall
        if recall is None or binds_tools(request.model):
            return request
        recall.is_bound = False
        self._runner.runs.warn_once(NO_TOOLS)
        own = recall.tool
        return request.override(tools=[tool for tool in request.tools if tool is not own])

    def _meet(self, request: ModelRequest[Any]) -> bool:
        """Look at the model that is asked; return whether memory is on."""
        refuse_second_recall(request.tools, self.memory.recall_tool)
        if not self._runner.runs.is_on():
            return False
        self._runner.actor.meet(request.model, request.tools, request.system_message)
        return True

    def _prepare(
        self, request: ModelRequest[Any], taken: _Taken
    ) -> tuple[ModelRequest[Any], list[BaseMessage], SecondTries]:
        """Return a request with the tools that this run may use, the Actor's input, and others."""
        runner, system = self._runner, request.system_message
        seen = taken.show(request)
        if taken.step is not None and _is_conversation(request):
            view = runner.actor_input(taken.step, system)
        else:
            view = self.memory.llm_input_messages(seen, system=system)
        name = name_actor(request.model)
        tries = SecondTries(runner, seen, system, model=name, mark=_marked)
        if taken.update:
            state = cast("Any", {**seen, "messages": request.state["messages"]})
            request = request.override(state=state)
        if runner.runs.is_read_only():
            request = self._without_writing_tools(request)
        return request, view, tries

    def _without_writing_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return a request for a run in which nothing can be written."""
        names, tools = self._runner.settings.writing_tools, cast("Sequence[Any]", request.tools)
        kept = [tool for tool in tools if getattr(tool, "name", None) not in names]
        return request.override(tools=kept) if len(kept) < len(tools) else request


def _to_update(taken: _Taken) -> _Update | None:
    """Return what a node writes."""
    return {**taken.update, "jump_to": "end"} if taken.is_aborted else taken.update or None


class _WithLastStep(ObservationalMemoryMiddleware):
    """The middleware of a memory that has something to do after the Actor's answer."""

    def after_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Take the last step of a turn: no call of the Actor follows."""
        return self._nodes.finish(state) or None

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same as `after_agent` without blocking the event loop."""
        return await self._nodes.afinish(state) or None

    @property
    def _nodes(self) -> MemoryNodes:
        return MemoryNodes(self._runner, END, END, writes_always=False)


class _WithinCall(ObservationalMemoryMiddleware):
    """The middleware that takes memory's turn where the model is called."""

    before_model = AgentMiddleware.before_model
    abefore_model = AgentMiddleware.abefore_model

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Be a node that may write `om`: an update of the state is taken for one of the last node.

        The input may not write it, so an update after a failed call of the model would be dropped.
        """
        return {}

    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same as `before_agent`."""
        return self.before_agent(state, runtime)


class _WithinCallWithLastStep(_WithinCall, _WithLastStep):
    """The same, of a memory that has something to do after the Actor's answer."""


_KINDS: dict[tuple[bool, bool], type[ObservationalMemoryMiddleware]] = {
    (True, False): ObservationalMemoryMiddleware,
    (True, True): _WithLastStep,
    (False, False): _WithinCall,
    (False, True): _WithinCallWithLastStep,
}
"""By whether there is a node before the model's, and one after the Actor's answer."""


def _read_memory(
    given: ObservationalMemory | None, options: Mapping[str, Any]
) -> ObservationalMemory:
    """Return the memory of a middleware, which has the tool for its model bound."""
    if given is not None and options:
        named = ", ".join(f"`{name}`" for name in sorted(options))
        msg = f"`memory` and {named} are both given; pass the latter to ObservationalMemory(...)"
        raise ConfigurationError(msg)
    memory = check_memory(given) if given is not None else ObservationalMemory(**options)
    if memory.messages_key != "messages":
        msg = (
            f"`messages_key` is {memory.messages_key!r}; the state of `create_agent` keeps the "
            f"conversation in 'messages', so omit the option"
        )
        raise ConfigurationError(msg)
    bind_recall(memory)
    return memory


def _is_conversation(request: ModelRequest[Any]) -> bool:
    """Return whether no middleware before this one has changed the messages."""
    told: list[AnyMessage] = request.state["messages"]
    return len(told) == len(request.messages) and all(map(operator.is_, told, request.messages))


def _with_input(request: ModelRequest[Any], view: Sequence[BaseMessage]) -> ModelRequest[Any]:
    messages = cast("list[AnyMessage]", list(view))
    if messages and isinstance(messages[0], SystemMessage):
        return request.override(system_message=messages[0], messages=messages[1:])
    return request.override(messages=messages)


def _marked(
    response: ModelResponse[Any], mark: Callable[[BaseMessage], BaseMessage]
) -> ModelResponse[Any]:
    """Mark the answer in what a handler returned, of any of the kinds that it may return."""
    given: Any = response
    if isinstance(given, BaseMessage):
        return cast("ModelResponse[Any]", mark(given))
    if isinstance(given, ExtendedModelResponse):
        inner = _marked(given.model_response, mark)
        return cast("ModelResponse[Any]", replace(given, model_response=inner))
    return replace(response, result=[*map(mark, response.result)])


# --- Before the model ----------------------------------------------------------------------------

_Update = dict[str, Any]

_READ = "__pregel_read"
"""Where LangGraph keeps, in a node's configuration, what reads the state's channels."""

_MAX_STAND_INS = 16
"""For how many tasks something stands in: nobody says when one of them ends."""


@dataclass(slots=True)
class _Taken:
    """A turn of memory before a call of the model."""

    update: _Update = field(default_factory=dict)
    """What it changes in the agent's state."""
    record: MemoryRecord | None = None
    """The memory after it; `None` where nothing was inspected."""
    step: Step | None = None
    """What was inspected last."""
    is_aborted: bool = False
    """Whether a failure ends the turn of the agent without an answer."""
    answered: int = 0
    """How many calls of the model were answered with it."""

    def show(self, request: ModelRequest[Any]) -> dict[str, Any]:
        """Return the state with the turn in it.

        The messages are those that the middleware before this one left.
        """
        state: dict[str, Any] = {"om": None, **cast("Mapping[str, Any]", request.state)}
        state |= {**self.update, "messages": request.messages}
        if self.record is not None:
            state["om"] = self.record
        return state


_Settle = Callable[[Callable[[], _Taken]], None]
"""Takes a turn, and tells all who wait for it what has come of it."""


class _StandIn:
    """Stands for a task of LangGraph's in threads that know nothing of it."""


class _Turns:
    """Takes memory's turns on an agent's state."""

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner
        self._lock = Lock()
        self._taken: WeakKeyDictionary[Any, dict[int, Future[_Taken]]] = WeakKeyDictionary()
        """By task, the turn of each attempt at it."""
        self._running: set[asyncio.Task[_Taken]] = set()
        self._stand_ins: dict[str, _StandIn] = {}
        """By the id of a task, what stands for it in threads without its context."""

    # Middleware may call the model several times, at once, from threads, and give up waiting.

    def take_once(self, request: ModelRequest[Any]) -> _Taken:
        """Take a turn, or wait for the one that the same task takes."""
        future, settle = self._join(request)
        if settle is not None:
            settle(partial(self.take, request.state))
        return future.result()

    async def atake_once(self, request: ModelRequest[Any]) -> _Taken:
        """Do the same as `take_once` without blocking the event loop.

        The turn goes on where a timeout around the model's call is over.
        """
        future, settle = self._join(request)
        if settle is not None:
            task = asyncio.create_task(self.atake(request.state))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            task.add_done_callback(lambda done: settle(done.result))
        return await asyncio.wrap_future(future)

    def _join(self, request: ModelRequest[Any]) -> tuple[Future[_Taken], _Settle | None]:
        """Return the turn of the task around, and what settles it where it has yet to be taken."""
        # An object that lives as long as the task; a run that is taken up has tasks of its own.
        task, about = read_configurable().get(_READ), _read_about(request)
        attempt = about.node_attempt if about is not None else 1
        with self._lock:
            turns = self._taken.setdefault(task, {}) if task is not None else {}
            if attempt in turns:
                return turns[attempt], None
            turns[attempt] = future = Future[_Taken]()
            future.set_running_or_notify_cancel()  # from here on nobody can cancel it

        def settle(take: Callable[[], _Taken]) -> None:
            try:
                future.set_result(take())
            except BaseException as error:  # noqa: BLE001 it is raised where the turn is waited for
                turns.pop(attempt)  # the next call tries it, and the error keeps the task alive
                future.set_exception(error)

        return future, settle

    def conclude(
        self, taken: _Taken, response: ModelResponse[Any], begun_at: int
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Return a response with which a turn is written.

        Args:
            begun_at: How many were answered when it began. LangChain drops what they write then,
                and keeps what is written by those that are answered meanwhile.
        """
        if not taken.update or taken.answered > begun_at:
            return response
        taken.answered += 1
        given: Any = response
        if isinstance(given, BaseMessage):
            given = ModelResponse(result=[given])
        return ExtendedModelResponse(given, Command(update=taken.update))

    @contextmanager
    def within_run(self, request: ModelRequest[Any]) -> Iterator[None]:
        """Say of which run this is in a thread without its context, as plain executors have them.

        What only the `configurable` of the run says is not known there.
        """
        about = _read_about(request)
        if about is None or var_child_runnable_config.get() is not None:
            yield
            return
        with self._lock:
            stand_in = self._stand_ins.setdefault(about.task_id, _StandIn())
            while len(self._stand_ins) > _MAX_STAND_INS:
                del self._stand_ins[next(iter(self._stand_ins))]
        said: dict[str, Any] = {RUNTIME: request.runtime, _READ: stand_in}
        said |= {"thread_id": about.thread_id, "checkpoint_ns": about.checkpoint_ns}
        token = var_child_runnable_config.set({"configurable": said})
        try:
            yield
        finally:
            var_child_runnable_config.reset(token)

    # The turn itself.

    def take(self, state: Any) -> _Taken:
        """Take a turn, and carry out what is due."""
        flow = _prepare_model(self._runner, state)
        return drive(flow, self._runner.context(streams=True)).result

    async def atake(self, state: Any) -> _Taken:
        """Do the same as `take` without blocking the event loop."""
        flow = _prepare_model(self._runner, state)
        return (await adrive(flow, self._runner.context(streams=True))).result


def _read_about(request: ModelRequest[Any]) -> ExecutionInfo | None:
    """Return what LangGraph says of the task around; `None` outside of one."""
    runtime: Runtime[Any] | None = request.runtime
    return runtime.execution_info if runtime is not None else None


def _prepare_model(runner: StepRunner, state: Mapping[str, Any]) -> EffectFlow[_Taken]:
    access = runner.runs.access()
    if access == "none":
        return _Taken()
    conversation, record = runner.conversation(state), complete_record(state.get("om"))
    scope, identity = RunScope(runner, state=state), runner.identity()
    if access == "read":
        yield from runner.read(scope, record, conversation, identity)
        return _Taken(scope.changes)
    # Which reducer the messages have is known in a run only: `create_agent` joins the schemas.
    channel = _read_channels().get(runner.messages_key) if runner.removes_by else None
    if channel is not None:
        check_removal(channel, runner.messages_key, str(runner.removes_by))
    if runner.models.asks_actor and runner.actor.find() is None:
        # A node before the first call of all: whom to ask is known behind it.
        outcome = Outcome(record, conversation)
        look = yield from runner.inspect(
            record, conversation, identity, scope=scope, must_proceed=True
        )
        outcome.take_inspection(look)
    else:
        outcome = yield from turn(runner, record, conversation, identity, scope)
    update: _Update = {"om": only_folding(outcome.events), **scope.changes}
    if outcome.removed:
        update["messages"] = [RemoveMessage(id=key) for key in outcome.removed]
    return _Taken(update, outcome.record, outcome.step, outcome.is_aborted)


def _read_channels() -> Mapping[str, BaseChannel[Any, Any, Any]]:
    """Return the channels of the agent's graph by name; empty where LangGraph does not say."""
    read = read_configurable().get(_READ)
    for value in read.args if isinstance(read, partial) else ():
        if isinstance(value, Mapping) and any(isinstance(v, BaseChannel) for v in value.values()):
            return value
    return {}


_REPLACEABLE = "SummarizationMiddleware"
