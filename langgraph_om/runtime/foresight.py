"""Whether the next inspection will only count, as far as the state tells; nothing is changed here.

What only the archive or another process knows is not asked: such a step is said to have work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.plan import plan
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.step.inspect import count_and_collect
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.runtime.runner import StepRunner

_COUNTING = frozenset({"opened", "counted"})
"""Events that a later inspection finds again, and that nobody is shown."""


def is_idle(runner: StepRunner, state: Mapping[str, Any]) -> bool:
    """Return whether the Actor is next, and nothing has happened that must be kept before it is.

    It never raises: an error here would take the message or the tool's result with it that comes in
    with this step, and the inspection raises it again.

    Args:
        runner: What the memory runs its steps with.
        state: The graph's state before the Actor's call.
    """
    try:
        if not runner.is_on() or runner.is_read_only():
            return True
        return _is_idle(runner, state)
    except Exception:  # noqa: BLE001 whatever a counter or a function of the user raises
        return False


def _is_idle(runner: StepRunner, state: Mapping[str, Any]) -> bool:
    record = complete_record(state.get("om"))
    settings = runner.settings_in_force(record)
    if not record["id"] or record["scope"] != settings.scope or record.get("tripwire") is not None:
        return False
    if not _is_all_running(runner, record):
        return False
    step = Step(
        settings,
        record,
        runner.conversation(state),
        Identity(record["thread_id"], record["resource_id"]),
        runner.clock(),
        before=runner.spans.recall(record["id"]),
    )
    return _only_counts(runner, step)


def _only_counts(runner: StepRunner, step: Step) -> bool:
    """Return whether an inspection does nothing but count."""
    if any(is_due(step) for is_due in step.settings.features.having("is_due")):
        return False
    count_and_collect(step, dict.fromkeys(step.record["pending"], "running"))
    runner.spans.keep(step.former["id"], step.window.span)  # the inspection goes on from it
    if not _COUNTING.issuperset(event["type"] for event in step.events):
        return False
    settings = step.settings
    decision = plan(step.record, step.window, settings.thresholds, step.now, settings.features)
    return decision.kind == "proceed"


def _is_all_running(runner: StepRunner, record: MemoryRecord) -> bool:
    """Return whether no pending job is over; `False` where only a look elsewhere would tell."""
    jobs = record["pending"].values()
    if not runner.jobs_are_here or runner.archive is not None:
        return not jobs
    return all(runner.buffering.peek(job["cycle_id"]) == "running" for job in jobs)
