"""Which provider made an answer."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.messages import AIMessage, BaseMessage


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
