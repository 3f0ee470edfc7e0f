"""States of any client: objects, snapshots, and the JSON values that a server sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages.utils import convert_to_openai_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import StateSnapshot

from support.agents import make_agent, on_thread, talk, turns


@pytest.fixture(scope="module")
def agent() -> Any:
    made = make_agent("agent", InMemorySaver(), retrieval=True)
    talk(made.graph, on_thread(), turns(9, lookups=("", "1")), made.clock)
    return made


def sent(snapshot: StateSnapshot) -> dict[str, Any]:
    """A state as a server sends it, over the wire."""
    values = {
        **snapshot.values,
        "messages": [message.model_dump() for message in snapshot.values["messages"]],
    }
    state = {
        "values": values,
        "next": [],
        "tasks": [],
        "metadata": dict(snapshot.metadata or {}),
        "created_at": snapshot.created_at,
        "checkpoint": snapshot.config["configurable"],
        "parent_checkpoint": None,
        "interrupts": [],
    }
    loaded: dict[str, Any] = json.loads(json.dumps(state))
    return loaded


def asked(memory: Any, state: Any) -> list[Any]:
    """What can be asked about a state."""
    return [
        memory.status(state),
        str(memory.view(state)),
        [message.model_dump() for message in memory.llm_input_messages(state)],
        memory.recall(state, on_thread(), limit=3),
        memory.history(state),
        memory.observations_as_of(state, "2027-01-01"),
    ]


def test_what_a_server_sends_is_read_as_the_state_itself(agent: Any) -> None:
    snapshot = agent.graph.get_state(on_thread())
    wanted = asked(agent.memory, snapshot.values)
    assert wanted[0]["windows"]["active"]["observations"]["tokens"] > 0
    state = sent(snapshot)
    remote = snapshot._replace(values=state["values"])  # what RemoteGraph makes of it
    for form in (snapshot, remote, state, state["values"]):
        assert asked(agent.memory, form) == wanted


def test_messages_in_openais_form_are_read_too(agent: Any) -> None:
    values = agent.graph.get_state(on_thread()).values
    written = convert_to_openai_messages(values["messages"])
    status = agent.memory.status({**values, "messages": written})
    assert status["threadId"] == "t"


def test_history_of_a_server_is_read(agent: Any) -> None:
    states = list(agent.graph.get_state_history(on_thread()))
    remote = [sent(state) for state in states if "messages" in state.values]
    assert agent.memory.history(remote) == agent.memory.history(states)
    first = states[0].values["om"]["log"][0]["observed_at"]
    found = agent.memory.observations_as_of(remote, first)
    assert found == agent.memory.observations_as_of(states, first)


@pytest.mark.parametrize("door", ["agent", "plain", "middleware"])
def test_thread_that_never_ran_has_an_empty_view(door: str) -> None:
    made = make_agent(door, InMemorySaver(), retrieval=True)
    snapshot = made.graph.get_state(on_thread("new"))
    nothing = {"values": None, "next": [], "metadata": {}, "checkpoint": {}}
    for state in (snapshot, snapshot.values, nothing, {**nothing, "values": []}):
        assert "no observations yet" in str(made.memory.view(state))
        assert made.memory.status(state)["windows"]["active"]["messages"]["tokens"] == 0
        assert made.memory.llm_input_messages(state) == []
        assert made.memory.history(state) == []
        assert "error" not in made.memory.recall(state, on_thread("new"))


def test_whole_state_of_a_thread_that_ran_without_memory_is_looked_at() -> None:
    made = make_agent("middleware", InMemorySaver())
    made.graph.invoke({"messages": turns(1)}, on_thread(om_enabled=False))
    view = made.memory.view(made.graph.get_state(on_thread()))
    assert view.conversation_tokens > 0
    assert "no observations yet" in str(view)
