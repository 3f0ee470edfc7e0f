"""Reflection: the log becomes denser, while the turn waits or ahead of need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import Cycle, CycleInfo, Mode, run_blocking
from langgraph_om.core.cycles.questions import (
    announce_found,
    ask_for_values,
    rewrite_by_hook,
    tell_found,
)
from langgraph_om.core.effects import EffectFlow, ReadTally, Tally
from langgraph_om.core.events import iso
from langgraph_om.core.items import is_protected, keep_protected
from langgraph_om.core.record.record import (
    Substitution,
    count_failures,
    find_log_owner,
    log_tokens,
    place_reflection,
    write_log,
)
from langgraph_om.core.record.window import Window
from langgraph_om.core.reflect.reflector import (
    MAX_QUESTIONS,
    EditedLog,
    EditsInput,
    Reflection,
    ReflectorInput,
    reflect,
    reflect_by_edits,
    regroup,
)
from langgraph_om.core.wire import (
    BufferedReflection,
    CycleEnded,
    Group,
    MemoryRecord,
)
from langgraph_om.errors import ObserverError


def reflect_cycle(
    settings: Settings, record: MemoryRecord, window: Window, started: datetime
) -> EffectFlow[None]:
    """Condense the whole log while the turn waits."""
    cycle = describe_reflection(settings, record, started, mode="blocking")
    end = yield from run_blocking(cycle, cycle.info.tokens, window.last_key)
    if end is not None:
        yield from announce_found(cycle.info, datetime.fromisoformat(end["at"]), end)


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


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a reflection comes to."""

    group_ids: list[str]
    """The groups that are replaced."""
    groups: list[Group]
    """What takes their place."""
    tokens: int
    """Of the whole log after it."""
    text: str
    """What was written; after edits, the whole log."""
    edited: Mapping[str, int] = field(default_factory=dict)
    """Of edits, how many; see `wire.Edited`."""
    together: list[list[str]] | None = None
    """Of edits: which of the groups have to be changed together, each becoming the one of `groups`
    at its place."""


def _reflect(info: CycleInfo) -> EffectFlow[CycleEnded]:
    """Have the log condensed; what is written takes its place, or is kept until it is needed."""
    sources = info.record["log"]
    for keep in info.settings.features.having("keep_claim"):
        yield from keep(info.record, "reflection", info.mode)
    found = yield from _condense(info, sources)
    values = tell_found((yield from ask_for_values(info, None, found.text)))
    tally: Tally = yield ReadTally()
    written = {"observation_tokens": found.tokens, "observations": found.text, **found.edited}
    buffered: BufferedReflection = {
        "cycle_id": info.cycle_id,
        "group_ids": found.group_ids,
        "groups": found.groups,
        "input_tokens": info.tokens,
        "tokens": found.tokens,
        "created_at": iso(info.last_reply(tally)),
    }
    if found.together is not None:
        buffered["together"] = found.together
    if info.mode == "ahead":
        return info.end(tally, reflection={**buffered, **values}, **written)
    placed = place_reflection(sources, buffered) or Substitution([], [])
    replaced = {**placed._asdict(), **written, **values, **info.rest_after(found.tokens)}
    return info.end(tally, **replaced)


def _condense(cycle: CycleInfo, sources: Sequence[Group]) -> EffectFlow[_Outcome]:
    """Have groups condensed, in the form that is set; without valid edits, by one rewriting.

    What a person pinned or wrote is not shown to the Reflector, and stays as it is.
    """
    free = [group for group in sources if not is_protected(group)]
    if not write_log(free):
        msg = "the log holds nothing but what a person pinned or wrote, which is not condensed"
        raise ObserverError(msg)
    found = yield from _condense_free(cycle, free)
    if len(free) == len(sources):
        return found
    kept = cycle.tokens - sum(group["tokens"] for group in free)
    found = replace(found, tokens=found.tokens + kept)
    if found.together is not None:
        return found
    ids = [group["id"] for group in sources]
    return replace(found, group_ids=ids, groups=keep_protected(sources, found.groups))


def _condense_free(cycle: CycleInfo, sources: Sequence[Group]) -> EffectFlow[_Outcome]:
    if cycle.settings.reflection.form == "rewrite":
        return (yield from _rewrite(cycle, sources, questions=MAX_QUESTIONS))
    settings = cycle.settings
    shown, divide = (yield from _show_groups(cycle, sources)), settings.features.first("divide")
    # A hook that hides something from the Reflector is told of the log alone, not of hints; and
    # what the Actor is not shown as a hint has to stand in the log.
    hides = "before_reflection" in settings.transforms
    request = EditsInput(
        sources,
        target=find_target(cycle, sources),
        shown=shown,
        division=divide(settings) if divide is not None else None,
        hints={} if hides else settings.features.list_closing(cycle.record),
        instruction=settings.reflection.instruction,
    )
    log = yield from reflect_by_edits(request, settings.counter)
    if not log.edited:
        return (yield from _rewrite(cycle, sources, questions=1, shown=shown))
    return (yield from _finish_edits(cycle, log))


# --- Edits ---------------------------------------------------------------------------------------


