"""The Actor's window is known, and messages and observations keep to it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_om import (
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.inside import count_messages

COUNTER = EstimatingCounter()
ROWS = "\n".join(f"row {at}: {at % 13} euro" for at in range(4000))


class Actor:
    """Answers within a window, and counts what it was asked."""

    def __init__(self, window: int) -> None:
        self.window, self.sizes = window, list[int]()

    def __call__(self, messages: list[BaseMessage]) -> AIMessage:
        size = count_messages(COUNTER, messages)
        self.sizes.append(size)
        if size > self.window:
            msg = f"prompt is too long: {size} tokens > {self.window} maximum"
            raise ContextOverflowError(msg)
        return AIMessage("I see. " + "This is what I think about it. " * 20)

    @property
    def refused(self) -> int:
        return sum(size > self.window for size in self.sizes)


def remember(**options: Any) -> ObservationalMemory:
    return ObservationalMemory(
        observation={"model": ExtractiveObserver()},
        reflection={"model": ExtractiveReflector()},
        buffering=InlineBuffering(),
        **options,
    )


def build(
    door: str,
    actor: Actor,
    *,
    says: bool = True,
    saver: Any = None,
    kind: type[ScriptedChatModel] = ScriptedChatModel,
    **options: Any,
) -> Any:
    model: BaseChatModel = kind(actor)
    if says:
        model.profile = {"max_input_tokens": actor.window}
    memory, saver = remember(**options), saver or InMemorySaver()
    if door == "own":
        ask = memory.with_second_try(model.invoke)
        builder = StateGraph(MessagesState)
        builder.add_node("agent", lambda state: {"messages": [ask(state)]})
        builder.add_edge(START, add_observational_memory(builder, memory, before="agent"))
        return memory, builder.compile(checkpointer=saver)
    if door == "agent":
        return memory, create_memory_agent(model, memory=memory, checkpointer=saver)
    middleware = [ObservationalMemoryMiddleware(memory)]
    return memory, create_agent(model, middleware=middleware, checkpointer=saver)


def talk(graph: Any, count: int, text: str = "please tell me about that. " * 30) -> None:
    for number in range(count):
        said = {"messages": [("user", f"Question {number}: {text}")]}
        graph.invoke(said, {"configurable": {"thread_id": "t"}})


@pytest.mark.parametrize("door", ["agent", "middleware"])
@pytest.mark.parametrize("retrieval", [False, True])
def test_no_call_is_refused_where_the_profile_tells_the_window(
    door: str, *, retrieval: bool
) -> None:
    actor = Actor(4096)
    memory, graph = build(door, actor, retrieval=retrieval)
    talk(graph, 30)
    assert actor.refused == 0
    assert len(actor.sizes) == 30
    assert memory.actor_window == 4096
    assert memory.thresholds.largest_tokens < 4096


def test_a_window_that_nobody_tells_is_learned_from_the_first_refusal() -> None:
    actor = Actor(8192)
    memory, graph = build("agent", actor, says=False)
    assert memory.actor_window is None
    talk(graph, 40)
    assert actor.refused == 1
    assert memory.actor_window is None  # what one thread has learned holds for no other


@pytest.mark.slow
def test_a_thread_goes_on_with_a_smaller_model() -> None:
    memory, saver = remember(), InMemorySaver()
    large, small = Actor(200_000), Actor(8192)
    talk(create_memory_agent(ScriptedChatModel(large), memory=memory, checkpointer=saver), 80)
    model = ScriptedChatModel(small)
    model.profile = {"max_input_tokens": 8192}
    graph = create_memory_agent(model, memory=memory, checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("And now?")]}, {"configurable": {"thread_id": "t"}})
    assert small.refused == 0


# --- The option ----------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["agent", "middleware", "own"])
@pytest.mark.parametrize("retrieval", [False, True])
def test_the_option_tells_the_window_as_a_profile_does(door: str, *, retrieval: bool) -> None:
    actor = Actor(8192)
    options: dict[str, Any] = {"max_input_tokens": 8192, "retrieval": retrieval}
    memory, graph = build(door, actor, says=False, **options)
    assert memory.actor_window == 8192
    talk(graph, 30)
    talk(graph, 1, ROWS)
    talk(graph, 2)
    assert actor.refused == 0
    assert len(actor.sizes) == 33


# --- A budget that is a part of it ---------------------------------------------------------------

FRACTION = ("fraction", 0.6)


@pytest.mark.parametrize("door", ["agent", "middleware", "own"])
def test_a_fraction_is_the_budget_of_as_many_tokens(door: str) -> None:
    actor = Actor(8192)
    memory, graph = build(door, actor, token_budget=FRACTION)
    talk(graph, 30)
    assert memory.thresholds == remember(token_budget=4915).thresholds
    assert actor.refused == 0


def test_a_fraction_of_what_nobody_knows_is_no_budget_yet(caplog: pytest.LogCaptureFixture) -> None:
    actor = Actor(8192)
    with caplog.at_level(logging.WARNING, logger="langgraph_om"):
        memory, graph = build("agent", actor, says=False, token_budget=FRACTION)
        assert memory.thresholds == remember().thresholds
        talk(graph, 3)
    said = [r.getMessage() for r in caplog.records if "which isn't known" in r.getMessage()]
    assert len(said) == 1
    assert "set `max_input_tokens`, or the `profile` of the model" in said[0]
    talk(graph, 30)
    assert actor.refused == 1
    talk(graph, 30)
    assert actor.refused == 1


# --- What a thread has learned -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("door", ["agent", "middleware", "own"])
def test_another_worker_need_not_learn_the_window_again(door: str) -> None:
    saver, first, second = InMemorySaver(), Actor(8192), Actor(8192)
    _, graph = build(door, first, says=False, saver=saver)
    talk(graph, 1, ROWS)  # the last thing that this worker does
    assert first.refused >= 1
    memory, graph = build(door, second, says=False, saver=saver)
    assert memory.actor_window is None
    talk(graph, 1, ROWS[:30_000])
    assert second.refused == 0
    kept = graph.get_state({"configurable": {"thread_id": "t"}}).values["om"]["windows"]
    (learned,) = kept.values()
    assert learned["source"] == "refused"
    assert 0.8 * 8192 < learned["tokens"] < 1.2 * 8192
    talk(graph, 60)
    assert second.refused == 0


def test_what_a_thread_says_of_the_window_holds_for_it_alone() -> None:
    actor = Actor(200_000)
    memory, graph = build("agent", actor, says=False)
    config: Any = {"configurable": {"thread_id": "hostile"}}
    graph.invoke({"messages": [("user", "Hello.")]}, config)
    windows = {"ScriptedChatModel": {"tokens": 900, "source": "refused"}}
    graph.update_state(config, {"om": {**graph.get_state(config).values["om"], "windows": windows}})
    before = memory.thresholds
    graph.invoke({"messages": [("user", "Hello? " * 2000)]}, config)
    assert actor.sizes[-1] < 2000
    assert memory.thresholds == before
    talk(graph, 1, "Hello? " * 2000)
    assert actor.sizes[-1] > 2000
