"""Decide what memory does next. All policy is here; nothing here counts, formats or stores.

The order of the checks is the policy, and the first that applies wins:

1. the turn was ended by a failure (`on_error="abort"`) -> abort;
2. a buffered reflection is there and the log has reached its threshold -> activate it;
3. chunks are there and the window has reached its threshold -> activate them; while the Actor
   waits for tools with reasoning that is bound to its prefix, 2 and 3 wait for the blocking one;
   where the provider's cache is cold anyway, after a pause or another provider's answer, 2 and 3
   take all that is there at once;
4. the window has reached its blocking threshold -> observe its oldest messages, in batches; with
   messages that were put before the cursor later, at its threshold, and these by themselves;
5. without buffering, work of a feature is due -> do that;
6. the log has reached its blocking threshold -> reflect on it;
7. the window has grown by an interval, work of a feature is due, or the log has reached the size at
   which its reflection is buffered, each below its blocking threshold -> buffer;
8. otherwise -> proceed to the Actor.

What needs no model comes first. Observation comes before reflection because it bounds the larger
text; while a backlog is observed, a log of twice its blocking threshold is reflected on in between,
or it would grow with the backlog, and each question with the log. Each activation and observation
moves the cursor, each reflection and each failure moves the size at which the next one is due, and
at most one job per operation is pending; so applying decisions in turn always reaches the Actor. A
turn waives what it has done as often as it does it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Literal

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import NO_PARTS, Parts
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.content.blocks import (
    find_cache_life,
    find_provider_change,
    holds_bound_reasoning,
)
from langgraph_om.core.content.text import CHARACTERS_PER_TOKEN_CEILING
from langgraph_om.core.items import is_protected
from langgraph_om.core.record.record import count_failures, log_tokens, place_reflection
from langgraph_om.core.record.window import (
    LiveChunk,
    Window,
    choose_chunks,
    count_covered,
    find_chunk_end,
    select_live_chunks,
)
from langgraph_om.core.wire import ColdCache, MemoryRecord, Operation
from langgraph_om.parts import Trigger


@dataclass(frozen=True, slots=True)
class Decision:
    """What memory does next."""

    kind: Literal["proceed", "abort", "activate", "observe", "reflect", "buffer"]
    operation: Operation = "observation"
    """What to activate, observe or buffer."""
    count: int = 0
    """How many of the window's oldest messages to observe or buffer, or chunks to activate."""
    why: Trigger = "threshold"
    """Why buffered work is activated now."""
    instruction: str = ""
    """Added to the Reflector's for this reflection alone."""
    cold: ColdCache | None = None
    """Why the Actor's provider has nothing of the prompt in its cache, where that is the reason."""


PROCEED = Decision("proceed")
ABORT = Decision("abort")


def plan(
    record: MemoryRecord,
    window: Window,
    thresholds: Thresholds,
    now: datetime,
    parts: Parts = NO_PARTS,
) -> Decision:
    """Decide what memory does next; a later time never turns work into no work."""
    if not thresholds.observes:
        return PROCEED
    if has_tripped(record, window):
        return ABORT
    live = select_live_chunks(record, window)
    activation = _decide_activation(record, window, thresholds, live, now)
    if activation is not None:
        return activation
    if not _has_just_failed(record, window) and not _has_waited(record, thresholds):
        blocking = _decide_blocking(record, window, thresholds, parts)
        if blocking is not None:
            return blocking
    return _decide_buffering(record, window, thresholds, live, parts)


def plan_the_rest(record: MemoryRecord, window: Window, thresholds: Thresholds) -> Decision:
    """Decide what is next when a session ends and all of it shall be observed.

    Whoever asks for it does not wait for growth after a failure.
    """
    if not thresholds.observes:
        return PROCEED
    ready = select_live_chunks(record, window)
    if ready:
        return Decision("activate", "observation", len(ready), "request")
    count = _fit_batch(window, len(window.cuts), _limit_piece(record, thresholds))
    if window.strays.messages:
        count = min(count, window.strays.run)
    if count and not _has_outgrown(record, window, thresholds):
        return Decision("observe", "observation", count)
    if _is_buffered_reflection_due(record, window, thresholds):
        return Decision("activate", "reflection", 1)
    if _is_reflection_due(record, window, thresholds):
        return Decision("reflect", "reflection")
    return PROCEED


