"""For `StateGraph`: memory as nodes and conditional edges of any graph, and a ready-made agent.

`add_observational_memory` brings the nodes, their edges and the `om` channel; the builder's own
schema is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage, SystemMessage
from langchain_core.runnables import Runnable
from langgraph.channels import DeltaChannel
from langgraph.channels.base import BaseChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import BaseStore
from typing_extensions import TypedDict

from langgraph_om.core.actor.prompt import STATE_CHANNELS
from langgraph_om.core.config.options import find_near
from langgraph_om.core.record.fold import fold, fold_one
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.integrations.channels import (
    MEMORY_SNAPSHOTS,
    check_removal,
    keep_out_of_input,
    keep_updates,
    messages_reducer,
    put_into_input,
    show_channels,
    typed_dict,
)
from langgraph_om.integrations.nodes import STATUS, MemoryNodes, MemoryTransformer, PlainNode
from langgraph_om.memory import ObservationalMemory, bind_recall, check_memory, runner_of
from langgraph_om.models.providers import chat_model, check_model, name_actor
from langgraph_om.runtime.actor import SecondTries
from langgraph_om.runtime.run import MemoryContext
from langgraph_om.runtime.tools import refuse_second_recall
from langgraph_om.runtime.turn import FINISH

DeltaMemory = Annotated[MemoryRecord, DeltaChannel(fold, snapshot_frequency=MEMORY_SNAPSHOTS)]
"""The `om` channel beside a `messages` channel that is kept as deltas."""

PlainMemory = Annotated[MemoryRecord, fold_one]
"""The `om` channel beside any other `messages` channel.

