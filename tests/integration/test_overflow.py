"""Prompts that are too long, in the words of real servers, by a real client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, ObservationalMemoryMiddleware, create_memory_agent
from support.agents import Graph, of_kind, on_thread, remembering, scripted, turns
from support.clock import Clock
from support.wire_server import (
    Provider,
    Reply,
    anthropic_fails,
    anthropic_says,
    gemini_fails,
    gemini_says,
    openai_fails,
    openai_responds,
    serve,
)

# The client leaves its sockets to be collected.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


def claude(url: str) -> BaseChatModel:
    return ChatAnthropic(model="claude-local", base_url=url, api_key="dummy", max_retries=0)


def gemini(url: str) -> BaseChatModel:
    return ChatGoogleGenerativeAI(
        model="gemini-flash-latest", base_url=url, api_key="dummy", max_retries=1
    )


def responses(url: str) -> BaseChatModel:
    return ChatOpenAI(
        model="local", base_url=f"{url}/v1", api_key="dummy", max_retries=0, use_responses_api=True
    )


CLAUDE = "prompt is too long: 215432 tokens > 200000 maximum"
CLIENTS: dict[str, tuple[Callable[[str], BaseChatModel], Reply, Reply]] = {
    "OpenAI, Responses": (
        responses,
        openai_fails(
            400,
            "Your input exceeds the context window of this model. Please adjust your input.",
            code="context_length_exceeded",
        ),
        openai_responds("ok"),
    ),
    "Anthropic": (claude, anthropic_fails(400, CLAUDE), anthropic_says("ok")),
    "Gemini": (
        gemini,
        gemini_fails(
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576).",
            "INVALID_ARGUMENT",
        ),
        gemini_says("ok"),
    ),
}
"""Clients of other APIs, and what their servers say."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serve() as provider:
        yield provider


def build(door: str, model: BaseChatModel) -> tuple[ObservationalMemory, Graph]:
    """An agent whose Actor is a client of the provider, and whose memory is never due."""
    model.profile = None  # what the client knows of the model by its name
    memory = remembering(scripted(), Clock(), messages=10_000, log=10_000)
    if door == "agent":
        return memory, create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
    middleware = [ObservationalMemoryMiddleware(memory)]
    return memory, create_agent(model, middleware=middleware, checkpointer=InMemorySaver())


def local(url: str) -> BaseChatModel:
    return ChatOpenAI(model="local", base_url=f"{url}/v1", api_key="dummy", max_retries=0)


async def ask(graph: Graph, *, is_async: bool) -> list[dict[str, Any]]:
    given = {"messages": turns(6)}
    if is_async:
        return [part async for part in graph.astream(given, on_thread(), stream_mode="custom")]
    return list(graph.stream(given, on_thread(), stream_mode="custom"))


async def check(provider: Provider, door: str, model: BaseChatModel, *, is_async: bool) -> None:
    """Ask once; the first prompt is refused, and the second one is answered."""
    memory, graph = build(door, model)
    parts = await ask(graph, is_async=is_async)
    sizes = [len(json.dumps(request.body)) for request in provider.requests]
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]
    assert of_kind(parts, "view-trimmed")
    assert graph.get_state(on_thread()).values["messages"][-1].text == "ok"
    assert memory.actor_window is None  # it is the thread that has learned


WAYS = [("agent", False), ("middleware", True)]


@pytest.mark.parametrize(
    ("client", "door", "is_async"),
    [(client, *WAYS[at % 2]) for at, client in enumerate(CLIENTS)],
)
async def test_clients_of_other_apis_raise_what_is_understood(
    provider: Provider, client: str, door: str, *, is_async: bool
) -> None:
    make, fails, says = CLIENTS[client]
    provider.says(fails, says)
    await check(provider, door, make(provider.url), is_async=is_async)
