"""A model on the loopback interface that thinks, and binds its reasoning to what stands before it.

It speaks the JSON of Anthropic's messages and checks each request as that API says it does: a block
of reasoning is accepted where system prompt, tools and all messages before it are those of the call
that made it, and refused with status 400 otherwise. Cache marks are no part of what is compared.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from support.wire_server import Provider, Reply, Request

_ROUNDS = re.compile(r"\[look up (\d+)\]")


class SigningProvider(Provider):
    """Answers in signed reasoning, and refuses reasoning that stands elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted: list[list[str]] = []
        """Per request that was answered, the signatures that it brought back."""
        self.refused: list[str] = []
        """What requests were refused for."""
        self.limit: int | None = None
        """How many messages a prompt may have."""
        self.checks = True
        """Whether reasoning is compared to what stands before it, as newer models do."""

    def take(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            return self._answer(request.body)

    def _answer(self, body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        if self.limit is not None and len(messages) > self.limit:
            return _refuse("prompt is too long: 9000 tokens > 8000 maximum")
        signatures = []
        for at, message in enumerate(messages):
            for place, block in enumerate(_blocks(message)):
                if block["type"] not in ("thinking", "redacted_thinking"):
                    continue
                signature = block.get("signature") or block.get("data")
                if self.checks and signature != _sign(body, messages[:at]):
                    said = (
                        f"messages.{at}.content.{place}: Invalid `signature` in `thinking` block. "
                        "The block is bound to a different conversation."
                    )
                    self.refused.append(said)
                    return _refuse(said)
                signatures.append(signature)
        self.accepted.append(signatures)
        return Reply(self._say(body, len(self.requests)))

    def _say(self, body: dict[str, Any], number: int) -> dict[str, Any]:
        asked, done = "", 0
        for message in body["messages"]:
            for block in _blocks(message):
                if block["type"] == "text" and message["role"] == "user":
                    asked, done = (block["text"], 0) if "I am" in block["text"] else (asked, done)
                done += block["type"] == "tool_result"
        found = _ROUNDS.search(asked)
        content: list[dict[str, Any]] = [_think(number, _sign(body, body["messages"]))]
        if found and done < int(found[1]):
            use = {"type": "tool_use", "id": f"toolu_{number}", "name": "search"}
            content.append({**use, "input": {"query": f"museum {number}"}})
        else:
            content.append(
                {"type": "text", "text": f"Answer {number}. " + "I suggest a walk. " * 5}
            )
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "tool_use" if content[-1]["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 900, "output_tokens": 40},
        }


def _think(number: int, signature: str) -> dict[str, Any]:
    """Think aloud, or now and then in a way that may not be read."""
    if number % 5 == 0:
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": f"Thought {number}.", "signature": signature}


def _sign(body: dict[str, Any], prefix: list[dict[str, Any]]) -> str:
    seen = [body.get("system"), body.get("tools"), prefix]
    text = json.dumps(_without_marks(seen), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_marks(each) for key, each in value.items() if key != "cache_control"}
    return [_without_marks(each) for each in value] if isinstance(value, list) else value


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _refuse(text: str) -> Reply:
    error = {"type": "invalid_request_error", "message": text}
    return Reply({"type": "error", "error": error}, 400)
