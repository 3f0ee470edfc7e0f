"""How the time of some work grows with its size, as a ratio within one run.

Time is that of this process on a processor, without the garbage collector (whose passes grow with
everything else the process holds), and the best of some tries counts: what else the machine does
makes no difference.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

MOST = 3.2
"""How much longer twice as much may take; four times would be quadratic."""
MIN_SECONDS = 0.05


def seconds(work: Callable[[], object]) -> float:
    """What some work takes of a processor."""
    gc.disable()
    try:
        begun = time.process_time()
        work()
        return time.process_time() - begun
    finally:
        gc.enable()


def check_growth(
    prepare: Callable[[int], Callable[[], object]],
    size: int,
    *,
    times: int = 2,
    most: float = MOST,
    tries: int = 10,
) -> None:
    """Work on so much, and on so many times as much: the best tries of each are compared."""
    little = much = float("inf")
    for _ in range(tries):
        little = min(little, seconds(prepare(size)))
        much = min(much, seconds(prepare(size * times)))
        if much <= most * max(little, MIN_SECONDS):
            return
    pytest.fail(f"{size}: {little:.3f} s, {size * times}: {much:.3f} s")
