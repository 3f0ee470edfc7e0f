"""For `StateGraph`: memory as flat nodes and conditional edges of any graph.

`add_observational_memory` brings the nodes, their edges and the `om` channel; the builder's own
schema is left as it is.
"""

from __future__ import annotations

from dataclasses import field, is_dataclass, make_dataclass, replace
from typing import Annotated, Any, NotRequired, cast, get_type_hints

from langchain_core.messages import AnyMessage
from langgraph.channels import DeltaChannel
from langgraph.channels.base import BaseChannel
from langgraph.graph import END, StateGraph
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

from langgraph_om.core.config.checks import find_near
from langgraph_om.core.record.fold import fold, fold_one
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.integrations.channels import MEMORY_SNAPSHOTS, check_removal, messages_reducer
from langgraph_om.integrations.nodes import FINISH, STATUS, MemoryNodes
from langgraph_om.integrations.plain_node import PlainNode
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.runtime.run import MemoryContext

DeltaMemory = Annotated[MemoryRecord, DeltaChannel(fold, snapshot_frequency=MEMORY_SNAPSHOTS)]
"""The `om` channel beside a `messages` channel that is kept as deltas."""

PlainMemory = Annotated[MemoryRecord, fold_one]
"""The `om` channel beside any other `messages` channel.

Loading a delta channel walks back through checkpoints, each with all its plain values in it; beside
plain messages that costs far more than writing the log anew.
"""


class ObservationalMemoryState(TypedDict):
    """State of an agent with memory; both channels store only what changed."""

    messages: Annotated[list[AnyMessage], DeltaChannel(messages_reducer)]
    """The conversation."""
    om: NotRequired[DeltaMemory]
    """The memory; readable in Studio, never asked for as input."""


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

    The caller draws the edges `START -> om_status` and `tools -> om_status`. With
    an archive there is a node `om_finish` too: draw `agent -> om_finish` instead of `agent -> END`,
    so that the archive has the Actor's answer at once and not only in the next turn.

    A builder without a `context_schema` is given `MemoryContext`, so that a run may say
    `context={"om_enabled": False}` and a server shows a form.

    Args:
        builder: The graph; its node `before` should have been added already, so that it is given
            `om`.
        memory: The memory.
        before: The node that calls the Actor's model.
        end: Where a turn goes that memory aborts (`on_error="abort"`).

    Returns:
        The name of the node to draw edges into, `"om_status"`.

    Raises:
        ConfigurationError: When the builder has no such list of messages, or has memory already,
            or the list cannot be shortened, as `evict` would, or `before` is nearly the name of a
            node, but none.
    """
    channel = _find_channel(builder, check_memory(memory))
    _check_node(builder, before)
    is_delta = isinstance(channel, DeltaChannel)
    has_archive = memory.archive is not None
    leave = FINISH if has_archive else end
    nodes = MemoryNodes(runner_of(memory), before, leave, writes_always=is_delta)
    view = _view(memory.messages_key, DeltaMemory if is_delta else PlainMemory)
    if has_archive:
        builder.add_node(FINISH, PlainNode(nodes.finish, name=FINISH), input_schema=view)
        builder.add_edge(FINISH, end)
    builder.add_node(STATUS, PlainNode(nodes.status, name=STATUS), input_schema=view)
    targets = nodes.targets()
    for kind, name in targets.items():
        if kind in ("proceed", "abort"):
            continue
        builder.add_node(name, nodes.node(kind, name), input_schema=view)
        if kind != "buffer" or nodes.buffering_waits:
            builder.add_edge(name, STATUS)
        elif not nodes.buffers_beside:
            # Not beside the Actor: a run that ends in a superstep of two nodes leaves LangGraph's
            # `update_state` unable to tell which of them an edit stands for.
            builder.add_edge(name, before)
    route = PlainNode(nodes.route, name="om_route")
    builder.add_conditional_edges(STATUS, route, cast("Any", targets))
    _keep_out_of_input(builder)
    if builder.context_schema is None:
        builder.context_schema = MemoryContext
    if before in builder.nodes:
        _show_memory(builder, before)
    return STATUS


def _check_node(builder: StateGraph[Any, Any, Any, Any], before: str) -> None:
    """Refuse a name that was misspelled; one that is like no other may be added later."""
    meant = None if before in builder.nodes else find_near(before, list(builder.nodes))
    if meant is not None:
        msg = f"`before` is {before!r}, and the graph has no such node; pass {meant!r}"
        raise ConfigurationError(msg)


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
    if runner_of(memory).settings.evicts:
        check_removal(channel, memory.messages_key)
    return channel


def _view(messages_key: str, channel: Any) -> Any:
    """Make the schema through which the memory nodes see the state, and which brings the channel.

    The messages carry no reducer here, so the user's own channel stays; values arrive as a plain
    mapping whatever the user's schema is.
    """
    fields = {messages_key: list[AnyMessage], "om": channel, "remaining_steps": RemainingSteps}
    return _typed_dict("MemoryNodeState", fields)


def _typed_dict(name: str, fields: dict[str, Any]) -> Any:
    """Make a TypedDict of fields that are known only at run time."""
    make: Any = TypedDict
    return make(name, fields)


def _show_memory(builder: StateGraph[Any, Any, Any, Any], name: str) -> None:
    """Let a node of the user see `om` beside what it sees already."""
    spec = builder.nodes[name]
    if "om" in builder.schemas.get(spec.input_schema, {}):
        return
    schema = _with_memory(spec.input_schema)
    # Adding the node anew is the public way to make a schema known to the builder.
    del builder.nodes[name]
    builder.add_node(name, spec.runnable, input_schema=schema)
    builder.nodes[name] = replace(spec, input_schema=schema)


def _with_memory(schema: Any) -> Any:
    """Extend a state schema of any kind by the field `om`."""
    name = f"{schema.__name__}WithMemory"
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return create_model(name, __base__=schema, om=(dict[str, Any], {}))
    if is_dataclass(schema):
        entry: Any = field(default_factory=dict, kw_only=True)
        return make_dataclass(name, [("om", dict[str, Any], entry)], bases=(cast("type", schema),))
    hints = get_type_hints(schema, include_extras=True)
    return _typed_dict(name, {**hints, "om": MemoryRecord})


def _keep_out_of_input(builder: StateGraph[Any, Any, Any, Any]) -> None:
    """Take `om` out of the graph's input: a client that echoes state back changes nothing."""
    known = builder.schemas[builder.input_schema]
    if "om" not in known:
        return
    hints = get_type_hints(builder.input_schema, include_extras=True)
    narrowed = _typed_dict(
        f"{builder.input_schema.__name__}Input",
        {key: hint for key, hint in hints.items() if key != "om"},
    )
    builder.schemas[narrowed] = {key: kept for key, kept in known.items() if key != "om"}
    builder.input_schema = narrowed
