"""Reflection: the log becomes denser, while the turn waits or ahead of need."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import Cycle, CycleInfo, Mode, run_blocking
from langgraph_om.core.cycles.questions import rewrite_by_hook
from langgraph_om.core.effects import EffectFlow, ReadTally, Tally
from langgraph_om.core.events import iso
from langgraph_om.core.items import is_protected
from langgraph_om.core.record.record import (
    Substitution,
    count_failures,
    log_tokens,
    place_reflection,
    write_log,
)
from langgraph_om.core.record.window import Window
from langgraph_om.core.reflect.edits import Division
from langgraph_om.core.reflect.reflector import EditedLog, ReflectorInput, reflect
from langgraph_om.core.wire import BufferedReflection, CycleEnded, Group, MemoryRecord
from langgraph_om.errors import ObserverError


def reflect_cycle(
    settings: Settings, record: MemoryRecord, window: Window, started: datetime
) -> EffectFlow[None]:
    """Condense the whole log while the turn waits."""
    cycle = describe_reflection(settings, record, started, mode="blocking")
    yield from run_blocking(cycle, cycle.info.tokens, window.last_key)


def describe_reflection(
    settings: Settings, record: MemoryRecord, now: datetime, *, mode: Mode
) -> Cycle:
    """Describe the cycle that reflects the log as it is now."""
    ids = [group["id"] for group in record["log"]]
    name = "buffer-reflection" if mode == "ahead" else "reflect"
    attempt = count_failures(record, "reflection")
    cycle_id = derive_id(name, record["id"], attempt, *ids)
    tokens = log_tokens(record)
    info = CycleInfo(settings, record, "reflection", cycle_id, tokens, now, mode)
    start = info.start(covers={"group_ids": ids}) if mode == "ahead" else info.start()
    return Cycle(info, start, _reflect(info))


def _reflect(info: CycleInfo) -> EffectFlow[CycleEnded]:
    """Have the log condensed; what is written takes its place, or is kept until it is needed."""
    sources = info.record["log"]
    log = yield from condense(info, sources, target=_find_target(info, sources))
    text = write_log(log.groups)
    tally: Tally = yield ReadTally()
    answered = iso(info.last_reply(tally))
    becomes, together = log.list_changes(cycle_id=info.cycle_id, reflected_at=answered)
    tokens = info.tokens - sum(group["tokens"] for group in log.given) + log.tokens
    buffered: BufferedReflection = {
        "cycle_id": info.cycle_id,
        "group_ids": [*becomes],
        "groups": [*becomes.values()],
        "together": together,
        "input_tokens": info.tokens,
        "tokens": tokens,
        "created_at": answered,
    }
    written = {"observation_tokens": tokens, "observations": text, **log.edited}
    if info.mode == "ahead":
        return info.end(tally, reflection=buffered, **written)
    placed = place_reflection(sources, buffered) or Substitution([], [])
    replaced = {**placed._asdict(), **written, **info.rest_after(tokens)}
    return info.end(tally, **replaced)


def condense(
    cycle: CycleInfo,
    sources: Sequence[Group],
    *,
    target: int,
    division: Division | None = None,
) -> EffectFlow[EditedLog]:
    """Have the groups edited, but for what a person pinned or wrote: that is not shown.

    Args:
        target: The tokens under which the others are dense enough.
        division: How threads are told apart; `None`: the log is about one.
    """
    settings = cycle.settings
    free = [group for group in sources if not is_protected(group)]
    if not write_log(free):
        msg = "a person pinned or wrote everything in the log, and that is never condensed"
        raise ObserverError(msg)
    shown = yield from _show_groups(cycle, free, division)
    # A hook that hides something from the Reflector is told of the log alone, not of hints; and
    # what the Actor is not shown as a hint has to stand in the log.
    hides = "before_reflection" in settings.transforms
    request = ReflectorInput(
        free,
        target=target,
        shown=shown,
        division=division,
        hints={} if hides else settings.list_closing(cycle.record),
        instruction=settings.reflection.instruction,
    )
    log = yield from reflect(request, settings.counter)
    yield from _rewrite_by_hook(cycle, log)
    return log


def _show_groups(
    cycle: CycleInfo, groups: Sequence[Group], division: Division | None
) -> EffectFlow[list[str]]:
    """Return what the Reflector is shown of each group, as a hook leaves it."""
    given: dict[str, str | None] = {
        group["id"]: group["text"]
        for group in groups
        if group["text"] and (division is None or group["thread_id"])
    }
    shown = yield from rewrite_by_hook(cycle, "before_reflection", given, "observations")
    return [
        _check_left(shown[group["id"]], "before_reflection") if group["id"] in shown else ""
        for group in groups
    ]


def _rewrite_by_hook(cycle: CycleInfo, log: EditedLog) -> EffectFlow[None]:
    """Let a hook change what became of the changed groups."""
    if log.tokens >= sum(group["tokens"] for group in log.given):
        msg = "the Reflector's edits don't make the log smaller"
        raise ObserverError(msg)
    written: dict[str, str | None] = {
        str(at): log.groups[at]["text"] for at in log.find_changed() if log.groups[at]["text"]
    }
    kept = yield from rewrite_by_hook(cycle, "after_reflection", written, "observations")
    for at, text in kept.items():
        if text != written[at]:
            left = _check_left(text, "after_reflection")
            log.replace_text(int(at), left, cycle.settings.counter)


REFLECTION_TARGET = 0.75
"""A reflection is dense enough below this part of the log it read (or below the threshold).

Of a terse log more can only be freed by leaving out facts by the dozen.
"""

_BELOW_THRESHOLD = 0.97
"""What is taken for small enough is then still below the threshold."""


def _check_left(text: object, hook: str) -> str:
    """Return what a hook left of a group.

    Raises:
        ObserverError: When that is nothing; it would take the place of all that is known.
    """
    if not str(text).strip():
        msg = f"the hook `{hook}` removed the whole log"
        raise ObserverError(msg)
    return str(text)


def _find_target(cycle: CycleInfo, groups: Sequence[Group]) -> int:
    """Tell the size under which groups are dense enough, with what is protected as it is."""
    limits = cycle.settings.thresholds
    rest = sum(group["tokens"] for group in groups if is_protected(group))
    target = min(
        round(limits.observation_tokens * _BELOW_THRESHOLD), round(cycle.tokens * REFLECTION_TARGET)
    )
    return max(1, target - rest)
