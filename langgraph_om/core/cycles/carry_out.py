"""What a decision comes to: the flow that does it where it is due, or the job that runs ahead."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import Cycle, CycleInfo, Mode, run_ahead, waive
from langgraph_om.core.cycles.observation import (
    describe_move,
    describe_observation,
    merge_hints,
    observe_cycle,
)
from langgraph_om.core.cycles.reflection import describe_reflection, reflect_cycle
from langgraph_om.core.cycles.results import (
    discarded_event,
    mark_discarded,
    size_of,
    take_in_results,
)
from langgraph_om.core.cycles.values import announce_found, join_found, tell_found
from langgraph_om.core.effects import EffectFlow, JobState, Tally, WaitForJob
from langgraph_om.core.plan import Decision, back_off
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.groups import Placed, place_reflection
from langgraph_om.core.record.record import count_failures, log_tokens, write_log
from langgraph_om.core.record.window import Window, count_covered, select_live_chunks
from langgraph_om.core.wire import (
    BufferedReflection,
    BufferingFailed,
    Event,
    JobResult,
    MemoryRecord,
    Operation,
)

# Buffering: observation and reflection ahead of need, beside the conversation.
#
# The record keeps the start event of a job as pending. The event with which the job ends is its
# result, which is judged when it is taken in; what fits is kept until `activate` makes it memory,
# without a model.


# --- Starting ------------------------------------------------------------------------------------


def build_deferred(
    settings: Settings, record: MemoryRecord, window: Window, job: Cycle
) -> BufferingFailed:
    """Say that the executor has no room for a job now; it is tried again after some growth."""
    operation = job.start["operation"]
    size = size_of(operation, record, window)
    threshold = settings.thresholds.due(operation)
    why = "deferred: the executor is closed, or has no room for this job now"
    about = {key: value for key, value in job.start.items() if key not in ("config", "covers")}
    event = {
        **about,
        "type": "buffering-failed",
        "error": why,
        **mark_discarded(why),
        "duration_ms": 0,
        "usage": Tally().usage(),
        "failures": count_failures(record, operation),
        "at_tokens": size,
        "retry_at_tokens": back_off(1, size, threshold),
    }
    return cast("BufferingFailed", event)


def buffer_in_place(
    settings: Settings, record: MemoryRecord, window: Window, job: Cycle, now: datetime
) -> EffectFlow[None]:
    """Do a job where it is due, without an executor: its start, its calls, its result."""
    yield job.start
    states: dict[Operation, JobState] = dict.fromkeys(record["pending"], "running")
    states[job.info.operation] = cast("JobResult", (yield from run_ahead(job)))
    yield from take_in_results(settings, fold(record, [job.start]), window, states, now)


def run_job(job: Cycle) -> EffectFlow[None]:
    """Do a job in the background; its only event is its result."""
    yield (yield from run_ahead(job))


# --- Waiting -------------------------------------------------------------------------------------


def wait_or_work(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> EffectFlow[None]:
    """Observe or reflect while the turn waits; a job that is at work on it is waited for first.

    Raises:
        ObserverError: When nothing came of it, with `on_error="raise"`.
    """
    operation = decision.operation
    pending = record["pending"].get(operation)
    if pending is not None:
        state = yield WaitForJob(pending["cycle_id"])
        if state == "running":
            why = "overtaken: the turn could not wait for the job any longer"
            took = now - datetime.fromisoformat(pending["at"])
            paid = {"duration_ms": max(0, round(took.total_seconds() * 1000))}
            events: list[Event] = [discarded_event(record, operation, pending, now, why, paid=paid)]
        else:
            states: dict[Operation, JobState] = dict.fromkeys(record["pending"], "running")
            states[operation] = state
            events = take_in_results(settings, record, window, states, now)
        yield from events
        if any(event["type"] == "buffering-end" for event in events):
            return
        record = fold(record, [events])
    if operation == "observation":
        yield from observe_cycle(settings, record, window, decision.count, now)
    else:
        yield from reflect_cycle(settings, record, window, now)


# --- Activating ----------------------------------------------------------------------------------


def activate(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> EffectFlow[None]:
    """Make buffered work memory; instant, no model is asked."""
    if decision.operation == "reflection":
        yield _activate_reflection(settings, record, decision, now)
        return
    live = select_live_chunks(record, window)[: decision.count]
    chunks = [part.chunk for part in live]
    groups = [group for chunk in chunks for group in chunk["groups"]]
    stop = count_covered(live)
    cycle_id = derive_id("activate", record["id"], *(chunk["id"] for chunk in chunks))
    cycle = CycleInfo(
        settings, record, "observation", cycle_id, sum(part.tokens for part in live), now
    )
    found = join_found(chunk.get("found", {}) for chunk in chunks)
    yield cycle.event(
        "activation",
        now,
        **describe_move(cycle, window, stop),
        chunk_ids=[chunk["id"] for chunk in chunks],
        groups=groups,
        chunks=len(chunks),
        messages=stop,
        observation_tokens=log_tokens(record) + sum(group["tokens"] for group in groups),
        observations=write_log(groups),
        generation=record["generation"],
        config=settings.marker(),
        triggered_by=decision.why,
        hints=merge_hints(record, (chunk["hints"] for chunk in chunks)),
        **tell_found(found),
    )
    yield from announce_found(cycle, now, found)


def _activate_reflection(
    settings: Settings, record: MemoryRecord, decision: Decision, now: datetime
) -> Event:
    buffered = cast("BufferedReflection", record["reflection"] or {})
    placed = place_reflection(record["log"], buffered) or Placed([], [])
    read = sum(group["tokens"] for group in record["log"] if group["id"] in placed.group_ids)
    after = log_tokens(record) - read + sum(group["tokens"] for group in placed.groups)
    cycle_id = derive_id("activate", record["id"], buffered["cycle_id"])
    cycle = CycleInfo(settings, record, "reflection", cycle_id, buffered["input_tokens"], now)
    return cycle.event(
        "activation",
        now,
        group_ids=placed.group_ids,
        groups=placed.groups,
        chunks=1,
        messages=0,
        observation_tokens=after,
        observations=write_log(placed.groups),
        generation=record["generation"] + 1,
        config=settings.marker(),
        triggered_by=decision.why,
        **cycle.rest_after(after),
    )


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
    elif (worker := settings.features.find_worker(decision.operation)) is not None:
        yield from worker.work(settings, record, window, now)
    elif not (yield from _claim(settings, record, window, decision, "blocking")):
        yield waive(window, decision.operation)
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
        cycle_id: The id of a job of a feature that was asked for already; what it is about may have
            gone on since.

    Returns:
        The cycle, which runs ahead; `None` when nothing is left of it to do.
    """
    worker = settings.features.find_worker(decision.operation)
    if worker is not None:
        job: Cycle | None = yield from worker.begin(
            settings, record, window, now, cycle_id=cycle_id
        )
        return job
    if decision.operation == "observation":
        return describe_observation(settings, record, window, decision.count, now, mode="ahead")
    if not (yield from _claim(settings, record, window, decision, "ahead")):
        return None
    return describe_reflection(settings, record, now, mode="ahead")


def _claim(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, mode: Mode
) -> EffectFlow[bool]:
    """Ask to be the one that does it, where a feature has only one at a time do it."""
    for claim in settings.features.having("claim"):
        if not (yield from claim(settings, record, window, decision.operation, mode)):
            return False
    return True
