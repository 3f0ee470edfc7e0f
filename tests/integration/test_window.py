"""The Actor's window is known, and messages and observations keep to it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    create_memory_agent,
)
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.models.providers import find_window
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

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


def build(door: str, actor: Actor, *, says: bool = True, **options: Any) -> Any:
    model: BaseChatModel = ScriptedChatModel(actor)
    if says:
        model.profile = {"max_input_tokens": actor.window}
    memory, saver = remember(**options), InMemorySaver()
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
    talk(graph, 60)
    assert actor.refused == 0
    assert len(actor.sizes) == 60
    assert memory.actor_window == 4096
    assert memory.thresholds.largest_tokens < 4096


def test_one_warning_names_both_numbers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="langgraph_om"):
        memory, graph = build("middleware", Actor(8192))
        talk(graph, 3)
    said = [r.getMessage() for r in caplog.records if "limits are scaled down" in r.getMessage()]
    assert len(said) == 1
    assert "reads 8192 tokens" in said[0]
    assert f"so that they grow to {memory.thresholds.largest_tokens};" in said[0]


def test_limits_that_fit_stay() -> None:
    before = remember().thresholds
    memory, _ = build("agent", Actor(200_000))
    assert memory.thresholds == before


def test_a_window_that_nobody_tells_is_learned_from_the_first_refusal() -> None:
    actor = Actor(8192)
    memory, graph = build("agent", actor, says=False)
    assert memory.actor_window is None
    talk(graph, 60)
    assert actor.refused == 1
    assert memory.actor_window == 8192


@pytest.mark.needs("previews")
@pytest.mark.parametrize("retrieval", [False, True])
def test_a_message_larger_than_the_window_is_previewed_at_once(*, retrieval: bool) -> None:
    actor = Actor(8192)
    _, graph = build("agent", actor, retrieval=retrieval)
    talk(graph, 2)
    talk(graph, 1, ROWS)
    talk(graph, 2)
    assert actor.refused == 0


def test_of_several_models_the_smallest_window_counts() -> None:
    small, large, silent = (ScriptedChatModel(lambda _: "ok") for _ in range(3))
    small.profile, large.profile = {"max_input_tokens": 8192}, {"max_input_tokens": 200_000}
    assert find_window(large.with_fallbacks([silent, small])) == 8192
    assert find_window(large.bind(stop=["x"])) == 200_000
    assert find_window(silent) is None
    assert find_window(object()) is None
    memory = remember()
    create_memory_agent(small, memory=memory)
    create_memory_agent(large, memory=memory)
    assert memory.actor_window == 8192


def test_tools_and_the_agents_own_prompt_take_of_the_room() -> None:
    def build_with(prompt: str) -> int:
        model, memory = ScriptedChatModel(lambda _: "ok"), remember()
        model.profile = {"max_input_tokens": 8192}
        create_memory_agent(model, memory=memory, prompt=prompt)
        return memory.thresholds.largest_tokens

    assert build_with("Be brief.") - build_with("Be brief. " * 500) > 900


def test_a_thread_goes_on_with_a_smaller_model() -> None:
    memory, saver = remember(), InMemorySaver()
    large, small = Actor(200_000), Actor(8192)
    talk(create_memory_agent(ScriptedChatModel(large), memory=memory, checkpointer=saver), 80)
    model = ScriptedChatModel(small)
    model.profile = {"max_input_tokens": 8192}
    graph = create_memory_agent(model, memory=memory, checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("And now?")]}, {"configurable": {"thread_id": "t"}})
    assert small.refused == 0


@pytest.mark.needs("previews")
def test_many_results_that_a_known_window_does_not_hold_are_never_sent() -> None:
    actor = Actor(8192)
    memory, graph = build("agent", actor)
    calls = [{"name": "search", "args": {}, "id": f"c{at}"} for at in range(12)]
    results = [ToolMessage(ROWS[:4000], tool_call_id=f"c{at}") for at in range(12)]
    said = [HumanMessage("Look."), AIMessage("", tool_calls=calls), *results]
    config: Any = {"configurable": {"thread_id": "t"}}
    parts = [*graph.stream({"messages": said}, config, stream_mode="custom")]
    assert actor.refused == 0
    assert any(part["type"] == "data-om-view-trimmed" for part in parts)
    assert memory.actor_window == 8192


def test_a_memory_that_is_off_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="langgraph_om"):
        memory, graph = build("agent", Actor(8192), enabled=False)
        with pytest.raises(ContextOverflowError):
            talk(graph, 1, ROWS)
    assert memory.actor_window is None
    assert "scaled down" not in caplog.text