def count_to_activate(
    live: Sequence[LiveChunk], window_tokens: int, thresholds: Thresholds, log: int
) -> int:
    """Return how many chunks an activation would take now; the status projects the same number."""
    return choose_chunks(
        [chunk.tokens for chunk in live],
        window_tokens,
        keep=thresholds.keep_tokens,
        force_at=thresholds.block_messages_at(log),
    )


_BACK_OFF = (0.1, 0.2, 0.4, 0.8)
"""Growth to wait for after 1, 2, 3, and 4 or more failures in a row, as shares of the threshold."""


def back_off(failures: int, tokens: int, threshold: int) -> int:
    """Return the size at which an operation is tried again, after one failure or more in a row."""
    share = _BACK_OFF[min(failures, len(_BACK_OFF)) - 1]
    return tokens + max(1, round(threshold * share))


def is_reasoning_under_way(window: Window) -> bool:
    """Return whether the Actor waits for tools that it called in reasoning bound to its prefix.

    A change of the log would take the reasoning of the whole round away.
    """
    for entry in reversed(window.entries):
        if entry.message.type == "human":
            return False
        if holds_bound_reasoning(entry.message):
            return True
    return False


# --- Failures ------------------------------------------------------------------------------------


def has_tripped(record: MemoryRecord, window: Window) -> bool:
    """Return whether a failure ended the turn and the conversation has not gone on since."""
    tripwire = record.get("tripwire")
    return tripwire is not None and tripwire["last_message"] == window.last_key


def _is_backing_off(record: MemoryRecord, operation: Operation, size: int) -> bool:
    """Return whether a new attempt has to wait after an earlier one.

    It waits until the text has grown enough, or has become smaller than it was then.
    """
    attempt = record["attempts"].get(operation)
    return attempt is not None and attempt["at_tokens"] <= size < attempt["retry_at_tokens"]


def is_waived(record: MemoryRecord, window: Window, operation: Operation) -> bool:
    """Return whether this turn does no more of an operation."""
    waived = record["turn"].get("waived", {})
    return operation in waived and waived[operation] == window.turn


def _has_just_failed(record: MemoryRecord, window: Window) -> bool:
    """Return whether this turn has already waited in vain; it then does not wait again."""
    return window.last_key is not None and any(
        attempt.get("last_message") == window.last_key for attempt in record["attempts"].values()
    )


def _has_waited(record: MemoryRecord, thresholds: Thresholds) -> bool:
    """Return whether the Actor has waited for half of what it may; less is too little to ask in."""
    waited = record["turn"].get("waited_ms", 0)
    return thresholds.deadline is not None and 2 * waited >= 1000 * thresholds.deadline


# --- Activation ----------------------------------------------------------------------------------


def _decide_activation(
    record: MemoryRecord,
    window: Window,
    thresholds: Thresholds,
    live: Sequence[LiveChunk],
    now: datetime,
) -> Decision | None:
    if _has_buffered_reflection(record):
        if _is_buffered_reflection_due(record, window, thresholds):
            return Decision("activate", "reflection", 1)
        cold = _find_cold_cache(record, window, now, thresholds.activate_after)
        if cold is not None:
            return Decision("activate", "reflection", 1, cold[0], cold=cold[1])
    if not live:
        return None
    if _is_activation_due(record, window, thresholds):
        count = count_to_activate(live, window.tokens, thresholds, log_tokens(record))
        return Decision("activate", "observation", count)
    cold = _find_cold_cache(record, window, now, thresholds.activate_after)
    if cold is None:
        return None
    return Decision("activate", "observation", len(live), cold[0], cold=cold[1])


def _is_activation_due(record: MemoryRecord, window: Window, thresholds: Thresholds) -> bool:
    log = log_tokens(record)
    waits = is_reasoning_under_way(window)
    return window.tokens >= (
        thresholds.block_messages_at(log) if waits else thresholds.messages_at(log)
    )


def _is_buffered_reflection_due(
    record: MemoryRecord, window: Window, thresholds: Thresholds
) -> bool:
    if record["reflection"] is None:
        return False
    waits = is_reasoning_under_way(window)
    due = thresholds.block_observations_at if waits else thresholds.observations_at
    return log_tokens(record) >= due(window.tokens) and _has_buffered_reflection(record)


def _has_buffered_reflection(record: MemoryRecord) -> bool:
    buffered = record["reflection"]
    return buffered is not None and place_reflection(record["log"], buffered) is not None


