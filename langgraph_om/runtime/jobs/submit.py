"""Hand work to the executor: a job ahead of need, one for a pause, or the question for a title."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import cast

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.cycles.buffering import run_job
from langgraph_om.core.cycles.carry_out import describe_job
from langgraph_om.core.cycles.cycle import Cycle
from langgraph_om.core.plan import Decision, plan_pause
from langgraph_om.core.record.fold import fold
from langgraph_om.core.step.inspect import Inspection
from langgraph_om.core.step.title import describe_title, take_in_title, tell_title
from langgraph_om.core.wire import JobResult
from langgraph_om.runtime.drivers import drive
from langgraph_om.runtime.executors import BackgroundBuffering, Buffering
from langgraph_om.runtime.flows.context import RunContext, RunFlow, Submit
from langgraph_om.runtime.jobs.protocol import DelayingExecutor
from langgraph_om.runtime.jobs.requests import build_request


def submit_job(
    buffering: Buffering,
    job: Cycle,
    messages: Sequence[BaseMessage],
    decision: Decision,
    *,
    now: datetime,
    context: RunContext,
) -> RunFlow[bool]:
    """Hand a job to the executor.

    Args:
        buffering: The executor.
        job: The job.
        messages: The whole conversation.
        decision: What the job was made of.
        now: When it was decided.
        context: What the job is driven with, where it runs in this process.

    Returns:
        Whether the executor has taken it.
    """
    record = job.info.record
    is_taken: bool = yield Submit(
        partial(
            buffering.submit,
            job.cycle_id,
            job.key,
            lambda: cast("JobResult", drive(run_job(job), context).events[-1]),
            thread_id=record["thread_id"],
            resource_id=record["resource_id"],
            about=job.about,
            request=partial(build_request, job, messages, decision, now),
        )
    )
    return is_taken


def submit_for_pause(
    settings: Settings,
    executor: DelayingExecutor,
    seen: Inspection,
    messages: Sequence[BaseMessage],
    now: datetime,
    *,
    seconds: float,
) -> RunFlow[None]:
    """Send the job of a pause ahead; one that a newer pause replaces is never begun.

    Args:
        settings: The settings in force.
        executor: What the job is sent to.
        seen: The inspection after the Actor's answer.
        messages: The whole conversation.
        now: The current time.
        seconds: How long the pause has to last before the job is begun.
    """
    decision = plan_pause(seen.record, seen.window, settings.thresholds)
    if decision.kind != "buffer":
        return
    job = yield from describe_job(settings, seen.record, seen.window, decision, now)
    if job is not None:
        request = partial(build_request, job, messages, decision, now)
        later = partial(executor.submit_after, seconds, job.cycle_id, job.key, request=request)
        yield Submit(later)


def tend_title(
    settings: Settings,
    seen: Inspection,
    messages: Sequence[BaseMessage],
    now: datetime,
    *,
    buffering: Buffering,
    make_context: Callable[[], RunContext],
) -> RunFlow[Inspection]:
    """Take in the thread's title, or have one made: in a thread beside the run, or else now.

    It is no job for another process, which an executor of the user's own may need.

    Args:
        settings: The settings in force.
        seen: The inspection.
        messages: The whole conversation.
        now: The current time.
        buffering: The executor.
        make_context: Returns what the question is driven with beside the run.

    Returns:
        The inspection, with what came of it folded in.
    """
    events = yield from take_in_title(settings, seen.record, now)
    record = fold(seen.record, [events])
    job = describe_title(settings, record, messages, now)
    if job is not None and isinstance(buffering, BackgroundBuffering):
        context = make_context()
        is_taken = buffering.submit(
            job.cycle_id,
            job.key,
            lambda: cast("JobResult", drive(job.ask(), context).result),
            thread_id=record["thread_id"],
            resource_id=record["resource_id"],
        )
        events += [job.start] if is_taken else []
    elif job is not None:
        found = yield from job.ask()
        asked = fold(record, [job.start])
        events += [job.start, *tell_title(settings, asked, found, now)]
    if not events:
        return seen
    return replace(seen, record=fold(seen.record, [events]), events=[*events, *seen.events])
