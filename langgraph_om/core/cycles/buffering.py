"""Buffering: observation and reflection ahead of need, beside the conversation.

A job is described by its start event, which the record keeps as pending, and done by a flow whose
last event is the result. Results are judged when they are collected; what fits is kept until
`activation` makes it memory, without a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.cycles.cycle import CycleFlow, CycleInfo, Tally, Wait
from langgraph_om.core.cycles.hooks import ask_observer
from langgraph_om.core.cycles.observation import (
    condensed,
    hints_of,
    observe_cycle,
    reflect_cycle,
    title_change,
)
from langgraph_om.core.cycles.results import JobState, collected, over, size_of
from langgraph_om.core.events import Event, iso
from langgraph_om.core.plan import Decision, back_off
from langgraph_om.core.record.chunks import covered_count, entries_digest, live_chunks
from langgraph_om.core.record.record import (
    Group,
    MemoryRecord,
    derive_id,
    failures_of,
    fold,
    log_owner,
    log_tokens,
    newest_observed,
    position_of_groups,
)
from langgraph_om.core.record.window import Entry, Window
from langgraph_om.core.reflect.regroup import log_text
from langgraph_om.errors import ObserverError


@dataclass(frozen=True, slots=True)
class Job:
    """Work to do beside the conversation."""

    cycle_id: str
    key: str
    """Of jobs with the same key, one runs at a time."""
    start: Event
    flow: CycleFlow
    """Its only event is the result: `buffering-end` or `buffering-failed`."""


# --- Starting ------------------------------------------------------------------------------------


def buffer_job(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> Job:
    """Describe the job that a decision to buffer asks for."""
    if decision.operation == "observation":
        return _observation_job(settings, record, window, decision.count, now)
    return _reflection_job(settings, record, now)


def _observation_job(
    settings: Settings, record: MemoryRecord, window: Window, stop: int, now: datetime
) -> Job:
    live = live_chunks(record, window)
    start = covered_count(live)
    entries = window.entries[start:stop]
    digest = entries_digest(entries)
    cycle_id = derive_id("buffer", record["id"], failures_of(record, "observation"), digest)
    tokens = window.weight(start, stop)
    cycle = CycleInfo(settings, record, "observation", cycle_id, tokens, now, "buffer")
    covers = {"ids": [entry.key for entry in entries], "digest": digest}
    return job_of(cycle, covers, _observe_ahead(cycle, entries, digest, [p.chunk for p in live]))


def _reflection_job(settings: Settings, record: MemoryRecord, now: datetime) -> Job:
    ids = [group["id"] for group in record["log"]]
    attempt = failures_of(record, "reflection")
    cycle_id = derive_id("buffer-reflection", log_owner(record), attempt, *ids)
    tokens = log_tokens(record)
    cycle = CycleInfo(settings, record, "reflection", cycle_id, tokens, now, "buffer")
    return job_of(cycle, {"group_ids": ids}, _reflect_ahead(cycle))


def job_of(cycle: CycleInfo, covers: Mapping[str, Any], flow: CycleFlow, **fields: Any) -> Job:
    """Describe the job of a cycle."""
    key = f"{cycle.record['id']}:{cycle.operation}"
    return Job(cycle.cycle_id, key, cycle.start("buffering-start", covers=covers, **fields), flow)


def deferred(settings: Settings, record: MemoryRecord, window: Window, job: Job) -> Event:
    """Say that the executor has no room for a job now; it is tried again after some growth."""
    operation = job.start["operation"]
    size = size_of(operation, record, window)
    threshold = settings.thresholds.due(operation)
    return {
        **{key: value for key, value in job.start.items() if key not in ("config", "covers")},
        "type": "buffering-failed",
        "error": "deferred: the executor is closed, or has no room for this job now",
        "duration_ms": 0,
        "usage": {},
        "failures": failures_of(record, operation),
        "at_tokens": size,
        "retry_at_tokens": back_off(1, size, threshold),
    }


def buffer_in_place(
    settings: Settings, record: MemoryRecord, window: Window, job: Job, now: datetime
) -> CycleFlow:
    """Do a job where it is due, without an executor: its start, its calls, its result."""
    yield job.start
    operation = job.start["operation"]
    states: dict[str, JobState] = dict.fromkeys(record["pending"], "running")
    try:
        item = next(job.flow)
        while True:
            if isinstance(item, dict):
                states[operation] = item
                item = job.flow.send(None)
            else:
                item = job.flow.send((yield item))
    except StopIteration:
        pass
    yield from collected(settings, fold(record, [job.start]), window, states, now)


# --- The work ------------------------------------------------------------------------------------


def _observe_ahead(
    cycle: CycleInfo,
    entries: Sequence[Entry],
    digest: str,
    chunks: Sequence[Mapping[str, Any]],
) -> CycleFlow:
    settings, record = cycle.settings, cycle.record
    tally = Tally(cycle.started)
    known = [*_log_with_reflection(record), *map(_group_of, chunks)]
    hints = _live_hints(record, chunks)
    try:
        parsed = yield from ask_observer(cycle, tally, entries, known=known, hints=hints)
    except ObserverError as error:
        partial = error.observations or None
        yield cycle.end("buffering-failed", tally, error=str(error), observations=partial)
        return
    text = parsed.observations
    tokens = settings.counter.count_text(text)
    chunk = {
        "id": cycle.cycle_id,
        "cycle_id": cycle.cycle_id,
        "ranges": [[entries[0].key, entries[-1].key]],
        "thread_id": record["thread_id"],
        "message_count": len(entries),
        "message_tokens": cycle.tokens,
        "text": text,
        "tokens": tokens,
        "digest": digest,
        **hints_of(settings, parsed),
        "created_at": iso(tally.at),
    }
    yield cycle.end(
        "buffering-end", tally, chunk=chunk, observation_tokens=tokens, observations=text
    )


def _log_with_reflection(record: MemoryRecord) -> Sequence[Group]:
    """Return the log with a buffered reflection in the place of the groups it read."""
    buffered = record["reflection"]
    if buffered is None:
        return record["log"]
    start = position_of_groups(record["log"], buffered["group_ids"])
    if start is None:
        return record["log"]
    stop = start + len(buffered["group_ids"])
    return [*record["log"][:start], *buffered["groups"], *record["log"][stop:]]


def _group_of(chunk: Mapping[str, Any]) -> Group:
    """Return what a chunk becomes in the log."""
    return {
        "id": chunk["id"],
        "kind": "observation",
        "ranges": chunk["ranges"],
        "thread_id": chunk["thread_id"],
        "observed_at": chunk["created_at"],
        "text": chunk["text"],
        "tokens": chunk["tokens"],
    }


def _live_hints(record: MemoryRecord, chunks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the newest hints: those of the newest chunk that has them, else the record's."""
    hints = {}
    for name in ("current_task", "suggested_response"):
        said = [chunk[name] for chunk in chunks if chunk[name] is not None]
        hints[name] = said[-1] if said else record.get(name)
    return hints


