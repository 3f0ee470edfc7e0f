"""What a memory costs and how to reduce it: pure functions of a state."""

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
    "tripwire": 'With on_error="continue", the agent goes on with raw messages',
    "failures": (
        "Nothing is lost, and memory retries as the conversation grows; check the model's key "
        "and quota, or pass a list of models as fallbacks"
    ),
    "extract": (
        "The next observation asks for it again; descriptions and fewer required fields in the "
        "schema help"
    ),
    "unread": (
        "`recall` reads the rest; raise `observation.message_tokens` or "
        "`observation.max_tokens_per_batch` so that more is read"
    ),
    "overlooked": "Repeat what matters in a new message, or use `remember`",
    "left-out": (
        "Raise `token_budget`, find out why the Observer or the Reflector falls behind, or forget "
        "observations that aren't needed"
    ),
}


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that a person should do."""

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
    the conversation reports it."""
    advice: list[Advice]


def diagnose(step: Step) -> Diagnosis:
    """Find what fills the prompt, and what can be done about it."""
    reading, record = read_cache(step.messages), step.record
    sections: Counter[str] = Counter()
    for part in list_parts(step.settings, step.view):
        sections[part.name.lower()] += part.tokens
    advice = [Advice(kind, f"{said}. {_REMEDIES[kind]}") for kind, said in list_trouble(record)]
    attempt = record["attempts"].get("reflection")
    still_large = attempt.get("still_large", 0) if attempt else 0
    if still_large > 1:
        threshold = step.settings.thresholds.observation_tokens
        said = f"{still_large} reflections in a row left the log above {threshold:,} tokens"
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
    told = f" ({read:,} tokens on top of the agent's {own:,})" if read and own else ""
    yield Advice(
        "model",
        f"memory uses the agent's own model, {actor}, at its price{told}. A small model "
        f"does the same work for a fraction of it: ObservationalMemory(model={small!r})",
    )


# --- The prompt cache ----------------------------------------------------------------------------
#
# A provider charges a tenth for the beginning of a prompt that is still in its cache. It has to be
# the same text, for the same model, and not older than the cache keeps it.

_MIN_CALLS: Final = 5
_MIN_HITS: Final = 0.2
_MIN_PROMPT: Final = 2000
"""The shortest prompt that providers cache, in tokens."""
_MANY_CHANGES: Final = 0.5
"""The share of answers that must follow a change of the log for it to explain the misses."""


@dataclass(frozen=True, slots=True)
class CacheReading:
    """What answers report about their provider's cache."""

    calls: int
    """Answers that report it."""
    cached: int
    """Tokens that came from the cache."""
    total: int
    """Tokens in all prompts."""

    @property
    def share(self) -> float:
        """The part of the tokens that came from the cache."""
        return self.cached / max(1, self.total)

    @property
    def is_broken(self) -> bool:
        """Whether prompts that a provider could cache nearly always missed the cache."""
        is_worth_it = self.calls >= _MIN_CALLS and self.total / self.calls >= _MIN_PROMPT
        return is_worth_it and self.share < _MIN_HITS


def read_cache(messages: Sequence[BaseMessage]) -> CacheReading | None:
    """Return what a conversation's answers report; `None` if none reports anything."""
    calls = cached = total = 0
    for message in messages:
        usage: Any = message.usage_metadata if isinstance(message, AIMessage) else None
        details = (usage or {}).get("input_token_details") or {}
        if not usage or not usage.get("input_tokens") or details.get("cache_read") is None:
            continue  # many models do not report it, which does not mean zero
        calls += 1
        total += usage["input_tokens"]
        cached += details["cache_read"]
    return CacheReading(calls, cached, total) if calls else None


def find_reason(messages: Sequence[BaseMessage], record: MemoryRecord) -> str:
    """Return why prompts missed the cache, as far as the answers and memory show."""
    answers = [message for message in messages if isinstance(message, AIMessage)]
    models = [str(answer.response_metadata.get("model_name") or "") for answer in answers]
    named = [model for model in models if model]
    changes = sum(before != after for before, after in pairwise(named))
    if changes and changes >= _MIN_HITS * len(named):
        names = " and ".join(sorted(set(named)))
        return (
            f"The model changed {changes} times in {len(named)} answers ({names}), and each has "
            "its own cache: keep one model for a conversation"
        )
    stamps = (record["stamps"].get(str(message.id)) for message in messages)
    times = [datetime.fromisoformat(stamp) for stamp in stamps if stamp]
    life = find_cache_life(reversed(messages))
    pauses = sum((after - before).total_seconds() > life for before, after in pairwise(times))
    if pauses and pauses >= _MIN_HITS * len(answers):
        return (
            f"{pauses} pauses in {len(answers)} answers were longer than the {life:,} seconds that "
            "the provider keeps a prompt. Set activate_after_idle='auto' to bring memory up "
            "to date while the cache is cold anyway, or have the provider keep prompts longer"
        )
    keys = {str(message.id) for message in messages}
    new = sum(any(last in keys for _, last in group["ranges"]) for group in record["log"])
    if answers and new >= _MANY_CHANGES * len(answers):
        return (
            f"The log changed {new} times in {len(answers)} answers, and the text after a change "
            "is not in the cache: raise message_tokens or buffer_tokens, so that it changes "
            "less often"
        )
    return (
        "Memory's prefix stays the same between observations; check that the agent's own system "
        "prompt does too (no time of day in it), that its tools keep their order, and that "
        "caching is turned on"
    )
