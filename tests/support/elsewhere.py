"""An executor whose jobs are done by another process, as far as memory can tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from langgraph_om import JobRequest
from support.inside import add_parents


class Elsewhere:
    """An executor that keeps requests as text, until somebody carries them out."""

    def __init__(self, run_job: Callable[[Any], Any] | None = None) -> None:
        self.run_job = run_job
        self.sent: dict[str, str] = {}
        self.results: dict[str, Any] = {}
        self.is_closed = False

    def submit(
        self,
        cycle_id: str,
        key: str,
        work: Callable[[], Any],
        *,
        request: Callable[[], JobRequest],
        **whose: Any,
    ) -> bool:
        if self.is_closed:
            return False
        if cycle_id not in self.sent:
            self.sent[cycle_id] = json.dumps(request())
            if self.run_job is not None:
                self.end(cycle_id, self.run_job)
        return True

    def end(self, cycle_id: str, run_job: Callable[[Any], Any]) -> None:
        self.results[cycle_id] = run_job(json.loads(self.sent[cycle_id]))

    def peek(self, cycle_id: str) -> Any:
        if cycle_id not in self.sent:
            return None
        return self.results.get(cycle_id, "running")

    def wait(self, cycle_id: str, timeout: float) -> Any:
        return self.peek(cycle_id)

    def flush(self, timeout: float | None = None) -> bool:
        return len(self.results) == len(self.sent)

    def close(self, timeout: float = 5.0) -> bool:
        self.is_closed = True
        return self.flush()

    def forget(self, thread_ids: Any, resource_id: str | None = None) -> None:
        for cycle_id, sent in [*self.sent.items()]:
            told = json.loads(sent)
            threads = add_parents([told["thread_id"], *told["about"]])
            is_its = resource_id is not None and told["resource_id"] == resource_id
            if is_its or not threads.isdisjoint(thread_ids):
                del self.sent[cycle_id]
                self.results.pop(cycle_id, None)
