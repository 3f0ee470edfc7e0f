"""Reasoning that its provider binds to what stands before it, by the real clients of providers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_om import (
    InlineBuffering,
    MemoryContext,
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    add_observational_memory,
    create_memory_agent,
)
from support.agents import (
    SYSTEM,
    Graph,
    PlainState,
    on_thread,
    remembering,
    scripted,
    search,
    turns,
)
from support.clock import Clock
from support.signing_server import SigningProvider
from support.wire_server import Provider, serve

# Clients leave their sockets to be collected.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

DOORS = ("agent", "middleware", "graph")
BUFFERED = {"buffer_tokens": 0.2, "block_after": 1.9}


@pytest.fixture
def claude() -> Iterator[SigningProvider]:
    with serve(SigningProvider()) as provider:
        yield provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serve() as provider:
        yield provider


def client(claude: Provider, **options: Any) -> ChatAnthropic:
    return ChatAnthropic(
        model="claude-opus-4-8",
        base_url=claude.url,
        api_key="dummy",
        max_retries=0,
        max_tokens=4000,
        **{"thinking": {"type": "enabled", "budget_tokens": 2000}, **options},
    )


def memory_of(clock: Clock | None = None, **options: Any) -> ObservationalMemory:
    given = {"messages": 600, "log": 400, "observation": BUFFERED, **options}
    return remembering(scripted(), clock or Clock(), buffering=InlineBuffering(), **given)


def build(door: str, model: Any, memory: ObservationalMemory, system: str = SYSTEM) -> Graph:
    """An agent with memory, through one door."""
    saver = InMemorySaver()
    if door == "agent":
        return create_memory_agent(
            model, [search], memory=memory, system_prompt=system, checkpointer=saver
        )
    if door == "middleware":
        return create_agent(
            model,
            [search],
            system_prompt=system,
            middleware=[ObservationalMemoryMiddleware(memory)],
            context_schema=MemoryContext,
            checkpointer=saver,
        )
    bound = model.bind_tools([search])

    def agent(state: Any) -> dict[str, Any]:
        return {"messages": [bound.invoke(memory.llm_input_messages(state, system=system))]}

    builder = StateGraph(PlainState, context_schema=MemoryContext)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode([search]))
    gate = add_observational_memory(builder, memory, before="agent")
    builder.add_edge(START, gate)
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", gate)
    return builder.compile(checkpointer=saver)


def talk(graph: Graph, said: list[HumanMessage], clock: Clock | None = None, **run: Any) -> None:
    for message in said:
        graph.invoke({"messages": [message]}, on_thread(), **run)
        if clock is not None:
            clock.advance(hours=7)


LOOKUPS = ("", "2", "1", "", "3")
SAID = turns(14, lookups=LOOKUPS)


# --- Claude --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.parametrize("door", DOORS)
def test_claude_accepts_every_prompt_with_reasoning_where_it_is_valid(
    claude: SigningProvider, door: str, version: str
) -> None:
    clock = Clock()
    graph = build(door, client(claude, output_version=version), memory_of(clock))
    talk(graph, SAID, clock)
    assert claude.refused == []
    record = graph.get_state(on_thread()).values["om"]
    assert record["generation"] > 0
    kept = [signatures for signatures in claude.accepted if signatures]
    assert len(kept) > len(SAID)  # within each round of tools, and from turn to turn
    assert max(map(len, kept)) > 1


@pytest.mark.parametrize(
    "door", [DOORS[0], *(pytest.param(door, marks=pytest.mark.slow) for door in DOORS[1:])]
)
def test_claude_accepts_every_prompt_with_what_is_recalled_before_the_request(
    claude: SigningProvider, door: str
) -> None:
    """The block comes, changes and goes; answers made behind it lose their reasoning with it."""
    clock = Clock()
    inject = {"inject": {"top_k": 1, "message_range": 0, "min_score": 0.2}}
    graph = build(door, client(claude), memory_of(clock, retrieval=inject))
    asks = [
        HumanMessage(f"I am asking of the budget of 320 euros. {lookup}", id=f"ask-{at}")
        for at, lookup in enumerate(("", "[look up 2]", "", "[look up 1]"))
    ]
    plain = [HumanMessage(f"I am fine {at}.", id=f"fine-{at}") for at in range(4)]
    said = [*SAID[:8], *(message for pair in zip(asks, plain, strict=True) for message in pair)]
    talk(graph, said)
    assert claude.refused == []
    blocks = [
        str(request.body["messages"]).count("<recalled-messages") for request in claude.requests
    ]
    assert {0, 1} == {*blocks}
    kept = [sent for sent, count in zip(claude.accepted, blocks, strict=True) if count]
    assert any(kept)


@pytest.mark.parametrize("door", DOORS)
def test_reasoning_of_runs_without_memory_is_left_out_once_there_are_observations(
    claude: SigningProvider, door: str
) -> None:
    graph = build(door, client(claude), memory_of())
    for at, message in enumerate(SAID):
        claude.checks = at % 3 != 2  # without memory, what it made before is in another place
        talk(graph, [message], context={"om_enabled": claude.checks})
    claude.checks = True
    talk(graph, turns(3, start=20))
    assert claude.refused == []


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("door", ["agent", "middleware"])
async def test_claude_that_refuses_reasoning_is_asked_once_more_without(
    claude: SigningProvider, door: str, *, is_async: bool
) -> None:
    memory = memory_of(messages=5000, log=5000)
    first = build(door, client(claude), memory)
    talk(first, SAID[:2])
    second = build(door, client(claude), memory, system="You are another one.")
    second.checkpointer = first.checkpointer
    given = {"messages": [SAID[2]]}
    if is_async:
        await second.ainvoke(given, on_thread())
    else:
        second.invoke(given, on_thread())
    assert len(claude.refused) == 1
    talk(second, SAID[3:6])
    assert len(claude.refused) == 1  # what was refused once is not sent again
    assert claude.accepted[-1]  # what came since is
