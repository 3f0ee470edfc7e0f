"""What a driver is asked for: requests of a few kinds, each to be waited for or awaited."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph_om.runtime.flows.context import ResultT
from langgraph_om.runtime.jobs.kept_lease import KeptLease


@dataclass(frozen=True, slots=True)
class Call:
    """A function to call; what it returns is awaited where it has to be."""

    function: Callable[[], Any]
    name: str
    seconds: float | None = None
    """How long to wait at most, before it is left behind; `None`: as long as it takes."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Time to let pass, or less where there is something to wait for."""

    seconds: float
    wait: Callable[[float], Any] | None = None
    """Waits so many seconds at most, and returns "running" until it is over."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Supervised flows that go on at the same time."""

    flows: Sequence[Generator[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class Leased:
    """Requests to fulfil one after the other, and a lease to attend to meanwhile."""

    requests: Generator[Any, Any, Any]
    lease: KeptLease


Request = Call | Pause | SideBySide | Leased
Requests = Generator[Request, Any, ResultT]
