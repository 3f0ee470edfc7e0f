"""Warn by a log line when a provider's cache is broken again and again, with the reason.

`langgraph-om doctor` tells the same of a conversation at hand.
"""

from __future__ import annotations

from typing import Final

from langchain_core.messages import AIMessage

from langgraph_om.core.actor.prompt_cache import find_reason, read_cache
from langgraph_om.core.effects import EffectFlow, Warn
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.runtime.state import Recent

_ANSWERS: Final = 10
"""How many of the newest answers are looked at."""
_MAX_KNOWN: Final = 1000
"""Of so many threads it is known that they were warned of."""


class CacheWatch(Feature):
    """Looks at the newest answers at the beginning of a turn; each reason is told once a thread."""

    name = "cache_watch"

    def __init__(self) -> None:
        self._told: Recent[frozenset[str]] = Recent(_MAX_KNOWN)
        """By thread, the kinds of reasons that were told."""

    def after(self, step: Step) -> EffectFlow[None]:
        """Warn where the newest answers were read anew."""
        if step.is_final or step.record["turn"]["step"]:
            return
        newest = step.messages[-4 * _ANSWERS :]
        answers = [message for message in newest if isinstance(message, AIMessage)][-_ANSWERS:]
        reading = read_cache(answers)
        if reading is None or not reading.is_broken:
            return
        reason = find_reason(newest, step.record)
        told = self._told.recall(step.record["id"]) or frozenset()
        if reason.kind in told:
            return
        self._told.keep(step.record["id"], told | {reason.kind})
        yield Warn(
            "Of %s input tokens of the newest %d answers in thread %r, %.0f %% came from the "
            "provider's cache. %s.",
            (
                f"{reading.total:,}",
                reading.calls,
                step.record["thread_id"],
                100 * reading.share,
                reason.text,
            ),
        )
