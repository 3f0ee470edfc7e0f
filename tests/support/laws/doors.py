"""Every way to run an agent with memory, as a graph whose node before the Actor can be named."""

from __future__ import annotations

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableLambda
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from typing_extensions import TypedDict

from langgraph_om import ObservationalMemory, add_observational_memory, create_memory_agent
from support.agents import MIDDLEWARE, READY, SCHEMAS, SYSTEM, Graph, Saver, as_middleware
from support.inside import runner_of
from support.laws.cast import Actor, look_up

DOORS = ("agent", "agent-plain", "plain", "delta", *MIDDLEWARE, "step")
"""`create_memory_agent` with delta and with plain channels, a hand-made graph with plain and with
delta channels, `create_agent` with both, and with memory in a node of its own, and `memory.step` in
a loop of one's own."""
WITHIN = {"middleware", "middleware-delta"}
"""Where the node that calls the Actor's model inspects by itself and does what is due, so that all
of it is written with the answer alone; not where messages are evicted."""


def build(door: str, memory: ObservationalMemory, actor: Actor, saver: Saver) -> Graph:
    """An agent with memory behind one of `DOORS`."""
    if door in READY:
        return create_memory_agent(
            actor,
            [look_up],
            memory=memory,
            system_prompt=SYSTEM,
            checkpointer=saver,
            delta=door == "agent",
        )
    if door in MIDDLEWARE:
        if door == "middleware-node":  # as after a process's first call, which tells its node of it
            runner_of(memory).actor.meet(actor, [look_up], SYSTEM)
        return create_agent(
            actor,
            [look_up],
            system_prompt=SYSTEM,
            middleware=[as_middleware(door, memory)],
            state_schema=MIDDLEWARE[door],
            checkpointer=saver,
        )
    return (_stepping if door == "step" else _hand_made)(door, memory, actor).compile(
        checkpointer=saver
    )


def actor_node(door: str) -> str:
    """The name of the node that calls the Actor's model."""
    return "model" if door in MIDDLEWARE else "agent"


def last_node(door: str, memory: ObservationalMemory) -> str:
    """The node after which a turn is over, for a state that is written from outside."""
    return actor_node(door) if memory.archive is None or door in MIDDLEWARE else "om_finish"


def _hand_made(door: str, memory: ObservationalMemory, actor: Actor) -> StateGraph[Any]:
    def agent(state: Any) -> dict[str, Any]:
        return {"messages": [actor.invoke(memory.llm_input_messages(state, system=SYSTEM))]}

    async def aagent(state: Any) -> dict[str, Any]:
        return {"messages": [await actor.ainvoke(memory.llm_input_messages(state, system=SYSTEM))]}

    builder: StateGraph[Any] = StateGraph(SCHEMAS[door])
    builder.add_node("agent", RunnableLambda(agent, aagent, name="agent"))
    builder.add_node("tools", ToolNode([look_up]))
    gate = add_observational_memory(builder, memory, before="agent")
    builder.add_edge(START, gate)
    builder.add_edge("tools", gate)
    leave = END if memory.archive is None else "om_finish"
    builder.add_conditional_edges("agent", tools_condition, {"tools": "tools", END: leave})
    return builder


class SteppedState(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    om: dict[str, Any]
    view: list[BaseMessage]


def _stepping(door: str, memory: ObservationalMemory, actor: Actor) -> StateGraph[Any]:
    """The loop that an application writes around `memory.step`, here with checkpoints."""

    def taken(result: Any) -> dict[str, Any]:
        for part in result.events:
            get_stream_writer()(part)
        gone = [RemoveMessage(id=key) for key in result.evicted]
        return {"om": result.record, "view": result.messages, "messages": gone}

    def remember(state: Any, *, final: bool = False) -> dict[str, Any]:
        return taken(memory.step(state.get("om"), state["messages"], final=final))

    async def aremember(state: Any) -> dict[str, Any]:
        return taken(await memory.astep(state.get("om"), state["messages"]))

    def agent(state: Any) -> dict[str, Any]:
        return {"messages": [actor.invoke(state["view"])]}

    builder: StateGraph[Any] = StateGraph(SteppedState)
    builder.add_node("memory", RunnableLambda(remember, aremember, name="memory"))
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode([look_up]))
    builder.add_edge(START, "memory")
    builder.add_edge("memory", "agent")
    builder.add_edge("tools", "memory")
    leave = END
    if memory.archive is not None:
        leave = "om_finish"
        builder.add_node(leave, lambda state: remember(state, final=True))
        builder.add_edge(leave, END)
    builder.add_conditional_edges("agent", tools_condition, {"tools": "tools", END: leave})
    return builder
