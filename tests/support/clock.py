"""A clock for tests: it stands still until it is told to move."""

from __future__ import annotations

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
