"""For `create_agent`: memory as a middleware, and so of deepagents.

A turn of memory runs in the hook before each model call; a graph of its own is entered only when
there is work to do, because entering one costs checkpoints. Its events come back through its state,
so that a run that is taken up after a crash has them too.
"""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NotRequired, Unpack, cast, get_type_hints, overload

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse, hook_config
from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
from langchain.agents.middleware.types import ExtendedModelResponse, OmitFromInput, PrivateStateAttr
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, SystemMessage
from langgraph.channels import DeltaChannel
from langgraph.channels.base import BaseChannel
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from langgraph_om.core.content.parts import is_summary
from langgraph_om.core.content.text import compile_late
from langgraph_om.core.record.fold import fold, fold_one
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.record.window import select_needed
from langgraph_om.core.step.step import StateKey
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.integrations.channels import MEMORY_SNAPSHOTS, check_removal, messages_reducer
from langgraph_om.integrations.nodes import MemoryNodes, MemoryTransformer, PlainNode, emit
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.models.model_value import ModelValue
from langgraph_om.models.providers import find_window, name_actor
from langgraph_om.options import MemoryOptions
from langgraph_om.runtime.drivers import adrive, drive
from langgraph_om.runtime.executors import ParallelBuffering
from langgraph_om.runtime.flows import RunFlow, Work
from langgraph_om.runtime.runner import RunScope, StepRunner, only_folding
from langgraph_om.runtime.second_try import SecondTries
from langgraph_om.runtime.tools import refuse_second_tools
from langgraph_om.runtime.turn import turn

logger = logging.getLogger("langgraph_om")


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
    make: Any = TypedDict
    return make(f"{base.__name__}WithKeys", {**get_type_hints(base, include_extras=True), **fields})


def without_tools(request: ModelRequest[Any], names: Collection[str]) -> ModelRequest[Any]:
    """Return a request without some tools, for a run in which nothing can be written."""
    tools: Sequence[Any] = request.tools
    kept = [tool for tool in tools if getattr(tool, "name", None) not in names]
    return request.override(tools=kept) if len(kept) < len(tools) else request


class ObservationalMemoryAgentState(AgentState[Any]):
    """State for `create_agent(state_schema=...)`; both channels store only what changed."""

    messages: Annotated[list[AnyMessage], DeltaChannel(messages_reducer)]
    """The conversation."""
    om: NotRequired[
        Annotated[
            MemoryRecord, OmitFromInput, DeltaChannel(fold, snapshot_frequency=MEMORY_SNAPSHOTS)
        ]
    ]
    """The memory; in the output, never asked for as input."""


class ObservationalMemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Long-term memory for an agent of `create_agent` or deepagents.

    The conversation in the state stays as it is; the model is given the observations and the
    messages that are not observed yet. Put it last, so that it sees what the others leave.

    A run may say `context={"om_enabled": False}`; a form for that is shown by a server with
    `create_agent(context_schema=MemoryContext)`, which a middleware cannot set.

    Args:
        memory: The memory.
        replaces: The name of a middleware that this one takes the place of. deepagents matches
            names: with `"SummarizationMiddleware"`, memory stands where its summarisation would,
            also in its general-purpose subagent. `None`: it is one more.
        options: Instead of `memory`: what `ObservationalMemory` takes.

    Raises:
        ConfigurationError: When both are given, or the memory does not fit an agent's state.
    """

    state_schema = _AgentMemoryState
    transformers = (InternalCallTransformer, MemoryTransformer)

    @overload
    def __init__(
        self, memory: ObservationalMemory | None = None, *, replaces: str | None = None
    ) -> None: ...

    @overload
    def __init__(
        self,
        memory: None = None,
        *,
        replaces: str | None = None,
        model: ModelValue | None = None,
        **options: Unpack[MemoryOptions],
    ) -> None: ...

    def __init__(
        self,
        memory: ObservationalMemory | None = None,
        *,
        replaces: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._name = replaces or "ObservationalMemoryMiddleware"
        if memory is not None and options:
            given = ", ".join(f"`{name}`" for name in sorted(options))
            msg = f"`memory` and {given} are given; pass these in ObservationalMemory(...)"
            raise ConfigurationError(msg)
        self.memory = check_memory(memory) if memory is not None else ObservationalMemory(**options)
        _check_fits(self.memory)
        self.tools = self.memory.tools
        keys = runner_of(self.memory).settings.features.join("state_keys")
        if keys:
            self.state_schema = add_keys(_AgentMemoryState, keys)
        # `create_agent` looks for hooks on the class and runs those of the instance; LangGraph
        # finds a graph within a node only where the node's function encloses it.
        self._runner = runner_of(self.memory)
        if type(self) is ObservationalMemoryMiddleware and self._runner.has_last_step:
            self.__class__ = _WithLastStep  # an `after_agent` hook is a superstep of every turn
        hook, ahook = _hooks(self._runner)
        self._hook, self._ahook = hook, ahook
        if type(self).before_model is ObservationalMemoryMiddleware.before_model:
            vars(self)["before_model"] = hook
        if type(self).abefore_model is ObservationalMemoryMiddleware.abefore_model:
            vars(self)["abefore_model"] = ahook

    @property
    def name(self) -> str:
        """The same for subclasses, so that `create_agent` refuses two memories on one agent."""
        return self._name

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Inspect the conversation, and do the work that is due, before the model is called."""
        return self._hook(state, runtime)

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same as `before_model` without blocking the event loop."""
        return await self._ahook(state, runtime)

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Call the model with observations and recent messages in the place of all messages."""
        refuse_second_tools(request.tools, self._runner)
        if not self._runner.is_on():
            return handler(self._without_writing_tools(request))
        offered, view = self._prepare(request)
        return self._tries(request).ask(lambda shown: handler(_with_input(offered, shown)), view)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Do the same as `wrap_model_call` without blocking the event loop."""
        refuse_second_tools(request.tools, self._runner)
        if not self._runner.is_on():
            return await handler(self._without_writing_tools(request))
        offered, view = self._prepare(request)
        return await self._tries(request).aask(
            lambda shown: handler(_with_input(offered, shown)), view
        )

    def _prepare(self, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], list[BaseMessage]]:
        """Return a request with the tools that this run may use, and the Actor's input."""
        name, window = name_actor(request.model), find_window(request.model)
        self._runner.meet_actor(name, window, request.tools, request.system_message)
        view = self.memory.llm_input_messages(_seen(request), system=request.system_message)
        is_read_only = self._runner.runs.is_read_only(None)
        return self._without_writing_tools(request) if is_read_only else request, view

    def _without_writing_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        return without_tools(request, self._runner.settings.writing_tools)

    def _tries(self, request: ModelRequest[Any]) -> SecondTries:
        name = name_actor(request.model)
        return SecondTries(
            self._runner, _seen(request), request.system_message, model=name, mark=_marked
        )


class _WithLastStep(ObservationalMemoryMiddleware):
    """The middleware of a memory that has something to do after the Actor's answer."""

    def after_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Take the last step of a turn: no call of the Actor follows."""
        return self._nodes.finish(state) or None

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Do the same as `after_agent` without blocking the event loop."""
        return await self._nodes.afinish(state) or None

    @property
    def _nodes(self) -> MemoryNodes:
        return MemoryNodes(self._runner, END, END, writes_always=False)


def _check_fits(memory: ObservationalMemory) -> None:
    if memory.messages_key != "messages":
        msg = (
            f"`messages_key` is {memory.messages_key!r}; the state of `create_agent` keeps the "
            f"conversation in 'messages', leave it out"
        )
        raise ConfigurationError(msg)
    if isinstance(memory.buffering, ParallelBuffering):
        msg = (
            "`buffering` is ParallelBuffering(), which needs a node beside the Actor's; a "
            "middleware has none: pass BackgroundBuffering() or InlineBuffering()"
        )
        raise ConfigurationError(msg)


def _seen(request: ModelRequest[Any]) -> dict[str, Any]:
    """Return the state with the messages as the middleware before this one left them."""
    state = cast("Mapping[str, Any]", request.state)
    return {"om": None, **state, "messages": request.messages}


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
_Hook = Callable[[Any, Runtime[Any]], _Update | None]
_AsyncHook = Callable[[Any, Runtime[Any]], Awaitable[_Update | None]]
_WorkGraph = CompiledStateGraph[Any, Any, Any, Any]

_READ = "__pregel_read"
"""Where LangGraph keeps, in a node's configuration, what reads the state's channels."""

_SUMMARISES = compile_late(r"branch:to:\w*summar\w*\.", re.IGNORECASE).match
"""Finds the channel that leads to a summarisation: it is named after the middleware's node."""

_SHOWN_AND_KEPT = ["custom", "values"]


