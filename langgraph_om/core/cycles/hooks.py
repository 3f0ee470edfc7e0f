"""What Observer and Reflector are told, and what is taken of their answers.

The same for a cycle that the turn waits for and for one in the background; the user's transform
hooks stand between the memory and the models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.attachments import selected
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.long_transcript import (
    MAX_QUESTIONS,
    MIN_QUESTIONS,
    SplitTranscript,
    split_transcript,
)
from langgraph_om.core.effects import CallHook, EffectFlow, HookReply
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.observe.transcript import TimedMessage, TranscriptLimits, transcribe
from langgraph_om.core.record.record import count_failures
from langgraph_om.core.record.span import Entry
from langgraph_om.errors import ObserverError


def show_messages(
    cycle: CycleInfo, entries: Sequence[Entry], times: Sequence[datetime | None]
) -> EffectFlow[SplitTranscript | None]:
    """Write messages as the Observer reads them, as a hook leaves them.

    After failures a question holds less, and of an enormous message less is read: what takes longer
    than a cycle may, or is more than a model reads, would fail for ever.

    Args:
        cycle: The cycle.
        entries: The messages.
        times: When each of them was said; those that a hook keeps keep their times.

    Returns:
        The transcript, in as many parts as there are questions to ask, with those attachments that
        may be shown; `None` when there is nothing to show.
    """
    settings = cycle.settings
    shown = [
        TimedMessage(entry.message, time, entry.tokens)
        for entry, time in zip(entries, times, strict=False)
    ]
    if "before_observation" in settings.transforms:
        known = {entry.key: each.time for entry, each in zip(entries, shown, strict=True)}
        messages = [entry.message.model_copy(update={"id": entry.key}) for entry in entries]
        changed = yield from transform_messages(messages, cycle.about())
        shown = [TimedMessage(message, known.get(str(message.id))) for message in changed]
    if not shown:
        return None
    transcript = transcribe(
        shown,
        timezone=settings.timezone,
        counter=settings.counter,
        limits=TranscriptLimits(shows_reasoning=settings.observation.observe_reasoning),
        hidden_tools=settings.hidden_tools,
    )
    hides_some = settings.hidden_tools or not settings.observation.observe_reasoning
    if hides_some and not transcript.text:
        return None
    wanted = settings.observation.observe_attachments
    transcript = replace(transcript, attachments=selected(transcript.attachments, setting=wanted))
    failures = count_failures(cycle.record, cycle.operation)
    most = max(MIN_QUESTIONS, MAX_QUESTIONS >> max(0, failures - 1))
    count = settings.counter.count_text
    tokens = max(settings.thresholds.message_tokens, settings.question_tokens >> failures)
    return split_transcript(transcript, tokens, count, most)


def rewrite_answer(cycle: CycleInfo, parsed: Parsed) -> EffectFlow[Parsed]:
    """Let a hook change what the Observer wrote."""
    fields = ("observations", "current_task", "suggested_response", "thread_title")
    said = {name: getattr(parsed, name) for name in fields}
    kept: dict[str, Any] = yield from rewrite_by_hook(cycle, "after_observation", said)
    return replace(parsed, **kept)


def rewrite_by_hook(
    cycle: CycleInfo, hook: str, texts: Mapping[str, str | None], field: str | None = None
) -> EffectFlow[dict[str, Any]]:
    """Let a hook change each text that there is; it is told which of them it is."""
    if hook not in cycle.settings.transforms:
        return dict(texts)
    changed = dict(texts)
    for name, text in texts.items():
        if text:
            about = {**cycle.about(), "field": field or name}
            changed[name] = yield from transform_text(hook, text, about)
    return changed


TRANSFORMS = ("before_observation", "after_observation", "before_reflection", "after_reflection")
"""Hooks whose result is used in the place of what they are given."""


# --- Transforms ----------------------------------------------------------------------------------


def transform_messages(
    messages: Sequence[BaseMessage], about: Mapping[str, Any]
) -> EffectFlow[list[BaseMessage]]:
    """Let `before_observation` change what the Observer is shown.

    Raises:
        ObserverError: When the hook failed or returned something else than messages.
    """
    name = "before_observation"
    copies = [_copy_messages(message) for message in messages]
    value = yield from _call_hook(name, copies, about)
    if value is None:
        return copies
    if not isinstance(value, list | tuple):
        raise _read_returned(name, f"`{type(value).__name__}`", "a list of messages")
    for each in value:
        if not isinstance(each, BaseMessage):
            raise _read_returned(name, f"a list with `{type(each).__name__}`", "a list of messages")
    return list(value)


def _copy_messages(message: BaseMessage) -> BaseMessage:
    """Copy a message; what cannot be copied, as a lock in an artifact, is shared."""
    return message.model_copy(update={name: _copy_of(value) for name, value in message})


def _copy_of(value: Any) -> Any:
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 a value of any type may refuse
        return value


def transform_text(name: str, text: str, about: Mapping[str, Any]) -> EffectFlow[str]:
    """Let a hook change a text.

    Raises:
        ObserverError: When the hook failed or returned something else than text.
    """
    value = yield from _call_hook(name, text, about)
    if value is None:
        return text
    if not isinstance(value, str):
        raise _read_returned(name, f"`{type(value).__name__}`", "a text")
    return sanitize(str.__str__(value))  # a checkpoint holds no subclass of `str`


def _read_returned(name: str, what: str, wanted: str) -> ObserverError:
    """Make the error for a hook's wrong answer; what it holds may be what no record shall keep."""
    msg = f"the hook `{name}` returned {what}; return {wanted}, or None to keep what was given"
    return ObserverError(msg)


def _call_hook(name: str, value: object, about: Mapping[str, Any]) -> EffectFlow[Any]:
    reply: HookReply = yield CallHook(name, (value, dict(about)))
    if reply.is_late:
        msg = f"the hook `{name}` failed: it did not return within the deadline"
        raise ObserverError(msg) from reply.error
    if reply.error is not None:  # its text may quote what the hook was to hide
        msg = f"the hook `{name}` failed: {type(reply.error).__name__}; the log says more"
        raise ObserverError(msg) from reply.error
    return reply.value