def _reflect_ahead(cycle: CycleInfo) -> CycleFlow:
    groups = cycle.record["log"]
    tally = Tally(cycle.started)
    try:
        written, text, _ = yield from condensed(cycle, tally, groups)
    except ObserverError as error:
        partial = error.observations or None
        yield cycle.end("buffering-failed", tally, error=str(error), observations=partial)
        return
    tokens = sum(group["tokens"] for group in written)
    buffered = {
        "cycle_id": cycle.cycle_id,
        "group_ids": [group["id"] for group in groups],
        "groups": written,
        "input_tokens": cycle.tokens,
        "tokens": tokens,
        "created_at": iso(tally.at),
    }
    yield cycle.end(
        "buffering-end",
        tally,
        reflection=buffered,
        observation_tokens=tokens,
        observations=text,
    )


# --- Waiting -------------------------------------------------------------------------------------


def blocking_cycle(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> CycleFlow:
    """Observe or reflect while the turn waits; a job that is at work on it is waited for first.

    Raises:
        ObserverError: When nothing came of it, with `on_error="raise"`.
    """
    operation = decision.operation
    pending = record["pending"].get(operation)
    if pending is not None:
        state = yield Wait(pending["cycle_id"])
        if state == "running":
            why = "overtaken: the turn could not wait for the job any longer"
            events = [over(record, operation, pending, now, why)]
        else:
            states: dict[str, JobState] = dict.fromkeys(record["pending"], "running")
            states[operation] = state if isinstance(state, dict) else None
            events = collected(settings, record, window, states, now)
        yield from events
        if any(event["type"] == "buffering-end" for event in events):
            return
        record = fold(record, [events])
    if operation == "observation":
        yield from observe_cycle(settings, record, window, decision.count, now)
    else:
        yield from reflect_cycle(settings, record, window, now)


# --- Activating ----------------------------------------------------------------------------------


def activation(
    settings: Settings, record: MemoryRecord, window: Window, decision: Decision, now: datetime
) -> CycleFlow:
    """Make buffered work memory; instant, no model is asked."""
    if decision.operation == "reflection":
        yield _activate_reflection(settings, record, now)
        return
    live = live_chunks(record, window)[: decision.count]
    chunks = [part.chunk for part in live]
    groups = [_group_of(chunk) for chunk in chunks]
    stop = covered_count(live)
    cycle_id = derive_id("activate", record["id"], *(chunk["id"] for chunk in chunks))
    cycle = CycleInfo(
        settings, record, "observation", cycle_id, sum(part.tokens for part in live), now
    )
    title = next((c["thread_title"] for c in reversed(chunks) if c["thread_title"]), None)
    yield cycle.event(
        "activation",
        now,
        after=newest_observed(record),
        cursor=window.cursor_after(stop),
        chunk_ids=[chunk["id"] for chunk in chunks],
        groups=groups,
        chunks=len(chunks),
        messages=stop,
        observation_tokens=log_tokens(record) + sum(group["tokens"] for group in groups),
        observations=log_text(groups),
        generation=record["generation"],
        config=settings.marker(),
        thread_title=title,
        **_live_hints(record, chunks),
    )
    yield from title_change(cycle, now, title)


def _activate_reflection(settings: Settings, record: MemoryRecord, now: datetime) -> Event:
    buffered = record["reflection"] or {}
    after = log_tokens(record) - buffered["input_tokens"] + buffered["tokens"]
    cycle_id = derive_id("activate", record["id"], buffered["cycle_id"])
    cycle = CycleInfo(settings, record, "reflection", cycle_id, buffered["input_tokens"], now)
    return cycle.event(
        "activation",
        now,
        group_ids=buffered["group_ids"],
        groups=buffered["groups"],
        chunks=1,
        messages=0,
        observation_tokens=after,
        observations=log_text(buffered["groups"]),
        generation=record["generation"] + 1,
        config=settings.marker(),
        **cycle.rest_after(after),
    )
