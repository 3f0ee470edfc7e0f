"""Where buffering jobs run: beside the conversation, in the step, or in the graph's superstep.

What runs them beside the conversation is in `jobs`; here are those that leave jobs to the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langgraph_om.core.effects import JobState
from langgraph_om.core.wire import JobRequest
from langgraph_om.runtime.jobs.background import BackgroundBuffering
from langgraph_om.runtime.jobs.protocol import Executor, Work

__all__ = [
    "BackgroundBuffering",
    "Buffering",
    "InPlace",
    "InlineBuffering",
    "ParallelBuffering",
]


class InPlace:
    """An executor that never takes a job: work is done where it is due."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def submit(
        self,
        cycle_id: str,
        key: str,
        work: Work,
        *,
        thread_id: str = "",
        resource_id: str | None = None,
        about: Sequence[str] = (),
        request: Callable[[], JobRequest] | None = None,
    ) -> bool:
        """Take no job."""
        del cycle_id, key, work, thread_id, resource_id, about, request
        return False

    def peek(self, cycle_id: str) -> JobState:
        """Know no job."""
        del cycle_id
        return None

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        """Know no job, so wait for none."""
        del cycle_id, timeout
        return None

    def flush(self, timeout: float | None = None) -> bool:
        """Tell that nothing is left."""
        del timeout
        return True

    def close(self, timeout: float = 5.0) -> bool:
        """Tell that nothing is left."""
        del timeout
        return True


class InlineBuffering(InPlace):
    """Buffer inside the step, before the Actor's call.

    Nothing runs beside or after the turn, so nothing is lost when the process ends: for tests,
    scripts and serverless functions. A turn that starts a job waits for the Observer, as long as
    `deadline` at most.
    """


class ParallelBuffering(InPlace):
    """Buffer in the graph node `om_buffer`, in the same superstep as the Actor's call.

    LangGraph checkpoints the result; no thread outlives the step. The superstep lasts as long as
    the slower of the two calls. When the Actor fails meanwhile, an asynchronous run cancels the
    Observer and asks it again on resume; a synchronous one keeps its result. Not for the
    middleware, which has no such superstep.
    """


Buffering = BackgroundBuffering | InlineBuffering | ParallelBuffering | Executor
"""How buffering jobs are run."""
