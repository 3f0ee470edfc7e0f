"""Inspect the conversation before a model call.

New messages are counted, finished jobs taken in, what features have to say is taken in, what is due
is decided, and the state of both windows is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from langgraph_om.core.actor.head import track_head
from langgraph_om.core.actor.windows import find_smallest, list_known
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.results import drop_stale_buffers, take_in_results
from langgraph_om.core.effects import EffectFlow, JobState, PeekJobs, Warn
from langgraph_om.core.events import iso
from langgraph_om.core.plan import PROCEED, Decision, plan
from langgraph_om.core.record.record import select_valid_counts
from langgraph_om.core.record.strays import check_observed, has_strays
from langgraph_om.core.record.window import Window
from langgraph_om.core.step.count_new import build_status, build_trim_notice, count_new
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import Event, Head, MemoryRecord, Opened, Operation


def inspect(
    step: Step, *, must_proceed: bool = False, buffering_waits: bool = False
) -> EffectFlow[None]:
    """Inspect the conversation before a model call, and decide what is due.

    Args:
        step: What is known; it has what was found then. Where it is final, nothing is decided.
        must_proceed: Whether there is no room left for work (few supersteps remain).
        buffering_waits: Whether the Actor goes on only after the buffering that is due.

    Raises:
        ConfigurationError: When a log is to be shared and the run does not say with whom, or the
            archive says that the thread belongs to another resource.
    """
    features = step.settings.features
    jobs = yield from peek_pending(step.record)
    for enter in features.having("enter"):
        yield from enter(step)
    count_and_collect(step, jobs)
    if step.overlooked:
        text = (
            "thread %r: %d message(s) were put among those that are observed; memory does not read "
            "them, add history before the first turn or at the end"
        )
        thread_id = step.former["thread_id"] or step.identity.thread_id
        yield Warn(text, (thread_id, step.overlooked))
    step.apply(list_known(step.record, step.windows, step.messages))
    for collect in features.having("collect"):
        yield from collect(step)
    if not step.is_final:
        step.decision = _choose(step, must_proceed=must_proceed)
        if goes_on(step.decision, buffering_waits=buffering_waits):
            for prepare in features.having("before_actor"):
                yield from prepare(step)
            _state_step(step)
        elif step.decision.kind == "abort":
            step.events.append(_build_tripwire(step.record, step.now))
    for finish in features.having("after"):
        yield from finish(step)


def peek_pending(record: MemoryRecord) -> EffectFlow[dict[Operation, JobState]]:
    """Return, per pending operation, what the executor knows of the job."""
    cycle_ids = {name: job["cycle_id"] for name, job in record["pending"].items()}
    return (yield PeekJobs(cycle_ids)) if cycle_ids else {}


def count_and_collect(step: Step, jobs: Mapping[Operation, JobState] | None = None) -> None:
    """Count what is new and take in what is done; decide nothing.

    Args:
        step: What is known.
        jobs: Per pending operation, what the executor knows of the job.
    """
    settings = step.settings
    is_new = not step.record["id"]
    step.apply(_open_record(settings, step.record, step.identity))
    window = step.open()
    observed, step.overlooked = check_observed(step.record, step.messages, window.start)
    if has_strays({**step.record, "observed": observed}) or window.strays.messages:
        step.record = {**step.record, "observed": observed}
        window = step.open(anew=True)
    step.apply(
        count_new(
            settings,
            step.record,
            step.messages,
            window,
            step.now,
            observed=observed,
            first_look=is_new,
        )
    )
    window.span.counted_in = select_valid_counts(step.record, settings.counter.identity)
    step.apply(
        [
            *drop_stale_buffers(step.record, window, step.now),
            *take_in_results(settings, step.record, window, jobs or {}, step.now),
        ]
    )


def _choose(step: Step, *, must_proceed: bool) -> Decision:
    """Decide from what was gathered; with no room left for work, the Actor goes on."""
    settings = step.settings
    decision = plan(step.record, step.window, settings.thresholds, step.now, settings.features)
    return PROCEED if must_proceed and decision.kind != "abort" else decision


def goes_on(decision: Decision, *, buffering_waits: bool) -> bool:
    """Return whether the Actor is called next."""
    return decision.kind == "proceed" or (decision.kind == "buffer" and not buffering_waits)


def _state_step(step: Step) -> None:
    """State both windows, as the Actor is called next."""
    window, view, number = step.window, step.view, _count_step(step.record, step.window)
    head = track_head(step.record, step.messages, view, step.now)
    step.note(
        {"type": "stepped", "request": window.request, "step": number, "head": head},
    )
    limit = step.settings.max_input_tokens
    step.events += build_trim_notice(step.record, window, view.shown.dropped, limit)
    actor = find_smallest(step.windows)
    data = build_status(step.record, window, step.settings.thresholds, step=number, actor=actor)
    step.events.append({"type": "status", "data": data})


def _build_tripwire(record: MemoryRecord, now: datetime) -> Event:
    """Say why there is no answer, in the turn that failed and in each that repeats it."""
    tripwire: Mapping[str, Any] = record.get("tripwire") or {}
    return {
        "type": "tripwire",
        "operation": tripwire.get("operation"),
        "at": iso(now),
        "reason": tripwire.get("reason"),
        "last_message": tripwire.get("last_message"),
        "record_id": record["id"],
        "thread_id": record["thread_id"],
    }


def _count_step(record: MemoryRecord, window: Window) -> int:
    turn = record["turn"]
    step: int = turn["step"] + 1 if turn["request"] == window.request else 0
    return step


def _open_record(settings: Settings, record: MemoryRecord, identity: Identity) -> list[Event]:
    whose = (identity.thread_id, identity.resource_id)
    key = derive_id("om", settings.scope, *whose, *identity.place)
    if (record["id"], record["thread_id"], record["resource_id"]) == (key, *whose):
        return []
    opened: Opened = {
        "type": "opened",
        "id": key,
        "thread_id": identity.thread_id,
        "resource_id": identity.resource_id,
        "scope": settings.scope,
    }
    if identity.place:
        opened["place"] = [*identity.place]
    return [opened]


# What a run that may write nothing is shown: the memory as it is, before a new live request.


def freeze_view(step: Step, today: date) -> MemoryRecord:
    """Return a record from which the Actor's view is made, and which nobody keeps.

    Reasoning that its provider has bound to what stands before it is shown from the live request
    on: since then the view holds still, and what was before nobody has tracked.

    Args:
        step: What an inspection would have counted.
        today: The day, where the record knows of none that its dates are relative to.
    """
    record, window = step.record, step.window
    blank: Head = {
        "after": None,
        "seen": None,
        "digest": "",
        "log": "",
        "as_of": today.isoformat(),
        "at": iso(step.now),
    }
    head: Head = {**(record.get("head") or blank), "after": window.request}
    frozen: MemoryRecord = {
        **record,
        "turn": {"request": window.request, "step": 0},
        "head": head,
    }
    return frozen
