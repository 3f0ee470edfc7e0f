"""A model provider on the loopback interface: says what a test wrote down, keeps what it was sent.

It speaks the JSON of OpenAI's chat completions and of Gemini's `generateContent`, so that the real
clients are tested with everything between them and the wire.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_openai import ChatOpenAI


@dataclass(frozen=True)
class Reply:
    """One answer of the provider."""

    body: Any = field(default_factory=dict)
    """A JSON value, or a list of them when `streams` is set."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    streams: bool = False
    """Whether the body is sent as server-sent events."""
    hangs: bool = False
    """Whether nothing is sent until the test is over."""


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: dict[str, Any]


class Provider:
    """Replies in order, of which the last one repeats, and the requests they answered."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.requests: list[Request] = []
        self.url = ""
        self.over = threading.Event()
        self.hanging = 0
        """How many requests wait for the end of the test."""
        self.numbers = itertools.count(1)
        self.keeps_alive = False
        """Whether connections stay open for further requests."""
        self._lock = threading.Lock()

    def says(self, *replies: Reply) -> None:
        """Write the script."""
        self.replies = list(replies)

    def take(self, request: Request) -> Reply:
        """Note a request and return what answers it."""
        with self._lock:
            self.requests.append(request)
            return self.replies[min(len(self.requests), len(self.replies)) - 1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: Provider

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length", 0))
        sent = json.loads(self.rfile.read(size) or b"{}")
        reply = self.provider.take(
            Request(self.path, {name.lower(): value for name, value in self.headers.items()}, sent)
        )
        body = json.dumps(reply.body)
        for made in ("c1", "m1", "r1"):  # clients make messages' ids of them
            body = body.replace(f'"{made}"', f'"{made}-{next(self.provider.numbers)}"')
        reply = replace(reply, body=json.loads(body))
        if reply.hangs:
            self.provider.hanging += 1
            self.provider.over.wait()
            self.close_connection = True
            return
        if reply.streams:
            events = [
                "".join(f"event: {chunk[name]}\n" for name in ("type",) if name in chunk)
                + f"data: {json.dumps(chunk)}\n\n"
                for chunk in reply.body
            ]
            if "chat/completions" in self.path:
                events.append("data: [DONE]\n\n")
            data, kind = "".join(events).encode(), "text/event-stream"
        else:
            data, kind = json.dumps(reply.body).encode(), "application/json"
        self.send_response(reply.status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        if not self.provider.keeps_alive:
            self.send_header("connection", "close")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Say nothing on the terminal."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: Any) -> None:
        """Say nothing of clients that are gone."""


@contextmanager
def serve(provider: Provider | None = None) -> Iterator[Any]:
    """Run a provider in a thread for as long as the context lasts."""
    provider = Provider() if provider is None else provider
    handler = type("Handler", (_Handler,), {"provider": provider})
    server = _Server(("127.0.0.1", 0), handler)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def reach(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models that are named by a string call the provider, also in processes of the test."""
    monkeypatch.setenv("OPENAI_API_KEY", "dummy")
    monkeypatch.setenv("OPENAI_API_BASE", f"{provider.url}/v1")
    monkeypatch.setenv("GOOGLE_API_KEY", "dummy")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", provider.url)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)


# --- What OpenAI says ----------------------------------------------------------------------------


def openai_says(content: Any, finish: str = "stop", **message: Any) -> Reply:
    """A chat completion."""
    return Reply(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-6-luna",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content, **message},
                    "finish_reason": finish,
                }
            ],
            "usage": {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940},
        }
    )


def openai_responds(*texts: str, status: str = "completed", reason: str | None = None) -> Reply:
    """An answer of the responses API: a summary of thoughts, then texts as blocks."""
    thought = {"type": "summary_text", "text": "The user plans a trip."}
    blocks = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    said = {"id": "m1", "type": "message", "role": "assistant", "status": status, "content": blocks}
    return Reply(
        {
            "id": "r1",
            "object": "response",
            "created_at": 1,
            "model": "gpt-6-luna",
            "status": status,
            "incomplete_details": {"reason": reason} if reason else None,
            "output": [
                {"id": "t1", "type": "reasoning", "summary": [thought]},
                *([said] if texts else []),
            ],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 900,
                "output_tokens": 40,
                "total_tokens": 940,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 20},
            },
        }
    )


def openai_responds_in_pieces(text: str) -> Reply:
    """An answer of the responses API as a stream of events."""
    whole = openai_responds(text).body
    at = {"item_id": "m1", "output_index": 1, "content_index": 0}
    events = [
        {"type": "response.created", "response": {**whole, "output": []}},
        {"type": "response.output_text.delta", **at, "delta": text, "logprobs": []},
        {"type": "response.completed", "response": whole},
    ]
    return Reply([{**event, "sequence_number": n} for n, event in enumerate(events)], streams=True)


def openai_streams(*texts: str, finish: str = "stop") -> Reply:
    """A chat completion in pieces."""
    deltas: list[tuple[dict[str, Any], str | None]] = [({"content": text}, None) for text in texts]
    chunks = [
        {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-6-luna",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        for delta, reason in [({"role": "assistant", "content": ""}, None), *deltas, ({}, finish)]
    ]
    return Reply(chunks, streams=True)


def openai_fails(status: int, text: str, *, headers: Any = None, **fields: Any) -> Reply:
    """An error of OpenAI's API."""
    error = {"message": text, "type": "error", "param": None, "code": None, **fields}
    return Reply({"error": error}, status, headers or {})


# --- What others say -----------------------------------------------------------------------------


def anthropic_says(text: str) -> Reply:
    """A message of Claude."""
    return Reply(
        {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 900, "output_tokens": 40},
        }
    )


