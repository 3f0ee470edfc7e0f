"""Every door and every saver, driven either way, in every kind of turn: one memory.

The reference of a case is its first combination; all others must give the same record, the same
parts and the same messages, and these messages must be those of an agent without memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from langgraph_om import ObservationalMemory, add_observational_memory, create_memory_agent
from langgraph_om.integrations.middleware import ObservationalMemoryMiddleware
from langgraph_om.testing import ScriptedChatModel
from support.agents import (
    MIDDLEWARE,
    READY,
    SCHEMAS,
    SYSTEM,
    Graph,
    Part,
    actor,
    any_saver,
    dumped,
    on_thread,
    refusals,
    remembering,
    scripted,
    turns,
    uncovered,
)
from support.clock import Clock
from support.savers import SaverKind

CONFIG = on_thread()
CASES = {"no tools": ("",), "tools": ("", "2,1"), "interrupt": ("", "1", "2")}
"""Per kind of turn: the lookups its turns ask for, in turn."""
OPTIONS: dict[str, dict[str, Any]] = {
    "tools": {"observation": {"keep_turns": 1}, "gap_markers": True},
    "interrupt": {"continuation_hints": False, "cache_seconds": 60.0},
}
"""Per kind of turn: what its memory is set to beside the usual."""
DOORS = ("plain", "delta", *READY, "middleware", "middleware-delta")


def tools_of(case: str) -> list[Any]:
    """The lookup tool, which asks a person first in the case of interrupts."""

    @tool
    def search(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Look something up."""
        leave = interrupt({"query": query}) if case == "interrupt" else "granted"
        text = f"Results for {query} ({leave}): the museum opens at 10, entry is 12 euros."
        key = f"{tool_call_id}-result"
        return ToolMessage(text, tool_call_id=tool_call_id, name="search", id=key)

    return [] if case == "no tools" else [search]


def build(
    door: str, memory: ObservationalMemory, model: ScriptedChatModel, tools: list[Any], saver: Any
) -> Graph:
    if door in READY:
        is_delta = door == "agent"
        return create_memory_agent(
            model, tools, memory=memory, prompt=SYSTEM, checkpointer=saver, delta=is_delta
        )
    if door in MIDDLEWARE:
        return create_agent(
            model,
            tools,
            system_prompt=SYSTEM,
            middleware=[ObservationalMemoryMiddleware(memory)],
            state_schema=MIDDLEWARE[door],
            checkpointer=saver,
        )
    builder = StateGraph(SCHEMAS[door])
    bound = model.bind_tools(tools) if tools else model

    def agent(state: Any) -> dict[str, Any]:
        return {"messages": [bound.invoke(memory.llm_input_messages(state, system=SYSTEM))]}

    builder.add_node("agent", agent)
    builder.add_edge(START, add_observational_memory(builder, memory, before="agent"))
    if tools:
        builder.add_node("tools", ToolNode(tools))
        builder.add_conditional_edges("agent", tools_condition, ["tools", END])
        builder.add_edge("tools", "om_status")
    else:
        builder.add_edge("agent", END)
    return builder.compile(checkpointer=saver)


async def converse(graph: Graph, said: Sequence[HumanMessage], *, is_async: bool) -> list[Part]:
    """Talk, granting what tools ask for; return all parts of memory."""
    parts: list[Part] = []
    for message in said:
        given: Any = {"messages": [message]}
        while given is not None:
            if is_async:
                stream = graph.astream(given, CONFIG, stream_mode="custom")
                parts += [part async for part in stream]
                state = await graph.aget_state(CONFIG)
            else:
                parts += graph.stream(given, CONFIG, stream_mode="custom")
                state = graph.get_state(CONFIG)
            asked = state.interrupts
            given = Command(resume={each.id: "granted" for each in asked}) if asked else None
    return parts


async def outcome(
    door: str, case: str, saver: SaverKind, place: str, *, is_async: bool
) -> dict[str, Any]:
    """What a conversation of a case comes to."""
    model = scripted(actor=actor)
    memory = remembering(model, Clock(), messages=300, log=150, **OPTIONS.get(case, {}))
    said = turns(8, lookups=CASES[case])
    async with any_saver(saver, place, is_async=is_async) as checkpointer:
        graph = build(door, memory, model, tools_of(case), checkpointer)
        parts = await converse(graph, said, is_async=is_async)
        state = (await graph.aget_state(CONFIG) if is_async else graph.get_state(CONFIG)).values
    prompts = [call["messages"] for call in model.calls if call["role"] == "actor"]
    assert uncovered(memory, state) == []
    assert refusals(prompts) == []
    return {
        "om": state["om"],
        "messages": dumped(state["messages"]),
        "parts": parts,
        "prompts": [[message.model_dump() for message in prompt] for prompt in prompts],
    }


async def without_memory(case: str) -> list[dict[str, Any]]:
    """The messages of the same conversation with an agent that has no memory."""
    async with any_saver("memory", "", is_async=False) as checkpointer:
        graph = create_agent(
            scripted(actor=actor), tools_of(case), system_prompt=SYSTEM, checkpointer=checkpointer
        )
        await converse(graph, turns(8, lookups=CASES[case]), is_async=False)
        return dumped(graph.get_state(CONFIG).values["messages"])


REFERENCES: dict[str, dict[str, Any]] = {}


async def reference(case: str) -> dict[str, Any]:
    if case not in REFERENCES:
        REFERENCES[case] = await outcome("plain", case, "memory", "", is_async=False)
        # The system prompt counts as usage in one door and not in the other.
        assert without_usage(REFERENCES[case]["messages"]) == without_usage(
            await without_memory(case)
        )
        assert REFERENCES[case]["om"]["generation"] > 0
    return REFERENCES[case]


def without_usage(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages without what they cost, which memory is there to change."""
    return [{**message, "usage_metadata": None} for message in messages]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("door", "saver_kind"),
    [*((door, "memory") for door in DOORS), ("agent", "sqlite"), ("agent", "postgres")],
)
async def test_same_memory_through_every_door(
    door: str, case: str, saver_kind: SaverKind, saver_place: str, *, is_async: bool
) -> None:
    found = await outcome(door, case, saver_kind, saver_place, is_async=is_async)
    expected = await reference(case)
    assert found["parts"] == expected["parts"]
    assert found["om"] == expected["om"]
    assert found["messages"] == expected["messages"]
    assert found["prompts"] == expected["prompts"]
