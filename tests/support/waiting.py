"""Waiting in tests: until something is so, and work that waits until it is let go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from langgraph_om.archive import SQLAlchemyArchive

RESULT: dict[str, Any] = {"type": "buffering-end", "cycle_id": "c1"}


def eventually(is_so: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until it is so."""
    ends_at = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends_at, "it did not come to be"
        time.sleep(0.01)


class Held:
    """Work that waits until it is let go."""

    def __init__(self, result: dict[str, Any] = RESULT) -> None:
        self.result, self.runs = result, 0
        self.started, self.let_go = threading.Event(), threading.Event()

    def __call__(self) -> dict[str, Any]:
        self.runs += 1
        self.started.set()
        assert self.let_go.wait(250)
        return self.result


class ClaimsLate(SQLAlchemyArchive):
    """An archive that answers a claim once it may."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_asked, self.may_answer = threading.Event(), threading.Event()
        self.has_claimed = threading.Event()

    def claim(self, *job: Any, **about: Any) -> Any:
        self.is_asked.set()
        assert self.may_answer.wait(60)
        claimed = super().claim(*job, **about)
        self.has_claimed.set()
        return claimed
