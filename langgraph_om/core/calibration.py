"""Token counts brought nearer to what the provider of an agent's model counts.

What a provider reports of one call (`usage_metadata`) includes the agent's own prompt and its
tools, which memory does not know; the growth from one call to the next does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.config.checks import check_number
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.errors import ConfigurationError

LEAST, MOST = 0.5, 2.0
"""Bounds of a factor: beyond them the reports are about something else than these messages."""
PRIOR_TOKENS = 1000
"""So many tokens speak for the counter as it is, so that a few messages do not outweigh it."""
LARGEST_STEP = 4.0
"""A growth that differs by more than this factor has another cause, such as an activation."""


def calibration_of(messages: Sequence[BaseMessage], counter: TokenCounter) -> float:
    """Tell by what factor a provider counts more than a counter does.

    Args:
        messages: A conversation whose AI messages carry `usage_metadata`.
        counter: What is to be calibrated.

    Returns:
        A factor in 0.5..2; 1 where nothing is known.
    """
    reported, estimated = float(PRIOR_TOKENS), float(PRIOR_TOKENS)
    before: int | None = None
    growth = 0
    for message in messages:
        now = _input_tokens(message)
        if now is not None:
            if before is not None and _is_growth(now - before, growth):
                reported += now - before
                estimated += growth
            before, growth = now, 0
        if message.type != "system":
            growth += counter.count_message(message)
    return min(MOST, max(LEAST, reported / estimated))


def _input_tokens(message: BaseMessage) -> int | None:
    if not isinstance(message, AIMessage) or message.usage_metadata is None:
        return None
    return message.usage_metadata["input_tokens"] or None


def _is_growth(reported: int, estimated: int) -> bool:
    """Tell whether the prompt grew by these messages, and by nothing else."""
    if reported <= 0 or estimated <= 0:
        return False
    return 1 / LARGEST_STEP <= reported / estimated <= LARGEST_STEP


class CalibratedCounter:
    """A counter whose counts are multiplied by a factor.

    Args:
        counter: The counter.
        factor: In 0.5..2, as `calibration_of` tells it.

    Raises:
        ConfigurationError: When the factor is out of range.
    """

    def __init__(self, counter: TokenCounter, factor: float) -> None:
        value = check_number("factor", factor, f"write a number in {LEAST}..{MOST}")
        if not LEAST <= value <= MOST:
            msg = f"`factor` is {factor!r}; write a number in {LEAST}..{MOST}"
            raise ConfigurationError(msg)
        self._counter = counter
        self._factor = value
        self.identity = f"{counter.identity}*{value:.3f}"

    def __repr__(self) -> str:
        return f"CalibratedCounter({self._counter!r}, {self._factor!r})"

    def count_text(self, text: str) -> int:
        """Count the tokens of a text."""
        return round(self._counter.count_text(text) * self._factor)

    def count_message(self, message: BaseMessage) -> int:
        """Count the tokens of a message."""
        return round(self._counter.count_message(message) * self._factor)
