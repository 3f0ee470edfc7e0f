"""The executors of this package do what is asked of any executor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from langgraph_om import BackgroundBuffering, Executor, InlineBuffering, ParallelBuffering
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import executor_conformance

KINDS: dict[str, Any] = {
    "background": BackgroundBuffering,
    "inline": InlineBuffering,
    "parallel": ParallelBuffering,
}
CHECKS = [name for name, _ in executor_conformance(lambda _run: InlineBuffering())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CHECKS)
def test_executor(name: str, kind: str) -> None:
    executor: Executor = KINDS[kind]()
    dict(executor_conformance(lambda _run: executor))[name]()


@pytest.mark.parametrize("name", CHECKS)
def test_executor_with_leases(name: str, tmp_path: Path) -> None:
    executor = BackgroundBuffering()
    executor.share(SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db"))
    dict(executor_conformance(lambda _run: executor))[name]()


class Wrong(BackgroundBuffering):
    """One that forgets a result once it was seen, and takes jobs when it is closed."""

    def peek(self, cycle_id: str) -> Any:
        state = super().peek(cycle_id)
        self._jobs.pop(cycle_id, None)
        return state

    def close(self, timeout: float = 5.0) -> bool:
        return self.flush(timeout)


@pytest.mark.parametrize(
    "name", ["results_are_looked_at_and_not_taken", "closed_executors_take_no_jobs"]
)
def test_a_wrong_executor_is_found(name: str) -> None:
    with pytest.raises(AssertionError):
        dict(executor_conformance(lambda _run: Wrong()))[name]()
