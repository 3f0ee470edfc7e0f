"""What a decision comes to: the flow that does it where it is due, or the job that runs ahead."""

from __future__ import annotations

from datetime import datetime

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.cycles.buffering import activate, buffer_in_place, wait_or_work
from langgraph_om.core.cycles.cycle import Cycle
from langgraph_om.core.cycles.observation import describe_observation
from langgraph_om.core.cycles.other_threads import (
    begin_others_ahead,
    observe_others_cycle,
    waive,
)
from langgraph_om.core.cycles.reflection import describe_reflection
from langgraph_om.core.cycles.shared.log_lease import claim_reflection
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.plan import Decision
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import MemoryRecord


def carry_out(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> EffectFlow[None]:
    """Carry out a decision, waiting for what it needs; the events change memory when folded.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        window: Its unobserved messages.
        decision: To activate, observe, reflect or buffer.
        now: The current time.

    Raises:
        ObserverError: When nothing came of it, with `on_error="raise"`.
    """
    if decision.kind == "activate":
        yield from activate(settings, record, window, decision, now)
    elif decision.kind == "buffer":
        job = yield from describe_job(settings, record, window, decision, now)
        if job is None:
            yield waive(window, decision.operation)
        else:
            yield from buffer_in_place(settings, record, window, job, now)
    elif decision.operation == "others":
        yield from observe_others_cycle(settings, record, window, now)
    elif _is_of_shared_log(settings, decision) and not (
        yield from _claim_blocking(settings, record, window)
    ):
        yield waive(window, "reflection")
    else:
        yield from wait_or_work(settings, record, window, decision, now)


def describe_job(
    settings: Settings,
    record: MemoryRecord,
    window: Window,
    decision: Decision,
    now: datetime,
    *,
    cycle_id: str | None = None,
) -> EffectFlow[Cycle | None]:
    """Describe the cycle that a decision to buffer asks for.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        window: Its unobserved messages.
        decision: To buffer.
        now: The current time.
        cycle_id: The id of a job about other threads that was asked for already; these may have
            gone on since.

    Returns:
        The cycle, which runs ahead; `None` when nothing is left of it to do.
    """
    if decision.operation == "observation":
        return describe_observation(settings, record, window, decision.count, now, mode="ahead")
    if decision.operation == "reflection":
        if _is_of_shared_log(settings, decision) and not (
            yield from claim_reflection(record, "ahead")
        ):
            return None
        return describe_reflection(settings, record, now, mode="ahead")
    return (yield from begin_others_ahead(settings, record, window, now, cycle_id=cycle_id))


def _claim_blocking(settings: Settings, record: MemoryRecord, window: Window) -> EffectFlow[bool]:
    """Ask to condense a shared log while the turn waits.

    What another thread does ahead of need is left to it until the log is as large again.
    """
    limits = settings.thresholds
    if limits.buffer_tokens is None:
        return (yield from claim_reflection(record, "blocking"))
    leave_below = limits.block_observations_at(window.tokens) + limits.observation_tokens
    return (yield from claim_reflection(record, "blocking", leave_below=leave_below))


def _is_of_shared_log(settings: Settings, decision: Decision) -> bool:
    """Return whether one thread at a time may do it: a reflection of a log that threads share."""
    return settings.scope == "resource" and decision.operation == "reflection"
