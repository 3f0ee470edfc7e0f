"""What a decision comes to: the flow that does it where it is due, or the job that runs ahead.

The result of a job is judged against the conversation as it is by then. It is taken in only where
its messages or groups still stand as they did; everything else is said to be over, and its messages
stay as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import add_parents, derive_id
from langgraph_om.core.cycles.cycle import Cycle, CycleInfo, run_ahead
from langgraph_om.core.cycles.observation import (
    describe_move,
    describe_observation,
    merge_hints,
    observe_cycle,
)
from langgraph_om.core.cycles.questions import (
    announce_found,
    join_found,
    tell_found,
)
from langgraph_om.core.cycles.reflection import describe_reflection, reflect_cycle
from langgraph_om.core.effects import EffectFlow, JobState, Tally, WaitForJob
from langgraph_om.core.events import iso
from langgraph_om.core.plan import Decision, back_off
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import (
    Substitution,
    count_failures,
    find_groups,
    log_tokens,
    place_reflection,
    write_log,
)
from langgraph_om.core.record.users_log import count_due
from langgraph_om.core.record.window import (
    Window,
    count_covered,
    digest_entries,
    select_live_chunks,
)
from langgraph_om.core.wire import (
    OTHERS,
    BufferedReflection,
    BufferingFailed,
    Chunk,
    CycleStarted,
    Event,
    JobRequest,
    JobResult,
    MemoryRecord,
    Operation,
    PendingJob,
)

_LET_GO: Final[Mapping[str, str]] = {
    # All workers know this by the claim, so that one of them begins again, at once.
    "expired": "abandoned: the worker that ran the job ended or can't be reached",
    "withdrawn": "overtaken: the job still waited for a free worker, so the turn did the work",
}


def take_in_results(
    settings: Settings,
    record: MemoryRecord,
    window: Window,
    states: Mapping[Operation, JobState],
    now: datetime,
) -> list[Event]:
    """Return one event for each pending job that is over: its result if it fits, else why not."""
    events: list[Event] = []
    # A copied thread collects the job of the thread it was copied from.
    here = {"record_id": record["id"], "thread_id": record["thread_id"]}
    for operation, pending in record["pending"].items():
        state = states.get(operation)
        if state == "running":
            continue
        if state == "expired" or state == "withdrawn":  # noqa: PLR1714 which narrows its type
            events.append(discarded_event(record, operation, pending, now, _LET_GO[state]))
            continue
        if state is None:
            events.append(_build_lost(settings, record, window, operation, now))
            continue
        misfit = _find_misfit(record, window, operation, pending, state)
        if misfit:
            events.append(discarded_event(record, operation, pending, now, misfit, paid=state))
        elif state["type"] == "buffering-failed":
            info = CycleInfo(settings, record, state["operation"], pending["cycle_id"], 0, now)
            size = size_of(operation, record, window)
            back_off = info.failures(size)
            # A failing job must not keep the turn from asking at the blocking threshold.
            limit = max(size, _blocking_size(settings, record, window, operation))
            back_off["retry_at_tokens"] = min(back_off["retry_at_tokens"], limit)
            read = state["tokens"] or pending["tokens"]  # where it failed before any was read
            failed = {**state, **here, **back_off, "tokens": read}
            events.append(cast("JobResult", failed))
        else:
            events.append(cast("JobResult", {**state, **here}))
    return events


def size_of(operation: Operation, record: MemoryRecord, window: Window) -> int:
    """Count what an operation is about: tokens of the window, of the log, or of other threads."""
    if operation == OTHERS:
        return count_due(record)
    return window.tokens if operation == "observation" else log_tokens(record)


def _blocking_size(
    settings: Settings, record: MemoryRecord, window: Window, operation: Operation
) -> int:
    if operation == OTHERS:
        return sys.maxsize  # no turn waits for it while there is buffering
    if operation == "observation":
        return settings.thresholds.block_messages_at(log_tokens(record))
    return settings.thresholds.block_observations_at(window.tokens)


def _build_lost(
    settings: Settings, record: MemoryRecord, window: Window, operation: Operation, now: datetime
) -> BufferingFailed:
    """Say that a job is not known here: its process ended, or another one runs it.

    The next one waits for as much growth again, or workers that take turns would each ask again.
    """
    pending = record["pending"][operation]
    size = size_of(operation, record, window)
    limit = max(size, _blocking_size(settings, record, window, operation))
    why = "lost: the job is not known here; it ended with its process or belongs to another"
    lost = discarded_event(record, operation, pending, now, why)
    return _wait_for_growth(record, lost, size, min(size + pending["tokens"], limit))


def _wait_for_growth(
    record: MemoryRecord, let_go: BufferingFailed, size: int, retry_at: int
) -> BufferingFailed:
    """Say of work that was let go that the next attempt waits; earlier failures stay as many."""
    failures = count_failures(record, let_go["operation"])
    return {**let_go, "failures": failures, "at_tokens": size, "retry_at_tokens": retry_at}


def _find_misfit(
    record: MemoryRecord,
    window: Window,
    operation: Operation,
    pending: PendingJob,
    result: JobResult,
) -> str | None:
    if result["type"] == "buffering-failed" and result.get("discarded"):
        return result["error"]
    covers = pending["covers"]
    if operation == OTHERS:
        return None  # what of it still fits is taken in
    if operation == "reflection":
        if result["type"] == "buffering-end" and result["operation"] == "reflection":
            fits = place_reflection(record["log"], result["reflection"]) is not None
        else:
            fits = find_groups(record["log"], covers["group_ids"]) is not None
        return None if fits else "superseded: another reflection changed the log"
    start = count_covered(select_live_chunks(record, window))
    entries = window.entries[start : start + len(covers["ids"])]
    if [entry.key for entry in entries] != covers["ids"]:
        return "superseded: its messages were observed by another job, or are gone"
    if digest_entries(entries) != covers["digest"]:
        return "stale: its messages were changed"
    return None


def discarded_event(
    record: MemoryRecord,
    operation: Operation,
    job: PendingJob | Chunk | BufferedReflection | CycleStarted,
    now: datetime,
    why: str,
    *,
    paid: Mapping[str, Any] | None = None,
) -> BufferingFailed:
    """Build the event for a job that is of no use, which is no failure of the model.

    Args:
        why: One word that names the case, a colon, and the reason.
        paid: How long the work took and what it cost, if no other event says so.
    """
    said = {key: paid[key] for key in ("duration_ms", "usage") if paid and paid.get(key)}
    said |= {"operation": operation, "cycle_id": job["cycle_id"], "tokens": job["tokens"]}
    return _end_without(record, iso(now), **said, **_let_go(why))


def _let_go(why: str) -> dict[str, Any]:
    """Return the fields that tell work which was let go from work that failed."""
    return {"error": why, "discarded": True, "reason": why.partition(":")[0]}


def _end_without(whose: Mapping[str, Any], at: str, **said: Any) -> BufferingFailed:
    """Build the event of a job of which nothing came; by default nothing was spent on it."""
    event = {
        "type": "buffering-failed",
        "at": at,
        "record_id": whose["id"],
        "thread_id": whose["thread_id"],
        "resource_id": whose["resource_id"],
        "duration_ms": 0,
        "usage": Tally().usage(),
        **said,
    }
    return cast("BufferingFailed", event)


def drop_stale_buffers(record: MemoryRecord, window: Window, now: datetime) -> list[JobResult]:
    """Drop buffered work that does not fit the conversation any more."""
    events: list[JobResult] = []
    for chunk in record["chunks"][len(select_live_chunks(record, window)) :]:
        why = "stale: the messages of this chunk were changed or observed by another job"
        events.append(discarded_event(record, "observation", chunk, now, why))
    buffered = record["reflection"]
    if buffered and place_reflection(record["log"], buffered) is None:
        why = "superseded: another reflection changed the log"
        events.append(discarded_event(record, "reflection", buffered, now, why))
    return events


# Jobs that are sent elsewhere: what is said of them there, and failures.


RUN_OF: Final = "om_thread:"
"""What stands before each thread whose deletion ends a run, in the names of its metadata."""


def describe_run(request: JobRequest) -> dict[str, str | bool | None]:
    """Return a description of a run's job, for people who look at runs."""
    threads = add_parents([request["thread_id"], *request["about"]])
    return {
        **{RUN_OF + each: True for each in sorted(threads)},
        "om_cycle_id": request["cycle_id"],
        "om_operation": request["operation"],
        "om_thread_id": request["thread_id"],
        "om_resource_id": request["resource_id"],
    }