def _find_cold_cache(
    record: MemoryRecord,
    window: Window,
    now: datetime,
    pause: float | Literal["auto"] | None,
) -> tuple[Trigger, ColdCache] | None:
    """Say why the Actor's provider has nothing of the prompt in its cache, if so.

    Never while reasoning waits for its tools, which a change of the log would make invalid.

    Args:
        pause: Seconds after which that is so; `"auto"`: as long as the provider keeps a prompt.
            Another provider's answer counts, too. `None`: nobody wants to know.
    """
    if pause is None:
        return None
    head = record.get("head")
    found: tuple[Trigger, ColdCache] | None = None
    if head is not None:
        passed = (now - datetime.fromisoformat(head["at"])).total_seconds()
        most = find_cache_life(_list_newest(window)) if pause == "auto" else pause
        if passed > most:
            expired = round(1000 * (passed - most))
            found = "idle", {"last_activity_at": head["at"], "ttl_expired_ms": expired}
    if found is None:
        models = find_provider_change(_list_newest(window))
        if models is not None:
            found = "provider", {"previous_model": models[0], "current_model": models[1]}
    return None if found is not None and is_reasoning_under_way(window) else found


def _list_newest(window: Window) -> Iterable[BaseMessage]:
    """Return the messages that are known, the newest first."""
    entries = (entry.message for entry in reversed(window.entries))
    return chain(entries, (message for _, message in reversed(window.observed)))


# --- Blocking work -------------------------------------------------------------------------------


def _decide_blocking(
    record: MemoryRecord, window: Window, thresholds: Thresholds, parts: Parts
) -> Decision | None:
    count = _count_to_observe(record, window, thresholds)
    if count and _has_outgrown(record, window, thresholds):
        return Decision("reflect", "reflection")
    if count:
        return Decision("observe", "observation", count)
    more = parts.find_due(record, window) if thresholds.buffer_tokens is None else None
    if more:
        return Decision("observe", more)
    if _is_reflection_due(record, window, thresholds):
        return Decision("reflect", "reflection")
    return None


def _count_to_observe(record: MemoryRecord, window: Window, thresholds: Thresholds) -> int:
    log = log_tokens(record)
    strays = len(window.strays.messages)
    due = thresholds.messages_at(log) if strays else thresholds.block_messages_at(log)
    if window.tokens < due or _is_backing_off(record, "observation", window.tokens):
        return 0
    # It stays in the prompt until it is answered, however large the window is with it.
    request = _weigh_giant_request(window, thresholds.piece_at(log))
    count = _choose_batch(
        window,
        keep=thresholds.keep_tokens + request,
        limit=thresholds.messages_at(log) + request,
        max_tokens=_limit_piece(record, thresholds),
        stop=len(window.entries) - bool(request),
    )
    return min(count, window.strays.run) if strays else count


def _weigh_giant_request(window: Window, piece: int) -> int:
    """Count the tokens of a live request without an answer that is larger than a cycle, else 0.

    One that is shown as a preview counts little, and is read as a whole all the same.
    """
    newest = window.entries[-1] if window.entries else None
    if newest is None or newest.key != window.request:
        return 0
    size = len(newest.message.text)
    if size > newest.tokens * CHARACTERS_PER_TOKEN_CEILING:
        return newest.tokens if size > piece * _USUAL_CHARACTERS else 0
    return newest.tokens if newest.tokens > piece else 0


_USUAL_CHARACTERS = 4
"""Of a token."""


def _limit_piece(record: MemoryRecord, thresholds: Thresholds) -> int:
    """Return how many tokens of messages are observed at once: half as many after each failure.

    What takes longer than a cycle may, or is more than a model reads, would fail for ever.
    """
    piece = thresholds.piece_at(log_tokens(record))
    return max(thresholds.message_tokens, piece >> count_failures(record, "observation"))


def _choose_batch(window: Window, *, keep: int, limit: int, max_tokens: int, stop: int) -> int:
    """Choose how many messages one observation takes.

    The goal is the longest prefix that leaves at least `keep` tokens. Where the window would still
    be at its threshold then (a single large message at the end), it is one exchange more. A backlog
    is taken in batches of at most `max_tokens`; a larger exchange is a batch of its own. Behind
    `stop` nothing is taken.
    """
    last = bisect_right(window.cuts, stop)
    goal = _count_cuts(window, last, window.tokens - keep)
    removed = window.weight(0, window.cuts[goal - 1]) if goal else 0
    if window.tokens - removed >= limit:
        goal = min(goal + 1, last)
    return _fit_batch(window, goal, max_tokens)


