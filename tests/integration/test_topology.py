"""What a graph looks like from outside once it has memory, and what may come in."""

from __future__ import annotations

from typing import Any, NotRequired

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from syrupy.assertion import SnapshotAssertion
from typing_extensions import TypedDict

from langgraph_om import (
    BackgroundBuffering,
    ConfigurationError,
    InlineBuffering,
    add_observational_memory,
    create_memory_agent,
)
from support.agents import (
    DOORS,
    SCHEMAS,
    OtherKeyState,
    make_agent,
    on_thread,
    record_of,
    remembering,
    scripted,
    talk,
    turn,
    turns,
    uncovered,
    values,
    wire,
)
from support.clock import Clock

HAND_MADE = tuple(SCHEMAS)


def empty_memory(**options: Any) -> Any:
    return remembering(scripted(), Clock(), **options)


# --- The drawing ---------------------------------------------------------------------------------


def test_ready_agent_shows_every_node(snapshot: SnapshotAssertion) -> None:
    assert make_agent("agent").graph.get_graph().draw_mermaid() == snapshot


def test_hand_made_agent_shows_every_node(snapshot: SnapshotAssertion) -> None:
    assert make_agent("plain").graph.get_graph().draw_mermaid() == snapshot


def test_ready_agent_without_tools_has_no_tools_node() -> None:
    graph = create_memory_agent(scripted(), memory=empty_memory(retrieval=False))
    nodes = set(graph.get_graph().nodes)
    assert "tools" not in nodes
    assert nodes >= {"agent", "om_status", "om_observe", "om_reflect"}


def test_memory_ends_where_the_caller_says() -> None:
    builder = StateGraph(SCHEMAS["plain"])
    builder.add_node("agent", lambda _: {})
    builder.add_node("goodbye", lambda _: {})
    builder.add_edge(START, add_observational_memory(builder, empty_memory(), end="goodbye"))
    drawing = builder.compile().get_graph()
    after_gate = {edge.target for edge in drawing.edges if edge.source == "om_status"}
    assert after_gate >= {"agent", "om_observe", "om_reflect", "goodbye"}
    assert "__end__" not in after_gate


# --- The schemas ---------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["own", "agent"])
def test_own_state_gives_memory_back(door: str) -> None:
    result = make_agent(door).graph.invoke({"messages": [turn(0)]}, on_thread())
    assert result["om"]["turn"] == {"request": "h0", "step": 0}


@pytest.mark.parametrize("door", ["plain", "delta", "dataclass", "pydantic"])
def test_own_schema_stays_as_it_is(door: str) -> None:
    def described(schema: Any) -> Any:
        fields = getattr(schema, "model_fields", None)
        return list(fields) if fields is not None else dict(schema.__annotations__)

    before = described(SCHEMAS[door])
    agent = make_agent(door, InMemorySaver())
    result = agent.graph.invoke({"messages": [turn(0)], "note": "mine"}, on_thread())
    assert described(SCHEMAS[door]) == before
    assert set(agent.graph.get_input_jsonschema()["properties"]) == {"messages", "note"}
    assert set(result) == {"messages", "note"}
    assert result["note"] == "mine"
    assert [message.id for message in result["messages"]] == ["h0", "h0-answer"]


@pytest.mark.parametrize("schema", HAND_MADE)
def test_agent_node_sees_its_own_kind_of_state_and_memory(schema: str) -> None:
    seen: list[Any] = []
    builder = StateGraph(SCHEMAS[schema])

    def agent(state: Any) -> dict[str, Any]:
        seen.append(state)
        return {"messages": [("ai", "hello")]}

    builder.add_node("agent", agent)
    builder.add_edge(START, add_observational_memory(builder, empty_memory()))
    builder.compile().invoke({"messages": [turn(0)]}, on_thread())
    (state,) = seen
    is_mapping = isinstance(state, dict)
    assert is_mapping or isinstance(state, SCHEMAS[schema])
    assert (state["om"] if is_mapping else state.om)["turn"]["request"] == "h0"


def test_conversation_under_another_key() -> None:
    clock, model = Clock(), scripted()
    memory = remembering(model, clock, messages_key="chat")
    graph = wire(OtherKeyState, memory, model).compile(checkpointer=InMemorySaver())
    for number in range(12):
        graph.invoke({"chat": [turn(number, "2")]}, on_thread())
    assert len(record_of(graph, on_thread())["log"]) > 0
    assert uncovered(memory, values(graph, on_thread())) == []


