"""For `StateGraph`: memory as flat nodes and conditional edges of any graph.

`add_observational_memory` brings the nodes, their edges and the `om` channel; the builder's own
schema is left as it is.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, cast

from langchain_core.messages import AnyMessage
from langgraph.channels import DeltaChannel
from langgraph.channels.base import BaseChannel
from langgraph.graph import END, StateGraph
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
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
from langgraph_om.integrations.nodes import STATUS, MemoryNodes, PlainNode
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.runtime.run import MemoryContext
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

    The caller draws the edges `START -> om_status` and `tools -> om_status`. With an archive
    or titles, there is a node `om_finish` too: draw `agent -> om_finish` instead
    of `agent -> END`, so that the archive has the Actor's answer, and the thread its title, at once
    and not only in the next turn, and a pause begins there.

    A builder without a `context_schema` gets `MemoryContext`, so that a run may pass
    `context={"om_enabled": False}` and a server shows a form.

    Args:
        builder: The graph; add its node `before` first, so that it gets
            `om`.
        before: The node that calls the Actor's model.
        end: The node after a turn that memory aborts (`on_error="abort"`).

    Returns:
        The name of the node to draw edges into, `"om_status"`.

    Raises:
        ConfigurationError: When the builder has no such list of messages, or has memory already,
            or the list cannot be shortened, as `evict` would, or `before` is nearly the name of a
            node, but none.
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
        msg = f"the builder has a node `{STATUS}` already; add memory to a graph once"
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
