"""The token counts at which memory acts, resolved from the options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from langgraph_om.core.config.checks import (
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_text,
)
from langgraph_om.core.config.options import (
    PROMPT_VARIANTS,
    Default,
    ObservationConfig,
    ReflectionConfig,
    check_settings,
)
from langgraph_om.errors import ConfigurationError

_MIN_ABSOLUTE_KEEP = 1000
_DEFAULT_BLOCK_AFTER = 1.2


OTHERS_PART = 0.2
"""How much of the window's threshold the unobserved messages of other threads may take."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every limit of the memory, in tokens."""

    message_tokens: int
    """The window at which it is activated or observed."""
    buffer_tokens: int | None
    """The growth of the window that starts a background observation; `None`: no buffering."""
    keep_tokens: int
    """The retention floor: how much of the window stays verbatim."""
    block_after: int
    """The window at which the turn waits for the Observer."""
    observation_tokens: int
    """The log at which it is reflected."""
    reflect_buffer_at: int | None
    """The log at which a background reflection starts; `None`: no buffering."""
    reflect_block_after: int
    """The log at which the turn waits for the Reflector."""
    total_tokens: int | None = None
    """Window and log together, when they share one budget; `None`: each has its own."""

    def messages_at(self, log_tokens: int) -> int:
        """Tell the window's threshold beside a log of `log_tokens`."""
        if self.total_tokens is None:
            return self.message_tokens
        return max(self.message_tokens, self.total_tokens - log_tokens)

    @property
    def others_tokens(self) -> int:
        """Tell how many tokens of other threads' unobserved messages the Actor is shown."""
        return max(1, round(self.message_tokens * OTHERS_PART))

    def due(self, operation: str) -> int:
        """Tell the size at which an operation is due: of the window, the log, or other threads."""
        if operation == "others":
            return self.others_tokens
        return self.message_tokens if operation == "observation" else self.observation_tokens

    def block_messages_at(self, log_tokens: int) -> int:
        """Tell the window's blocking threshold beside a log of `log_tokens`."""
        return self.messages_at(log_tokens) + self.block_after - self.message_tokens

    def block_observations_at(self, window_tokens: int) -> int:
        """Tell the log's blocking threshold beside a window of `window_tokens`."""
        above = self.reflect_block_after - self.observation_tokens
        return self.observations_at(window_tokens) + above

    def observations_at(self, window_tokens: int) -> int:
        """Tell the log's threshold beside a window of `window_tokens`."""
        if self.total_tokens is None:
            return self.observation_tokens
        return max(self.observation_tokens, self.total_tokens - window_tokens)


def resolve_thresholds(
    observation: ObservationConfig,
    reflection: ReflectionConfig,
    *,
    scope: str = "thread",
    share_token_budget: bool = False,
) -> Thresholds:
    """Turn the options into absolute token counts.

    Raises:
        ConfigurationError: When an option is out of range or contradicts another.
    """
    _check_plain_options(observation, reflection)
    messages = check_count("observation.message_tokens", observation.message_tokens)
    log = check_count("reflection.observation_tokens", reflection.observation_tokens)
    interval = _buffer_interval(observation.buffer_tokens, messages)
    keep = _keep_tokens(observation.buffer_activation, messages)
    start = _reflection_start(reflection, log)
    if interval is None:
        _refuse_without_buffering(observation, reflection)
    block_after = _block_after("observation", observation.block_after, messages)
    reflect_block_after = _block_after("reflection", reflection.block_after, log)
    if scope == "resource" and not _asks_for_buffering(observation, reflection):
        interval = None
    buffered = interval is not None
    return Thresholds(
        message_tokens=messages,
        buffer_tokens=interval,
        keep_tokens=keep,
        block_after=block_after if buffered else messages,
        observation_tokens=log,
        reflect_buffer_at=start if buffered else None,
        reflect_block_after=reflect_block_after if buffered else log,
        total_tokens=messages + log if share_token_budget else None,
    )


def _check_plain_options(observation: ObservationConfig, reflection: ReflectionConfig) -> None:
    check_count("observation.max_tokens_per_batch", observation.max_tokens_per_batch)
    check_flag("observation.thread_title", observation.thread_title)
    check_choice("observation.prompt", observation.prompt, PROMPT_VARIANTS)
    previous = observation.previous_observer_tokens
    if previous is not False:
        check_count("observation.previous_observer_tokens", previous, least=0)
    for option, config in (("observation", observation), ("reflection", reflection)):
        check_text(f"{option}.instruction", config.instruction)
        check_settings(f"{option}.model_settings", config.model_settings)
    _check_attachments(observation.observe_attachments)


