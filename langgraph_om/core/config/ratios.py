"""Settings that are a ratio of a threshold, or tokens: what they come down to.

Each function raises `ValueError` for what cannot be meant, and so serves as a rule, too.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import AfterValidator, ValidationInfo

_MIN_KEPT = 1000
"""Fewer tokens are no retention floor that can be set."""


def interval_tokens(interval: float, threshold: int) -> int:
    """Return the tokens of an interval: a fraction in (0, 1), or tokens below the threshold.

    Raises:
        ValueError: When it is neither.
    """
    is_fraction = 0 < interval < 1
    tokens = round(threshold * interval) if is_fraction else _whole(interval)
    if not 0 < tokens < threshold:
        raise ValueError(f"that is {tokens} tokens" if is_fraction else "")
    return tokens


def kept_tokens(activation: float, threshold: int) -> int:
    """Return the tokens that stay: what a ratio in (0, 1] leaves, or 1000 or more.

    Raises:
        ValueError: When it is neither, or not below the threshold.
    """
    if 0 < activation <= 1:
        return round(threshold * (1 - activation))
    if not _MIN_KEPT <= activation < threshold:
        raise ValueError
    return _whole(activation)


def block_tokens(block_after: float, threshold: int) -> int:
    """Return the tokens of a limit: a multiplier in (1, 2), or tokens above the threshold.

    Raises:
        ValueError: When it is neither.
    """
    if 1 < block_after < 2:  # noqa: PLR2004 the bound is the rule
        return max(threshold + 1, round(threshold * block_after))
    if block_after <= threshold:
        raise ValueError
    return _whole(block_after)


def _whole(tokens: float) -> int:
    if tokens != int(tokens):
        raise ValueError
    return int(tokens)


def allowed_by(resolve: Callable[[float, int], int]) -> AfterValidator:
    """Return the rule that a value can be resolved, with the threshold that stands beside it."""

    def check(value: float, info: ValidationInfo) -> float:
        beside = info.context or {}
        resolve(value, beside.get("message_tokens") or beside["observation_tokens"])
        return value

    return AfterValidator(check)