Loading a delta channel walks back through checkpoints, each with all its plain values in it; beside
plain messages, that costs far more than writing the log again.
"""


class ObservationalMemoryState(TypedDict):
    """State of an agent with memory; both channels store only what changed."""

    messages: Annotated[list[AnyMessage], DeltaChannel(messages_reducer)]
    """The conversation."""
    om: NotRequired[DeltaMemory]
    """The memory; readable in Studio, not part of the input."""


class PlainMemoryState(TypedDict):
    """The same in plain channels: each checkpoint holds all of both."""

    messages: Annotated[list[AnyMessage], add_messages]
    om: NotRequired[PlainMemory]


def add_observational_memory(
    builder: StateGraph[Any, Any, Any, Any],
    memory: ObservationalMemory,
    before: str = "agent",
    *,
    end: str = END,
) -> str:
    """Add the memory nodes and their edges to a graph under construction.

    Draw the edges `START -> om_status` and `tools -> om_status` yourself. With an archive or
    titles, there is also a node `om_finish`: draw `agent -> om_finish` instead of `agent -> END`.
    Then the archive has the Actor's answer, and the thread its title, at once instead of in the
    next turn, and pauses are measured from there.

    A builder without a `context_schema` gets `MemoryContext`, so that a run can pass
    `context={"om_enabled": False}` and a server shows a form for it.

    Args:
        builder: The graph; add its node `before` first, so that it gets
            `om`.
        before: The node that calls the Actor's model.
        end: The node after a turn that memory aborts (`on_error="abort"`).

    Returns:
        The name of the node to draw edges into, `"om_status"`.

    Raises:
        ConfigurationError: When the builder lacks the list of messages or already has memory,
            `evict` cannot shorten the list, or `before` looks like a misspelled node name.
    """
    add_memory_nodes(builder, memory, before, end=end)
    return STATUS


def add_memory_nodes(
    builder: StateGraph[Any, Any, Any, Any],
    memory: ObservationalMemory,
    before: str,
    *,
    end: str = END,
    actor: Any = None,
) -> Any:
    """Add the memory nodes; return the schema through which they see the state.

    Args:
        actor: The model that the node calls, where that is known.
    """
    channel = _find_channel(builder, check_memory(memory))
    # One that is like no other may be added later.
    meant = None if before in builder.nodes else find_near(before, list(builder.nodes))
    if meant is not None:
        msg = f"`before` is {before!r}, and the graph has no such node; pass {meant!r}"
        raise ConfigurationError(msg)
    is_delta = isinstance(channel, DeltaChannel)
    has_last_step = runner_of(memory).has_last_step
    leave = FINISH if has_last_step else end
    nodes = MemoryNodes(runner_of(memory), before, leave, writes_always=is_delta, actor=actor)
    working = runner_of(memory).settings.parts.working
    keys = {} if working is None else working.state_keys
    # Through it the memory nodes see the state, and it brings the channel. Messages have no reducer
    # here, so the user's own channel stays; values arrive as a plain mapping whatever the schema.
    fields: dict[str, Any] = {
        memory.messages_key: list[AnyMessage],
        "om": DeltaMemory if is_delta else PlainMemory,
        "remaining_steps": RemainingSteps,
        **{key: kept.channel for key, kept in keys.items()},
        **{key: Any for key in STATE_CHANNELS if key in builder.channels},
    }
    view = typed_dict("MemoryNodeState", fields)
    if has_last_step:
        finish = PlainNode(nodes.finish, FINISH, nodes.afinish)
        builder.add_node(FINISH, finish, input_schema=view)
        builder.add_edge(FINISH, end)
    builder.add_node(STATUS, PlainNode(nodes.status, STATUS, nodes.astatus), input_schema=view)
    _add_work(builder, nodes, before, view)
    keep_out_of_input(builder, "om")
    keep_updates(builder, "om")
    inputs = {key: kept.channel for key, kept in keys.items() if kept.is_input}
    if inputs:
        put_into_input(builder, inputs)
    if builder.context_schema is None:
        builder.context_schema = MemoryContext
    if before in builder.nodes:
        shown = {key: kept.type for key, kept in keys.items() if kept.is_shown}
        show_channels(builder, before, {"om": MemoryRecord, **shown})
    return view


def _add_work(
    builder: StateGraph[Any, Any, Any, Any], nodes: MemoryNodes, before: str, view: Any
) -> None:
    """Add the nodes that carry decisions out, and the ways there and back."""
    targets = nodes.targets()
    for kind, name in targets.items():
        if kind in ("proceed", "abort"):
            continue
        builder.add_node(name, nodes.node(kind, name), input_schema=view)
        # Buffering that has only begun leads to the Actor; not beside it, as a run that ends in a
        # superstep of two nodes leaves LangGraph's `update_state` unable to tell whose an edit is.
        has_begun = kind == "buffer" and nodes.runner.buffers_in_background
        builder.add_edge(name, before if has_begun else STATUS)
    route = PlainNode(nodes.route, name="om_route")
    builder.add_conditional_edges(STATUS, route, cast("Any", targets))


def _find_channel(
    builder: StateGraph[Any, Any, Any, Any], memory: ObservationalMemory
) -> BaseChannel[Any, Any, Any]:
    """Return the channel of the conversation, checked for what memory needs of the graph."""
    if STATUS in builder.nodes:
        msg = f"the builder already has a node `{STATUS}`; add memory to a graph only once"
        raise ConfigurationError(msg)
    channel = builder.channels.get(memory.messages_key)
    if channel is None:
        msg = (
            f"the graph's state has no `{memory.messages_key}`; its keys are "
            f"{', '.join(sorted(builder.channels))}. Set `messages_key` on the memory"
        )
        raise ConfigurationError(msg)
    if option := runner_of(memory).removes_by:
        check_removal(channel, memory.messages_key, option)
    return channel


# --- The ready-made agent ------------------------------------------------------------------------


def create_memory_agent(
    model: str | BaseChatModel,
    tools: Sequence[Any] = (),
    *,
    memory: ObservationalMemory | None = None,
    system_prompt: str | SystemMessage | None = None,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    store: BaseStore | None = None,
    name: str | None = None,
    delta: bool = True,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build an agent with model, tools and memory, for conversations of any length.

    A run can pass `context={"om_enabled": False}` or `{"resource_id": ...}` (`MemoryContext`).

    Args:
        model: The Actor's model: a chat model, or its name such as `"openai:gpt-6-luna"`. A memory
            that names no model also uses it.
        tools: Tools or functions; memory adds its own.
        memory: The memory; `None`: `ObservationalMemory()`.
        system_prompt: The agent's own system prompt.
        checkpointer: Stores threads; `None` under a server or Studio, which brings its own.
        store: A LangGraph store for the tools and for semantic search.
        name: The graph's name.
        delta: Whether a checkpoint holds only what changed. With `False`, each one holds the whole
            conversation and memory, which `checkpointer.prune(..., strategy="keep_latest")` needs.

    Raises:
        ConfigurationError: When the model cannot be used.
    """
    memory = check_memory(memory) if memory is not None else ObservationalMemory()
    check_model("model", model)
    chat = chat_model(model) if isinstance(model, str) else model
    bind_recall(memory, chat)
    refuse_second_recall(_check_tools(tools), memory.recall_tool)
    all_tools = [*tools, *(tool for tool in memory.tools if tool not in tools)]
    if all_tools and not hasattr(chat, "bind_tools"):
        msg = f"`model` is {model!r}, which does not support tools; pass a chat model"
        raise ConfigurationError(msg)
    runner_of(memory).actor.meet(chat, all_tools, system_prompt)
    actor, reader = _bind_tools(chat, all_tools, memory)
    schema = ObservationalMemoryState if delta else PlainMemoryState
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema, context_schema=MemoryContext)
    view = add_memory_nodes(builder, memory, "agent", actor=chat)
    node = _build_actor_node(actor, reader, memory, system_prompt)
    builder.add_node("agent", node, input_schema=view)
    builder.add_edge(START, STATUS)
    answered = FINISH if runner_of(memory).has_last_step else END
    if all_tools:
        builder.add_node("tools", ToolNode(all_tools))
        builder.add_edge("tools", STATUS)
        ways: Any = {"tools": "tools", END: answered}
        builder.add_conditional_edges("agent", PlainNode(tools_condition, name="om_next"), ways)
    else:
        builder.add_edge("agent", answered)
    return builder.compile(
        checkpointer=checkpointer, store=store, name=name, transformers=[MemoryTransformer]
    )


