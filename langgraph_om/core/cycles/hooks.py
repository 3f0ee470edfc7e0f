"""What Observer and Reflector are told, and what is taken of their answers.

The same for a cycle that the turn waits for and for one in the background; the user's transform
hooks stand between the memory and the models.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.attachments import selected
from langgraph_om.core.cycles.cycle import Answer, CycleInfo, Step, Tally, hooked
from langgraph_om.core.events import iso
from langgraph_om.core.hooks import transformed_messages, transformed_text
from langgraph_om.core.observe.observer import ObserverInput, observe
from langgraph_om.core.observe.other_threads import OtherThread
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.observe.transcript import (
    TimedMessage,
    Transcript,
    TranscriptLimits,
    transcribe,
)
from langgraph_om.core.record.record import Group, MemoryRecord
from langgraph_om.core.record.window import Entry
from langgraph_om.core.reflect.reflector import Reflection, ReflectorInput, reflect
from langgraph_om.core.reflect.regroup import log_text, previous_observations
from langgraph_om.core.threads.log import previous_sections, reflected_thread_groups
from langgraph_om.core.threads.observer import ThreadInput, ThreadsInput, observe_threads
from langgraph_om.core.threads.reflector import ThreadsReflectorInput, reflect_threads
from langgraph_om.errors import ObserverError

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
    return (yield from _checked(cycle, parsed))


def _checked(cycle: CycleInfo, parsed: Parsed) -> Generator[Step, Answer, Parsed]:
    """Let a hook change what the Observer wrote."""
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


def ask_observer_of_threads(
    cycle: CycleInfo, tally: Tally, threads: Sequence[tuple[OtherThread, int]]
) -> Generator[Step, Answer, dict[str, Parsed]]:
    """Have the oldest messages of several other threads observed, in one question.

    Args:
        cycle: The cycle.
        tally: Where its costs are noted.
        threads: Each with the number of messages to observe.

    Returns:
        By thread id, what the Observer answered; a thread that is missing is not observed.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    settings, found = cycle.settings, dict[str, Parsed]()
    inputs: list[ThreadInput] = []
    for thread, count in threads:
        own, entries = _within(cycle, thread), thread.entries[:count]
        timed = [
            TimedMessage(entry.message, time)
            for entry, time in zip(entries, thread.times, strict=False)
        ]
        shown = yield from _through_hook(own, entries, timed)
        if not shown:
            found[thread.thread_id] = Parsed("none")
            continue
        transcript = _transcript(settings, shown)
        inputs.append(
            ThreadInput(
                thread.thread_id,
                settings.show_id(thread.thread_id),
                transcript.text,
                title=thread.hints.get("thread_title"),
                hints=thread.hints,
                attachments=selected(
                    transcript.attachments, setting=settings.observation.observe_attachments
                ),
            )
        )
    answers = yield from tally.metered(
        observe_threads(_threads_input(cycle, inputs)), cycle.about()
    )
    for thread, _ in threads:
        if thread.thread_id in answers:
            own, parsed = _within(cycle, thread), answers[thread.thread_id]
            found[thread.thread_id] = yield from _checked(own, parsed)
    return found


def _within(cycle: CycleInfo, thread: OtherThread) -> CycleInfo:
    """Return the cycle as a hook is told of it that sees one thread's texts."""
    record = cast("MemoryRecord", {**cycle.record, "thread_id": thread.thread_id, "stamps": {}})
    return replace(cycle, record=record)


def _threads_input(cycle: CycleInfo, inputs: Sequence[ThreadInput]) -> ThreadsInput:
    settings = cycle.settings
    observation = settings.observation
    return ThreadsInput(
        inputs,
        previous=previous_sections(
            cycle.record["log"],
            observation.previous_observer_tokens,
            settings.counter,
            settings.show_id,
            first=[each.thread_id for each in inputs],
        ),
        instruction=observation.instruction,
        prompt=observation.prompt,
        thread_title=observation.thread_title,
        by_profile=observation.observe_attachments == "auto",
    )


def ask_reflector_of_threads(
    cycle: CycleInfo, tally: Tally, groups: Sequence[Group]
) -> Generator[Step, Answer, tuple[list[Group], str]]:
    """Have a shared log condensed, each thread's observations for themselves.

    Returns:
        The groups that take the place of those that were read, and what was written.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    settings = cycle.settings
    given: dict[str, str | None] = {}
    for group in groups:
        if group["thread_id"] is not None and group["text"]:
            given[group["id"]] = group["text"]
    shown = yield from _rewritten(cycle, "before_reflection", given, "observations")
    texts = {key: _left({"observations": text}, "before_reflection") for key, text in shown.items()}
    read = [cast("Group", {**g, "text": texts.get(g["id"], g["text"])}) for g in groups]
    total = sum(group["tokens"] for group in groups)
    request = ThreadsReflectorInput(
        read,
        settings.show_id,
        target=_target(settings, total),
        instruction=settings.reflection.instruction,
        prompt=settings.observation.prompt,
    )
    result = yield from tally.metered(reflect_threads(request, settings.counter), cycle.about())
    kept = yield from _rewritten(cycle, "after_reflection", result.texts, "observations")
    said = {key: _left({"observations": text}, "after_reflection") for key, text in kept.items()}
    written = reflected_thread_groups(
        groups,
        said,
        cycle_id=cycle.cycle_id,
        reflected_at=iso(tally.at),
        counter=settings.counter,
    )
    return written, "\n\n".join(said.values())


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
    return (yield from _through_hook(cycle, entries, timed))


def _through_hook(
    cycle: CycleInfo, entries: Sequence[Entry], timed: Sequence[TimedMessage]
) -> Generator[Step, Answer, list[TimedMessage]]:
    """Let a hook change the messages; those that it keeps keep their times."""
    settings, timed = cycle.settings, list(timed)
    if "before_observation" not in settings.transforms:
        return timed
    times = {entry.key: each.time for entry, each in zip(entries, timed, strict=True)}
    messages = [entry.message.model_copy(update={"id": entry.key}) for entry in entries]
    changed = yield from hooked(transformed_messages(messages, cycle.about()))
    return [TimedMessage(message, times.get(str(message.id))) for message in changed]


def _rewritten(
    cycle: CycleInfo, hook: str, texts: Mapping[str, str | None], field: str | None = None
) -> Generator[Step, Answer, dict[str, Any]]:
    """Let a hook change each text that there is; it is told which of them it is."""
    if hook not in cycle.settings.transforms:
        return dict(texts)
    changed = dict(texts)
    for name, text in texts.items():
        if text:
            about = {**cycle.about(), "field": field or name}
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
    transcript = _transcript(settings, shown)
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


def _transcript(settings: Settings, shown: Sequence[TimedMessage]) -> Transcript:
    return transcribe(
        shown,
        timezone=settings.timezone,
        counter=settings.counter,
        limits=TranscriptLimits(text_tokens=settings.thresholds.message_tokens),
    )


def _target(settings: Settings, tokens: int) -> int:
    """Tell the size under which a reflection is dense enough."""
    threshold = settings.thresholds.observation_tokens
    return max(1, min(threshold, round(tokens * REFLECTION_TARGET)))


def _reflector_input(cycle: CycleInfo, groups: Sequence[Group], log: str) -> ReflectorInput:
    settings = cycle.settings
    tokens = sum(group["tokens"] for group in groups)
    return ReflectorInput(
        log=log,
        tokens=tokens,
        target=_target(settings, tokens),
        instruction=settings.reflection.instruction,
        prompt=settings.observation.prompt,
    )
