"""Threads of a user, listed from a checkpointer where there is no archive."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from support.agents import make_agent, on_thread, turns


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
async def test_threads_are_listed_from_a_checkpointer(saver: str, tmp_path: Any) -> None:
    if saver == "memory":
        await _list_threads(InMemorySaver())
        return
    with SqliteSaver.from_conn_string(f"{tmp_path}/c.db") as kept:
        await _list_threads(kept)


async def _list_threads(saver: Any) -> None:
    agent = make_agent("agent", saver)
    for thread, owner in (("t1", "ann"), ("t2", "ann"), ("x", "ben")):
        agent.graph.invoke({"messages": [turns(1)[0]]}, on_thread(thread, resource_id=owner))
    config = on_thread("t1", resource_id="ann")
    agent.memory.of(agent.graph, config).set_title("Trips")
    agent.graph.invoke({"messages": [HumanMessage("And then?", id="h9")]}, config)
    found = agent.memory.threads("ann", graph=agent.graph)
    assert (found[0].id, found[0].title) == ("t1", "Trips")
    assert {each.id for each in found} == {"t1", "t2"}
    assert {each.resource_id for each in found} == {"ann"}
    assert all(each.created <= each.updated for each in found)
    second = await agent.memory.athreads("ann", graph=agent.graph, limit=1, page=1)
    assert [each.id for each in second] == ["t2"]
    assert agent.memory.threads("ann", graph=agent.graph, before="2001-01-01") == []
    assert agent.memory.threads("nobody", graph=agent.graph) == []