def _check_attachments(value: object) -> None:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if isinstance(value, bool) or value == "auto":
        return
    items = list(cast("Sequence[Any]", value)) if is_list else [None]
    if not all(isinstance(item, str) and _MIME_PATTERN.fullmatch(item.strip()) for item in items):
        msg = (
            f"`observation.observe_attachments` is {value!r}; write True, False, 'auto' or "
            f"a list of MIME patterns such as ['image/*', 'application/pdf']"
        )
        raise ConfigurationError(msg)


_MIME_PATTERN = re.compile(r"\*(?:/\*)?|[\w.+-]{1,80}/(?:\*|[\w.+-]{1,80})")


def _tokens(option: str, value: float, hint: str) -> int:
    """Read an absolute token count that came through an option which may also be a ratio."""
    if value != int(value):
        msg = f"`{option}` is {value!r}; write {hint}"
        raise ConfigurationError(msg)
    return int(value)


def _buffer_interval(buffer_tokens: object, messages: int) -> int | None:
    if buffer_tokens is False:
        return None
    option = "observation.buffer_tokens"
    hint = f"a fraction in (0, 1), a token count below `message_tokens` ({messages}), or False"
    value = check_number(option, buffer_tokens, hint)
    resolved = round(messages * value) if 0 < value < 1 else _finite_tokens(option, value, hint)
    if not 0 < resolved < messages:
        msg = f"`{option}` is {value:g}, that is {resolved} tokens; write {hint}"
        raise ConfigurationError(msg)
    return resolved


def _finite_tokens(option: str, value: float, hint: str) -> int:
    if value in (float("inf"), float("-inf")):
        msg = f"`{option}` is {value!r}; write {hint}"
        raise ConfigurationError(msg)
    return _tokens(option, value, hint)


def _keep_tokens(activation: object, messages: int) -> int:
    option = "observation.buffer_activation"
    hint = (
        f"a ratio in (0, 1] to remove, or a token count to keep, "
        f"{_MIN_ABSOLUTE_KEEP} or more and below `message_tokens` ({messages})"
    )
    value = check_number(option, activation, hint)
    if 0 < value <= 1:
        return round(messages * (1 - value))
    if value < _MIN_ABSOLUTE_KEEP or value >= messages:
        msg = f"`{option}` is {activation!r}; write {hint}"
        raise ConfigurationError(msg)
    return _tokens(option, value, hint)


def _reflection_start(reflection: ReflectionConfig, log: int) -> int:
    option = "reflection.buffer_activation"
    hint = "a ratio in (0, 1]"
    value = check_number(option, reflection.buffer_activation, hint)
    if not 0 < value <= 1:
        msg = f"`{option}` is {value!r}; write {hint}"
        raise ConfigurationError(msg)
    return round(log * value)


def _block_after(owner: str, block_after: object, base: int) -> int:
    option = f"{owner}.block_after"
    hint = f"a multiplier in (1, 2), or a token count above the threshold ({base})"
    value = check_number(option, _DEFAULT_BLOCK_AFTER if block_after is None else block_after, hint)
    if 1 < value < 2:  # noqa: PLR2004 the bound is the rule
        return max(base + 1, round(base * value))
    if value <= base:
        msg = f"`{option}` is {block_after!r}; write {hint}"
        raise ConfigurationError(msg)
    return _finite_tokens(option, value, hint)


def _refuse_without_buffering(observation: ObservationConfig, reflection: ReflectionConfig) -> None:
    given = {
        "observation.block_after": observation.block_after,
        "reflection.block_after": reflection.block_after,
        "reflection.buffer_activation": (
            None
            if isinstance(reflection.buffer_activation, Default)
            else reflection.buffer_activation
        ),
    }
    for option, value in given.items():
        if value is not None:
            msg = (
                f"`{option}` is {value!r} while `observation.buffer_tokens` is False, which turns "
                f"all buffering off; leave `{option}` out or set `buffer_tokens`"
            )
            raise ConfigurationError(msg)


def _asks_for_buffering(observation: ObservationConfig, reflection: ReflectionConfig) -> bool:
    return not (
        isinstance(observation.buffer_tokens, Default)
        and isinstance(reflection.buffer_activation, Default)
        and observation.block_after is None
        and reflection.block_after is None
    )
