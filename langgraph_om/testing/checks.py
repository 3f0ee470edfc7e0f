"""Checks of messages before they are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.errors import ConfigurationError

Provider: TypeAlias = Literal["openai", "anthropic", "gemini"]
"""Whose rules `check_message_sequence` applies."""


def check_message_sequence(messages: Sequence[BaseMessage], provider: Provider) -> list[str]:
    """Return what a provider would reject in these messages, in words; empty if all is well.

    The messages are checked as the input of the next model call. Every provider requires some
    message besides system messages, which come first, and one result for each tool call, directly
    after it. Anthropic and Gemini require a user message first. Anthropic allows empty text only in
    a final assistant message. Gemini requires function calls to follow a user message or a tool
    result, and no assistant message at the end.

        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> check_message_sequence([HumanMessage("hi")], "gemini")
        []
        >>> call = {"name": "search", "args": {}, "id": "call_1"}
        >>> check_message_sequence([HumanMessage("hi"), AIMessage("", tool_calls=[call])], "openai")
        ["messages[1]: the call 'call_1' of `search` has no result"]

    Args:
        messages: The messages, in the order they would be sent.
        provider: Whose rules apply: "openai", "anthropic" or "gemini".
    """
    if provider not in get_args(Provider):
        msg = f"`provider` is {provider!r}; pass 'openai', 'anthropic' or 'gemini'."
        raise ConfigurationError(msg)
    roles = [_get_role(message) for message in messages]
    problems = [*_find_order_problems(roles), *_find_tool_problems(messages, roles, provider)]
    if provider != "openai":
        first = next((i for i, role in enumerate(roles) if role != "system"), None)
        if first is not None and roles[first] != "user":
            problems.append(f"messages[{first}]: the first message is not the user's")
    if provider == "anthropic":
        problems += _find_empty_texts(messages, roles)
    if provider == "gemini":
        problems += _find_turn_problems(messages, roles)
    return problems


_ROLES: dict[type[BaseMessage], str] = {
    SystemMessage: "system",
    HumanMessage: "user",
    AIMessage: "assistant",
    ToolMessage: "tool",
}


def _get_role(message: BaseMessage) -> str:
    """Return the role a message is sent under, or its type when it cannot be sent."""
    if isinstance(message, ChatMessage):
        return {"human": "user", "ai": "assistant"}.get(message.role, message.role)
    return next((role for kind, role in _ROLES.items() if isinstance(message, kind)), message.type)


def _find_order_problems(roles: list[str]) -> Iterator[str]:
    if not any(role != "system" for role in roles):
        yield "there is no message besides system messages"
    has_begun = False
    for i, role in enumerate(roles):
        if role not in {"system", "user", "assistant", "tool"}:
            yield f"messages[{i}]: a message of type {role!r} cannot be sent"
        if role == "system" and has_begun:
            yield f"messages[{i}]: a system message after the conversation has begun"
        has_begun = has_begun or role != "system"


def _find_tool_problems(
    messages: Sequence[BaseMessage], roles: list[str], provider: Provider
) -> Iterator[str]:
    """Find calls and results that do not belong together."""
    caller = -1
    open_calls: dict[str | None, str | None] = {}
    known: set[str | None] = set()
    for i, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            call_id = message.tool_call_id
            if caller < 0:
                yield f"messages[{i}]: a result for {call_id!r} that follows no tool call"
            elif call_id not in known:
                yield f"messages[{i}]: a result for {call_id!r}, which messages[{caller}] lacks"
            elif call_id not in open_calls:
                yield f"messages[{i}]: a second result for {call_id!r}"
            open_calls.pop(call_id, None)
            continue
        yield from _find_unanswered(caller, open_calls)
        calls = [(call["id"], call["name"]) for call in _get_calls(message, provider)]
        open_calls, known = dict(calls), {call_id for call_id, _ in calls}
        if len(known) < len(calls):
            yield f"messages[{i}]: two tool calls with the same id"
        caller = i if roles[i] == "assistant" and known else -1
    yield from _find_unanswered(caller, open_calls)


def _find_unanswered(caller: int, calls: Mapping[str | None, str | None]) -> Iterator[str]:
    for call_id, name in calls.items():
        yield f"messages[{caller}]: the call {call_id!r} of `{name}` has no result"


def _get_calls(message: BaseMessage, provider: Provider) -> list[Any]:
    """Return the calls of a message as they are sent: for OpenAI, unreadable ones too."""
    if not isinstance(message, AIMessage):
        return []
    unreadable = message.invalid_tool_calls if provider == "openai" else ()
    return [*message.tool_calls, *unreadable]


def _find_empty_texts(messages: Sequence[BaseMessage], roles: list[str]) -> Iterator[str]:
    for i, (message, role) in enumerate(zip(messages, roles, strict=True)):
        is_prefill = role == "assistant" and i == len(messages) - 1
        if role not in {"user", "assistant"} or is_prefill or _get_calls(message, "anthropic"):
            continue
        blocks = message.content if isinstance(message.content, list) else [message.content]
        texts = [
            block if isinstance(block, str) else str(block.get("text", ""))
            for block in blocks
            if isinstance(block, str) or block.get("type") == "text"
        ]
        if not blocks or any(not text.strip() for text in texts):
            yield f"messages[{i}]: empty text in {role} message"


def _find_turn_problems(messages: Sequence[BaseMessage], roles: list[str]) -> Iterator[str]:
    for i, message in enumerate(messages):
        before = roles[i - 1] if i else "nothing"
        if _get_calls(message, "gemini") and before not in {"user", "tool"}:
            yield f"messages[{i}]: function calls after {before}, not after user or tool"
    if roles and roles[-1] == "assistant":
        yield f"messages[{len(roles) - 1}]: the last message is the assistant's"
