"""What stands for a LangGraph server: its client, whose runs are carried out in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from langgraph_om.integrations.worker_graph import build_worker
from support.agents import remembering, scripted
from support.clock import Clock
from support.inside import JobRequest, runner_of


class RefusedError(Exception):
    """An answer of the server that is none."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"the server answered {status_code}")
        self.status_code = status_code


@dataclass
class ServerDouble:
    """A synchronous client of a server that has one graph.

    Args:
        graph: The worker's graph; `None`: no run ever begins.
    """

    graph: Any = None
    refuses: int | None = None
    """The status with which it answers instead of starting a run."""
    forgets: bool = False
    """Whether it loses runs before they begin."""
    runs_given: list[dict[str, Any]] = field(default_factory=list)
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The runs that have not ended, by the ids of their threads, which are theirs."""

    @property
    def runs(self) -> ServerDouble:
        return self

    @property
    def threads(self) -> ServerDouble:
        return self

    def create(
        self, thread_id: str | None, assistant_id: str, **options: Any
    ) -> dict[str, str | None]:
        if self.refuses is not None:
            raise RefusedError(self.refuses)
        run = {"thread_id": thread_id, "assistant_id": assistant_id, **options}
        self.runs_given.append(run)
        run_id = uuid4().hex
        told = {"run_id": run_id, "thread_id": run_id}
        if self.forgets:
            return told
        self.waiting[run_id] = run
        if self.graph is not None:
            thread = threading.Thread(target=self.begin, args=[run_id], daemon=True)
            thread.start()
            thread.join()  # so that no test waits for it
        return told

    def delete(self, thread_id: str) -> None:
        if self.refuses is not None:
            raise RefusedError(self.refuses)
        if self.waiting.pop(thread_id, None) is None:
            raise RefusedError(404)

    def begin(self, run_id: str) -> Any:
        """Carry a run out, and return what it came to."""
        run = self.waiting[run_id]
        try:
            return self.graph.invoke(run["input"], {"configurable": {"run_id": run_id}})
        finally:
            self.waiting.pop(run_id, None)

    def search(self, *, metadata: Mapping[str, Any], **options: Any) -> list[dict[str, Any]]:
        if self.refuses is not None:
            raise RefusedError(self.refuses)
        return [
            {"thread_id": run_id, "metadata": run["metadata"]}
            for run_id, run in list(self.waiting.items())
            if metadata.items() <= run["metadata"].items()
        ]


def plain_worker(archive: Any, run_job: Callable[[Mapping[str, Any]], Any]) -> Any:
    """A worker's graph that does jobs by a function."""
    runner = runner_of(remembering(scripted(), Clock()))

    def make_work(request: JobRequest, config: Any) -> Any:
        def flow() -> Iterator[Any]:
            yield from ()
            return run_job(request)

        return flow(), runner.context(config)

    return build_worker(archive, make_work)
