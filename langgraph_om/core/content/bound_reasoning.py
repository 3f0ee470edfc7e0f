"""Reasoning that a provider has signed together with all that stood before it.

Claude's reasoning is accepted again only behind the system prompt, the tools and the messages that
it was made behind, whoever serves the model. Reasoning of other providers belongs to its own answer
alone: OpenAI's items, and the signatures of Gemini's thoughts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.content.blocks import unwrapped

_OTHER_PROVIDERS: Final = ("google_", "openai", "azure", "xai", "groq", "mistral", "deepseek")
"""How the names begin of providers whose reasoning is not bound, but where they serve Claude."""

_SIGNED_IN: Final = ("extras", "reasoning_content", "reasoningContent", "reasoningText")
"""Where a block of reasoning may have its signature, or what is redacted of it."""

_SIGNATURES: Final = ("signature", "redacted_content", "redactedContent")
_TYPES: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_LEVELS: Final = 3

_OTHER_VIEW: Final = "om_other_view"
"""In the response metadata of an answer to a view that only its own call was given."""


def holds_bound_reasoning(message: BaseMessage) -> bool:
    """Return whether an answer holds reasoning that is valid behind one prefix alone."""
    if not isinstance(message, AIMessage):
        return False
    content, thinking = message.content, message.additional_kwargs.get("thinking")
    if thinking is None and not isinstance(content, list):  # nearly all are text
        return False
    blocks = content if isinstance(content, list) else []
    is_signed = any(map(_is_signed, blocks)) or _is_signed_value(thinking)  # as in ChatBedrock
    return is_signed and _may_be_claude(message)


def without_bound_reasoning(message: BaseMessage) -> BaseMessage | None:
    """Return an answer without its bound reasoning, all else as it is; `None` when nothing is left.

    A message that holds none is returned itself.
    """
    if not holds_bound_reasoning(message) or not isinstance(message, AIMessage):
        return message
    update: dict[str, Any] = {}
    if isinstance(message.content, list):
        update["content"] = [block for block in message.content if not _is_signed(block)]
    extras = message.additional_kwargs
    if _is_signed_value(extras.get("thinking")):
        update["additional_kwargs"] = {k: v for k, v in extras.items() if k != "thinking"}
    rest = message.model_copy(update=update)
    return rest if rest.content or rest.tool_calls or rest.invalid_tool_calls else None


def mark_other_view(message: BaseMessage) -> BaseMessage:
    """Mark an answer to a view that later views do not continue: it was made shorter for a retry.

    The mark is part of the message, so it holds wherever the conversation is taken up again.
    """
    if not isinstance(message, AIMessage):
        return message
    metadata = {**message.response_metadata, _OTHER_VIEW: True}
    return message.model_copy(update={"response_metadata": metadata})


def answers_other_view(message: BaseMessage) -> bool:
    """Return whether an answer was made to a view that later views do not continue."""
    return isinstance(message, AIMessage) and bool(message.response_metadata.get(_OTHER_VIEW))


def _is_signed(block: object) -> bool:
    """Return whether a block of content is reasoning with a signature, or redacted reasoning."""
    block = unwrapped(block)
    if not isinstance(block, Mapping):
        return False
    if block.get("type") not in _TYPES and "reasoningContent" not in block:
        return False
    return block.get("type") == "redacted_thinking" or _is_signed_value(block)


def _is_signed_value(value: object) -> bool:
    for _ in range(_LEVELS):
        if not isinstance(value, Mapping):
            return False
        if any(value.get(name) for name in _SIGNATURES):
            return True
        value = next((value[name] for name in _SIGNED_IN if name in value), None)
    return False


def _may_be_claude(message: AIMessage) -> bool:
    metadata = message.response_metadata
    model = metadata.get("model_name") or metadata.get("model") or metadata.get("model_id") or ""
    if "claude" in str(model).casefold():
        return True
    return not str(metadata.get("model_provider", "")).startswith(_OTHER_PROVIDERS)


# Which provider made an answer.


def find_provider(message: BaseMessage) -> str | None:
    """Return the provider that an answer names; `None` where it names none."""
    if not isinstance(message, AIMessage):
        return None
    named = message.response_metadata.get("model_provider")
    return named if isinstance(named, str) and named else None


def has_provider_changed(newest_first: Iterable[BaseMessage]) -> bool:
    """Return whether the newest answer is of another provider than the one before it.

    Answers that name no provider are passed over.

    Args:
        newest_first: The messages of a conversation, the newest first.
    """
    newest = None
    for message in newest_first:
        provider = find_provider(message)
        if newest is not None and provider is not None:
            return provider != newest
        newest = newest or provider
    return False
