"""Observer and Reflector over the wire: real clients, and what is committed of each answer."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langgraph_om import ObservationalMemory, StepResult
from support.clock import Clock
from support.wire_server import (
    Provider,
    Reply,
    Request,
    gemini_says,
    google,
    openai,
    openai_responds,
    openai_says,
    reach,
    serve,
)

NOTED = (
    "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User goes to Lisbon with Ana\n</observations>"
)


SAID = [HumanMessage("We are planning a trip to Lisbon. " * 20, id=f"h{at}") for at in range(2)]


CHAT = "/v1/chat/completions"


GEMINI = "/v1/models/gemini-flash-lite-latest:generateContent"


def of_any_version(path: str) -> str:
    """Return a path without the version of Google's interface, which its client chooses."""
    return path.replace("/v1beta/", "/v1/")


OPENAI, GOOGLE = "openai/gpt-6-luna", "google/gemini-flash-lite-latest"


# Clients leave their sockets to be collected: some keep them after a refusal or a deadline.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(scope="module", autouse=True)
def _collect_sockets() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with serve() as provider:
        reach(provider, monkeypatch)
        yield provider


Maker = Callable[..., Any]


def remembering(model: Any, *, settings: Any = None, **options: Any) -> ObservationalMemory:
    """A memory that observes once for `SAID`."""
    given = {} if settings is None else {"model_settings": settings}
    return ObservationalMemory(
        model,
        observation={
            "message_tokens": 300,
            "buffer_tokens": False,
            "previous_observer_tokens": 0,
            **given,
        },
        clock=Clock(),
        **{"deadline": 20.0, **options},
    )


async def observe(memory: ObservationalMemory, *, is_async: bool = False) -> StepResult:
    if is_async:
        return await memory.astep(None, SAID, thread_id="t")
    return await asyncio.to_thread(memory.step, None, SAID, thread_id="t")


def noted(result: StepResult) -> list[str]:
    return [group["text"] for group in result.record["log"]]


def failure(result: StepResult) -> str:
    """Why nothing was observed; the turn went on, and every message is still shown."""
    assert noted(result) == []
    assert not result.aborted
    assert result.record["cursor"] == []
    assert [message.id for message in result.messages] == [message.id for message in SAID]
    (error,) = [
        part["data"]["error"]
        for part in result.events
        if part["type"] == "data-om-observation-failed"
    ]
    return str(error)


def sent(request: Request) -> dict[str, Any]:
    """The settings that a request carries."""
    known = ("temperature", "max_tokens", "max_completion_tokens", "stream", "stream_options")
    if request.path == CHAT:
        return {key: request.body[key] for key in known if request.body.get(key) is not None}
    config = dict(request.body.get("generationConfig", {}))
    config.pop("candidateCount", None)
    return config


both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


# --- What is asked -------------------------------------------------------------------------------


@both_ways
async def test_openai_is_asked_by_system_and_user_in_one_piece(
    provider: Provider, *, is_async: bool
) -> None:
    provider.says(openai_says(NOTED))
    result = await observe(remembering(OPENAI), is_async=is_async)
    assert "Lisbon with Ana" in noted(result)[0]
    (request,) = provider.requests
    assert request.path == CHAT
    assert request.headers["authorization"] == "Bearer dummy"
    assert [m["role"] for m in request.body["messages"]] == ["system", "user"]
    assert "<conversation>" in request.body["messages"][1]["content"]
    assert not request.body.get("stream")
    (end,) = [p["data"] for p in result.events if p["type"] == "data-om-observation-end"]
    assert end["usage"] == {"calls": 1, "inputTokens": 900, "outputTokens": 40}


@both_ways
async def test_gemini_is_asked_by_instruction_and_user_in_one_piece(
    provider: Provider, *, is_async: bool
) -> None:
    provider.says(gemini_says(NOTED))
    result = await observe(remembering("default"), is_async=is_async)
    assert "Lisbon with Ana" in noted(result)[0]
    (request,) = provider.requests
    assert of_any_version(request.path) == GEMINI
    assert [content["role"] for content in request.body["contents"]] == ["user"]
    assert "<conversation>" in request.body["contents"][0]["parts"][0]["text"]
    assert request.body["systemInstruction"]["parts"][0]["text"]


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        (OPENAI, None, {"max_completion_tokens": 100_000}),
        ("openai/own", None, {}),
        ("openai:own", {"temperature": 0.9}, {"temperature": 0.9}),
        (OPENAI, {"max_output_tokens": None, "thinking_budget": 9}, {}),
        (OPENAI, {"temperature": None, "max_output_tokens": 7}, {"max_completion_tokens": 7}),
    ],
)
async def test_openai_is_sent_what_it_takes(
    provider: Provider, name: str, settings: Any, expected: dict[str, Any]
) -> None:
    provider.says(openai_says(NOTED))
    assert noted(await observe(remembering(name, settings=settings)))
    assert sent(provider.requests[0]) == {"stream": False, **expected}


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("gemini-flash-latest", None, {}),
        ("gemini-flash-latest", {"thinking_budget": 0}, {"budget": 0}),
        ("gemini-flash-latest", {"thinking_budget": None, "temperature": 0}, {"temperature": 0}),
        (
            "gemini-flash-latest",
            {"max_output_tokens": 500, "extra": {"top_p": 0.5}},
            {"maxOutputTokens": 500, "topP": 0.5},
        ),
    ],
)
async def test_gemini_is_sent_what_it_takes(
    provider: Provider, name: str, settings: Any, expected: dict[str, Any]
) -> None:
    provider.says(gemini_says(NOTED))
    assert noted(await observe(remembering(f"google/{name}", settings=settings)))
    config = sent(provider.requests[0])
    thinking = config.pop("thinkingConfig", None)
    if thinking:
        config["budget"] = thinking.get("thinkingBudget", thinking.get("thinking_budget"))
    assert config == {"maxOutputTokens": 65_536, **expected}


# --- What is committed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "options", "reply"),
    [
        pytest.param(
            openai,
            {"use_responses_api": True},
            openai_responds(NOTED[:50], NOTED[50:]),
            id="openai, thoughts and blocks",
        ),
        pytest.param(
            google,
            {},
            gemini_says({"text": "Let me think.", "thought": True}, NOTED[:50], NOTED[50:]),
            id="google, thoughts and parts",
        ),
        pytest.param(
            google,
            {"model": "gemini-3-pro-preview", "include_thoughts": True},
            gemini_says({"text": "Let me think.", "thought": True}, NOTED),
            id="google, thoughts in the answer",
        ),
    ],
)
async def test_of_blocks_only_the_text_is_read(
    provider: Provider, make: Maker, options: Any, reply: Reply
) -> None:
    provider.says(reply)
    text = noted(await observe(remembering(make(provider, **options))))[0]
    assert text.endswith("* 🔴 (09:00) User goes to Lisbon with Ana")
    assert "think" not in text


# --- Keys and event loops ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "keys"), [(OPENAI, ["OPENAI_API_KEY"]), (GOOGLE, ["GOOGLE_API_KEY", "GEMINI_API_KEY"])]
)
async def test_a_missing_key_is_an_error_of_the_first_call(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, name: str, keys: list[str]
) -> None:
    for key in keys:
        monkeypatch.delenv(key, raising=False)
    memory = remembering(name)
    error = failure(await observe(memory))
    assert f"set the environment variable {keys[0]}" in error
    assert provider.requests == []
    monkeypatch.setenv(keys[0], "dummy")
    provider.says(openai_says(NOTED) if name == OPENAI else gemini_says(NOTED))
    assert noted(await observe(memory))
