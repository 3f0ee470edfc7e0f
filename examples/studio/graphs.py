# Three agents with Observational Memory, to look at in LangGraph Studio.
#
#     pip install -e ".[studio]"                   # in the checkout
#     cd examples/studio && langgraph dev          # offline; a real model with a key in MODELS
#                                                  # and its package
#
# Talk about your books and your days. After a few messages the memory nodes light up; `om` in the
# state panel is the memory, and a fork of an earlier turn remembers what was known at that turn.
# No graph has a checkpointer: the server brings its own. The memories are also pages of the server,
# at http://127.0.0.1:2024/memory. A fourth agent, which keeps a profile, is in user_profile.py.

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import Annotated, Any, NotRequired

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from typing_extensions import TypedDict  # on Python 3.11, Studio can not read that of `typing`

from langgraph_om import (
    MemoryContext,
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

PROMPT = "You work at the desk of a library. Answer in one sentence."
DAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"


def opening_hours(day: str) -> str:
    """Look up when the library is open."""
    return {"sunday": "closed"}.get(day.lower(), "10:00 to 19:00, last loan at 18:30")


def answer(prompt: list[BaseMessage]) -> str | AIMessage:
    """Play the agent: look a day up, quote the memory for a question, else take a note."""
    last = prompt[-1]
    if isinstance(last, ToolMessage):
        return f"Noted. Our hours on that day: {last.text}."
    if day := re.search(DAYS, last.text, re.IGNORECASE):
        call = {"name": "opening_hours", "args": {"day": day[0]}, "id": f"call-{len(prompt)}"}
        return AIMessage("", tool_calls=[call])
    if "?" not in last.text:
        return f"Noted: {last.text[:60]}"
    asked = set(re.findall(r"\w{4,}", last.text.lower()))
    facts = [line.partition("User: ")[2] for line in prompt[0].text.splitlines()]
    best = max(facts, key=lambda fact: len(asked & set(fact.lower().split())))
    return f"You told me: {best}" if best else "I have no observation about that yet."


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    calls: NotRequired[int]  # a field of this graph alone


MODELS = {
    "GOOGLE_API_KEY": "google_genai:gemini-flash-latest",
    "OPENAI_API_KEY": "openai:gpt-6-luna",
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-5-5",
}
named = [
    name
    for key, name in MODELS.items()
    if os.environ.get(key) and find_spec(f"langchain_{name.partition(':')[0]}")
]
real_model = init_chat_model(named[0]) if named else None
# An Observer takes a while; so does this one, that you see it at work after the answer.
memory_model = real_model or ScriptedChatModel(
    observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply, delay=0.5
)
model = real_model or ScriptedChatModel(answer)
tools = [opening_hours]
memory = ObservationalMemory(
    memory_model,
    # Tiny, so that a few messages suffice to see it all; the defaults are 30,000 and 40,000.
    observation={"message_tokens": 250},
    reflection={"observation_tokens": 250},
)

# --- A ready-made agent --------------------------------------------------------------------------

agent = create_memory_agent(model, tools, memory=memory, system_prompt=PROMPT)

# --- A graph of your own -------------------------------------------------------------------------

actor = model.bind_tools(tools)


async def desk(state: State) -> dict[str, Any]:
    reply = await actor.ainvoke(memory.llm_input_messages(state, system=PROMPT))
    return {"messages": [reply], "calls": state.get("calls", 0) + 1}


builder = StateGraph(State)  # an assistant may set `om_enabled` and `resource_id`, in a form
builder.add_node("desk", desk)
builder.add_node("tools", ToolNode(tools))
gate = add_observational_memory(builder, memory, before="desk")
builder.add_edge(START, gate)
builder.add_conditional_edges("desk", tools_condition)
builder.add_edge("tools", gate)
own_graph = builder.compile()

# --- `create_agent`, with memory as a middleware -------------------------------------------------

middleware_agent = create_agent(
    model,
    tools,
    system_prompt=PROMPT,
    middleware=[ObservationalMemoryMiddleware(memory, as_node=True)],
    context_schema=MemoryContext,
)
