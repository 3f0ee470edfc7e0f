"""How many examples of each law are tried.

By default as many as one waits for at work. `OM_EXAMPLES=1` is what CI tries, 50 a
long run.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("OM_EXAMPLES", "0"))
USUAL = 50
"""Where a law does not say itself how many CI tries."""
_PART, _FEWEST = 12, 2


def count_examples(count: int) -> int:
    """Return how many examples to try of a law of which CI tries `count`."""
    return count * EXAMPLES or min(count, max(_FEWEST, count // _PART))


def examples(count: int) -> settings:
    """Let CI try `count` examples of a law, and more or fewer as `OM_EXAMPLES` says."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=count_examples(count), deadline=None, suppress_health_check=quiet)
