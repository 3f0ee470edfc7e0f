"""Jobs that are sent elsewhere: what is said of them there, whether they have begun, and failures.

Who sends a job holds a short lease of it until a worker renews it for longer, under the same name.
So a job is at no time nobody's, and at most one worker has it.
"""

from __future__ import annotations

from typing import cast

from langgraph_om.core.cycles.results import mark_discarded
from langgraph_om.core.effects import Tally
from langgraph_om.core.wire import BufferingFailed, JobRequest


def describe_run(request: JobRequest) -> dict[str, str | None]:
    """Return what a run says of its job, to whoever looks at runs."""
    return {
        "om_cycle_id": request["cycle_id"],
        "om_operation": request["operation"],
        "om_thread_id": request["thread_id"],
        "om_resource_id": request["resource_id"],
    }


def has_begun(expires_in: float, grace: float) -> bool:
    """Return whether a worker has a job, as its lease lasts longer than that of who sent it.

    Args:
        expires_in: Seconds until the lease ends.
        grace: Seconds that the lease of who sends a job lasts, half a worker's at most.
    """
    return expires_in > grace


def fail_request(request: JobRequest, error: BaseException) -> BufferingFailed:
    """Build the result of a job that could not be carried out; it counts as a failure."""
    return _end_without(request, str(error) or type(error).__name__)


def discard_request(request: JobRequest, why: str) -> BufferingFailed:
    """Build the result of a job of which nothing is left to do; it does not count as a failure.

    Args:
        request: The job.
        why: One word that names the case, a colon, and the reason.
    """
    failed = {**_end_without(request, why), **mark_discarded(why)}
    return cast("BufferingFailed", failed)


def _end_without(request: JobRequest, error: str) -> BufferingFailed:
    event = {
        "type": "buffering-failed",
        "operation": request["operation"],
        "cycle_id": request["cycle_id"],
        "at": request["at"],
        "record_id": request["record"]["id"],
        "thread_id": request["thread_id"],
        "resource_id": request["resource_id"],
        "tokens": 0,  # whoever takes it in knows how many
        "duration_ms": 0,
        "usage": Tally().usage(),
        "error": error,
    }
    return cast("BufferingFailed", event)