def fail_request(request: JobRequest, error: BaseException) -> BufferingFailed:
    """Build the result of a job that could not be carried out; it counts as a failure."""
    whose = {**request, "id": request["record"]["id"]}
    said = {"operation": request["operation"], "cycle_id": request["cycle_id"]}
    why = str(error) or type(error).__name__  # who takes it in knows how many tokens
    return _end_without(whose, request["at"], tokens=0, error=why, **said)


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
    operation = job.info.operation
    size = size_of(operation, record, window)
    why = "deferred: the executor is closed, or has no room for this job now"
    deferred = discarded_event(record, operation, job.start, job.info.started, why)
    retry_at = back_off(1, size, settings.thresholds.due(operation))
    return _wait_for_growth(record, deferred, size, retry_at)


def buffer_in_place(
    settings: Settings, record: MemoryRecord, window: Window, job: Cycle, now: datetime
) -> EffectFlow[None]:
    """Do a job where it is due, without an executor: its start, its calls, its result."""
    yield job.start
    states: dict[Operation, JobState] = dict.fromkeys(record["pending"], "running")
    states[job.info.operation] = cast("JobResult", (yield from run_ahead(job)))
    yield from take_in_results(settings, fold(record, [job.start]), window, states, now)


def run_job(job: Cycle) -> EffectFlow[None]:
    """Do a job in the background; its last event is its result."""
    yield job.start
    yield (yield from run_ahead(job))


