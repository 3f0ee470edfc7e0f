"""All policy is here: what memory does next. It never counts, formats or stores.

The order of the checks is the policy, and the first that applies wins:

1. the turn was ended by a failure (`on_error="abort"`) -> abort;
2. the window has reached its blocking threshold -> observe the oldest part of it, in batches;
3. the log has reached its blocking threshold -> reflect it;
4. otherwise -> proceed to the Actor.

Observation comes before reflection because it bounds the larger text. Each observation moves the
cursor, each reflection and each failure moves the size at which the next one is due, so applying
decisions in turn always reaches `proceed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, Literal

from langgraph_om.core.config import Thresholds
from langgraph_om.core.record import MemoryRecord, log_tokens
from langgraph_om.core.window import Window, safe_cuts

__all__ = ["ABORT", "PROCEED", "Decision", "back_off", "plan"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What memory does next."""

    kind: Literal["proceed", "abort", "observe", "reflect"]
    count: int = 0
    """To observe: how many of the window's oldest messages."""


PROCEED = Decision("proceed")
ABORT = Decision("abort")

_BACK_OFF = (0.1, 0.2, 0.4, 0.8)
"""Growth to wait for after 1, 2, 3, and 4 or more failures in a row, as parts of the threshold."""


def plan(record: MemoryRecord, window: Window, thresholds: Thresholds, now: datetime) -> Decision:
    """Decide what memory does next.

    Args:
        record: The memory of the thread.
        window: Its unobserved messages.
        thresholds: The limits in force.
        now: The current time; a later one never turns work into no work.
    """
    del now  # nothing waits for a time yet
    if _was_tripped(record, window):
        return ABORT
    count = _messages_to_observe(record, window, thresholds)
    if count:
        return Decision("observe", count)
    if _reflection_due(record, window, thresholds):
        return Decision("reflect")
    return PROCEED


def _was_tripped(record: MemoryRecord, window: Window) -> bool:
    """The turn stays ended until the conversation goes on."""
    tripwire = record.get("tripwire")
    return bool(tripwire) and tripwire is not None and tripwire["last_message"] == window.last_key


def _retry_at(record: MemoryRecord, operation: str) -> int:
    attempt: dict[str, Any] = record["attempts"].get(operation, {})
    return int(attempt.get("retry_at_tokens", 0))


def _messages_to_observe(record: MemoryRecord, window: Window, thresholds: Thresholds) -> int:
    limit = thresholds.messages_at(log_tokens(record))
    due = max(thresholds.block_after, limit)
    if window.tokens < max(due, _retry_at(record, "observation")):
        return 0
    return _batch(window, keep=thresholds.keep_tokens, limit=limit, most=thresholds.message_tokens)


def _batch(window: Window, *, keep: int, limit: int, most: int) -> int:
    """Choose how many messages one observation takes.

    The goal is the longest prefix that leaves at least `keep` tokens; where that would leave the
    window at its threshold still (a single large message at the end), one exchange more. A backlog
    is taken in steps of at most `most` tokens; an exchange above that goes alone.
    """
    cuts = [0, *safe_cuts(window.entries)]
    removed = [0, *accumulate(entry.tokens for entry in window.entries)]
    goal = max(
        (at for at, cut in enumerate(cuts) if window.tokens - removed[cut] >= keep), default=0
    )
    if window.tokens - removed[cuts[goal]] >= limit:
        goal = min(goal + 1, len(cuts) - 1)
    return _longest(cuts[1 : goal + 1], removed, most)


def _longest(cuts: Sequence[int], removed: Sequence[int], most: int) -> int:
    fitting = [cut for cut in cuts if removed[cut] <= most]
    return fitting[-1] if fitting else (cuts[0] if cuts else 0)


def _reflection_due(record: MemoryRecord, window: Window, thresholds: Thresholds) -> bool:
    tokens = log_tokens(record)
    due = max(thresholds.reflect_block_after, thresholds.observations_at(window.tokens))
    return tokens > 0 and tokens >= max(due, _retry_at(record, "reflection"))


def back_off(failures: int, tokens: int, threshold: int) -> int:
    """Tell at which size an operation is tried again.

    Args:
        failures: Failures in a row, this one included; 1 or more.
        tokens: The size at which it failed.
        threshold: The size at which it is due.
    """
    part = _BACK_OFF[min(failures, len(_BACK_OFF)) - 1]
    return tokens + max(1, round(threshold * part))
