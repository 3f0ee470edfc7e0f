"""An enormous message is read whole by the calls that its preview names, wherever it is kept."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_om import InlineBuffering
from langgraph_om.archive import SQLAlchemyArchive
from support.agents import Agent, make_agent, on_thread, say, turn, values

CALL = re.compile(r"recall\(cursor=(\"[^\"]+\"), part_index=(\d+), char_offset=(\d+)\)")
TEXT = "\n".join(f"entry {at}: “level” {at % 7} 😀" for at in range(5000))
WHO = on_thread("t", resource_id="ana")


def build(**options: Any) -> Agent:
    return make_agent(
        "agent",
        InMemorySaver(),
        messages=3000,
        log=4000,
        retrieval=True,
        buffering=InlineBuffering(),
        **options,
    )


def read_whole(agent: Agent, shown: str) -> str:
    """Follow the call in a preview, and the offsets of the answers, to the end."""
    found = CALL.search(shown)
    assert found is not None
    cursor, part, offset = json.loads(found[1]), int(found[2]), int(found[3])
    pages = [shown[: shown.rindex("\n[...", 0, found.start())]]
    while True:
        answer = agent.memory.recall(
            values(agent.graph, WHO), WHO, cursor=cursor, part_index=part, char_offset=offset
        )
        pages.append(answer["text"])
        if not answer["truncated"]:
            return "".join(pages)
        offset = answer["next_char_offset"]


def see(agent: Agent, key: str) -> str:
    """The last view of a message that the Actor had."""
    prompts = reversed(agent.prompts())
    return next(message.text for prompt in prompts for message in prompt if message.id == key)


def said_enormously() -> list[BaseMessage]:
    calls = [{"name": "search", "args": {"query": "all"}, "id": "c1"}]
    return [
        HumanMessage("Look at all of it.", id="h"),
        AIMessage("", tool_calls=calls, id="a"),
        ToolMessage(TEXT, tool_call_id="c1", id="r"),
        HumanMessage(TEXT, id="p"),
    ]


@pytest.mark.parametrize("key", ["r", "p"])
def test_it_is_read_whole_from_the_state(key: str) -> None:
    agent = build()
    say(agent.graph, WHO, *said_enormously())
    assert read_whole(agent, see(agent, key)) == TEXT


@pytest.mark.parametrize("key", ["r", "p"])
def test_it_is_read_whole_from_an_archive(archive: SQLAlchemyArchive, key: str) -> None:
    agent = build(archive=archive, evict=True)
    say(agent.graph, WHO, *said_enormously())
    shown = see(agent, key)
    for number in range(60):
        say(agent.graph, WHO, turn(number))
    left = {message.id for message in values(agent.graph, WHO)["messages"]}
    assert not left & {"r", "p"}
    assert read_whole(agent, shown) == TEXT


def test_an_agent_within_another_graph_is_shown_it_too() -> None:
    agent = build()
    inner = make_agent("agent", checkpointer=True, model=agent.model, retrieval=True)
    builder = StateGraph(MessagesState)
    builder.add_node("inner", inner.graph)
    builder.add_edge(START, "inner")
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"messages": [HumanMessage(TEXT, id="p")]}, on_thread("outer"))
    assert CALL.search(see(agent, "p"))


def test_a_thread_that_was_there_before_memory_is_shown_it_too() -> None:
    agent = build()
    before = [*said_enormously()[:3], AIMessage("I have seen it.", id="b")]
    say(agent.graph, WHO, *before, turn(1))
    prompt = agent.prompts()[-1]
    assert all(len(message.text) < 20_000 for message in prompt)
