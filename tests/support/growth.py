"""How the time of some work grows with its size, as a ratio within one run.

Time is that of this process on a processor, and the best of three tries counts: what else the
machine does makes no difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MOST = 3.2
"""How much longer twice as much may take; four times would be quadratic."""
MIN_SECONDS = 0.05


def seconds(work: Callable[[], object]) -> float:
    """What some work takes of a processor."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def check_growth(prepare: Callable[[int], Callable[[], object]], size: int) -> None:
    """Work on so much, and on twice as much: the best of three tries of each."""
    once, twice = (min(seconds(prepare(size * n)) for _ in range(3)) for n in (1, 2))
    assert twice <= MOST * max(once, MIN_SECONDS), f"{once:.3f} s, then {twice:.3f} s"
