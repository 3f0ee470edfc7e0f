"""For `StateGraph`: a working memory by itself, as one node before the Actor's."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import ensure_config
from langgraph.config import get_store
from langgraph.graph import StateGraph

from langgraph_om.errors import ConfigurationError
from langgraph_om.features.working import state_keys_of
from langgraph_om.features.working.memory import (
    SHOWN_KEY,
    VALUE_KEY,
    Working,
    WorkingMemory,
    check_working,
)
from langgraph_om.integrations.channels import put_into_input, show_channels, typed_dict
from langgraph_om.integrations.nodes import PlainNode
from langgraph_om.runtime.run import MemoryContext
from langgraph_om.runtime.state import conversation_of

READ = "om_working_memory"
"""Reads the memory where a turn begins."""


def add_working_memory(
    builder: StateGraph[Any, Any, Any, Any],
    working: WorkingMemory,
    before: str = "agent",
    *,
    messages_key: str = "messages",
) -> str:
    """Add a node that reads the working memory to a graph under construction.

    The caller draws `START -> om_working_memory`, binds `working.tools` to the Actor's model, runs
    them in a `ToolNode`, and calls the model with `working.llm_input_messages(state)`. With
    observations too: `ObservationalMemory(..., working_memory=...)`, which needs none of this.

    Args:
        builder: The graph; its node `before` has been added already.
        before: The node that calls the Actor's model.
        messages_key: The state's key of the conversation.

    Returns:
        The name of the node to draw an edge into, `"om_working_memory"`.

    Raises:
        ConfigurationError: When the builder has no such node or messages, or has the memory.
    """
    of_runs = Working(check_working(working))
    if READ in builder.nodes:
        msg = f"the builder has a node `{READ}` already; add a working memory to a graph once"
        raise ConfigurationError(msg)
    if before not in builder.nodes:
        named = ", ".join(sorted(builder.nodes)) or "none"
        msg = f"`before` is {before!r}, and the graph's nodes are {named}; add that node first"
        raise ConfigurationError(msg)
    if messages_key not in builder.channels:
        known = ", ".join(sorted(builder.channels))
        msg = f"`messages_key` is {messages_key!r}, and the state's keys are {known}; pass one"
        raise ConfigurationError(msg)

    def read(state: Any) -> dict[str, Any]:
        if not of_runs.runs.is_on():
            return {}
        messages = conversation_of(state, messages_key)
        return of_runs.refresh_working_memory(state, messages, ensure_config(), get_store()).changes

    keys = state_keys_of(working)
    channels = {key: kept.channel for key, kept in keys.items()}
    view = typed_dict("WorkingState", {messages_key: list[AnyMessage], **channels})
    builder.add_node(READ, PlainNode(read, name=READ), input_schema=view)
    builder.add_edge(READ, before)
    show_channels(builder, before, {SHOWN_KEY: str})
    if working.scope == "thread":
        put_into_input(builder, {VALUE_KEY: channels[VALUE_KEY]})
    if builder.context_schema is None:
        builder.context_schema = MemoryContext
    return READ
