"""What a memory costs, and what to do about it: pure functions of a state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.actor.prompt_cache import CacheReading, find_reason, read_cache
from langgraph_om.core.actor.view import list_parts
from langgraph_om.core.content.blocks import find_provider
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.items import is_protected
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.models.providers import find_small
from langgraph_om.tools.shown import count, list_trouble

_MANY_PINNED: Final = 0.5
_LARGE_MESSAGE: Final = 0.5

_REMEDIES: Final = {
    "tripwire": 'With on_error="continue" the agent goes on with raw messages',
    "failures": (
        "Nothing is lost, and it is tried again as the conversation grows; check the model's key "
        "and quota, or pass a list of models as fallbacks"
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
    reading = read_cache(step.messages)
    sections: Counter[str] = Counter()
    for part in list_parts(step.settings, step.view):
        sections[part.name.lower()] += part.tokens
    advice = [
        Advice(kind, f"{said}. {_REMEDIES[kind]}") for kind, said in list_trouble(step.record)
    ]
    advice += [*_advise_on_log(step), *_advise_on_messages(step, reading)]
    return Diagnosis(sections, None if reading is None else reading.share, advice)


def _advise_on_log(step: Step) -> Iterator[Advice]:
    record, threshold = step.record, step.settings.thresholds.observation_tokens
    for name, kept in record.get("extracted", {}).items():
        if kept["error"]:
            yield Advice(
                "extract",
                f"the value {name!r} is unchanged: {kept['error']}. The next observation asks for "
                f"it again; a schema with descriptions and fewer required fields helps",
            )
    kept_tokens = sum(group["tokens"] for group in record["log"] if is_protected(group))
    if kept_tokens > _MANY_PINNED * threshold:
        yield Advice(
            "pinned",
            f"what is kept word for word takes {kept_tokens:,} of {threshold:,} tokens, and is "
            f"never condensed; unpin what matters less, or raise observation_tokens",
        )
    attempt = record["attempts"].get("reflection")
    still_large = attempt.get("still_large", 0) if attempt else 0
    if still_large > 1:
        yield Advice(
            "large-log",
            f"{still_large} reflections in a row left the log above its {threshold:,} tokens; "
            f"raise observation_tokens, or give the Reflector a stronger model",
        )


def _advise_on_messages(step: Step, reading: CacheReading | None) -> Iterator[Advice]:
    threshold = step.settings.thresholds.message_tokens
    if reading is not None and reading.is_broken:
        yield Advice(
            "cache",
            f"{reading.share:.0%} of {reading.total:,} input tokens came from the provider's "
            f"cache. {find_reason(step.messages, step.record).text}",
        )
    large: Counter[str] = Counter()
    for entry in step.window.entries:
        if entry.tokens > _LARGE_MESSAGE * threshold:
            message = entry.message
            large[str(getattr(message, "name", None) or role_of(message) or message.type)] += 1
    for kind, number in large.items():
        yield Advice(
            "large-message",
            f"{count(number, 'unobserved message')} of {kind!r} take more than half of the "
            f"threshold each; have the tool return less, or raise message_tokens",
        )


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
