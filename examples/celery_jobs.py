# Memory's background work in Celery workers, instead of the processes that serve users.
#
#     pip install "langgraph-om[celery]"
#     python examples/celery_jobs.py              # all in this process: no broker, no key
#
# With a broker, `broker` and `backend` below are yours, such as "redis://localhost", and
# `celery -A celery_jobs worker` in this folder is a worker. What it needs is a memory with the same
# options. The models are scripted.

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.exceptions import TimeoutError as StillRunning
from celery.result import AsyncResult
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import JobRequest, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

celery = Celery("celery_jobs", broker="memory://", backend="cache+memory://")
celery.conf.update(
    task_always_eager=True,  # leave these two out with a broker
    task_store_eager_result=True,
    task_track_started=True,
    result_expires=24 * 3600,
)


class CeleryBuffering:
    """An `Executor`: a job is a task of the same id, so that it is known in every process."""

    def __init__(self, task: Any) -> None:
        self.task = task
        self.sent: list[str] = []
        self.is_closed = False

    def submit(
        self,
        cycle_id: str,
        key: str,  # noqa: ARG002 a task queue has room for all
        work: Callable[[], Any],  # noqa: ARG002 it runs in this process, and a worker has another
        *,
        request: Callable[[], JobRequest] | None = None,
        **_: Any,  # whose it is, for executors that can forget
    ) -> bool:
        if self.is_closed or request is None:
            return False
        if cycle_id not in self.sent and self.peek(cycle_id) is None:
            self.sent.append(cycle_id)
            self.task.apply_async((request(),), task_id=cycle_id)
        return True

    def peek(self, cycle_id: str) -> Any:
        task = AsyncResult(cycle_id, app=self.task.app)
        if task.state == "SUCCESS":
            return task.result
        if task.state in ("FAILURE", "REVOKED"):  # its messages stay, and are asked about again
            return "expired"
        is_known = task.state != "PENDING" or cycle_id in self.sent
        return "running" if is_known else None

    def wait(self, cycle_id: str, timeout: float) -> Any:
        if self.peek(cycle_id) == "running":
            try:
                AsyncResult(cycle_id, app=self.task.app).get(timeout, propagate=False)
            except StillRunning:
                return "running"
        return self.peek(cycle_id)

    def flush(self, timeout: float | None = None) -> bool:
        ends_at = time.monotonic() + (3600 if timeout is None else timeout)
        for cycle_id in self.sent:
            self.wait(cycle_id, max(0.0, ends_at - time.monotonic()))
        return all(self.peek(cycle_id) != "running" for cycle_id in self.sent)

    def close(self, timeout: float = 5.0) -> bool:
        self.is_closed = True
        return self.flush(timeout)

    def forget(self, thread_ids: Any, resource_id: str | None = None) -> None:
        pass  # the backend lets go of results by itself, see `result_expires`


@celery.task(name="observe")
def observe(request: dict[str, Any]) -> dict[str, Any]:
    """Carry a job out: this is all that a worker does."""
    return memory.run_job(request)


memory = ObservationalMemory(
    ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    ),  # stands in for "google/gemini-flash-lite-latest"
    observation={"message_tokens": 400, "buffer_tokens": 80},
    buffering=CeleryBuffering(observe),
)


def main() -> None:
    agent = create_memory_agent(
        ScriptedChatModel(actor="Noted."), [], memory=memory, checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "trips"}}
    for day in range(1, 13):
        text = (
            f"On day {day} of the trip we want to see a museum and walk {day + 3} km by the river."
        )
        for part in agent.stream({"messages": [("user", text)]}, config, stream_mode="custom"):
            if part["type"] in ("data-om-buffering-end", "data-om-activation"):
                print(part["type"], part["data"]["operationType"])
    print(memory.view(agent.get_state(config)))


if __name__ == "__main__":
    main()
