"""The identity of content: equal to a reader means an equal digest, in every release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.core.values import as_mapping, as_sequence, repr_text


def content_digest(message: BaseMessage) -> str:
    """Return 16 hex digits that change when what a reader sees of the message changes.

    Type, content, tool calls, reasoning, `tool_call_id` and `status` count; the message's id,
    usage and response metadata do not.
    """
    fields = vars(message)
    content = fields.get("content")
    head = _PLAIN_HEADS.get(type(message))
    if head is not None and isinstance(content, str) and _is_plain(fields):
        return hashlib.blake2b(head + b"\0" + _utf8(content), digest_size=8).hexdigest()
    # The separator tells a text from a list of blocks; a head holds neither byte.
    body = b"\0" + _utf8(content) if isinstance(content, str) else b"\1" + _canonical(content)
    return hashlib.blake2b(_digest_head(fields) + body, digest_size=8).hexdigest()


def _is_plain(fields: Mapping[str, Any]) -> bool:
    """Tell whether a message is text and nothing else; nearly all are, and are read often."""
    extras = fields.get("additional_kwargs")
    return (
        not fields.get("tool_calls")
        and not fields.get("invalid_tool_calls")
        and isinstance(extras, dict)
        and not ("function_call" in extras or "reasoning_content" in extras)
    )


_PLAIN_HEADS: Final[Mapping[type[BaseMessage], bytes]] = {
    HumanMessage: b'"human"',
    AIMessage: b'"ai"',
}
"""What `_digest_head` gives for messages that are text and nothing else."""


def _digest_head(fields: Mapping[str, Any]) -> bytes:
    # A streamed message and its whole form read alike.
    kind = _WHOLE_TYPES.get(str(fields.get("type")), fields.get("type"))
    extras = as_mapping(fields.get("additional_kwargs"))
    parts = [
        _call_identities(fields.get("tool_calls")),
        _call_identities(fields.get("invalid_tool_calls")),
        *(fields.get(name) for name in ("tool_call_id", "status", "role")),
        *(extras.get(name) for name in ("function_call", "reasoning_content")),
    ]
    return _canonical([kind, *parts]) if any(parts) else _canonical(kind)


_WHOLE_TYPES: Final[Mapping[str, str]] = {
    "HumanMessageChunk": "human",
    "AIMessageChunk": "ai",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "function",
    "ChatMessageChunk": "chat",
}


def _call_identities(calls: object) -> list[Any]:
    return [
        [call.get(key) for key in ("name", "args", "id")] if isinstance(call, Mapping) else call
        for call in as_sequence(calls)
    ]


def _canonical(value: object) -> bytes:
    """Return the one JSON form of a value; keys are sorted, and escapes keep it plain ASCII."""
    try:
        text = json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)
    except Exception:  # noqa: BLE001  (recursive, too deep, odd keys, a failing `__str__`)
        text = json.dumps(repr_text(value))
    return text.encode("ascii")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Halves of one pair become one character, as JSON would read them.
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "surrogatepass")