# --- Waiting -------------------------------------------------------------------------------------


def wait_or_work(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> EffectFlow[None]:
    """Observe or reflect while the turn waits, after a job that is at work on it."""
    operation = decision.operation
    pending = record["pending"].get(operation)
    if pending is not None:
        state = yield WaitForJob(pending["cycle_id"])
        if state == "running":
            why = "overtaken: the turn could no longer wait for the job"
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
        yield from reflect_cycle(settings.instruct(decision.instruction), record, window, now)


# --- Activating ----------------------------------------------------------------------------------


def activate(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> EffectFlow[None]:
    """Make buffered work memory; instant, no model is asked."""
    if decision.operation == "reflection":
        yield from _activate_reflection(settings, record, decision, now)
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
    activation = cycle.event(
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
        **(decision.cold or {}),
        hints=merge_hints(record, (chunk["hints"] for chunk in chunks)),
        **tell_found(found),
    )
    yield activation
    yield from announce_found(cycle, now, activation)


def _activate_reflection(
    settings: Settings, record: MemoryRecord, decision: Decision, now: datetime
) -> EffectFlow[None]:
    buffered = cast("BufferedReflection", record["reflection"] or {})
    placed = place_reflection(record["log"], buffered) or Substitution([], [])
    read = sum(group["tokens"] for group in record["log"] if group["id"] in placed.group_ids)
    after = log_tokens(record) - read + sum(group["tokens"] for group in placed.groups)
    cycle_id = derive_id("activate", record["id"], buffered["cycle_id"])
    cycle = CycleInfo(settings, record, "reflection", cycle_id, buffered["input_tokens"], now)
    activation = cycle.event(
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
        **(decision.cold or {}),
        **cycle.rest_after(after),
    )
    yield activation


def carry_out(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> EffectFlow[None]:
    """Carry out a decision, waiting for what it needs; the events change memory when folded."""
    if decision.kind == "activate":
        yield from activate(settings, record, window, decision, now)
    elif decision.kind == "buffer":
        job = describe_job(settings, record, window, decision, now)
        yield from buffer_in_place(settings, record, window, job, now)
    elif decision.operation == OTHERS and settings.parts.sharing is not None:
        yield from settings.parts.sharing.work(settings, record, window, now)
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
) -> Cycle:
    """Describe the cycle that a decision to buffer asks for.

    Args:
        cycle_id: The id of a job about other threads that was asked for before.
    """
    sharing = settings.parts.sharing
    if decision.operation == OTHERS and sharing is not None:
        return sharing.begin(settings, record, window, now, mode="ahead", cycle_id=cycle_id)
    if decision.operation == "observation":
        return describe_observation(settings, record, window, decision.count, now, mode="ahead")
    return describe_reflection(settings, record, now, mode="ahead")
