"""What Observer and Reflector are told, and what is taken of their answers.

The same for a cycle that the turn waits for and for one in the background; the user's transform
hooks stand between the memory and the models.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph_om.core.attachments import selected
from langgraph_om.core.flow import Answer, CycleInfo, Step, Tally, hooked
from langgraph_om.core.groups import log_text, previous_observations
from langgraph_om.core.hooks import transformed_messages, transformed_text
from langgraph_om.core.observer import ObserverInput, observe
from langgraph_om.core.parsing import Parsed
from langgraph_om.core.record import Group
from langgraph_om.core.reflector import Reflection, ReflectorInput, reflect
from langgraph_om.core.transcript import TimedMessage, TranscriptLimits, transcribe
from langgraph_om.core.window import Entry
from langgraph_om.errors import ObserverError

__all__ = ["ask_observer", "ask_reflector"]

REFLECTION_TARGET = 0.75
"""A reflection is dense enough below this part of the log it read (or below the threshold)."""


def ask_observer(
    cycle: CycleInfo,
    tally: Tally,
    entries: Sequence[Entry],
    *,
    known: Sequence[Group],
    hints: Mapping[str, Any],
) -> Generator[Step, Answer, Parsed]:
    """Have messages observed.

    Args:
        cycle: The cycle.
        tally: Where its costs are noted.
        entries: The messages to observe.
        known: The observations that it shall not repeat.
        hints: Where the continuation hints stand.

    Returns:
        What the Observer answered, `ok` or `none`.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    shown = yield from _shown(cycle, entries)
    if not shown:  # a hook left nothing of them: they are observed, and hold nothing worth noting
        return Parsed("none")
    request = _observer_input(cycle, shown, known, hints)
    try:
        parsed = yield from tally.metered(observe(request), cycle.about())
    except ObserverError as error:
        if "after_observation" in cycle.settings.transforms:
            error.observations = ""  # no hook has seen what there is of an answer
        raise
    fields = ("observations", "current_task", "suggested_response", "thread_title")
    said = {name: getattr(parsed, name) for name in fields}
    kept: dict[str, Any] = yield from _rewritten(cycle, "after_observation", said)
    return replace(parsed, **kept)


def ask_reflector(
    cycle: CycleInfo, tally: Tally, groups: Sequence[Group]
) -> Generator[Step, Answer, Reflection]:
    """Have groups of the log condensed.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    counter = cycle.settings.counter
    given = {"observations": log_text(groups)}
    shown = yield from _rewritten(cycle, "before_reflection", given)
    request = _reflector_input(cycle, groups, _left(shown, "before_reflection"))
    result = yield from tally.metered(reflect(request, counter), cycle.about())
    said = {"observations": result.text, "current_task": result.current_task}
    kept = yield from _rewritten(cycle, "after_reflection", said)
    text = _left(kept, "after_reflection")
    return replace(
        result, text=text, tokens=counter.count_text(text), current_task=kept["current_task"]
    )


def _left(texts: Mapping[str, Any], hook: str) -> str:
    """Return what a hook left of a log.

    Raises:
        ObserverError: When that is nothing; it would take the place of all that is known.
    """
    text = str(texts["observations"])
    if not text.strip():
        msg = f"the hook `{hook}` left nothing of the log"
        raise ObserverError(msg)
    return text


def _shown(
    cycle: CycleInfo, entries: Sequence[Entry]
) -> Generator[Step, Answer, list[TimedMessage]]:
    """Return the messages as the Observer is shown them, with their times."""
    settings, stamps = cycle.settings, cycle.record["stamps"]
    timed = [TimedMessage(entry.message, settings.time_of(entry, stamps)) for entry in entries]
    if "before_observation" not in settings.transforms:
        return timed
    times = {entry.key: each.time for entry, each in zip(entries, timed, strict=True)}
    messages = [entry.message.model_copy(update={"id": entry.key}) for entry in entries]
    changed = yield from hooked(transformed_messages(messages, cycle.about()))
    return [TimedMessage(message, times.get(str(message.id))) for message in changed]


def _rewritten(
    cycle: CycleInfo, hook: str, texts: Mapping[str, str | None]
) -> Generator[Step, Answer, dict[str, Any]]:
    """Let a hook change each text that there is; it is told which of them it is."""
    if hook not in cycle.settings.transforms:
        return dict(texts)
    changed = dict(texts)
    for name, text in texts.items():
        if text:
            about = {**cycle.about(), "field": name}
            changed[name] = yield from hooked(transformed_text(hook, text, about))
    return changed


def _observer_input(
    cycle: CycleInfo,
    shown: Sequence[TimedMessage],
    known: Sequence[Group],
    hints: Mapping[str, Any],
) -> ObserverInput:
    settings = cycle.settings
    observation = settings.observation
    transcript = transcribe(
        shown,
        timezone=settings.timezone,
        counter=settings.counter,
        limits=TranscriptLimits(text_tokens=settings.thresholds.message_tokens),
    )
    wanted = observation.observe_attachments
    return ObserverInput(
        transcript=transcript.text,
        attachments=selected(transcript.attachments, setting=wanted),
        by_profile=wanted == "auto",
        previous=previous_observations(
            known, observation.previous_observer_tokens, settings.counter
        ),
        hints={
            "current_task": hints["current_task"],
            "suggested_response": hints["suggested_response"],
            "thread_title": cycle.record["thread_title"] if observation.thread_title else None,
        },
        instruction=observation.instruction,
        prompt=observation.prompt,
        thread_title=observation.thread_title,
    )


def _reflector_input(cycle: CycleInfo, groups: Sequence[Group], log: str) -> ReflectorInput:
    settings = cycle.settings
    tokens = sum(group["tokens"] for group in groups)
    threshold = settings.thresholds.observation_tokens
    return ReflectorInput(
        log=log,
        tokens=tokens,
        target=max(1, min(threshold, round(tokens * REFLECTION_TARGET))),
        instruction=settings.reflection.instruction,
        prompt=settings.observation.prompt,
    )