def test_node_may_ask_for_memory_itself() -> None:
    class WithMemory(TypedDict):
        messages: list[Any]
        om: NotRequired[dict[str, Any]]

    builder = StateGraph(SCHEMAS["plain"])
    memory = empty_memory()
    builder.add_edge(START, add_observational_memory(builder, memory))
    builder.add_node(
        "agent",
        lambda state: {"messages": [("ai", str(len(memory.llm_input_messages(state))))]},
        input_schema=WithMemory,
    )
    result = builder.compile().invoke({"messages": [turn(0)]}, on_thread())
    assert result["messages"][-1].content == "1"


# --- What can not be meant -----------------------------------------------------------------------


def test_node_added_later_is_told_what_to_do() -> None:
    builder = StateGraph(SCHEMAS["plain"])
    memory = empty_memory()
    builder.add_edge(START, add_observational_memory(builder, memory))
    builder.add_node("agent", lambda state: {"messages": memory.llm_input_messages(state)})
    with pytest.raises(ConfigurationError, match="before `add_observational_memory"):
        builder.compile().invoke({"messages": [turn(0)]}, on_thread())


def test_memory_twice_is_refused() -> None:
    builder = wire(SCHEMAS["plain"], empty_memory(), scripted())
    with pytest.raises(ConfigurationError, match="`om_status` already"):
        add_observational_memory(builder, empty_memory())


def test_schema_without_messages_is_refused() -> None:
    builder = StateGraph(OtherKeyState)
    with pytest.raises(ConfigurationError, match=r"no `messages`; its keys are chat, note"):
        add_observational_memory(builder, empty_memory())
    assert set(builder.nodes) == set()
    assert set(builder.channels) == {"chat", "note"}


def test_messages_that_are_no_list_are_refused() -> None:
    class Odd(TypedDict):
        messages: str

    builder = StateGraph(Odd)
    builder.add_node("agent", lambda _: {})
    builder.add_edge(START, add_observational_memory(builder, empty_memory()))
    with pytest.raises(ConfigurationError, match="`messages` holds 'hi'"):
        builder.compile().invoke({"messages": "hi"}, on_thread())


# --- State that comes back in --------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_echoed_state_does_not_change_memory(door: str) -> None:
    config = on_thread()
    plain, echoing = make_agent(door, InMemorySaver()), make_agent(door, InMemorySaver())
    talk(plain.graph, config, turns(12))
    talk(echoing.graph, config, turns(8))
    outdated = {**record_of(echoing.graph, config), "log": [], "cursor": [], "generation": 7}
    for message in turns(4, start=8):
        echo = [*values(echoing.graph, config)["messages"], message]
        echoing.graph.invoke({"messages": echo, "om": outdated}, config)
    assert record_of(echoing.graph, config) == record_of(plain.graph, config)
    assert len(record_of(plain.graph, config)["log"]) > 0


@pytest.mark.parametrize("buffering", [BackgroundBuffering, InlineBuffering])
def test_drawing_of_the_default_graph_shows_nodes_and_conditions(
    buffering: Any, snapshot: SnapshotAssertion
) -> None:
    agent = make_agent("agent", observation={"buffer_tokens": 0.2}, buffering=buffering())
    assert agent.graph.get_graph().draw_mermaid() == snapshot


# --- What is written wrongly ---------------------------------------------------------------------


def test_node_may_be_added_after_memory() -> None:
    builder = StateGraph(SCHEMAS["plain"])
    builder.add_edge(START, add_observational_memory(builder, empty_memory(), before="late"))
    builder.add_node("late", lambda _: {})
    assert "late" in builder.compile().get_graph().nodes


def test_a_misspelled_node_is_named() -> None:
    builder = StateGraph(SCHEMAS["plain"])
    builder.add_node("agent", lambda _: {})
    with pytest.raises(ConfigurationError, match=r"`before` is 'agnet'.*pass 'agent'"):
        add_observational_memory(builder, empty_memory(), before="agnet")
    assert list(builder.nodes) == ["agent"], "nothing was added"


def test_memory_in_the_place_of_its_middleware_is_named() -> None:
    memory = empty_memory()
    with pytest.raises(AttributeError, match=r"middleware=\[ObservationalMemoryMiddleware\("):
        create_agent(scripted(), middleware=[memory])
    assert not [name for name in dir(memory) if "wrap" in name]
