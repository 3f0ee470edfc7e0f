"""The blocking cycles: observation and reflection while the turn waits."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.cycles.cycle import Answer, CycleFlow, CycleInfo, Step, Tally
from langgraph_om.core.cycles.hooks import ask_observer, ask_reflector, ask_reflector_of_threads
from langgraph_om.core.events import iso
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.record.record import (
    Group,
    MemoryRecord,
    derive_id,
    failures_of,
    log_owner,
    log_tokens,
    newest_observed,
)
from langgraph_om.core.record.window import Window
from langgraph_om.core.reflect.regroup import reflected_groups
from langgraph_om.errors import ModelTierError, ObserverError


def condensed(
    cycle: CycleInfo, tally: Tally, sources: Sequence[Group]
) -> Generator[Step, Answer, tuple[list[Group], str, str | None]]:
    """Have groups condensed; with a shared log, each thread's for themselves.

    Returns:
        The groups that take their place, what was written, and the current task.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    if cycle.settings.scope == "resource":
        groups, text = yield from ask_reflector_of_threads(cycle, tally, sources)
        return groups, text, None
    result = yield from ask_reflector(cycle, tally, sources)
    groups = reflected_groups(
        sources,
        result.text,
        cycle_id=cycle.cycle_id,
        reflected_at=iso(tally.at),
        counter=cycle.settings.counter,
    )
    return groups, result.text, result.current_task


# --- Observation ---------------------------------------------------------------------------------


def observe_cycle(
    settings: Settings, record: MemoryRecord, window: Window, count: int, started: datetime
) -> CycleFlow:
    """Observe the window's oldest messages while the turn waits.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        window: Its unobserved messages.
        count: How many of them to observe; 1 or more.
        started: The current time.
    """
    entries = window.entries[:count]
    after = newest_observed(record)
    attempt = failures_of(record, "observation")
    parts = [f"{entry.key}:{entry.digest}" for entry in entries]
    cycle_id = derive_id("observe", record["id"], after, attempt, *parts)
    tokens = window.weight(0, count)
    cycle = CycleInfo(settings, record, "observation", cycle_id, tokens, started)
    tally = Tally(started)
    yield cycle.start("observation-start")
    try:
        parsed = yield from ask_observer(cycle, tally, entries, known=record["log"], hints=record)
    except ObserverError as error:
        yield from failed(cycle, tally, error, window.tokens, window.last_key)
        return
    text = parsed.observations
    written = settings.counter.count_text(text)
    group: Group = {
        "id": cycle_id,
        "kind": "observation",
        "ranges": [[entries[0].key, entries[-1].key]],
        "thread_id": record["thread_id"],
        "observed_at": iso(tally.at),
        "text": text,
        "tokens": written,
    }
    yield cycle.end(
        "observation-end",
        tally,
        after=after,
        cursor=window.cursor_after(count),
        group=group,
        observation_tokens=written,
        observations=text,
        **hints_of(settings, parsed),
    )
    yield from title_change(cycle, tally.at, parsed.thread_title)


def hints_of(settings: Settings, parsed: Parsed) -> dict[str, str | None]:
    """Return the continuation hints of an answer; the title only where titles are asked for."""
    return {
        "current_task": parsed.current_task,
        "suggested_response": parsed.suggested_response,
        "thread_title": parsed.thread_title if settings.observation.thread_title else None,
    }


def title_change(cycle: CycleInfo, at: datetime, title: str | None) -> CycleFlow:
    """Say that the thread has a new title, if it has."""
    old = cycle.record["thread_title"]
    if cycle.settings.observation.thread_title and title is not None and title != old:
        yield cycle.event("thread-update", at, old_title=old, new_title=title)


def failed(
    cycle: CycleInfo, tally: Tally, error: ObserverError, size: int, last_message: str | None
) -> CycleFlow:
    """Say that nothing came of the cycle, and what follows from that.

    A question that no tier of a `ModelByInputTokens` covers ends the turn: the next will not fit
    either.

    Raises:
        ObserverError: The given one, with `on_error="raise"`.
    """
    back_off = cycle.failures(size)
    partial = error.observations or None
    yield cycle.end(
        "observation-failed",
        tally,
        error=str(error),
        observations=partial,
        last_message=last_message,
        **back_off,
    )
    if cycle.settings.on_error == "raise":
        raise error
    if cycle.settings.on_error == "abort" or isinstance(error.__cause__, ModelTierError):
        yield cycle.event("tripped", tally.at, reason=str(error), last_message=last_message)


# --- Reflection ----------------------------------------------------------------------------------


def reflect_cycle(
    settings: Settings, record: MemoryRecord, window: Window, started: datetime
) -> CycleFlow:
    """Condense the whole log while the turn waits.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        window: Its unobserved messages.
        started: The current time.
    """
    groups = record["log"]
    tokens = log_tokens(record)
    attempt = failures_of(record, "reflection")
    ids = [group["id"] for group in groups]
    cycle_id = derive_id("reflect", log_owner(record), attempt, *ids)
    cycle = CycleInfo(settings, record, "reflection", cycle_id, tokens, started)
    tally = Tally(started)
    yield cycle.start("observation-start")
    try:
        written, text, current_task = yield from condensed(cycle, tally, groups)
    except ObserverError as error:
        yield from failed(cycle, tally, error, tokens, window.last_key)
        return
    size = sum(group["tokens"] for group in written)
    yield cycle.end(
        "observation-end",
        tally,
        group_ids=ids,
        groups=written,
        observation_tokens=size,
        observations=text,
        current_task=current_task,
        **cycle.rest_after(size),
    )
