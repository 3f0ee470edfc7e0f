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
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_om import (
    ConfigurationError,
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.memory import runner_of
from langgraph_om.models.providers import find_window
from langgraph_om.runtime.job_requests import digest_settings
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


class OtherModel(ScriptedChatModel):
    """Has another name."""


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
    talk(graph, 40)
    assert actor.refused == 1
    assert memory.actor_window is None  # what one thread has learned holds for no other


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


@pytest.mark.parametrize("who", ["profile", "option"])
def test_tools_and_the_agents_own_prompt_take_of_the_room(who: str) -> None:
    def build_with(prompt: str) -> int:
        model, known = ScriptedChatModel(lambda _: "ok"), {"max_input_tokens": 8192}
        memory = remember(**(known if who == "option" else {}))
        if who == "profile":
            model.profile = {"max_input_tokens": 8192}
        create_memory_agent(model, memory=memory, prompt=prompt)
        return memory.thresholds.largest_tokens

    assert build_with("Be brief.") - build_with("Be brief. " * 500) > 900


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


def test_many_results_that_a_known_window_does_not_hold_are_never_sent() -> None:
    actor = Actor(8192)
    memory, graph = build("agent", actor, retrieval=False)
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


@pytest.mark.parametrize("tokens", [5000, 90_000])
def test_the_option_counts_in_the_place_of_the_profile(tokens: int) -> None:
    memory, _ = build("agent", Actor(20_000), max_input_tokens=tokens)
    assert memory.actor_window == tokens
    assert 0.5 * tokens < memory.thresholds.largest_tokens < 0.8 * tokens


def test_a_refusal_counts_even_where_the_option_says_more() -> None:
    actor = Actor(8192)
    _, graph = build("agent", actor, says=False, max_input_tokens=100_000)
    talk(graph, 40)
    assert actor.refused == 1


# --- A budget that is a part of it ---------------------------------------------------------------

FRACTION = ("fraction", 0.6)


@pytest.mark.parametrize("door", ["agent", "middleware", "own"])
def test_a_fraction_is_the_budget_of_as_many_tokens(door: str) -> None:
    actor = Actor(8192)
    memory, graph = build(door, actor, token_budget=FRACTION)
    talk(graph, 30)
    assert memory.thresholds == remember(token_budget=4915).thresholds
    assert actor.refused == 0


def test_a_fraction_of_the_option_is_known_at_once() -> None:
    memory = remember(token_budget=FRACTION, max_input_tokens=8192)
    assert memory.thresholds == remember(token_budget=4915).thresholds
    with pytest.raises(ConfigurationError, match="`token_budget` is 24, while that leaves"):
        remember(token_budget=FRACTION, max_input_tokens=40)


def test_a_fraction_of_what_nobody_knows_is_no_budget_yet(caplog: pytest.LogCaptureFixture) -> None:
    actor = Actor(8192)
    with caplog.at_level(logging.WARNING, logger="langgraph_om"):
        memory, graph = build("agent", actor, says=False, token_budget=FRACTION)
        assert memory.thresholds == remember().thresholds
        talk(graph, 3)
    said = [r.getMessage() for r in caplog.records if "nobody has said" in r.getMessage()]
    assert len(said) == 1
    assert "set `max_input_tokens`, or the `profile` of the model" in said[0]
    talk(graph, 30)
    assert actor.refused == 1
    talk(graph, 30)
    assert actor.refused == 1


def test_a_fraction_that_leaves_no_room_ends_no_turn(caplog: pytest.LogCaptureFixture) -> None:
    actor = Actor(4096)
    options: dict[str, Any] = {"token_budget": FRACTION, "observation": {"message_tokens": 20_000}}
    model = ScriptedChatModel(actor)
    model.profile = {"max_input_tokens": 4096}
    options["observation"]["model"] = ExtractiveObserver()
    with caplog.at_level(logging.WARNING, logger="langgraph_om"):
        memory = ObservationalMemory(buffering=InlineBuffering(), **options)
        talk(create_memory_agent(model, memory=memory, checkpointer=InMemorySaver()), 10)
    assert actor.refused == 0
    assert "cannot be kept: `token_budget` is 2457" in caplog.text
    assert memory.thresholds.largest_tokens < 4096


def test_a_worker_that_knows_no_window_takes_jobs_of_an_agent_that_does() -> None:
    agent = remember(token_budget=FRACTION, max_input_tokens=8192)
    worker = remember(token_budget=FRACTION)
    settings = [runner_of(memory).settings for memory in (agent, worker)]
    assert settings[0].observation.message_tokens != settings[1].observation.message_tokens
    assert digest_settings(settings[0]) == digest_settings(settings[1])


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


def test_another_model_is_not_kept_to_what_was_learned() -> None:
    saver, first, second = InMemorySaver(), Actor(8192), Actor(200_000)
    talk(build("agent", first, says=False, saver=saver)[1], 1, ROWS)
    _, graph = build("agent", second, says=False, saver=saver, kind=OtherModel)
    talk(graph, 1, "And then? " * 5000)
    assert second.sizes[-1] > 8192


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


def test_a_program_that_raises_the_limit_says_so_by_the_option() -> None:
    saver, first, second = InMemorySaver(), Actor(8192), Actor(100_000)
    talk(build("agent", first, says=False, saver=saver)[1], 1, ROWS)
    options: dict[str, Any] = {"saver": saver, "max_input_tokens": 100_000}
    _, graph = build("agent", second, says=False, **options)
    talk(graph, 1, "And then? " * 5000)
    assert second.sizes[-1] > 8192


# --- What is said of it --------------------------------------------------------------------------


def test_status_view_and_page_say_what_the_actor_reads_and_who_said_so() -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    memory, graph = build("agent", Actor(8192))
    said: Any = {"messages": [("user", "Hello.")]}
    parts = [*graph.stream(said, config, stream_mode="custom")]
    told = next(part["data"] for part in parts if part["type"] == "data-om-status")["actorWindow"]
    limit = memory.thresholds.largest_tokens
    assert told == {
        "tokens": 8192,
        "source": "profile",
        "scaledFrom": remember().thresholds.largest_tokens,
        "scaledTo": limit,
    }
    state = graph.get_state(config)
    assert memory.status(state)["actorWindow"] == told
    sentence = f"8,192 tokens, by its profile; all limits are scaled down, from 84,000 to {limit:,}"
    assert f"agent's model reads: {sentence}" in str(memory.view(state))
    assert f"The agent's model reads {sentence}." in memory.view(state).to_html()
    # Who looks from outside has the record alone.
    assert f"reads: {sentence.split(';', maxsplit=1)[0]}" in str(remember().view(state))


def test_nothing_is_said_of_a_window_that_nobody_knows() -> None:
    memory, graph = build("agent", Actor(8192), says=False)
    talk(graph, 1)
    state = graph.get_state({"configurable": {"thread_id": "t"}})
    assert "actorWindow" not in memory.status(state)
    assert "model reads" not in str(memory.view(state))
    _, graph = build("agent", Actor(200_000))
    talk(graph, 1)
    state = graph.get_state({"configurable": {"thread_id": "t"}})
    assert memory.status(state)["actorWindow"] == {"tokens": 200_000, "source": "profile"}
