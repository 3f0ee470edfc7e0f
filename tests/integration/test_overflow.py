"""Prompts that are too long, in the words of real servers, by a real client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, ObservationalMemoryMiddleware, create_memory_agent
from langgraph_om.models.retries import is_context_overflow, read_overflow
from support.agents import Graph, of_kind, on_thread, remembering, scripted, turns
from support.clock import Clock
from support.wire_server import (
    Provider,
    Reply,
    anthropic_fails,
    anthropic_says,
    bedrock_fails,
    bedrock_says,
    gemini_fails,
    gemini_says,
    ollama_says,
    openai_fails,
    openai_responds,
    openai_says,
    serve,
)

# The client leaves its sockets to be collected.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

VLLM = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in "
    "the messages. Please reduce the length of the messages."
)
LLAMA = "the request exceeds the available context size. try increasing the context size"
LITELLM = "litellm.ContextWindowExceededError: litellm.BadRequestError: too many tokens"
BEHIND_OPENROUTER = {
    "raw": '{"error": {"message": "prompt is too long: 5000 tokens > 4096 maximum"}}'
}
SERVERS: dict[str, tuple[Reply, int | None]] = {
    "OpenAI": (
        openai_fails(
            400,
            "This model's maximum context length is 4096 tokens. However, your messages resulted "
            "in 5000 tokens. Please reduce the length of the messages.",
            type="invalid_request_error",
            code="context_length_exceeded",
        ),
        4096,
    ),
    "Azure": (
        openai_fails(
            400,
            "This model's maximum context length is 8192 tokens. However, you requested 9500 "
            "tokens (8500 in the messages, 1000 in the completion). Please reduce the length of "
            "the messages or completion.",
            code="context_length_exceeded",
        ),
        7192,
    ),
    "vLLM": (openai_fails(400, VLLM, type="BadRequestError", code=400), 4096),
    "vLLM, without an error within": (
        Reply({"object": "error", "message": VLLM, "type": "BadRequestError", "code": 400}, 400),
        4096,
    ),
    "newer vLLM": (
        openai_fails(
            400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
        ),
        4096,
    ),
    "newest vLLM": (
        openai_fails(
            400,
            "You passed 5000 input tokens and requested 500 output tokens. However, the model's "
            "context length is only 4096 tokens, resulting in a maximum input length of 3596.",
        ),
        3596,
    ),
    "SGLang": (
        openai_fails(
            400, "The input (5000 tokens) is longer than the model's context length (4096 tokens)."
        ),
        4096,
    ),
    "SGLang, with an answer's room": (
        openai_fails(
            400,
            "Requested token count exceeds the model's maximum context length of 4096 tokens. You "
            "requested a total of 5500 tokens: 5000 tokens from the input messages and 500 tokens "
            "for the completion.",
        ),
        3596,
    ),
    "llama.cpp": (
        openai_fails(
            400, LLAMA, type="exceed_context_size_error", n_prompt_tokens=5000, n_ctx=4096
        ),
        4096,
    ),
    "text-generation-inference": (
        Reply(
            {
                "error": "Input validation error: `inputs` must have less than 4095 tokens. "
                "Given: 5000",
                "error_type": "validation",
            },
            422,
        ),
        4095,
    ),
    "OpenRouter": (
        openai_fails(
            400,
            "This endpoint's maximum context length is 4096 tokens. However, you requested about "
            "6000 tokens (5000 of text input, 1000 in the output). Please reduce the length.",
            code=400,
        ),
        3096,
    ),
    "a provider behind OpenRouter": (
        openai_fails(400, "Provider returned error", code=400, metadata=BEHIND_OPENROUTER),
        4096,
    ),
    "Ollama": (openai_fails(400, "the input length exceeds the context length"), None),
    "LiteLLM": (openai_fails(400, LITELLM), None),
    "Groq": (
        openai_fails(
            400,
            "Please reduce the length of the messages or completion.",
            code="context_length_exceeded",
        ),
        None,
    ),
    "Mistral": (
        openai_fails(
            400,
            "Prompt contains 5000 tokens and 0 draft tokens, too large for model with 4096 maximum "
            "context length",
        ),
        4096,
    ),
    "Fireworks": (
        openai_fails(400, "The prompt is too long: 5000, model maximum context length: 4095"),
        4095,
    ),
    "Together": (
        openai_fails(
            422,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: "
            "5000 `inputs` tokens and 512 `max_new_tokens`",
        ),
        3585,
    ),
    "xAI": (
        Reply(
            {
                "code": "Client specified an invalid argument",
                "error": "This model's maximum prompt length is 4096 but the request contains "
                "5000 tokens.",
            },
            400,
        ),
        4096,
    ),
    "a proxy": (openai_fails(413, "Prompt is too long: 5000 tokens > 4096 maximum"), 4096),
    "a proxy that counts bytes": (Reply("<h1>413 Request Entity Too Large</h1>", 413), None),
    "a server that validates": (openai_fails(422, VLLM), 4096),
}
"""What each says to a client of OpenAI's, and the window that is learned from it."""


def claude(url: str) -> BaseChatModel:
    return ChatAnthropic(model="claude-local", base_url=url, api_key="dummy", max_retries=0)


def gemini(url: str) -> BaseChatModel:
    return ChatGoogleGenerativeAI(
        model="gemini-2.5-flash", base_url=url, api_key="dummy", max_retries=1
    )