def _hooks(runner: StepRunner) -> tuple[_Hook, _AsyncHook]:
    """Make the two hooks of one middleware, around the graph in which work is done."""
    graph = _work_graph(runner)
    neighbours = _Neighbours()

    def before_model(state: Any, runtime: Runtime[Any]) -> _Update | None:
        def enter(work: Work) -> list[Event]:
            events: list[Event] = []
            for mode, data in graph.stream(_given(work), stream_mode=cast("Any", _SHOWN_AND_KEPT)):
                events = _take(mode, data, runtime, events)
            return events

        flow = _prepare_model(runner, neighbours, state)
        return drive(flow, runner.context(emit=emit, work=enter)).result

    async def abefore_model(state: Any, runtime: Runtime[Any]) -> _Update | None:
        async def enter(work: Work) -> list[Event]:
            events: list[Event] = []
            given = _given(work)
            async for mode, data in graph.astream(given, stream_mode=cast("Any", _SHOWN_AND_KEPT)):
                events = _take(mode, data, runtime, events)
            return events

        flow = _prepare_model(runner, neighbours, state)
        return (await adrive(flow, runner.context(emit=emit, work=enter))).result

    return before_model, abefore_model


def _given(work: Work) -> dict[str, Any]:
    """Return the state with which the graph of the work is entered."""
    needed = select_needed(work.record, work.messages)
    return {"messages": needed, "om": work.record, "events": []}


def _take(mode: str, data: Any, runtime: Runtime[Any], events: list[Event]) -> list[Event]:
    """Show what the work shows; return the events that it has come to so far."""
    if mode == "custom":
        runtime.stream_writer(data)
        return events
    return cast("list[Event]", data["events"])


def _prepare_model(
    runner: StepRunner, neighbours: _Neighbours, state: Mapping[str, Any]
) -> RunFlow[_Update | None]:
    """Run a turn, and return what it changes in the agent's state."""
    if not runner.is_on():
        return None
    neighbours.look_at(state)
    conversation, record = runner.conversation(state), complete_record(state.get("om"))
    scope, identity = RunScope(runner, state=state), runner.identity()
    if runner.is_read_only():
        yield from runner.read(scope, record, conversation, identity)
        return scope.changes or None
    if runner.removes_by:
        _check_removal(runner.messages_key, runner.removes_by)
    outcome = yield from turn(runner, record, conversation, identity, scope)
    update: _Update = {"om": only_folding(outcome.events), **scope.changes}
    if outcome.removed:
        update["messages"] = [RemoveMessage(id=key) for key in outcome.removed]
    if outcome.is_aborted:
        update["jump_to"] = "end"
    return update


def _check_removal(messages_key: str, option: str) -> None:
    """Check that messages can leave the agent's conversation.

    Which reducer it has is known in a run only: `create_agent` joins the schemas of all middleware.

    Raises:
        ConfigurationError: When they cannot.
    """
    channel = _read_channels().get(messages_key)
    if channel is not None:
        check_removal(channel, messages_key, option)


def _read_channels() -> Mapping[str, BaseChannel[Any, Any, Any]]:
    """Return the channels of the agent's graph by name; empty where LangGraph does not say."""
    read = get_config().get("configurable", {}).get(_READ)
    for value in read.args if isinstance(read, partial) else ():
        if isinstance(value, Mapping) and any(isinstance(v, BaseChannel) for v in value.values()):
            return value
    return {}


class _WorkState(TypedDict):
    """State of the graph in which work is done: what is needed of the agent's, and the outcome."""

    messages: list[AnyMessage]
    om: MemoryRecord
    events: Annotated[list[Event], operator.add]


def _work_graph(runner: StepRunner) -> _WorkGraph:
    """Build the graph that carries out one decision."""
    nodes = MemoryNodes(runner, END, END, writes_always=False, channel="events")
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(_WorkState)
    targets = nodes.targets()
    for kind, name in targets.items():
        if name != END:
            builder.add_node(name, nodes.node(kind, name))
            builder.add_edge(name, END)
    route = PlainNode(nodes.route, name="om_route")
    builder.add_conditional_edges(START, route, cast("Any", targets))
    return builder.compile(name="observational_memory")


class _Neighbours:
    """Warns, once, of another middleware that shortens the same conversation."""

    def __init__(self) -> None:
        self._warned = False

    def look_at(self, state: Mapping[str, Any]) -> None:
        """Warn when a middleware of this agent has put a summary in the place of messages."""
        if self._warned or not _is_summarised(state):
            return
        self._warned = True
        logger.warning(
            "a summarization middleware runs beside the memory: it replaces messages before they "
            "are observed, and both are paid for; leave it out"
        )


def _is_summarised(state: Mapping[str, Any]) -> bool:
    if state.get("_summarization_event"):
        return True
    first = next(iter(state.get("messages") or []), None)
    # One that is left of before says nothing of the agent as it is now.
    return first is not None and is_summary(first) and any(map(_SUMMARISES, _read_channels()))
