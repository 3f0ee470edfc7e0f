"""Take in what was observed while a conversation paused, which its record does not know of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.cycles.observation import describe_observation
from langgraph_om.core.cycles.results import take_in_results
from langgraph_om.core.effects import EffectFlow, PeekJobs
from langgraph_om.core.plan import plan_pause
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.wire import Event, MemoryRecord


def take_in_pause(
    settings: Settings,
    before: MemoryRecord,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    *,
    now: datetime,
) -> EffectFlow[list[Event]]:
    """Look for the job of the pause before this turn; the same messages make the same job.

    Args:
        settings: The settings in force.
        before: The memory as the last turn left it, which has counted what was said by then.
        record: The memory with all counted.
        messages: The whole conversation.
        window: Its unobserved messages.
        now: The current time.

    Returns:
        Its start, and its result where it is there by now.
    """
    head, seconds = before.get("head"), settings.observation.buffer_on_idle
    if head is None or seconds is None or record["pending"].get("observation"):
        return []
    if (now - datetime.fromisoformat(head["at"])).total_seconds() < seconds:
        return []
    known = before["token_cache"]["counts"]
    new = next((entry for entry in window.entries if entry.key not in known), None)
    if new is None:
        return []
    at = next(at for at in range(len(messages) - 1, -1, -1) if messages[at] is new.message)
    then = open_window(record, messages[:at], settings.counter)
    decision = plan_pause(record, then, settings.thresholds)
    if decision.kind == "proceed":
        return []
    job = describe_observation(settings, record, then, decision.count, now, mode="ahead")
    state = (yield PeekJobs({"observation": job.cycle_id}))["observation"]
    if state is None or state == "expired":
        return []
    started = fold(record, [job.start])
    return [job.start, *take_in_results(settings, started, window, {"observation": state}, now)]
