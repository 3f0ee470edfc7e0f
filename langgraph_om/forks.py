"""What holds locks or threads begins anew in a forked process.

A fork copies memory, but of the threads only the one that forks: locks that another one held are
never let go, what another one was doing is never done, and connections are the parent's.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class BeginsAnew(Protocol):
    """What has to be set up again in a forked process."""

    def begin_anew(self) -> None:
        """Make new locks and forget what other threads were doing; called in the child."""


_alive: weakref.WeakSet[BeginsAnew] = weakref.WeakSet()


def begin_anew_after_fork(part: BeginsAnew) -> None:
    """Have a part begin anew in every forked process, for as long as somebody else holds it."""
    _alive.add(part)


def _begin_all_anew() -> None:
    for part in list(_alive):
        part.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)
