"""Reflection: the log becomes denser, while the turn waits or ahead of need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import Cycle, CycleInfo, Mode, run_blocking
from langgraph_om.core.cycles.hooks import rewrite_by_hook
from langgraph_om.core.effects import EffectFlow, ReadTally, Tally
from langgraph_om.core.events import iso
from langgraph_om.core.record.record import count_failures, find_log_owner, log_tokens, write_log
from langgraph_om.core.record.window import Window
from langgraph_om.core.reflect.reflector import (
    Reflection,
    ReflectorInput,
    ThreadsReflectorInput,
    reflect,
    reflect_threads,
)
from langgraph_om.core.reflect.regroup import regroup, regroup_threads
from langgraph_om.core.wire import BufferedReflection, CycleEnded, Group, MemoryRecord
from langgraph_om.errors import ObserverError


def reflect_cycle(
    settings: Settings, record: MemoryRecord, window: Window, started: datetime
) -> EffectFlow[None]:
    """Condense the whole log while the turn waits.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        window: Its unobserved messages.
        started: The current time.
    """
    cycle = describe_reflection(settings, record, started, mode="blocking")
    yield from run_blocking(cycle, cycle.info.tokens, window.last_key)


def describe_reflection(
    settings: Settings, record: MemoryRecord, now: datetime, *, mode: Mode
) -> Cycle:
    """Describe the cycle that reflects the log as it is now."""
    ids = [group["id"] for group in record["log"]]
    name = "buffer-reflection" if mode == "ahead" else "reflect"
    attempt = count_failures(record, "reflection")
    cycle_id = derive_id(name, find_log_owner(record), attempt, *ids)
    tokens = log_tokens(record)
    info = CycleInfo(settings, record, "reflection", cycle_id, tokens, now, mode)
    start = info.start(covers={"group_ids": ids}) if mode == "ahead" else info.start()
    return Cycle(info, start, _reflect(info))


def _reflect(info: CycleInfo) -> EffectFlow[CycleEnded]:
    """Have the log condensed; what is written takes its place, or is kept until it is needed."""
    sources = info.record["log"]
    ids = [group["id"] for group in sources]
    groups, text, current_task = yield from _condense(info, sources)
    tally: Tally = yield ReadTally()
    tokens = sum(group["tokens"] for group in groups)
    written = {"observation_tokens": tokens, "observations": text}
    if info.mode == "blocking":
        return info.end(
            tally,
            group_ids=ids,
            groups=groups,
            **written,
            current_task=current_task,
            **info.rest_after(tokens),
        )
    buffered: BufferedReflection = {
        "cycle_id": info.cycle_id,
        "group_ids": ids,
        "groups": groups,
        "input_tokens": info.tokens,
        "tokens": tokens,
        "created_at": iso(info.last_reply(tally)),
    }
    return info.end(tally, reflection=buffered, **written)


def _condense(
    cycle: CycleInfo, sources: Sequence[Group]
) -> EffectFlow[tuple[list[Group], str, str | None]]:
    """Have groups condensed; with a shared log, each thread's for themselves.

    Returns:
        The groups that take their place, what was written, and the current task.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    if cycle.settings.scope == "resource":
        groups, text = yield from ask_reflector_of_threads(cycle, sources)
        return groups, text, None
    result = yield from ask_reflector(cycle, sources)
    tally: Tally = yield ReadTally()
    groups = regroup(
        sources,
        result.text,
        cycle_id=cycle.cycle_id,
        reflected_at=iso(cycle.last_reply(tally)),
        counter=cycle.settings.counter,
    )
    return groups, result.text, result.current_task


# --- The Reflector -------------------------------------------------------------------------------

REFLECTION_TARGET = 0.75
"""A reflection is dense enough below this part of the log it read (or below the threshold)."""


def ask_reflector(cycle: CycleInfo, groups: Sequence[Group]) -> EffectFlow[Reflection]:
    """Have groups of the log condensed.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    counter = cycle.settings.counter
    given = {"observations": write_log(groups)}
    shown = yield from rewrite_by_hook(cycle, "before_reflection", given)
    request = _build_reflector_input(cycle, groups, _check_left(shown, "before_reflection"))
    result = yield from reflect(request, counter)
    said = {"observations": result.text, "current_task": result.current_task}
    kept = yield from rewrite_by_hook(cycle, "after_reflection", said)
    text = _check_left(kept, "after_reflection")
    return replace(
        result, text=text, tokens=counter.count_text(text), current_task=kept["current_task"]
    )


def ask_reflector_of_threads(
    cycle: CycleInfo, groups: Sequence[Group]
) -> EffectFlow[tuple[list[Group], str]]:
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
    shown = yield from rewrite_by_hook(cycle, "before_reflection", given, "observations")
    texts = {
        key: _check_left({"observations": text}, "before_reflection") for key, text in shown.items()
    }
    read = [cast("Group", {**g, "text": texts.get(g["id"], g["text"])}) for g in groups]
    total = sum(group["tokens"] for group in groups)
    request = ThreadsReflectorInput(
        read,
        settings.show_id,
        target=_find_target(settings, total),
        instruction=settings.reflection.instruction,
        prompt=settings.observation.prompt,
    )
    result = yield from reflect_threads(request, settings.counter)
    kept = yield from rewrite_by_hook(cycle, "after_reflection", result.texts, "observations")
    said = {
        key: _check_left({"observations": text}, "after_reflection") for key, text in kept.items()
    }
    tally: Tally = yield ReadTally()
    written = regroup_threads(
        groups,
        said,
        cycle_id=cycle.cycle_id,
        reflected_at=iso(cycle.last_reply(tally)),
        counter=settings.counter,
    )
    return written, "\n\n".join(said.values())


def _check_left(texts: Mapping[str, Any], hook: str) -> str:
    """Return what a hook left of a log.

    Raises:
        ObserverError: When that is nothing; it would take the place of all that is known.
    """
    text = str(texts["observations"])
    if not text.strip():
        msg = f"the hook `{hook}` left nothing of the log"
        raise ObserverError(msg)
    return text


def _find_target(settings: Settings, tokens: int) -> int:
    """Tell the size under which a reflection is dense enough."""
    threshold = settings.thresholds.observation_tokens
    return max(1, min(threshold, round(tokens * REFLECTION_TARGET)))


def _build_reflector_input(cycle: CycleInfo, groups: Sequence[Group], log: str) -> ReflectorInput:
    settings = cycle.settings
    tokens = sum(group["tokens"] for group in groups)
    return ReflectorInput(
        log=log,
        tokens=tokens,
        target=_find_target(settings, tokens),
        instruction=settings.reflection.instruction,
        prompt=settings.observation.prompt,
    )
