"""Whether the next inspection will only count, as far as the state tells; nothing is changed here.

What only the archive or another process knows is not asked: such a step is said to have work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.plan import plan
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.step.inspect import count_and_collect
from langgraph_om.core.step.title import describe_title
from langgraph_om.core.titles import read_title_state
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.core.working import find_unwritten
from langgraph_om.runtime.runner import StepRunner

_COUNTING = frozenset({"opened", "counted", "title-words"})
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
    record, settings = complete_record(state.get("om")), runner.settings_in_force
    now = runner.clock()
    # Of a shared log, only an exchange tells what is due.
    if not record["id"] or "resource" in (record["scope"], settings.scope):
        return False
    if _has_news(settings, record, now) or not _is_all_running(runner, record):
        return False
    return _only_counts(runner, settings, record, runner.conversation(state), now)


def _only_counts(
    runner: StepRunner,
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    now: datetime,
) -> bool:
    """Return whether an inspection of these messages does nothing but count."""
    found = count_and_collect(
        settings,
        record,
        messages,
        Identity(record["thread_id"], record["resource_id"]),
        now,
        jobs=dict.fromkeys(record["pending"], "running"),
        before=runner.spans.recall(record["id"]),
    )
    runner.spans.keep(record["id"], found.window.span)  # the inspection goes on from it
    if not _COUNTING.issuperset(event["type"] for event in found.events):
        return False
    if describe_title(settings, found.record, messages, now) is not None:
        return False
    return plan(found.record, found.window, settings.thresholds, now).kind == "proceed"


def _has_news(settings: Settings, record: MemoryRecord, now: datetime) -> bool:
    """Return whether the record has something to be told, written or asked after."""
    title = read_title_state(record)
    acts = (act["is_new"] for act in record.get("steered", ()))
    if record.get("tripwire") is not None or title.get("is_new") or any(acts):
        return True
    if title.get("cycle_id") is not None:
        return True
    if settings.working is not None and find_unwritten(record, record["resource_id"]):
        return True
    head, pause = record.get("head"), settings.observation.buffer_on_idle
    if head is None or pause is None:
        return False
    return (now - datetime.fromisoformat(head["at"])).total_seconds() >= pause


def _is_all_running(runner: StepRunner, record: MemoryRecord) -> bool:
    """Return whether no pending job is over; `False` where only a look elsewhere would tell."""
    jobs = record["pending"].values()
    if not runner.jobs_are_here or runner.archive is not None:
        return not jobs
    return all(runner.buffering.peek(job["cycle_id"]) == "running" for job in jobs)