def _bind_tools(
    chat: BaseChatModel, tools: Sequence[Any], memory: ObservationalMemory
) -> tuple[Runnable[Any, BaseMessage], Runnable[Any, BaseMessage]]:
    """Return the Actor with its tools, and the one of a read-only run, which changes no memory."""
    actor: Runnable[Any, BaseMessage] = chat.bind_tools(tools) if tools else chat
    writing = runner_of(memory).settings.writing_tools
    readable = [tool for tool in tools if getattr(tool, "name", None) not in writing]
    if len(readable) == len(tools):
        return actor, actor
    return actor, chat.bind_tools(readable) if readable else chat


def _build_actor_node(
    actor: Runnable[Any, BaseMessage],
    reader: Runnable[Any, BaseMessage],
    memory: ObservationalMemory,
    prompt: str | SystemMessage | None,
) -> PlainNode:
    """Build the node that calls the Actor, once more with less when its provider refuses that.

    Args:
        actor: The Actor's model with all tools.
        reader: The same without those that write memory, for runs in which nothing is written.
        prompt: The agent's own system prompt.
    """
    runner, name = runner_of(memory), name_actor(actor)

    def choose() -> Runnable[Any, BaseMessage]:
        return actor if actor is reader or runner.runs.may_write() else reader

    def agent(state: Any) -> dict[str, Any]:
        tries = SecondTries(runner, state, prompt, model=name)
        view = memory.llm_input_messages(state, system=prompt)
        return {"messages": [tries.ask(choose().invoke, view)]}

    async def aagent(state: Any) -> dict[str, Any]:
        tries = SecondTries(runner, state, prompt, model=name)
        view = memory.llm_input_messages(state, system=prompt)
        return {"messages": [await tries.aask(choose().ainvoke, view)]}

    return PlainNode(agent, name="agent", afunction=aagent)


def _check_tools(tools: object) -> Sequence[Any]:
    if isinstance(tools, Sequence) and not isinstance(tools, str):
        return tools
    msg = f"`tools` is {tools!r}; pass a list of tools or functions"
    raise ConfigurationError(msg)
