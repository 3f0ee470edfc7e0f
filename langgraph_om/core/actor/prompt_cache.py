"""How much of the Actor's prompts came from its provider's cache, and why it was little.

A provider reads the beginning of a prompt that it has kept for a tenth of the price. It has to be
the same text, of the same model, and not older than the provider keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.content.blocks import find_cache_life
from langgraph_om.core.wire import MemoryRecord

_MIN_CALLS: Final = 5
_MIN_HITS: Final = 0.2
_MIN_PROMPT: Final = 2000
"""Tokens of a prompt that providers cache."""
_MANY_CHANGES: Final = 0.5
"""Of the answers, how many may follow a change of the log before it explains the cache."""


@dataclass(frozen=True, slots=True)
class CacheReading:
    """What answers tell of their provider's cache."""

    calls: int
    """Answers that tell."""
    cached: int
    """Tokens that came from the cache."""
    total: int
    """Tokens of all prompts."""

    @property
    def share(self) -> float:
        """The part of the tokens that came from the cache."""
        return self.cached / max(1, self.total)

    @property
    def is_broken(self) -> bool:
        """Whether prompts that a provider caches were read anew nearly every time."""
        is_worth_it = self.calls >= _MIN_CALLS and self.total / self.calls >= _MIN_PROMPT
        return is_worth_it and self.share < _MIN_HITS


@dataclass(frozen=True, slots=True)
class CacheReason:
    """Why prompts were read anew."""

    kind: Literal["models", "pauses", "log", "prompt"]
    text: str
    """The reason and what to do, in one or two sentences."""


def read_cache(messages: Sequence[BaseMessage]) -> CacheReading | None:
    """Return what the answers of a conversation tell; `None` where none tells anything."""
    calls = cached = total = 0
    for message in messages:
        usage: Any = message.usage_metadata if isinstance(message, AIMessage) else None
        details = (usage or {}).get("input_token_details") or {}
        if not usage or not usage.get("input_tokens") or details.get("cache_read") is None:
            continue  # many models do not say, which is no zero
        calls += 1
        total += usage["input_tokens"]
        cached += details["cache_read"]
    return CacheReading(calls, cached, total) if calls else None


def find_reason(messages: Sequence[BaseMessage], record: MemoryRecord) -> CacheReason:
    """Return why the answers of a conversation were read anew, as far as they and memory tell."""
    answers = [message for message in messages if isinstance(message, AIMessage)]
    models = [str(answer.response_metadata.get("model_name") or "") for answer in answers]
    named = [model for model in models if model]
    changes = sum(before != after for before, after in pairwise(named))
    if changes and changes >= _MIN_HITS * len(named):
        names = " and ".join(sorted(set(named)))
        return CacheReason(
            "models",
            f"The model changed {changes} times in {len(named)} answers ({names}), and each has a "
            "cache of its own: keep one model for a conversation",
        )
    stamps = (record["stamps"].get(str(message.id)) for message in messages)
    times = [datetime.fromisoformat(stamp) for stamp in stamps if stamp]
    life = find_cache_life(reversed(messages))
    pauses = sum((after - before).total_seconds() > life for before, after in pairwise(times))
    if pauses and pauses >= _MIN_HITS * len(answers):
        return CacheReason(
            "pauses",
            f"{pauses} pauses in {len(answers)} answers were longer than the {life:,} seconds for "
            "which the provider keeps a prompt. Set activate_after_idle='auto' to bring memory up "
            "to date while the cache is cold anyway, or have the provider keep prompts longer",
        )
    keys = {str(message.id) for message in messages}
    new = sum(any(last in keys for _, last in group["ranges"]) for group in record["log"])
    if answers and new >= _MANY_CHANGES * len(answers):
        return CacheReason(
            "log",
            f"The log changed {new} times in {len(answers)} answers, and what follows a change is "
            "not in the cache: raise message_tokens or buffer_tokens, so that it changes less "
            "often",
        )
    return CacheReason(
        "prompt",
        "Memory's prefix stays the same between observations; check that the agent's own system "
        "prompt does too (no time of day in it), that its tools keep their order, and that "
        "caching is switched on",
    )
