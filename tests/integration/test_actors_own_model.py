"""A memory that names no model asks the agent's own, with whatever key that has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from langgraph_om import (
    BackgroundBuffering,
    ConfigurationError,
    InlineBuffering,
    ObservationalMemory,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.integrations.middleware import ObservationalMemoryMiddleware
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.wire_server import Provider, Today, google, openai, serve

TALK = [f"My boat is red. {at} " * 30 for at in range(4)]
KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
LIMITS: dict[str, Any] = {
    "observation": {"message_tokens": 150, "buffer_tokens": False},
    "buffering": InlineBuffering(),
}

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Today]:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    with serve(Today()) as served:
        yield served


def _claude(provider: Provider) -> BaseChatModel:
    from langchain_anthropic import ChatAnthropic  # noqa: PLC0415 dear, and rarely used

    options: Any = {"base_url": provider.url, "api_key": "dummy", "max_retries": 0}
    return ChatAnthropic(model="claude-haiku-5-5", **options)


MODELS: dict[str, Callable[[Provider], BaseChatModel]] = {
    "openai": lambda provider: openai(provider, model="gpt-6-luna"),
    "google": lambda provider: google(provider, model="gemini-flash-latest"),
    "anthropic": _claude,
}


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"Sun in {city}."


def ready(model: Any, memory: ObservationalMemory) -> Any:
    return create_memory_agent(model, [weather], memory=memory, checkpointer=InMemorySaver())


def middleware(model: Any, memory: ObservationalMemory, *, as_node: bool = False) -> Any:
    added = [ObservationalMemoryMiddleware(memory, as_node=as_node)]
    return create_agent(model, [weather], middleware=added, checkpointer=InMemorySaver())


def with_node(model: Any, memory: ObservationalMemory) -> Any:
    return middleware(model, memory, as_node=True)


def own_graph(model: Any, memory: ObservationalMemory) -> Any:
    class Own(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]

    ask = memory.with_second_try(model.bind_tools([weather]).invoke)
    builder = StateGraph(Own)
    builder.add_node("agent", lambda state: {"messages": [ask(state)]})
    builder.add_edge(START, add_observational_memory(builder, memory, before="agent"))
    builder.add_edge("agent", END)
    return builder.compile(checkpointer=InMemorySaver())


DOORS = [ready, middleware, with_node, own_graph]


def talk(agent: Any, thread: str = "t") -> dict[str, Any]:
    config: Any = {"configurable": {"thread_id": thread}}
    for said in TALK:
        agent.invoke({"messages": [HumanMessage(said)]}, config)
    return dict(agent.get_state(config).values)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("door", DOORS)
def test_memory_observes_with_the_one_key_that_there_is(
    provider: Today, name: str, door: Callable[..., Any]
) -> None:
    state = talk(door(MODELS[name](provider), ObservationalMemory(**LIMITS)))
    assert "boat is red" in state["om"]["log"][0]["text"]
    assert not any(asked.get("tools") for asked in provider.observed)


def test_two_agents_with_one_memory_are_asked_each_for_its_own_threads() -> None:
    memory = ObservationalMemory(**LIMITS)
    models = [
        ScriptedChatModel(lambda _: "Noted.", observer=ExtractiveObserver().reply) for _ in range(2)
    ]
    agents = [ready(model, memory) for model in models]
    talk(agents[0], "one")
    assert [any(call["role"] == "observer" for call in model.calls) for model in models] == [
        True,
        False,
    ]


def test_a_job_elsewhere_needs_the_agent_or_a_named_model() -> None:
    sent: list[Any] = []

    class Elsewhere(BackgroundBuffering):
        def submit(self, *args: Any, request: Any = None, **options: Any) -> bool:
            sent.append(request())
            return super().submit(*args, request=request, **options)

    options: dict[str, Any] = {"observation": {"message_tokens": 300, "buffer_tokens": 0.3}}
    model = ScriptedChatModel(lambda _: "Noted.", observer=ExtractiveObserver().reply)
    talk(ready(model, ObservationalMemory(**options, buffering=Elsewhere())))
    with pytest.raises(ConfigurationError, match=r"build the agent here .* or name a model"):
        ObservationalMemory(**options).run_job(sent[0])
    worker = ObservationalMemory(**options)
    ready(model, worker)
    assert worker.run_job(sent[0])["type"] == "buffering-end"


@pytest.mark.parametrize("said", [None, "default"])
def test_without_any_key_the_first_turn_says_which_to_give(
    monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(ConfigurationError) as caught:
        ObservationalMemory(said).step(None, [HumanMessage("Hi")], thread_id="t")
    assert "ObservationalMemory(model='openai:" in str(caught.value)
    assert "set GOOGLE_API_KEY" in str(caught.value)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY") as refused:
        create_memory_agent("openai:gpt-6-luna")
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
