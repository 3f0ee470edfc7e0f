"""What a memory costs, and what to do about it: pure functions of a state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.actor.view import list_parts
from langgraph_om.core.content.blocks import find_cache_life, find_provider
from langgraph_om.core.step import Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.models.providers import find_small
from langgraph_om.tools.shown import list_trouble

_REMEDIES: Final = {
    "tripwire": 'With on_error="continue" the agent goes on with raw messages',
    "failures": (
        "Nothing is lost, and it is tried again as the conversation grows; check the model's key "
        "and quota, or pass a list of models as fallbacks"
    ),
    "extract": (
        "The next observation asks for it again; a schema with descriptions and fewer required "
        "fields helps"
    ),
    "unread": (
        "`recall` reads the rest; raise `observation.message_tokens` or "
        "`observation.max_tokens_per_batch` to have more read"
    ),
    "overlooked": "Repeat what matters in a new message, or use `remember`",
    "left-out": (
        "Raise `token_budget`, find out why the Observer or the Reflector falls behind, or forget "
        "what is not needed"
    ),
}


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that a person should do about a memory."""

    kind: str
    """One word, for programs."""
    text: str
    """The facts, and what to do."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a memory costs."""

    sections: Mapping[str, int]
    """Tokens of each section of the Actor's prompt, apart from its system prompt and tools."""
    cache_hits: float | None
    """The part of the Actor's input that came from its provider's cache; `None` if no answer in
    the conversation says."""
    advice: list[Advice]


def diagnose(step: Step) -> Diagnosis:
    """Find what costs what, and what can be done about it."""
    reading, record = read_cache(step.messages), step.record
    sections: Counter[str] = Counter()
    for part in list_parts(step.settings, step.view):
        sections[part.name.lower()] += part.tokens
    advice = [Advice(kind, f"{said}. {_REMEDIES[kind]}") for kind, said in list_trouble(record)]
    attempt = record["attempts"].get("reflection")
    still_large = attempt.get("still_large", 0) if attempt else 0
    if still_large > 1:
        threshold = step.settings.thresholds.observation_tokens
        said = f"{still_large} reflections in a row left the log above its {threshold:,} tokens"
        remedy = "raise observation_tokens, or give the Reflector a stronger model"
        advice.append(Advice("large-log", f"{said}; {remedy}"))
    if reading is not None and reading.is_broken:
        said = f"{reading.share:.0%} of {reading.total:,} input tokens came from the provider's"
        reason = find_reason(step.messages, record)
        advice.append(Advice("cache", f"{said} cache. {reason}"))
    return Diagnosis(sections, None if reading is None else reading.share, advice)


def name_actor_of(messages: Sequence[BaseMessage]) -> str:
    """Return the Actor's model as its newest answer names it; empty if none does."""
    for message in reversed(messages):
        name, provider = message.response_metadata.get("model_name"), find_provider(message)
        if name and provider:
            return f"{provider}:{name}"
    return ""


def advise_on_price(
    actor: str, messages: Sequence[BaseMessage], record: MemoryRecord
) -> Iterator[Advice]:
    """Compare the Actor's own model, which memory asks, with a small one of its provider."""
    small = find_small(actor)
    if small is None:
        return
    own = sum(
        message.usage_metadata["input_tokens"]
        for message in messages
        if isinstance(message, AIMessage) and message.usage_metadata
    )
    read = sum(each.get("input_tokens", 0) for each in record["usage"].values())
    told = f"{read:,} tokens beside the agent's {own:,}, " if read and own else ""
    yield Advice(
        "model",
        f"memory asks the agent's own model, {actor}: {told}at that model's price. A small model "
        f"does the same work for a fraction of it: ObservationalMemory(model={small!r})",
    )


# --- The prompt cache ----------------------------------------------------------------------------
#
# A provider reads the beginning of a prompt that it has kept for a tenth of the price. It has to be
# the same text, of the same model, and not older than the provider keeps it.

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


def find_reason(messages: Sequence[BaseMessage], record: MemoryRecord) -> str:
    """Return why the answers of a conversation were read anew, as far as they and memory tell."""
    answers = [message for message in messages if isinstance(message, AIMessage)]
    models = [str(answer.response_metadata.get("model_name") or "") for answer in answers]
    named = [model for model in models if model]
    changes = sum(before != after for before, after in pairwise(named))
    if changes and changes >= _MIN_HITS * len(named):
        names = " and ".join(sorted(set(named)))
        return (
            f"The model changed {changes} times in {len(named)} answers ({names}), and each has a "
            "cache of its own: keep one model for a conversation"
        )
    stamps = (record["stamps"].get(str(message.id)) for message in messages)
    times = [datetime.fromisoformat(stamp) for stamp in stamps if stamp]
    life = find_cache_life(reversed(messages))
    pauses = sum((after - before).total_seconds() > life for before, after in pairwise(times))
    if pauses and pauses >= _MIN_HITS * len(answers):
        return (
            f"{pauses} pauses in {len(answers)} answers were longer than the {life:,} seconds for "
            "which the provider keeps a prompt. Set activate_after_idle='auto' to bring memory up "
            "to date while the cache is cold anyway, or have the provider keep prompts longer"
        )
    keys = {str(message.id) for message in messages}
    new = sum(any(last in keys for _, last in group["ranges"]) for group in record["log"])
    if answers and new >= _MANY_CHANGES * len(answers):
        return (
            f"The log changed {new} times in {len(answers)} answers, and what follows a change is "
            "not in the cache: raise message_tokens or buffer_tokens, so that it changes less "
            "often"
        )
    return (
        "Memory's prefix stays the same between observations; check that the agent's own system "
        "prompt does too (no time of day in it), that its tools keep their order, and that "
        "caching is switched on"
    )
