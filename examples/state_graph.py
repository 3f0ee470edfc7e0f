# Observational Memory in a graph of your own: own state, own agent node, own edges.
#
#     pip install langgraph-om
#     python examples/state_graph.py
#
# Memory takes four lines: the object, the agent's input, the nodes, and the edges into the gate.

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from chat_models import choose_model
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_om import ObservationalMemory, add_observational_memory
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    calls: Annotated[int, operator.add]  # a field of this graph alone


def opening_hours(day: str) -> str:
    """Look up when the library is open."""
    return {"sunday": "closed"}.get(day.lower(), "10:00 to 19:00, last loan at 18:30")


QUESTIONS = [
    "Hello, my name is Noor and my library card is number 20-117.",
    "I want to borrow the three volumes about the history of the Hanse. Are you open on Saturday?",
    "Good. Please keep them at the desk for me, I arrive at about five in the afternoon.",
    "I changed my mind: only volumes one and three, the second one I have at home.",
    "What did I ask you to keep for me?",
]
ANSWERS: list[str | AIMessage] = [
    "Hello Noor, I have opened your account 20-117. You may borrow up to 6 books for 4 weeks.",
    AIMessage(
        "", tool_calls=[{"name": "opening_hours", "args": {"day": "Saturday"}, "id": "call-1"}]
    ),
    "On Saturday the library is open from 10:00 to 19:00. All three volumes are on the shelf.",
    "The three volumes wait at the desk under your name until Monday, 12:00.",
    "Then only volumes 1 and 3 wait for you; volume 2 goes back on the shelf.",
    "Volumes 1 and 3 of the history of the Hanse, at the desk from Saturday on.",
]


offline = ScriptedChatModel(
    tuple(ANSWERS), observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
)
model = choose_model(offline)
memory = ObservationalMemory(model, observation={"message_tokens": 120})
tools = [opening_hours]
actor = model.bind_tools(tools)
prompt = SystemMessage("You work at the desk of a library. Answer in one sentence.")


def agent(state: State) -> dict[str, Any]:
    answer = actor.invoke(memory.llm_input_messages(state, system=prompt))
    return {"messages": [answer], "calls": 1}


builder = StateGraph(State)
builder.add_node("agent", agent)
builder.add_node("tools", ToolNode(tools))
gate = add_observational_memory(builder, memory, before="agent")
builder.add_edge(START, gate)
builder.add_conditional_edges("agent", tools_condition)
builder.add_edge("tools", gate)
graph = builder.compile(checkpointer=InMemorySaver())
print(f"\n{graph.get_graph().draw_mermaid()}")

config: RunnableConfig = {"configurable": {"thread_id": "desk"}}
for question in QUESTIONS:
    result = graph.invoke({"messages": [HumanMessage(question)], "calls": 0}, config)
    print(f"User:  {question}\nAgent: {result['messages'][-1].text}")

state = graph.get_state(config).values
print(f"\n{len(state['messages'])} messages, {state['calls']} calls of the model. Memory's log:\n")
places = {message.id: at for at, message in enumerate(state["messages"], start=1)}
for group in state["om"]["log"]:
    first, last = places[group["ranges"][0][0]], places[group["ranges"][-1][-1]]
    print(f"[{group['kind']} of messages {first} to {last}, {group['tokens']} tokens]")
    print(f"{group['text']}\n")
