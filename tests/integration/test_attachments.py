"""The Observer sees what is attached to messages, if its model can; nobody else, and nothing more.

Up to the wire: what a provider is sent is read from the requests of the real clients.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om import ObservationalMemory, StepResult
from langgraph_om.testing import ExtractiveReflector, ScriptedChatModel
from support.clock import Clock
from support.wire_server import (
    Provider,
    Reply,
    gemini_fails,
    gemini_says,
    google,
    openai,
    openai_fails,
    openai_says,
    serve,
)

NOTED = "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User showed a cat\n</observations>"
RAW = b"\x89PNG\r\n\x1a\n" + bytes(60)
PNG = b64encode(RAW).decode()
PDF = b64encode(b"%PDF-1.7 " + bytes(60)).decode()
WEB = {"type": "image", "url": "http://203.0.113.9/dog.png?key=secret"}
FILE = {"type": "file", "base64": PDF, "mime_type": "application/pdf", "filename": "lease.pdf"}
WORDS = "We are planning a trip to Lisbon. " * 20
SAID: list[BaseMessage] = [
    HumanMessage(
        [WORDS, {"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"}], id="h"
    ),
    AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c"}], id="a"),
    ToolMessage([WORDS, FILE, WEB], tool_call_id="c", name="look", id="t"),
    AIMessage("A cat, a lease and a dog.", id="b"),
    HumanMessage(WORDS * 4, id="live"),
]
EYES = {"image_inputs": True, "pdf_inputs": False}
BLIND = {"image_inputs": False, "pdf_inputs": False}

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.fixture(autouse=True)
def lookups(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every host that was looked up or called; it must be the provider's alone."""
    called: list[Any] = []
    connect = socket.socket.connect

    def noted(self: socket.socket, address: Any) -> None:
        called.append(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    yield called
    assert all("203.0.113.9" not in str(address) for address in called)


@pytest.fixture(scope="module", autouse=True)
def _collect_sockets() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def scripted(*replies: Any, profile: Mapping[str, Any] | None = None) -> ScriptedChatModel:
    return ScriptedChatModel(
        observer=list(replies) or [NOTED],
        reflector=ExtractiveReflector().reply,
        **({"profile": dict(profile)} if profile is not None else {}),
    )


def remembering(model: Any, **options: Any) -> ObservationalMemory:
    """A memory that observes once for `SAID`."""
    observation = {"message_tokens": 2500, "buffer_tokens": False}
    return ObservationalMemory(model, observation=observation, clock=Clock(), **options)


async def observe(
    memory: ObservationalMemory, messages: Sequence[BaseMessage] = SAID, *, is_async: bool = False
) -> StepResult:
    if is_async:
        return await memory.astep(None, messages, thread_id="t")
    return await asyncio.to_thread(memory.step, None, messages, thread_id="t")


def is_noted(result: StepResult) -> bool:
    return any("User showed a cat" in group["text"] for group in result.record["log"])


def shown(model: ScriptedChatModel, call: int = 0) -> list[dict[str, Any]]:
    """The blocks of a question that are no texts."""
    content = model.calls[call]["messages"][1].content
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block["type"] != "text"]


def kinds(model: ScriptedChatModel, call: int = 0) -> list[str]:
    return [block["type"] for block in shown(model, call)]


# --- What a model is sent ------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (EYES, ["image"]),
        ({**EYES, "pdf_inputs": True}, ["image", "file"]),
        (BLIND, []),
        (None, ["image", "file"]),
    ],
)
async def test_the_models_profile_decides(
    profile: Any, expected: list[str], *, is_async: bool
) -> None:
    model = scripted(profile=profile)
    assert is_noted(await observe(remembering(model), is_async=is_async))
    assert kinds(model) == expected
    prompt = str(model.calls[0]["messages"][1].content)
    for placeholder in ("[Image #1: image/png]", "[File #1: lease.pdf]", "[Image #2: dog.png]"):
        assert placeholder in prompt
    assert "secret" not in prompt