def _show_groups(cycle: CycleInfo, groups: Sequence[Group]) -> EffectFlow[list[str]]:
    """Return what the Reflector is shown of each group, as a hook leaves it."""
    is_divided = cycle.settings.features.first("divide") is not None
    given: dict[str, str | None] = {
        group["id"]: group["text"]
        for group in groups
        if group["text"] and not (is_divided and group["thread_id"] is None)
    }
    shown = yield from rewrite_by_hook(cycle, "before_reflection", given, "observations")
    return [
        check_left({"observations": shown[group["id"]]}, "before_reflection")
        if group["id"] in shown
        else ""
        for group in groups
    ]


def _finish_edits(cycle: CycleInfo, log: EditedLog) -> EffectFlow[_Outcome]:
    """Let a hook change what became of the changed groups, and name them anew."""
    counter = cycle.settings.counter
    if log.tokens >= sum(group["tokens"] for group in log.given):
        msg = "the Reflector's edits make the log no smaller"
        raise ObserverError(msg)
    written: dict[str, str | None] = {
        str(at): log.groups[at]["text"] for at in log.find_changed() if log.groups[at]["text"]
    }
    kept = yield from rewrite_by_hook(cycle, "after_reflection", written, "observations")
    for at, text in kept.items():
        if text != written[at]:
            left = check_left({"observations": text}, "after_reflection")
            log.replace_text(int(at), left, counter)
    tally: Tally = yield ReadTally()
    at = iso(cycle.last_reply(tally))
    becomes, together = log.list_changes(cycle_id=cycle.cycle_id, reflected_at=at)
    return _Outcome(
        [*becomes],
        [*becomes.values()],
        tokens=log.tokens,
        text=write_log(log.groups),
        edited=dict(log.edited),
        together=together,
    )


# --- Rewriting -----------------------------------------------------------------------------------


def _rewrite(
    cycle: CycleInfo,
    sources: Sequence[Group],
    *,
    questions: int,
    shown: Sequence[str] | None = None,
) -> EffectFlow[_Outcome]:
    """Have the log written anew; one that is about several threads, each thread's for itself."""
    ids = [group["id"] for group in sources]
    rewrite = cycle.settings.features.first("rewrite")
    if rewrite is not None:
        if shown is None:
            shown = yield from _show_groups(cycle, sources)
        groups, text = yield from rewrite(cycle, sources, shown, questions)
    else:
        result = yield from _rewrite_thread(cycle, sources, questions, shown)
        tally: Tally = yield ReadTally()
        groups = regroup(
            sources,
            result.text,
            cycle_id=cycle.cycle_id,
            reflected_at=iso(cycle.last_reply(tally)),
            counter=cycle.settings.counter,
        )
        text = result.text
    return _Outcome(ids, groups, sum(group["tokens"] for group in groups), text)


def _rewrite_thread(
    cycle: CycleInfo, groups: Sequence[Group], questions: int, shown: Sequence[str] | None
) -> EffectFlow[Reflection]:
    settings = cycle.settings
    if shown is None:
        given = {"observations": write_log(groups)}
        view = yield from rewrite_by_hook(cycle, "before_reflection", given)
        log = check_left(view, "before_reflection")
    else:
        log = "\n\n".join(filter(None, shown))
    tokens = sum(group["tokens"] for group in groups)
    request = ReflectorInput(
        log=log,
        tokens=tokens,
        target=find_target(cycle, groups),
        instruction=settings.reflection.instruction,
        prompt=settings.observation.prompt,
    )
    try:
        result = yield from reflect(request, settings.counter, questions=questions)
    except ObserverError as error:
        if not error.room or len(groups) < 2:  # noqa: PLR2004 a group is not divided
            raise
        half, texts = len(groups) // 2, list[str]()
        for part in (slice(None, half), slice(half, None)):
            seen = None if shown is None else shown[part]
            written = yield from _rewrite_thread(cycle, groups[part], questions, seen)
            texts.append(written.text)
        text = "\n\n".join(texts)
        return Reflection(text, settings.counter.count_text(text))
    kept = yield from rewrite_by_hook(cycle, "after_reflection", {"observations": result.text})
    text = check_left(kept, "after_reflection")
    return Reflection(text, settings.counter.count_text(text))


# --- Both ----------------------------------------------------------------------------------------

REFLECTION_TARGET = 0.75
"""A reflection is dense enough below this part of the log it read (or below the threshold).

Of a terse log more can only be freed by leaving out facts by the dozen.
"""

_BELOW_THRESHOLD = 0.97
"""What is taken for small enough is then still below the threshold."""


def check_left(texts: Mapping[str, Any], hook: str) -> str:
    """Return what a hook left of a log.

    Raises:
        ObserverError: When that is nothing; it would take the place of all that is known.
    """
    text = str(texts["observations"])
    if not text.strip():
        msg = f"the hook `{hook}` left nothing of the log"
        raise ObserverError(msg)
    return text


def find_target(cycle: CycleInfo, groups: Sequence[Group]) -> int:
    """Tell the size under which groups are dense enough, with the rest of the log as it is."""
    limits = cycle.settings.thresholds
    rest = cycle.tokens - sum(group["tokens"] for group in groups)
    target = min(
        round(limits.observation_tokens * _BELOW_THRESHOLD), round(cycle.tokens * REFLECTION_TARGET)
    )
    return max(1, target - rest)
