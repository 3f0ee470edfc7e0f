"""Time in tests: a clock that stands still until it is told to move, and waiting for events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Clock:
    """A callable that answers the time in `now`; two calls in a row give the same answer."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> datetime:
        """The new time, after moving on by what `timedelta` takes, such as `minutes=5`."""
        self.now += timedelta(**by)
        return self.now


def eventually(is_so: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until it is so."""
    ends_at = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends_at, "it did not come to be"
        time.sleep(0.01)


async def aeventually(is_so: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until it is so, and let the event loop go on meanwhile."""
    ends_at = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends_at, "it did not come to be"
        await asyncio.sleep(0.01)