def _fit_batch(window: Window, last: int, max_tokens: int) -> int:
    """Return the longest prefix of the window that fits and ends at one of its first `last` cuts.

    Without one that fits, it is the first exchange. A small one takes the larger exchange behind it
    along, for a question of its own would hold next to nothing.
    """
    if not last:
        return 0
    cuts = window.cuts
    fitting = max(1, _count_cuts(window, last, max_tokens))
    if fitting < last and window.weight(0, cuts[fitting - 1]) * 10 < max_tokens:
        fitting += 1
    return cuts[fitting - 1]


def _count_cuts(window: Window, last: int, tokens: int) -> int:
    """Count, of the first `last` cuts, those before which there are so many tokens at most."""
    cuts, sums = window.cuts, window.sums
    # No count is negative, so that the sums are in order.
    return bisect_right(cuts, sums[0] + tokens, hi=last, key=sums.__getitem__)


def _is_reflection_due(record: MemoryRecord, window: Window, thresholds: Thresholds) -> bool:
    tokens = log_tokens(record)
    if tokens < max(1, thresholds.block_observations_at(window.tokens)):
        return False
    if all(map(is_protected, record["log"])) or is_waived(record, window, "reflection"):
        return False
    return not _is_backing_off(record, "reflection", tokens)


def _has_outgrown(record: MemoryRecord, window: Window, thresholds: Thresholds) -> bool:
    """Return whether the log has grown so far beyond its limit that messages wait for it."""
    most = _OUTGROWN * thresholds.block_observations_at(window.tokens)
    return log_tokens(record) >= most and _is_reflection_due(record, window, thresholds)


_OUTGROWN = 2
"""Of the log's blocking threshold, which one batch of messages alone does not lead to."""


# --- Buffering -----------------------------------------------------------------------------------


def _decide_buffering(
    record: MemoryRecord,
    window: Window,
    thresholds: Thresholds,
    live: Sequence[LiveChunk],
    parts: Parts,
) -> Decision:
    # What has reached its blocking threshold is left to a turn, which then asks for it: a job that
    # fails does not make it wait, so it would be tried again without an end.
    log, covered = log_tokens(record), count_covered(live)
    interval = thresholds.interval_at(_project_log(record, window, thresholds, log))
    if (
        interval is not None
        and not window.strays.messages
        and window.weight(covered, len(window.entries)) >= interval
        and window.tokens < thresholds.block_messages_at(log)
        and may_begin(record, "observation", window.tokens)
    ):
        # A giant request is not read ahead: the turn waits for it.
        stop = len(window.entries) - bool(_weigh_giant_request(window, thresholds.piece_at(log)))
        most = _limit_piece(record, thresholds)
        # After failures a piece may be less than the interval.
        least = min(interval, most)
        end = find_chunk_end(window, covered, interval=least, most=most, stop=stop)
        if end:
            return Decision("buffer", "observation", end)
    more = parts.find_due(record, window) if interval is not None else None
    if more:
        return Decision("buffer", more)
    start = thresholds.reflect_buffer_at
    if start is None or log < max(1, start) or record["reflection"] is not None:
        return PROCEED
    if log >= thresholds.block_observations_at(window.tokens):
        return PROCEED
    if all(map(is_protected, record["log"])) or is_waived(record, window, "reflection"):
        return PROCEED  # there is nothing to condense, or the turn has done so
    return Decision("buffer", "reflection") if may_begin(record, "reflection", log) else PROCEED


def _project_log(record: MemoryRecord, window: Window, thresholds: Thresholds, log: int) -> int:
    """Count the log's tokens once a reflection that lies ready takes its place.

    With one budget it does so before a turn would wait, and the window has more room then. A
    question about less would be mostly rules. While reasoning waits for its tools, nothing does.
    """
    buffered = record["reflection"]
    if buffered is None or log < thresholds.observation_tokens:
        return log
    if is_reasoning_under_way(window) or not _has_buffered_reflection(record):
        return log
    return max(0, log - buffered["input_tokens"] + buffered["tokens"])


def may_begin(record: MemoryRecord, operation: Operation, size: int) -> bool:
    """Return whether an operation may begin: it is not under way, and waits for no growth."""
    return operation not in record["pending"] and not _is_backing_off(record, operation, size)
