"""Prompts that are too long, in the words of real servers, by a real client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemoryMiddleware, create_memory_agent
from langgraph_om.models.retries import is_context_overflow
from support.agents import Graph, of_kind, on_thread, remembering, scripted, turns
from support.clock import Clock
from support.wire_server import Provider, Reply, openai_fails, openai_says, serve

# The client leaves its sockets to be collected.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

VLLM = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in "
    "the messages. Please reduce the length of the messages."
)
LLAMA = "the request exceeds the available context size. try increasing the context size"
LITELLM = "litellm.ContextWindowExceededError: litellm.BadRequestError: too many tokens"
SERVERS = {
    "vLLM": openai_fails(400, VLLM, type="BadRequestError", code=400),
    "newer vLLM": openai_fails(
        400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
    ),
    "llama.cpp": openai_fails(400, LLAMA, type="exceed_context_size_error"),
    "LiteLLM": openai_fails(400, LITELLM),
    "a proxy": openai_fails(413, "Prompt is too long: 5000 tokens > 4096 maximum"),
    "a server that validates": openai_fails(422, VLLM),
}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serve() as provider:
        yield provider


def build(door: str, provider: Provider) -> Graph:
    """An agent whose Actor is a client of the provider, and whose memory is never due."""
    model = ChatOpenAI(model="local", base_url=f"{provider.url}/v1", api_key="dummy", max_retries=0)
    memory = remembering(scripted(), Clock(), messages=10_000, log=10_000)
    if door == "agent":
        return create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
    middleware = [ObservationalMemoryMiddleware(memory)]
    return create_agent(model, middleware=middleware, checkpointer=InMemorySaver())


async def ask(graph: Graph, *, is_async: bool) -> list[dict[str, Any]]:
    given = {"messages": turns(6)}
    if is_async:
        return [part async for part in graph.astream(given, on_thread(), stream_mode="custom")]
    return list(graph.stream(given, on_thread(), stream_mode="custom"))


@pytest.mark.parametrize("door", ["agent", "middleware"])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_server_that_says_the_prompt_is_too_long_is_sent_a_shorter_one(
    provider: Provider, door: str, server: str, *, is_async: bool
) -> None:
    provider.says(SERVERS[server], openai_says("ok"))
    graph = build(door, provider)
    parts = await ask(graph, is_async=is_async)
    sizes = [len(request.body["messages"]) for request in provider.requests]
    assert len(sizes) == 2
    assert sizes[1] < sizes[0] == 6
    assert of_kind(parts, "view-trimmed")
    assert graph.get_state(on_thread()).values["messages"][-1].text == "ok"


@pytest.mark.parametrize("door", ["agent", "middleware"])
@pytest.mark.parametrize(
    ("reply", "tries"), [(SERVERS["vLLM"], 3), (openai_fails(400, "no such tool"), 1)]
)
async def test_error_that_stays_or_is_another_is_the_servers(
    provider: Provider, door: str, reply: Reply, tries: int
) -> None:
    provider.says(reply)
    with pytest.raises(openai.BadRequestError):
        await ask(build(door, provider), is_async=False)
    assert len(provider.requests) == tries


def test_words_alone_are_no_overflow() -> None:
    class RateLimitError(Exception):
        status_code = 429

    assert not is_context_overflow(RateLimitError(VLLM))
    assert not is_context_overflow(ValueError(VLLM))
