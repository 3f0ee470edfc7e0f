"""An agent loop with memory, ready to run, every node visible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import BaseStore

from langgraph_om.errors import ConfigurationError
from langgraph_om.integrations.nodes import STATUS, MemoryTransformer, PlainNode
from langgraph_om.integrations.state_graph import (
    ObservationalMemoryState,
    PlainMemoryState,
    add_memory_nodes,
)
from langgraph_om.memory import ObservationalMemory, bind_recall, check_memory, runner_of
from langgraph_om.models.providers import chat_model, check_model, name_actor
from langgraph_om.runtime.actor import SecondTries
from langgraph_om.runtime.run import MemoryContext
from langgraph_om.runtime.tools import refuse_second_recall
from langgraph_om.runtime.turn import FINISH


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
    """Build an agent with model, tools and memory, for conversations without a limit.

    A run may pass `context={"om_enabled": False}` or `{"resource_id": ...}` (`MemoryContext`).

    Args:
        model: The Actor's model: a chat model, or its name such as `"openai:gpt-6-luna"`. A memory
            that names no model asks it too.
        tools: Tools or functions; memory adds its own.
        memory: The memory; `None`: `ObservationalMemory()`.
        system_prompt: The agent's own system prompt.
        checkpointer: Stores threads; `None` under a server or Studio, which brings its own.
        store: A LangGraph store for the tools and for semantic search.
        name: The graph's name.
        delta: Whether a checkpoint holds only what changed. With `False` each one holds the whole
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
        msg = f"`model` is {model!r}, which cannot be given tools; pass a chat model"
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
