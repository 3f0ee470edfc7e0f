# What an agent remembers, as a panel within its chat: LangGraph's generative UI.
#
#     pip install "langgraph-om[studio]"
#     cd examples/generative_ui && langgraph dev     # needs Node.js: it fetches a bundler
#
# After each answer the graph pushes a UI message with what is remembered by then. The server makes
# a bundle of `panel.tsx`, which `langgraph.json` names under "ui", and a chat that draws such
# messages shows it: Agent Chat UI does, and a React application with `LoadExternalComponent`.

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.ui import AnyUIMessage, push_ui_message, ui_message_reducer

from langgraph_om import (
    ObservationalMemory,
    ObservationalMemoryState,
    add_observational_memory,
)
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

PANEL = "memory-panel"
"""The component's name in `panel.tsx`."""
MOST_LINES = 40
"""Of the log, in a UI message, which is a part of each checkpoint."""

model = ScriptedChatModel(
    lambda prompt: f"Noted: {prompt[-1].text[:60]}",
    observer=ExtractiveObserver().reply,
    reflector=ExtractiveReflector().reply,
)
memory = ObservationalMemory(
    model,
    observation={"message_tokens": 120, "buffer_tokens": False},
    reflection={"observation_tokens": 400},
)


class State(ObservationalMemoryState):
    ui: Annotated[Sequence[AnyUIMessage], ui_message_reducer]


def answer(state: State) -> dict[str, Any]:
    return {"messages": [model.invoke(memory.llm_input_messages(state))]}


def show_memory(state: State, config: RunnableConfig) -> dict[str, Any]:
    """Push the panel; with an id of its own it replaces the one before."""
    view = memory.view(state)
    lines = [line for group in view.record.get("log", []) for line in group["text"].splitlines()]
    windows = view.status["windows"]["active"]
    push_ui_message(
        PANEL,
        {
            "title": dict(view.record).get("thread_title") or "What I remember",
            "messages": windows["messages"],
            "observations": windows["observations"],
            "lines": [re.sub(r"^(\s*)[*-] ", r"\1", line) for line in lines[-MOST_LINES:]],
        },
        id=f"memory-{config.get('configurable', {}).get('thread_id', '')}",
        message=state["messages"][-1],
    )
    return {}


builder = StateGraph(State)
builder.add_node("answer", answer)
builder.add_node("show_memory", show_memory)
builder.add_edge(START, add_observational_memory(builder, memory, before="answer"))
builder.add_edge("answer", "show_memory")
builder.add_edge("show_memory", END)
agent = builder.compile()