def anthropic_streams(text: str) -> Reply:
    """A message of Claude in pieces."""
    begun = {**anthropic_says("").body, "content": [], "stop_reason": None}
    block = {"index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"index": 0, "delta": {"type": "text_delta", "text": text}}
    ended = {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 40}}
    events = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", **block},
        {"type": "content_block_delta", **delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", **ended},
        {"type": "message_stop"},
    ]
    return Reply(events, streams=True)


def anthropic_fails(status: int, text: str, kind: str = "invalid_request_error") -> Reply:
    """An error of Anthropic's API."""
    return Reply({"type": "error", "error": {"type": kind, "message": text}}, status)


def gemini_says(*parts: Any, finish: str = "STOP") -> Reply:
    """A candidate of such parts; a text stands for a part of text."""
    return Reply(_gemini_body(parts, finish))


def gemini_streams(*texts: str, finish: str = "STOP") -> Reply:
    """The same in pieces."""
    last = len(texts) - 1
    return Reply(
        [_gemini_body([text], finish if at == last else None) for at, text in enumerate(texts)],
        streams=True,
    )


def _gemini_body(parts: Any, finish: str | None) -> dict[str, Any]:
    made = [{"text": part} if isinstance(part, str) else part for part in parts]
    candidate = {"content": {"role": "model", "parts": made}, "index": 0}
    return {
        "candidates": [{**candidate, **({"finishReason": finish} if finish else {})}],
        "usageMetadata": {
            "promptTokenCount": 900,
            "candidatesTokenCount": 40,
            "totalTokenCount": 940,
        },
        "modelVersion": "gemini-flash-latest",
    }


def gemini_fails(status: int, text: str, code: str, *details: Any) -> Reply:
    """An error of Gemini's API."""
    error = {"code": status, "message": text, "status": code, "details": list(details)}
    return Reply({"error": error}, status)


def openai(provider: Provider, **options: Any) -> ChatOpenAI:
    """The real client, which is not to try again."""
    options = {"model": "gpt-6-luna", "max_retries": 0, **options}
    return ChatOpenAI(base_url=f"{provider.url}/v1", api_key="dummy", **options)


def google(provider: Provider, **options: Any) -> Any:
    """The real client, which is not to try again."""
    options = {"model": "gemini-flash-latest", "max_retries": 1, **options}
    from langchain_google_genai import ChatGoogleGenerativeAI  # noqa: PLC0415 dear, and rarely used

    return ChatGoogleGenerativeAI(base_url=provider.url, api_key="dummy", **options)


# --- What all of them say today ------------------------------------------------------------------


class Today(Provider):
    """Knows no retired model, and refuses settings that current models do not take, in few words.

    The Observer is answered with a note, everybody else with a polite phrase.
    """

    MODELS = (
        *("gemini-flash-latest", "gemini-flash-lite-latest"),
        *("gpt-6-luna", "gpt-6-sol", "claude-haiku-5-5"),
    )
    REFUSED = ("temperature", "thinkingBudget", "budget_tokens")
    NOTED = "User's boat is red"

    def take(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
        path, sent = request.path, json.dumps(request.body)
        model = request.body.get("model") or path.rpartition("/")[2].partition(":")[0]
        # Google's client has a temperature of its own, which is taken.
        refused = self.REFUSED[1:] if "enerateContent" in path else self.REFUSED
        if model not in self.MODELS:
            return _fails(path, 404, f"The model {model} is not available.")
        if any(f'"{each}"' in sent for each in refused):
            return _fails(path, 400, "Request contains an invalid argument.")
        note = f"<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) {self.NOTED}\n</observations>"
        polite = "That is noted, and I keep it in mind for the rest of our talk. "
        text = note if "<conversation>" in sent else polite * 2
        streams = request.body.get("stream") or ":stream" in path
        if "enerateContent" in path:
            return gemini_streams(text) if streams else gemini_says(text)
        if "/messages" in path:
            return anthropic_streams(text) if streams else anthropic_says(text)
        if "/responses" in path:
            return openai_responds_in_pieces(text) if streams else openai_responds(text)
        return openai_streams(text) if streams else openai_says(text)

    @property
    def observed(self) -> list[dict[str, Any]]:
        """The questions of the Observer."""
        return [each.body for each in self.requests if "<conversation>" in json.dumps(each.body)]

    @property
    def remembered(self) -> list[dict[str, Any]]:
        """The agent's questions that hold the note."""
        bodies = [each.body for each in self.requests if each.body not in self.observed]
        return [body for body in bodies if self.NOTED in json.dumps(body)]


def _fails(path: str, status: int, text: str) -> Reply:
    if "enerateContent" in path:
        return gemini_fails(status, text, "NOT_FOUND" if status == 404 else "INVALID_ARGUMENT")
    return anthropic_fails(status, text) if "/messages" in path else openai_fails(status, text)
