"""One budget for window and log: what both stay under together, with what is asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from langgraph_om.core.config.defaults import is_default
from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig
from langgraph_om.core.config.thresholds import DEFAULT_BLOCK_AFTER, Thresholds
from langgraph_om.errors import ConfigurationError

LOG_PART = 3 / 4
"""How much of a budget is the log's where no threshold is given.

Measured: of 193 questions about a chat of 663 messages, 170 were answered from a log of 3300 tokens
beside 2500 of messages, and 185 from one of 5200 beside 1800.
"""
LOG_BLOCK_AFTER = 1.1
"""Where waiting for the Reflector begins, as a multiple of the log's threshold.

A log grows by some hundred tokens at a time, and a reflection takes a turn or two: a tenth of room
is enough, and what is more would stay empty.
"""
_LEAST = 10
"""Fewer tokens are no threshold to work with."""
USUAL_INTERVAL = 1_500
"""Tokens of messages worth a question of their own: as many as the shorter rules have."""
LOG_START = 0.9
"""The part of a budget's log at which its reflection begins.

A small log reaches its limit some turns later; each reflection reads all of it once more.
"""
SMALL_WINDOW = 3_000
"""A window of fewer tokens beside a full log is observed by the shorter rules, unless
`observation.prompt` is given: the full ones have 2600 tokens, and are half of a question there."""

Resolve = Callable[[ObservationConfig, ReflectionConfig], Thresholds]
"""Resolves thresholds from both configs."""


def split_budget(
    budget: int, observation: ObservationConfig, reflection: ReflectionConfig, resolve: Resolve
) -> tuple[ObservationConfig, ReflectionConfig]:
    """Return the configs with thresholds of which both limits fit into a budget.

    What counts is where a turn waits, `block_after` with buffering: until then, window and log
    grow beyond their thresholds. A threshold that is given stays, and the other one gets the rest;
    a `block_after` in tokens gives the threshold that stands beside it. What a small window costs
    is kept low where nothing else is said: three quarters of it, or 1500 tokens, are observed at a
    time, by the shorter rules, and reflection begins late.

    Args:
        budget: Tokens of window and log together.
        observation: Settings of the Observer, checked.
        reflection: Settings of the Reflector, checked.
        resolve: Turns configs into thresholds, as the memory will.

    Raises:
        ConfigurationError: When there is too little room for what is given.
    """
    if is_default(observation.message_tokens) and _is_tokens(observation.block_after):
        window = _threshold_below(observation.block_after)
        observation = replace(observation, message_tokens=window)
    if is_default(reflection.observation_tokens) and _is_tokens(reflection.block_after):
        log = _threshold_below(reflection.block_after)
        reflection = replace(reflection, observation_tokens=log)
    found = resolve(observation, reflection)
    if found.buffer_tokens is not None and reflection.block_after is None:
        reflection = replace(reflection, block_after=LOG_BLOCK_AFTER)
        if is_default(reflection.buffer_activation):
            reflection = replace(reflection, buffer_activation=LOG_START)
        found = resolve(observation, reflection)
    log_room = round(budget * LOG_PART)
    if not is_default(observation.message_tokens):
        log_room = budget - found.block_after
    elif not is_default(reflection.observation_tokens):
        log_room = found.reflect_block_after
    if is_default(observation.message_tokens):
        window = (budget - log_room) * found.message_tokens // found.block_after
        _refuse_too_little(budget, "observation.message_tokens", window)
        observation = replace(observation, message_tokens=window)
    if is_default(reflection.observation_tokens):
        log = log_room * found.observation_tokens // found.reflect_block_after
        _refuse_too_little(budget, "reflection.observation_tokens", log)
        reflection = replace(reflection, observation_tokens=log)
    observation = _widen_interval(observation, resolve(observation, reflection))
    if is_default(observation.prompt) and observation.message_tokens < SMALL_WINDOW:
        observation = replace(observation, prompt="condensed")
    _refuse_too_much(budget, resolve(observation, reflection))
    return observation, reflection


def _widen_interval(observation: ObservationConfig, found: Thresholds) -> ObservationConfig:
    """Return the settings with fewer background questions, where a small window gave many."""
    if found.buffer_tokens is None or not is_default(observation.buffer_tokens):
        return observation
    interval = max(found.buffer_tokens, min(USUAL_INTERVAL, found.message_tokens * 3 // 4))
    if interval == found.buffer_tokens:
        return observation
    # A part of the window, so that it grows with the room that the log leaves.
    return replace(observation, buffer_tokens=interval / found.message_tokens)


def _refuse_too_little(budget: int, option: str, tokens: int) -> None:
    if tokens < _LEAST:
        msg = (
            f"`token_budget` is {budget}, while that leaves {max(0, tokens)} tokens for "
            f"`{option}`; pass {_LEAST * 5} or more, and above what the other threshold takes"
        )
        raise ConfigurationError(msg)


def _refuse_too_much(budget: int, found: Thresholds) -> None:
    if found.largest_tokens > budget:
        msg = (
            f"`token_budget` is {budget}, while the window may grow to {found.block_after} tokens "
            f"and the log to {found.reflect_block_after} before a turn waits, "
            f"{found.largest_tokens} together; pass {found.largest_tokens} or more, or lower "
            f"`observation.message_tokens` ({found.message_tokens}), "
            f"`reflection.observation_tokens` ({found.observation_tokens}) or a `block_after`"
        )
        raise ConfigurationError(msg)


def _is_tokens(block_after: object) -> TypeGuard[float]:
    """Return whether waiting begins at a number of tokens, not at a multiple of the threshold."""
    if isinstance(block_after, bool) or not isinstance(block_after, int | float):
        return False
    return block_after >= 2  # noqa: PLR2004 multipliers are below


def _threshold_below(block_after: float) -> int:
    return max(1, int(block_after / DEFAULT_BLOCK_AFTER))
