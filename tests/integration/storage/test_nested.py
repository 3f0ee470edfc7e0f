"""An agent with memory within another one, on the same thread and archive."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from langgraph_om import ConfigurationError
from langgraph_om.archive import SQLAlchemyArchive
from support.agents import make_agent, on_thread, say, talk, turns, values

CONFIG = on_thread(resource_id="ana")


def within(agent: Any) -> Any:
    """A graph with the agent as its only node, as a parent's tool would run it."""

    async def run(state: MessagesState) -> dict[str, Any]:
        del state
        said = {"messages": [HumanMessage("What is it?", id="sub-h")]}
        answer = await agent.graph.ainvoke(said)
        return {"messages": [AIMessage(answer["messages"][-1].text, id="sub-done")]}

    builder = StateGraph(MessagesState)
    builder.add_node("colleague", run)
    builder.add_edge(START, "colleague")
    builder.add_edge("colleague", END)
    return builder.compile()


@pytest.fixture
def archive() -> SQLAlchemyArchive:
    return SQLAlchemyArchive("sqlite://")


@pytest.fixture
async def parent(archive: SQLAlchemyArchive) -> Any:
    """An agent of ten turns, on whose thread a subagent has run since."""
    made = make_agent("agent", InMemorySaver(), messages=300, archive=archive, retrieval=True)
    talk(made.graph, CONFIG, turns(10))
    inner = make_agent("agent", messages=300, archive=archive)
    await within(inner).ainvoke({"messages": [("user", "go")]}, CONFIG)
    return made


async def test_subagents_talk_leaves_the_parents_messages_readable(
    parent: Any, archive: SQLAlchemyArchive
) -> None:
    found = parent.memory.recall(values(parent.graph, CONFIG), CONFIG, cursor="h0")
    assert "trip number 0" in found["messages"]
    archived = [row.key for row in archive.messages("t", limit=99)]
    assert archived == [key for n in range(10) for key in (f"h{n}", f"h{n}-answer")]


async def test_subagents_talk_is_its_own_and_not_listed(
    parent: Any, archive: SQLAlchemyArchive
) -> None:
    assert parent.asked("actor") == 10
    assert [thread.id for thread in archive.threads("ana")[0]] == ["t"]
    nested = archive.find("sub-h", resource_id="ana")
    assert nested is not None
    assert nested.thread_id != "t"


async def test_subagents_talk_is_deleted_with_the_thread(
    parent: Any, archive: SQLAlchemyArchive
) -> None:
    parent.memory.delete_thread("t")
    assert archive.find("sub-h", resource_id="ana") is None


async def test_a_thread_whose_nested_agents_alone_have_memory_is_moved_by_its_id(
    archive: SQLAlchemyArchive,
) -> None:
    inner = make_agent("agent", messages=300, archive=archive)
    await within(inner).ainvoke({"messages": [("user", "go")]}, CONFIG)
    with pytest.raises(ConfigurationError, match="another resource"):
        inner.memory.move_thread("t", "eve", "ben")
    inner.memory.move_thread("t", "ana", "ben")
    assert archive.find("sub-h", resource_id="ana") is None
    assert archive.find("sub-h", resource_id="ben") is not None


@pytest.mark.parametrize("door", ["agent", "middleware"])
def test_no_client_names_a_thread_within_one_of_another_user(
    door: str, archive: SQLAlchemyArchive
) -> None:
    made = make_agent(door, InMemorySaver(), messages=300, archive=archive, retrieval=True)
    talk(made.graph, CONFIG, turns(2))
    with pytest.raises(ConfigurationError, match=r"`thread_id` is 't\|>mine'"):
        say(made.graph, on_thread("t|>mine", resource_id="eve"), turns(1)[0])
    assert archive.threads("eve")[0] == []