def responses(url: str) -> BaseChatModel:
    return ChatOpenAI(
        model="local", base_url=f"{url}/v1", api_key="dummy", max_retries=0, use_responses_api=True
    )


def ollama(url: str) -> BaseChatModel:
    kind: Any = pytest.importorskip("langchain_ollama").ChatOllama
    return kind(model="llama3", base_url=url)


def bedrock(url: str) -> BaseChatModel:
    kind: Any = pytest.importorskip("langchain_aws").ChatBedrockConverse
    keys = {"aws_access_key_id": "dummy", "aws_secret_access_key": "dummy"}
    return kind(
        model="anthropic.claude-3-sonnet-20240229-v1:0",
        endpoint_url=url,
        region_name="us-east-1",
        **keys,
    )


CLAUDE = "prompt is too long: 215432 tokens > 200000 maximum"
CLIENTS: dict[str, tuple[Callable[[str], BaseChatModel], Reply, Reply, int | None]] = {
    "OpenAI, Responses": (
        responses,
        openai_fails(
            400,
            "Your input exceeds the context window of this model. Please adjust your input.",
            code="context_length_exceeded",
        ),
        openai_responds("ok"),
        None,
    ),
    "OpenAI, Responses, with sizes": (
        responses,
        openai_fails(
            400,
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
            "300000 tokens. Please reduce the length of the messages.",
        ),
        openai_responds("ok"),
        272_000,
    ),
    "Anthropic": (claude, anthropic_fails(400, CLAUDE), anthropic_says("ok"), 200_000),
    "Anthropic, with an answer's room": (
        claude,
        anthropic_fails(
            400,
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease "
            "input length or `max_tokens` and try again",
        ),
        anthropic_says("ok"),
        178_667,
    ),
    "Anthropic, bytes": (
        claude,
        anthropic_fails(413, "Request exceeds the maximum size", "request_too_large"),
        anthropic_says("ok"),
        None,
    ),
    "Gemini": (
        gemini,
        gemini_fails(
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576).",
            "INVALID_ARGUMENT",
        ),
        gemini_says("ok"),
        1_048_576,
    ),
    "Ollama": (
        ollama,
        Reply({"error": "the input length exceeds the context length"}, 400),
        ollama_says("ok"),
        None,
    ),
    "Claude on Bedrock": (
        bedrock,
        bedrock_fails(f"The model returned the following errors: {CLAUDE}"),
        bedrock_says("ok"),
        200_000,
    ),
    "Bedrock": (
        bedrock,
        bedrock_fails("Input is too long for requested model."),
        bedrock_says("ok"),
        None,
    ),
    "Nova on Bedrock": (
        bedrock,
        bedrock_fails(
            "The model returned the following errors: Input Tokens Exceeded: Number of input "
            "tokens exceeds maximum length. Please update the input to try again."
        ),
        bedrock_says("ok"),
        None,
    ),
}
"""Clients of other APIs: what their servers say, and the window that is learned from it."""


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


async def check(
    provider: Provider, door: str, model: BaseChatModel, window: int | None, *, is_async: bool
) -> None:
    """Ask once; the first prompt is refused, and the second one is answered."""
    memory, graph = build(door, model)
    parts = await ask(graph, is_async=is_async)
    sizes = [len(json.dumps(request.body)) for request in provider.requests]
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]
    assert of_kind(parts, "view-trimmed")
    assert graph.get_state(on_thread()).values["messages"][-1].text == "ok"
    assert memory.actor_window == window


@pytest.mark.parametrize("door", ["agent", "middleware"])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_server_that_says_the_prompt_is_too_long_is_sent_a_shorter_one(
    provider: Provider, door: str, server: str, *, is_async: bool
) -> None:
    reply, window = SERVERS[server]
    provider.says(reply, openai_says("ok"))
    await check(provider, door, local(provider.url), window, is_async=is_async)


@pytest.mark.parametrize("door", ["agent", "middleware"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_clients_of_other_apis_raise_what_is_understood(
    provider: Provider, door: str, client: str, *, is_async: bool
) -> None:
    make, fails, says, window = CLIENTS[client]
    provider.says(fails, says)
    await check(provider, door, make(provider.url), window, is_async=is_async)


@pytest.mark.parametrize("door", ["agent", "middleware"])
@pytest.mark.parametrize(
    ("reply", "tries"), [(SERVERS["vLLM"][0], 3), (openai_fails(400, "no such tool"), 1)]
)
async def test_error_that_stays_or_is_another_is_the_servers(
    provider: Provider, door: str, reply: Reply, tries: int
) -> None:
    provider.says(reply)
    with pytest.raises(openai.BadRequestError):
        await ask(build(door, local(provider.url))[1], is_async=False)
    assert len(provider.requests) == tries


def test_words_alone_are_no_overflow() -> None:
    class RateLimitError(Exception):
        status_code = 429

    assert not is_context_overflow(RateLimitError(VLLM))
    assert not is_context_overflow(ValueError(VLLM))


def test_words_of_a_prompt_that_an_error_repeats_tell_no_window() -> None:
    class ValidationError(Exception):
        status_code = 422
        body = MappingProxyType({"detail": "bad tool", "input": f"{CLAUDE}, it said"})

    assert not is_context_overflow(ValidationError("422"))
    assert read_overflow(ValidationError("422")) == (None, None)
