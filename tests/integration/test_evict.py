"""Evicting: which conversations it can work on, and what a client sends again."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from typing_extensions import TypedDict

from langgraph_om import add_observational_memory
from langgraph_om.errors import ConfigurationError
from langgraph_om.integrations.middleware import ObservationalMemoryMiddleware
from support.agents import (
    DOORS,
    make_agent,
    on_thread,
    remembering,
    say,
    scripted,
    talk,
    turn,
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


@pytest.mark.parametrize("schema", [AddedState, ReplacedState])
def test_conversation_that_nothing_can_be_removed_from_is_refused(schema: Any) -> None:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
    builder.add_node("agent", lambda state: state)
    with pytest.raises(ConfigurationError) as refused:
        add_observational_memory(builder, evicting())
    for word in ("`evict`", "`messages`", "`add_messages`"):
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
    with pytest.raises(ConfigurationError, match="reducer of the state's `messages`"):
        talk(graph, on_thread(), turns(1))
    kept = values(graph, on_thread())["messages"]
    assert [message.type for message in kept] == ["human"]


# --- What a client sends again ---


def kept_by_client(agent: Any) -> list[AnyMessage]:
    """The whole conversation, as a client keeps it that knows nothing of eviction."""
    archived = agent.memory.archive.messages("t", limit=1000, visible_only=False)
    stays = values(agent.graph, on_thread())["messages"]
    return [*{each.id: each for each in [*(one.message for one in archived), *stays]}.values()]


def keys_of(messages: list[Any]) -> list[str]:
    return [str(message.id) for message in messages]


def archived_keys(agent: Any) -> list[str]:
    return [each.key for each in agent.memory.archive.messages("t", limit=1000)]


def evicting_agent(door: str = "agent") -> Any:
    agent = make_agent(door, InMemorySaver(), messages=200, archive="sqlite://", evict=True)
    talk(agent.graph, on_thread(), turns(16))
    return agent


@pytest.mark.parametrize("door", DOORS)
def test_history_that_a_client_sends_again_is_neither_shown_nor_observed_twice(
    door: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = evicting_agent(door)
    history, before = kept_by_client(agent), values(agent.graph, on_thread())
    gone = set(keys_of(history)) - set(keys_of(before["messages"]))
    asked = agent.asked("observer")
    say(agent.graph, on_thread(), *history, turn(16))
    state = values(agent.graph, on_thread())
    assert gone
    assert gone.isdisjoint(keys_of(state["messages"]))
    assert gone.isdisjoint(keys_of(agent.prompts()[-1]))
    assert keys_of(state["messages"])[-2:] == ["h16", "h16-answer"]
    assert archived_keys(agent)[: len(history) + 1] == [*keys_of(history), "h16"]
    assert agent.asked("observer") - asked <= 1
    observed = [ends for group in state["om"]["log"] for ends in group["ranges"]]
    assert len({first for first, _ in observed}) == len(observed)
    say(agent.graph, on_thread(), turn(17))
    assert caplog.records == []  # such as that history was loaded late


def test_history_sent_again_without_a_new_request_leaves_the_conversation_as_it_was() -> None:
    agent = evicting_agent()
    before = values(agent.graph, on_thread())["messages"]
    say(agent.graph, on_thread(), *kept_by_client(agent)[:12])
    after = keys_of(values(agent.graph, on_thread())["messages"])
    assert set(after) - set(keys_of(before)) <= {after[-1]}


def test_removed_message_that_is_asked_again_is_a_request() -> None:
    agent = evicting_agent()
    say(agent.graph, on_thread(), turn(0))
    assert agent.prompts()[-1][-1].id == "h0"


def test_words_that_were_edited_after_their_removal_are_news_and_those_of_the_archive() -> None:
    agent = evicting_agent()
    history = kept_by_client(agent)
    edited = HumanMessage("I am allergic to walnuts", id="h1")
    history[keys_of(history).index("h1")] = edited
    say(agent.graph, on_thread(), *history, turn(16))
    assert "h1" in keys_of(values(agent.graph, on_thread())["messages"])
    found = agent.memory.archive.find("h1", thread_id="t")
    assert found.message.content == edited.content


def two_branches() -> tuple[Any, list[AnyMessage], RunnableConfig]:
    """An agent on the second of two branches, and the first one's history and end.

    They share two turns; of either, all of them was removed.
    """
    agent = make_agent("agent", InMemorySaver(), messages=200, archive="sqlite://", evict=True)
    talk(agent.graph, on_thread(), turns(2))
    early = agent.graph.get_state(on_thread()).config
    talk(agent.graph, on_thread(), turns(26, start=2))
    history, head = kept_by_client(agent), agent.graph.get_state(on_thread()).config
    talk(agent.graph, early, turns(1, start=50))
    talk(agent.graph, on_thread(), turns(26, start=51))
    assert values(agent.graph, on_thread())["om"]["evicted"].startswith("h6")
    return agent, history, head


@pytest.mark.slow
def test_history_is_recognised_on_the_branch_that_it_is_sent_to() -> None:
    agent, history, head = two_branches()
    gone = set(keys_of(history)) - set(keys_of(agent.graph.get_state(head).values["messages"]))
    assert "h8" in gone
    say(agent.graph, head, *history, turn(90))
    assert gone.isdisjoint(keys_of(values(agent.graph, on_thread())["messages"]))
    assert gone.isdisjoint(keys_of(agent.prompts()[-1]))
    assert archived_keys(agent)[: len(history) + 1] == [*keys_of(history), "h90"]


@pytest.mark.slow
def test_messages_of_another_branch_are_new() -> None:
    agent, history, _ = two_branches()
    sent = [message for message in history if message.id in ("h1", "h8", "h8-answer")]
    say(agent.graph, on_thread(), *sent, turn(80))
    there = keys_of(values(agent.graph, on_thread())["messages"])
    assert {"h8", "h8-answer"} <= set(there)
    assert "h1" not in there
