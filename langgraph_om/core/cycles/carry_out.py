"""What a decision comes to: the flow that does it where it is due, or the job that runs ahead."""

from __future__ import annotations

from datetime import datetime

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.cycles.buffering import activate, buffer_in_place, wait_or_work
from langgraph_om.core.cycles.cycle import Cycle
from langgraph_om.core.cycles.observation import describe_observation
from langgraph_om.core.cycles.other_threads import (
    build_nothing_left,
    describe_others,
    observe_others_cycle,
    read_other_threads_if_possible,
)
from langgraph_om.core.cycles.reflection import describe_reflection
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
            yield build_nothing_left(record)
        else:
            yield from buffer_in_place(settings, record, window, job, now)
    elif decision.operation == "others":
        threads = yield from read_other_threads_if_possible(settings, record)
        yield from observe_others_cycle(settings, record, window, threads, now)
    else:
        yield from wait_or_work(settings, record, window, decision, now)


def describe_job(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> EffectFlow[Cycle | None]:
    """Describe the cycle that a decision to buffer asks for.

    Returns:
        The cycle, which runs ahead; `None` when nothing is left of it to do.
    """
    if decision.operation == "observation":
        return describe_observation(settings, record, window, decision.count, now, mode="ahead")
    if decision.operation == "reflection":
        return describe_reflection(settings, record, now, mode="ahead")
    threads = yield from read_other_threads_if_possible(settings, record)
    return describe_others(settings, record, threads, now, mode="ahead")