async def test_what_a_hook_takes_out_is_not_sent() -> None:
    def redact(messages: list[BaseMessage], _: Any) -> list[BaseMessage]:
        for message in messages:
            if isinstance(message, HumanMessage):
                message.content = [WORDS, "[removed]"]
        return messages

    model = scripted(profile={**EYES, "pdf_inputs": True})
    memory = remembering(model, hooks={"before_observation": redact})
    assert is_noted(await observe(memory))
    assert kinds(model) == ["file"]
    assert PNG[:20] not in str(model.calls[0]["messages"])


# --- What a model refuses ------------------------------------------------------------------------


class RefusedError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status


@both_ways
@pytest.mark.parametrize(
    "error",
    [
        RefusedError(400, "Bad."),
        RefusedError(400, "Invalid content type. image_url is only supported by certain models."),
        RefusedError(400, "messages[1].content must be a string"),
        RefusedError(404, "No endpoints found that support image input"),
        RefusedError(413, "Request too large"),
        RefusedError(422, "unknown variant `image_url`, expected `text`"),
        RefusedError(500, "image input is not supported - hint: provide the mmproj"),
        ValueError("Block of type file is not supported."),
    ],
)
async def test_a_model_that_refuses_them_is_asked_without(error: Any, *, is_async: bool) -> None:
    model = scripted(error, NOTED)
    assert is_noted(await observe(remembering(model), is_async=is_async))
    assert [kinds(model, at) for at in (0, 1)] == [["image", "file"], []]
    assert isinstance(model.calls[1]["messages"][1].content, str)


# --- Over the wire -------------------------------------------------------------------------------


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serve() as provider:
        yield provider


Maker = Callable[..., Any]


def text_part(part: Mapping[str, Any]) -> str:
    return str(part.get("text", ""))


@both_ways
async def test_openai_is_sent_images_files_and_urls(provider: Provider, *, is_async: bool) -> None:
    provider.says(openai_says(NOTED))
    assert is_noted(await observe(remembering(openai(provider)), is_async=is_async))
    (request,) = provider.requests
    parts = request.body["messages"][1]["content"]
    assert [part["type"] for part in parts] == [
        *("text", "text", "image_url", "text", "file", "text", "image_url", "text")
    ]
    assert parts[2]["image_url"]["url"] == f"data:image/png;base64,{PNG}"
    assert parts[4]["file"]["filename"] == "lease.pdf"
    assert parts[4]["file"]["file_data"] == f"data:application/pdf;base64,{PDF}"
    assert parts[6]["image_url"]["url"] == WEB["url"]
    labels = [text_part(parts[at]).splitlines()[-1] for at in (1, 3, 5)]
    assert labels == ["[Image #1: image/png]", "[File #1: lease.pdf]", "[Image #2: dog.png]"]


@both_ways
async def test_gemini_is_sent_images_and_files_and_no_url(
    provider: Provider, *, is_async: bool
) -> None:
    provider.says(gemini_says(NOTED))
    assert is_noted(await observe(remembering(google(provider)), is_async=is_async))
    (request,) = provider.requests
    parts = request.body["contents"][0]["parts"]
    data = [part["inlineData"] for part in parts if "inlineData" in part]
    assert [each.get("mimeType") or each["mime_type"] for each in data] == [
        "image/png",
        "application/pdf",
    ]
    assert [each["data"].rstrip("=") for each in data] == [PNG.rstrip("="), PDF.rstrip("=")]
    assert "</conversation>" in text_part(parts[-1])
    assert "secret" not in json.dumps(request.body)


@pytest.mark.parametrize(
    ("make", "bad", "good"),
    [
        (
            openai,
            openai_fails(400, "Invalid content type. image_url is not supported."),
            openai_says(NOTED),
        ),
        (
            google,
            gemini_fails(400, "Unable to process input image.", "INVALID_ARGUMENT"),
            gemini_says(NOTED),
        ),
    ],
)
async def test_a_provider_that_refuses_them_is_asked_without(
    provider: Provider, make: Maker, bad: Reply, good: Reply
) -> None:
    provider.says(bad, good)
    assert is_noted(await observe(remembering(make(provider))))
    first, second = (json.dumps(request.body) for request in provider.requests)
    assert PNG[:40] in first
    assert PNG[:40] not in second
    assert "[Image #1: image/png]" in second
