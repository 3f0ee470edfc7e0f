"""What a run says of itself, in its context and in its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.runtime import get_runtime
from pydantic import BaseModel

from langgraph_om import ConfigurationError, MemoryContext, ObservationalMemoryMiddleware
from support.agents import (
    Agent,
    Graph,
    PlainState,
    make_agent,
    of_kind,
    on_thread,
    record_of,
    remembering,
    scripted,
    turn,
    turns,
)
from support.clock import Clock

DOORS = ("agent", "plain", "middleware")
each_door = pytest.mark.parametrize("door", DOORS)


@dataclass
class Settings:
    om_enabled: bool | None = None
    resource_id: str | None = None


class Form(BaseModel):
    om_enabled: bool = True
    resource_id: str | None = None


def run(graph: Graph, context: Any, *messages: Any, **configurable: Any) -> list[dict[str, Any]]:
    """Run one turn with a context."""
    given = {"messages": list(messages) or [turn(0)]}
    config = on_thread(**configurable)
    return list(graph.stream(given, config, context=context, stream_mode="custom"))


@each_door
def test_context_switches_memory_off_as_the_configuration_does(door: str) -> None:
    agent = make_agent(door, InMemorySaver())
    assert run(agent.graph, {"om_enabled": False}, *turns(8)) == []
    assert agent.asked("observer") == 0
    assert agent.prompts()[-1][-1].text == turns(8)[-1].text
    assert of_kind(run(agent.graph, {"om_enabled": True}, turn(8)), "status")
    assert of_kind(run(agent.graph, None, turn(9)), "status")


@each_door
def test_context_says_whose_thread_it_is(door: str) -> None:
    agent = make_agent(door, InMemorySaver())
    run(agent.graph, {"resource_id": "ana"})
    assert record_of(agent.graph, on_thread())["resource_id"] == "ana"
    run(agent.graph, {"resource_id": "ana"}, turn(1), resource_id="ana")
    assert record_of(agent.graph, on_thread())["resource_id"] == "ana"


@pytest.mark.parametrize(
    "said", [Settings(om_enabled=False, resource_id="ana"), Form(om_enabled=False)]
)
def test_context_of_any_kind_is_read(said: Any) -> None:
    memory, model = remembering(scripted(), Clock()), scripted()
    middleware = ObservationalMemoryMiddleware(memory)
    graph = create_agent(model, [], middleware=[middleware], context_schema=type(said))
    assert run(graph, said) == []
    assert of_kind(run(graph, Settings()), "status")


@each_door
def test_contradictions_are_errors_that_name_both(door: str) -> None:
    agent = make_agent(door, InMemorySaver())
    both = r"`context\[\"{0}\"\]` is {1} and `configurable\[\"{0}\"\]` is {2}"
    with pytest.raises(ConfigurationError, match=both.format("om_enabled", "False", "True")):
        run(agent.graph, {"om_enabled": False}, om_enabled=True)
    with pytest.raises(ConfigurationError, match=both.format("resource_id", "'ana'", "'bob'")):
        run(agent.graph, {"resource_id": "ana"}, resource_id="bob")
    with pytest.raises(ConfigurationError, match=r"context\[\"om_enabled\"\]` is 'no'"):
        run(agent.graph, {"om_enabled": "no"})


def test_recall_reads_what_the_context_owns() -> None:
    calls = iter([AIMessage("", tool_calls=[{"name": "recall", "args": {}, "id": "c"}], id="a0")])
    model = scripted(actor=lambda _: next(calls, None) or AIMessage("done", id="a1"))
    agent = make_agent(
        "agent", InMemorySaver(), model=model, retrieval=True, archive="sqlite:///:memory:"
    )
    run(agent.graph, {"resource_id": "ana"})
    found = agent.graph.get_state(on_thread()).values["messages"][-2]
    assert "trip number 0" in found.text


def test_graphs_without_a_form_of_their_own_have_one() -> None:
    wanted = {"om_enabled", "om_read_only", "resource_id", "timezone"}
    for door in ("agent", "plain"):
        schema = make_agent(door).graph.get_context_jsonschema()
        assert schema is not None
        assert set(schema["properties"]) == wanted
    assert set(MemoryContext.__annotations__) == wanted
    builder = StateGraph(PlainState, context_schema=Settings)
    builder.add_node("agent", lambda _: {})
    builder.add_edge(START, "agent")
    assert builder.compile().context_schema is Settings


def by_runtime(_: Any) -> str:
    owner: str = get_runtime().context["resource_id"]
    return owner


def test_function_that_needs_a_run_says_to_pass_the_id() -> None:
    agent: Agent = make_agent("agent", InMemorySaver(), retrieval=True, resource_id=by_runtime)
    run(agent.graph, {"resource_id": "ana"})
    assert record_of(agent.graph, on_thread())["resource_id"] == "ana"
    state = agent.graph.get_state(on_thread())
    with pytest.raises(ConfigurationError, match=r"outside of a run.*pass the id.*resource_id"):
        agent.memory.recall(state, on_thread())
    assert agent.memory.recall(state, on_thread(resource_id="ana"), cursor="h0")["messages"]


def test_function_that_fails_in_a_run_fails_it() -> None:
    agent = make_agent("agent", InMemorySaver(), resource_id=by_runtime)
    with pytest.raises(TypeError):
        run(agent.graph, {}, resource_id="ana")
