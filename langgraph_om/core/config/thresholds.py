"""The token counts at which memory acts, resolved from the options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from langgraph_om.core.config.defaults import is_default
from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig
from langgraph_om.core.config.ratios import block_tokens, interval_tokens, kept_tokens
from langgraph_om.core.config.reading import check_config
from langgraph_om.errors import ConfigurationError

DEFAULT_BLOCK_AFTER = 1.2
"""Where waiting begins, as a multiple of a threshold."""
PREVIOUS_PART = 0.07
MAX_PREVIOUS_TOKENS = 2000
LARGEST_PIECE = 30_000
"""Of a window that uses the log's room, no more is observed at once, unless its own threshold is
larger: as much as by default."""
OTHERS_PART = 0.2
"""How much of the window's threshold the unobserved messages of other threads may take."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every limit of the memory, in tokens where nothing else is said."""

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
    keep_turns: int = 0
    """How many of the newest user turns stay verbatim; no token count, but a limit all the same."""
    activate_after: float | None = None
    """The pause, in seconds, after which what was made ahead of need is activated; `None`: none."""
    activate_on_provider_change: bool = False
    """Whether that is done when another provider answers, too."""
    scales_interval: bool = False
    """Whether the interval is a part of what is observed at once beside the log as it is."""
    deadline: float | None = None
    """Seconds that one call of the Actor waits at most; `None`: for as long as it takes."""

    def without_buffering(self) -> Thresholds:
        """Return the same limits for a memory that starts nothing in the background."""
        return replace(self, buffer_tokens=None, reflect_buffer_at=None)

    def messages_at(self, log_tokens: int) -> int:
        """Tell the window's threshold beside a log of `log_tokens`."""
        if self.total_tokens is None:
            return self.message_tokens
        return max(self.message_tokens, self.total_tokens - log_tokens)

    def piece_at(self, log_tokens: int) -> int:
        """Tell how much is observed at once, at most, beside a log of `log_tokens`."""
        return max(self.message_tokens, min(self.messages_at(log_tokens), LARGEST_PIECE))

    def interval_at(self, log_tokens: int) -> int | None:
        """Tell the growth of the window that starts an observation beside a log of `log_tokens`."""
        if self.buffer_tokens is None or not self.scales_interval:
            return self.buffer_tokens
        return self.buffer_tokens * self.piece_at(log_tokens) // self.message_tokens

    @property
    def largest_tokens(self) -> int:
        """Tell how large window and log may grow together before a turn waits."""
        return self.block_after + self.reflect_block_after

    @property
    def others_tokens(self) -> int:
        """Tell how many tokens of other threads' unobserved messages the Actor is shown."""
        return max(1, round(self.message_tokens * OTHERS_PART))

    def due(self, operation: str) -> int:
        """Tell the size at which an operation is due: of the window, the log, or other threads."""
        return self.observation_tokens if operation == "reflection" else self.message_tokens

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


def resolve_previous_tokens(observation: ObservationConfig) -> int | Literal[False]:
    """Return how many tokens of earlier observations the Observer is shown; `False` for all.

    A share of what it reads, so that a small window is not read beside much more of the past.
    """
    tokens = observation.previous_observer_tokens
    if tokens is None:
        return min(MAX_PREVIOUS_TOKENS, round(observation.message_tokens * PREVIOUS_PART))
    return tokens


def resolve_thresholds(
    observation: ObservationConfig,
    reflection: ReflectionConfig,
    *,
    share_token_budget: bool = False,
    cache_seconds: float = 300.0,
    deadline: float | None = None,
) -> Thresholds:
    """Turn the options into absolute token counts and seconds.

    Raises:
        ConfigurationError: When an option is out of range or contradicts another.
    """
    check_config("observation", observation)
    check_config("reflection", reflection)
    # The mark of a default is of no use any more, and not every serializer takes it.
    messages, log = int(observation.message_tokens), int(reflection.observation_tokens)
    interval = None
    if observation.buffer_tokens is False:
        _refuse_without_buffering(observation, reflection)
    else:
        interval = interval_tokens(observation.buffer_tokens, messages)
    buffered = interval is not None
    return Thresholds(
        message_tokens=messages,
        buffer_tokens=interval,
        keep_tokens=kept_tokens(observation.buffer_activation, messages),
        block_after=_block_after(observation, messages) if buffered else messages,
        observation_tokens=log,
        reflect_buffer_at=round(log * reflection.buffer_activation) if buffered else None,
        reflect_block_after=_block_after(reflection, log) if buffered else log,
        total_tokens=messages + log if share_token_budget else None,
        keep_turns=observation.keep_turns,
        activate_after=_read_pause(observation.activate_after_idle, cache_seconds),
        activate_on_provider_change=observation.activate_on_provider_change,
        scales_interval=share_token_budget and 0 < observation.buffer_tokens < 1,
        deadline=deadline,
    )


def _read_pause(value: float | str | None, cache_seconds: float) -> float | None:
    return cache_seconds if isinstance(value, str) else value


def _block_after(config: ObservationConfig | ReflectionConfig, threshold: int) -> int:
    multiplier = DEFAULT_BLOCK_AFTER if config.block_after is None else config.block_after
    return block_tokens(multiplier, threshold)


def _refuse_without_buffering(observation: ObservationConfig, reflection: ReflectionConfig) -> None:
    given = {
        "observation.block_after": observation.block_after,
        "observation.buffer_on_idle": observation.buffer_on_idle,
        "reflection.block_after": reflection.block_after,
        "reflection.buffer_activation": (
            None if is_default(reflection.buffer_activation) else reflection.buffer_activation
        ),
    }
    for option, value in given.items():
        if value is not None:
            msg = (
                f"`{option}` is {value!r} while `observation.buffer_tokens` is False, which turns "
                f"all buffering off; leave `{option}` out or set `buffer_tokens`"
            )
            raise ConfigurationError(msg)
