"""Evicting: which conversations it can work on, and what a client sends again."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from typing_extensions import TypedDict

from langgraph_om import add_observational_memory
from langgraph_om.core.content.message_keys import is_conversation
from langgraph_om.errors import ConfigurationError
from langgraph_om.integrations.middleware import ObservationalMemoryMiddleware
from support.agents import (
    MIDDLEWARE,
    SCHEMAS,
    make_agent,
    on_thread,
    remembering,
    scripted,
    talk,
    turns,
    values,
)
from support.clock import Clock


class AddedState(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


class ReplacedState(TypedDict):
    messages: list[AnyMessage]


class AddedAgentState(AgentState[Any]):
    messages: Annotated[list[AnyMessage], operator.add]


def evicting() -> Any:
    return remembering(scripted(), Clock(), archive="sqlite://", evict=True)


@pytest.mark.parametrize(
    ("schema", "reducer"), [(AddedState, "`add`"), (ReplacedState, "LastValue")]
)
def test_conversation_that_nothing_can_be_removed_from_is_refused(
    schema: Any, reducer: str
) -> None:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
    builder.add_node("agent", lambda state: state)
    with pytest.raises(ConfigurationError) as refused:
        add_observational_memory(builder, evicting())
    for word in ("`evict`", "`messages`", reducer, "`add_messages`"):
        assert word in str(refused.value)
    assert "om_status" not in builder.nodes


def test_agent_whose_conversation_cannot_be_shortened_says_so_before_it_is_harmed() -> None:
    graph = create_agent(
        scripted(),
        [],
        middleware=[ObservationalMemoryMiddleware(evicting())],
        state_schema=AddedAgentState,
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(ConfigurationError, match=r"reducer `add` of the state's `messages`"):
        talk(graph, on_thread(), turns(1))
    kept = values(graph, on_thread())["messages"]
    assert [message.type for message in kept] == ["human"]


@pytest.mark.parametrize("door", ["agent", *SCHEMAS, *MIDDLEWARE])
def test_every_door_can_evict(door: str) -> None:
    agent = make_agent(door, InMemorySaver(), messages=200, archive="sqlite://", evict=True)
    talk(agent.graph, on_thread(), turns(16))
    state = values(agent.graph, on_thread())
    assert state["om"]["evicted"] is not None
    assert len(state["messages"]) < 32


def test_request_to_remove_a_message_is_no_conversation() -> None:
    assert not is_conversation(RemoveMessage(id="h1"))
    assert is_conversation(HumanMessage("hello", id="h1"))


def test_view_counts_what_was_evicted_as_conversation() -> None:
    seen = []
    for evict in (False, True):
        agent = make_agent("agent", InMemorySaver(), messages=200, archive="sqlite://", evict=evict)
        talk(agent.graph, on_thread(), turns(16))
        seen.append(agent.memory.view(values(agent.graph, on_thread())).conversation_tokens)
    whole, evicted = seen
    assert abs(whole - evicted) < whole / 100
