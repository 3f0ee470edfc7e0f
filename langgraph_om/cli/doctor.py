"""What a memory costs, and what to do about it: pure functions of a state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.actor.prompt_cache import CacheReading, find_reason, read_cache
from langgraph_om.core.actor.view import list_parts
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.content.blocks import find_provider
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.items import LogItem, is_protected, list_items
from langgraph_om.core.page import describe_overlooked, describe_unread, list_failures
from langgraph_om.core.record.window import Window
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.models.providers import find_small

_MIN_CALLS: Final = 5
_MANY_PINNED: Final = 0.5
_MANY_UNDATED: Final = 0.3
_LARGE_MESSAGE: Final = 0.5
_STALE: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that a person should do about a memory."""

    kind: str
    """One word, for programs."""
    text: str
    """What is the case, and what to do."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a memory costs."""

    sections: Mapping[str, int]
    """Tokens of each section of the Actor's prompt, its own system prompt and tools apart."""
    cache_hits: float | None
    """Which part of the Actor's input came from its provider's cache; `None` where no answer in
    the conversation says."""
    advice: list[Advice]


def diagnose(step: Step) -> Diagnosis:
    """Find what costs what, and what can be done about it."""
    record, messages, thresholds = step.record, step.messages, step.settings.thresholds
    reading = read_cache(messages)
    advice = [
        *_advise_on_failures(record),
        *_advise_on_task(record, step.now),
        *_advise_on_values(record),
        *_advise_on_duplicates(record),
        *_advise_on_cache(reading, messages, record),
        *_advise_on_size(record, thresholds),
        *_advise_on_dates(record),
        *_advise_on_messages(step.window, thresholds),
        *_advise_on_unread(record),
        *_advise_on_left_out(record),
    ]
    sections: Counter[str] = Counter()
    for part in list_parts(step.settings, step.view):
        sections[part.name.lower()] += part.tokens
    return Diagnosis(sections, None if reading is None else reading.share, advice)


# --- Advice: each says what is the case, and what to do ------------------------------------------


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
        f"memory asks the agent's own model, {actor}: {told}at that model's price. A small one "
        f"does the same work for a fraction of it: ObservationalMemory(model={small!r})",
    )


def _advise_on_failures(record: MemoryRecord) -> Iterator[Advice]:
    for name, said in list_failures(record):
        yield Advice(
            "failures",
            f"{name} fails: {said}. Nothing is lost, and it is tried again as the conversation "
            f"grows; check the model's key and quota, or pass a list of models as fallbacks",
        )
    trip = record.get("tripwire")
    if trip:
        yield Advice(
            "tripwire",
            f"the last turn was ended without an answer: {trip['reason']}. With "
            f'on_error="continue" the agent goes on with raw messages',
        )


def _advise_on_task(record: MemoryRecord, now: datetime) -> Iterator[Advice]:
    """Find a task that nobody has worked on for a week."""
    task = record["current_task"]
    times = [datetime.fromisoformat(g["observed_at"]) for g in record["log"] if g["observed_at"]]
    if not task or not times:
        return
    age = now - max(times)
    if age > _STALE:
        yield Advice(
            "stale-hint",
            f"the current task is {age.days} days old, and the agent is shown it at every call: "
            f"{task!r}. If it is done, say so to the agent; continuation_hints=False shows none",
        )


def _advise_on_values(record: MemoryRecord) -> Iterator[Advice]:
    for name, kept in record.get("extracted", {}).items():
        if kept["error"]:
            yield Advice(
                "extract",
                f"the value {name!r} is as it was: {kept['error']}. It is asked for again with "
                f"the next observation; a schema with descriptions and fewer required fields helps",
            )


def _advise_on_unread(record: MemoryRecord) -> Iterator[Advice]:
    unread = describe_unread(record)
    if unread:
        yield Advice(
            "unread",
            f"{unread}; their beginnings and ends were. `recall` reads the rest; raise "
            f"`observation.message_tokens` or `observation.max_tokens_per_batch` to have more read",
        )
    overlooked = describe_overlooked(record)
    if overlooked:
        yield Advice(
            "overlooked",
            f"{overlooked}; say what matters of them in a new message, or note it with `remember`",
        )


def _advise_on_left_out(record: MemoryRecord) -> Iterator[Advice]:
    head = record.get("head")
    messages, observations = head.get("left_out", [0, 0]) if head else [0, 0]
    if messages or observations:
        yield Advice(
            "left-out",
            f"the last prompt had no room for the oldest {messages} unobserved message(s) and "
            f"{observations} observation(s), which memory still holds. Raise `token_budget`, see "
            f"why the Observer or the Reflector falls behind, or forget what is not needed",
        )


def _advise_on_duplicates(record: MemoryRecord) -> Iterator[Advice]:
    said: dict[str, list[LogItem]] = {}
    for item in list_items(record["log"]):
        said.setdefault(" ".join(item.words.casefold().split()), []).append(item)
    for items in said.values():
        if len(items) > 1:
            # The last one first: where one is gone, those behind it are numbered anew.
            names = ", ".join(f"#{item.id}" for item in reversed(items[1:]))
            words = items[0].words.split("\n")[0]
            yield Advice(
                "duplicate",
                f"the log says {len(items)} times: {words!r}. Forget what is too much, in this "
                f"order: {names}",
            )


def _advise_on_cache(
    reading: CacheReading | None, messages: Sequence[BaseMessage], record: MemoryRecord
) -> Iterator[Advice]:
    if reading is not None and reading.is_broken:
        yield Advice(
            "cache",
            f"{reading.share:.0%} of {reading.total:,} input tokens came from the provider's "
            f"cache. {find_reason(messages, record).text}",
        )


def _advise_on_size(record: MemoryRecord, thresholds: Thresholds) -> Iterator[Advice]:
    kept = sum(group["tokens"] for group in record["log"] if is_protected(group))
    if kept > _MANY_PINNED * thresholds.observation_tokens:
        yield Advice(
            "pinned",
            f"what is kept word for word takes {kept:,} of {thresholds.observation_tokens:,} "
            f"tokens, and is never condensed; unpin what matters less, or raise "
            f"observation_tokens",
        )
    attempt = record["attempts"].get("reflection")
    still = attempt.get("still_large", 0) if attempt else 0
    if still > 1:
        yield Advice(
            "large-log",
            f"{still} reflections in a row left the log above its {thresholds.observation_tokens:,}"
            f" tokens; raise observation_tokens, or give the Reflector a stronger model",
        )


def _advise_on_dates(record: MemoryRecord) -> Iterator[Advice]:
    items = list_items(record["log"])
    undated = sum(item.day is None for item in items)
    if len(items) >= _MIN_CALLS and undated > _MANY_UNDATED * len(items):
        yield Advice(
            "undated",
            f"{undated} of {len(items)} items have no day: their messages carry no time. Pass "
            f"message_time=..., which tells it from your own data",
        )


def _advise_on_messages(window: Window, thresholds: Thresholds) -> Iterator[Advice]:
    kinds: Counter[str] = Counter()
    for entry in window.entries:
        if entry.tokens > _LARGE_MESSAGE * thresholds.message_tokens:
            message = entry.message
            kinds[str(getattr(message, "name", None) or role_of(message) or message.type)] += 1
    for kind, number in kinds.items():
        yield Advice(
            "large-message",
            f"{number} unobserved message(s) of {kind!r} fill more than half of the window each; "
            f"let the tool answer shorter, or raise message_tokens",
        )
