"""Reasoning that is signed with all that stood before it, as Claude's is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from support.agents import SYSTEM


def sign(prefix: Sequence[BaseMessage]) -> str:
    """Sign what a provider sees of the messages before an answer, the agent's own prompt apart."""
    memory = "".join(message.text for message in prefix if message.type == "system")
    seen: list[Any] = [
        [message.type, message.content, getattr(message, "tool_calls", None)]
        for message in prefix
        if message.type != "system"
    ]
    seen.append(memory.replace(SYSTEM, "").strip())
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:16]


def thought(prompt: Sequence[BaseMessage]) -> dict[str, Any]:
    """The reasoning of an answer to this prompt."""
    return {"type": "thinking", "thinking": "Let me see.", "signature": sign(prompt)}


def thinking(prompt: Sequence[BaseMessage], text: str) -> list[Any]:
    """The content of an answer: its reasoning, and its text where there is one."""
    return [thought(prompt), *([{"type": "text", "text": text}] if text else [])]


def without_thoughts(message: BaseMessage) -> BaseMessage:
    """The message as it reads without reasoning."""
    if not isinstance(message, AIMessage) or isinstance(message.content, str):
        return message
    kept = [block for block in message.content if block["type"] != "thinking"]
    return message.model_copy(update={"content": kept})


def thoughts_of(message: BaseMessage) -> list[dict[str, Any]]:
    """The blocks of reasoning in a message."""
    content: Any = message.content if isinstance(message, AIMessage) else ""
    if isinstance(content, str):
        return []
    return [block for block in content if block["type"] == "thinking"]


def misplaced(prompt: Sequence[BaseMessage]) -> list[str]:
    """Law 11: reasoning that stands behind another prefix than that of the call that made it."""
    return [
        f"the reasoning of {message.id} stands behind another prefix"
        for at, message in enumerate(prompt)
        for block in thoughts_of(message)
        if block["signature"] != sign(prompt[:at])
    ]
