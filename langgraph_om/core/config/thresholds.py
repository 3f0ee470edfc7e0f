"""The token counts at which memory acts, and how long a prompt the Actor's models read.

Thresholds are resolved from the options. A model's window comes from its profile, the option
`max_input_tokens`, or the first prompt that its provider refuses. The last one is marked on the
answer that follows, so that every process that goes on with the thread finds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, TypeGuard

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig, refuse
from langgraph_om.core.content.blocks import mark_answer
from langgraph_om.core.content.text import as_mapping
from langgraph_om.core.wire import MemoryRecord, WindowsKnown
from langgraph_om.errors import ConfigurationError
from langgraph_om.parts import ActorWindow

ANY_MODEL: Final = ""
"""In the place of a model's name, where that is not known."""
_LEARNED: Final = "om_window"
"""In the response metadata of an answer before which a prompt was refused."""

ActorWindows = Mapping[str, ActorWindow]
"""By the name of a model."""


def find_smallest(windows: ActorWindows) -> ActorWindow | None:
    """Return the smallest of several windows; `None` without any."""
    return min(windows.values(), key=lambda window: window["tokens"], default=None)


def join_windows(*several: ActorWindows) -> dict[str, ActorWindow]:
    """Return the smaller window of each model, of those that are known in several places."""
    joined: dict[str, ActorWindow] = {}
    for windows in several:
        for model, window in windows.items():
            if model not in joined or window["tokens"] < joined[model]["tokens"]:
                joined[model] = window
    return joined


def mark_learned(message: BaseMessage, model: str, tokens: int) -> BaseMessage:
    """Return an answer that says how long a prompt may be, as its provider said before it."""
    return mark_answer(message, _LEARNED, {"model": model, "tokens": tokens})


def list_known(
    record: MemoryRecord, known: ActorWindows, messages: Sequence[BaseMessage]
) -> list[WindowsKnown]:
    """Return the event that tells a thread what is known, where its record does not have it.

    Args:
        messages: The conversation, whose newest answer may be marked.
    """
    marked = _read_mark(messages)
    if not known and not marked:
        return []
    windows = join_windows(_select_refused(record), marked, known)
    return [] if windows == record.get("windows") else [{"type": "windows", "windows": windows}]


def _read_mark(messages: Sequence[BaseMessage]) -> dict[str, ActorWindow]:
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            mark = message.response_metadata.get(_LEARNED)
            return _read_refusal(as_mapping(mark)) if mark else {}
    return {}


def _read_refusal(mark: Mapping[str, Any]) -> dict[str, ActorWindow]:
    model, tokens = mark.get("model"), mark.get("tokens")
    if not isinstance(model, str) or not isinstance(tokens, int) or tokens < 1:
        return {}
    return {model: {"tokens": tokens, "source": "refused"}}


def _select_refused(record: MemoryRecord) -> dict[str, ActorWindow]:
    """Return what providers have refused; options and profiles may be others by now."""
    kept = record.get("windows", {})
    return {model: kept[model] for model in kept if kept[model]["source"] == "refused"}


def select_learned(record: MemoryRecord, models: Iterable[str]) -> dict[str, ActorWindow]:
    """Return what a thread has learned of these models, and of one without a name."""
    learned, named = _select_refused(record), {ANY_MODEL, *models}
    return {model: learned[model] for model in learned if model in named}


DEFAULT_BLOCK_AFTER = 1.2
"""Where waiting begins, as a multiple of a threshold."""
_MIN_KEPT = 1000
"""Fewer tokens are no retention floor that can be set."""
PREVIOUS_PART = 0.1
MIN_PREVIOUS_TOKENS, MAX_PREVIOUS_TOKENS = 500, 1500
BUDGET_BOUND: Final = 1.2
"""How far a view may outgrow a budget before the oldest of it is left out."""
LARGEST_PIECE = 30_000
"""Of a window that uses the log's room, no more is observed at once, unless its own threshold is
larger: as much as by default."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every limit of the memory, in tokens unless stated otherwise."""

    message_tokens: int
    """The size of the recent messages at which they are activated or observed."""
    buffer_tokens: int | None
    """How many new tokens start a background observation; `None`: no buffering."""
    keep_tokens: int
    """The retention floor: how much of the recent messages stays verbatim."""
    block_after: int
    """The size of the recent messages at which the turn waits for the Observer."""
    observation_tokens: int
    """The size of the log at which it is reflected."""
    reflect_buffer_at: int | None
    """The size of the log at which a background reflection starts; `None`: no buffering."""
    reflect_block_after: int
    """The size of the log at which the turn waits for the Reflector."""
    shares_room: bool = False
    """Whether recent messages and log share their room: each may use what the other leaves free."""
    budget: int | None = None
    """What both may use together; `None`: each has only its own limits."""
    activate_after: float | Literal["auto"] | None = None
    """The pause, in seconds, after which prepared observations are activated, just as when another
    provider answers; `"auto"`: as long as the provider keeps a prompt; `None`: neither."""
    scales_interval: bool = False
    """Whether `buffer_tokens` scales with how much is observed at once, given the log's size."""
    observes: bool = True
    """Whether anything is observed or reflected."""
    deadline: float | None = None
    """The most seconds that one call of the Actor waits; `None`: no limit."""
    scaled_from: int | None = None
    """How large window and log might have grown before the limits were scaled down to the Actor's
    window; `None`: they are as configured."""

    def fit(self, room: int) -> Thresholds:
        """Return limits in the same proportions that together fit into a number of tokens.

        Args:
            room: The tokens; limits that already fit stay as they are.
        """
        if self.largest_tokens <= room:
            return self
        part = Fraction(room, self.largest_tokens)
        messages, log = (
            max(1, int(tokens * part)) for tokens in (self.message_tokens, self.observation_tokens)
        )
        return replace(
            self.resize(messages, log),
            block_after=max(messages, int(self.block_after * part)),
            reflect_block_after=max(log, int(self.reflect_block_after * part)),
            budget=None if self.budget is None else int(self.budget * part),
            scaled_from=self.largest_tokens,
        )

    def resize(self, messages: int, log: int) -> Thresholds:
        """Return limits with other thresholds, and the rest in the same proportions."""
        of_window = Fraction(messages, self.message_tokens)
        of_log = Fraction(log, self.observation_tokens)
        buffer, begin = self.buffer_tokens, self.reflect_buffer_at
        return replace(
            self,
            message_tokens=messages,
            buffer_tokens=None if buffer is None else max(1, int(buffer * of_window)),
            keep_tokens=int(self.keep_tokens * of_window),
            block_after=max(messages, int(self.block_after * of_window)),
            observation_tokens=log,
            reflect_buffer_at=None if begin is None else max(1, int(begin * of_log)),
            reflect_block_after=max(log, int(self.reflect_block_after * of_log)),
        )

    @property
    def lends_reserve(self) -> bool:
        """Whether either may use the other's room up to its blocking threshold, too."""
        return self.shares_room and self.budget is not None

    @property
    def bound(self) -> int | None:
        """The most tokens of both shown to the Actor beside the live request; `None`: no limit."""
        return None if self.budget is None else int(self.budget * BUDGET_BOUND)

    def messages_at(self, log_tokens: int) -> int:
        """Return the window's threshold beside a log of `log_tokens`."""
        if not self.shares_room:
            return self.message_tokens
        room = self.reflect_block_after if self.lends_reserve else self.observation_tokens
        return self.message_tokens + max(0, room - log_tokens)

    def piece_at(self, log_tokens: int) -> int:
        """Return how much is observed at once, at most, beside a log of `log_tokens`."""
        return max(self.message_tokens, min(self.messages_at(log_tokens), LARGEST_PIECE))

    def interval_at(self, log_tokens: int) -> int | None:
        """Return the growth of the window that starts an observation, given `log_tokens`."""
        if self.buffer_tokens is None or not self.scales_interval:
            return self.buffer_tokens
        return self.buffer_tokens * self.piece_at(log_tokens) // self.message_tokens

    @property
    def largest_tokens(self) -> int:
        """Return how large window and log may grow together before a turn waits."""
        return self.block_after + self.reflect_block_after

    def due(self, operation: str) -> int:
        """Return the size of the window, or of the log, at which an operation is due."""
        return self.observation_tokens if operation == "reflection" else self.message_tokens

    def block_messages_at(self, log_tokens: int) -> int:
        """Return the window's blocking threshold beside a log of `log_tokens`."""
        return self.messages_at(log_tokens) + self.block_after - self.message_tokens

    def block_observations_at(self, window_tokens: int) -> int:
        """Return the log's blocking threshold beside a window of `window_tokens`."""
        above = self.reflect_block_after - self.observation_tokens
        return self.observations_at(window_tokens) + above

    def observations_at(self, window_tokens: int) -> int:
        """Return the log's threshold beside a window of `window_tokens`."""
        if not self.shares_room:
            return self.observation_tokens
        room = self.block_after if self.lends_reserve else self.message_tokens
        return self.observation_tokens + max(0, room - window_tokens)


def resolve_previous_tokens(
    observation: ObservationConfig, read: int | None = None
) -> int | Literal[False]:
    """Return how many tokens of earlier observations the Observer is shown; `False` for all.

    A share of what it reads, and enough for what a few messages may deny or change. The share
    grows by steps, so that the beginning of what is shown holds still from question to question.

    Args:
        read: Message tokens of the question; `None`: a whole window.
    """
    tokens = observation.previous_observer_tokens
    if tokens is None:
        share = (observation.message_tokens if read is None else read) * PREVIOUS_PART
        steps = math.ceil(share / MIN_PREVIOUS_TOKENS)
        return min(MAX_PREVIOUS_TOKENS, max(1, steps) * MIN_PREVIOUS_TOKENS)
    return tokens


def resolve_thresholds(
    observation: ObservationConfig,
    reflection: ReflectionConfig,
    *,
    share_token_budget: bool = False,
    budget: int | None = None,
    deadline: float | None = None,
) -> Thresholds:
    """Turn the options into absolute token counts and seconds.

    Args:
        share_token_budget: Whether window and log share their room.
        budget: What both may take together, where that is given.
        deadline: Seconds that one call of the Actor waits at most.

    Raises:
        ConfigurationError: When an option is out of range or contradicts another.
    """
    messages, log = observation.message_tokens, reflection.observation_tokens
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
        shares_room=share_token_budget,
        budget=budget,
        activate_after=observation.activate_after_idle,
        scales_interval=share_token_budget and 0 < observation.buffer_tokens < 1,
        deadline=deadline,
    )


def interval_tokens(interval: float, threshold: int) -> int:
    """Return the tokens of an interval: a fraction in (0, 1), or tokens below the threshold.

    Raises:
        ConfigurationError: When it is neither.
    """
    is_fraction = 0 < interval < 1
    tokens = round(threshold * interval) if is_fraction else _whole(interval)
    if not 0 < tokens < threshold:
        hint = f"a fraction in (0, 1), a token count below `message_tokens` ({threshold}), or False"
        because = f", which is {tokens} tokens" if is_fraction else ""
        refuse("observation.buffer_tokens", interval, hint, because)
    return tokens


def kept_tokens(activation: float, threshold: int) -> int:
    """Return the tokens that stay: what a ratio in (0, 1] leaves, or 1000 or more.

    Raises:
        ConfigurationError: When it is neither, or not below the threshold.
    """
    if 0 < activation <= 1:
        return round(threshold * (1 - activation))
    if not _MIN_KEPT <= _whole(activation) < threshold:
        hint = (
            f"a ratio in (0, 1] to remove, or a token count to keep, {_MIN_KEPT} or more and below "
            f"`message_tokens` ({threshold})"
        )
        refuse("observation.buffer_activation", activation, hint)
    return _whole(activation)


def _block_after(config: ObservationConfig | ReflectionConfig, threshold: int) -> int:
    """Return the tokens of a limit: a multiplier in (1, 2), or tokens above the threshold."""
    limit = DEFAULT_BLOCK_AFTER if config.block_after is None else config.block_after
    if 1 < limit < 2:  # noqa: PLR2004 the bound is the rule
        return max(threshold + 1, round(threshold * limit))
    if _whole(limit) <= threshold:
        hint = f"a multiplier in (1, 2), or a token count above the threshold ({threshold})"
        refuse(f"{config.path}.block_after", limit, hint)
    return _whole(limit)


def _whole(tokens: float) -> int:
    """Return a whole number of tokens; 0, which no limit may be, for any other."""
    return int(tokens) if tokens == int(tokens) else 0


def _refuse_without_buffering(observation: ObservationConfig, reflection: ReflectionConfig) -> None:
    given = {
        "observation.block_after": observation.block_after,
        "reflection.block_after": reflection.block_after,
        "reflection.buffer_activation": (
            reflection.buffer_activation if reflection.has("buffer_activation") else None
        ),
    }
    for option, value in given.items():
        if value is not None:
            raise ConfigurationError(explain_no_buffering(option, value))


def explain_no_buffering(option: str, value: object) -> str:
    """Return what to do about an option that needs buffering where that is off."""
    return (
        f"`{option}` is {value!r} while `observation.buffer_tokens` is False, which turns all "
        f"buffering off; leave `{option}` out or set `buffer_tokens`"
    )


# One budget for window and log: what both stay under together, with what is asked for it.


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
USUAL_INTERVAL = 6_000
"""Tokens of messages worth a question of their own: as many as by default."""
LOG_START, SHARED_LOG_START = 0.9, 1.0
"""The part of a budget's log at which its reflection begins, without and with the window's room.

A small log reaches its limit some turns later; each reflection reads all of it once more. Where
both share their room, the log may still use that of a window that is not full.
"""
Resolve = Callable[[ObservationConfig, ReflectionConfig], Thresholds]
"""Resolves thresholds from both configs."""


def split_budget(
    budget: int, observation: ObservationConfig, reflection: ReflectionConfig, resolve: Resolve
) -> tuple[ObservationConfig, ReflectionConfig]:
    """Return the configs with thresholds of which both limits fit into a budget.

    What counts is where a turn waits, `block_after` with buffering: until then, window and log
    grow beyond their thresholds. A threshold that is given stays, and the other one gets the rest;
    a `block_after` in tokens gives the threshold that stands beside it. What a small window costs
    is kept low where nothing else is said: three quarters of it, or 6000 tokens, are observed at a
    time, and reflection begins late.

    Args:
        budget: Tokens of window and log together.
        resolve: Turns configs into thresholds, as the memory will.

    Raises:
        ConfigurationError: When there is too little room for what is given.
    """
    if not observation.has("message_tokens") and _is_tokens(observation.block_after):
        window = _threshold_below(observation.block_after)
        observation = observation.change(message_tokens=window)
    if not reflection.has("observation_tokens") and _is_tokens(reflection.block_after):
        log = _threshold_below(reflection.block_after)
        reflection = reflection.change(observation_tokens=log)
    found = resolve(observation, reflection)
    if found.buffer_tokens is not None and reflection.block_after is None:
        reflection = reflection.change(block_after=LOG_BLOCK_AFTER)
        if not reflection.has("buffer_activation"):
            begin = SHARED_LOG_START if found.shares_room else LOG_START
            reflection = reflection.change(buffer_activation=begin)
        found = resolve(observation, reflection)
    log_room = round(budget * LOG_PART)
    if observation.has("message_tokens"):
        log_room = budget - found.block_after
    elif reflection.has("observation_tokens"):
        log_room = found.reflect_block_after
    if not observation.has("message_tokens"):
        window = (budget - log_room) * found.message_tokens // found.block_after
        _refuse_too_little(budget, "observation.message_tokens", window)
        observation = observation.change(message_tokens=window)
    if not reflection.has("observation_tokens"):
        log = log_room * found.observation_tokens // found.reflect_block_after
        _refuse_too_little(budget, "reflection.observation_tokens", log)
        reflection = reflection.change(observation_tokens=log)
    observation = _widen_interval(observation, resolve(observation, reflection))
    _refuse_too_much(budget, resolve(observation, reflection))
    return observation, reflection


def _widen_interval(observation: ObservationConfig, found: Thresholds) -> ObservationConfig:
    """Return the settings with fewer background questions, where a small window gave many."""
    if found.buffer_tokens is None or observation.has("buffer_tokens"):
        return observation
    interval = max(found.buffer_tokens, min(USUAL_INTERVAL, found.message_tokens * 3 // 4))
    if interval == found.buffer_tokens:
        return observation
    # A part of the window, so that it grows with the room that the log leaves.
    return observation.change(buffer_tokens=interval / found.message_tokens)


def _refuse_too_little(budget: int, option: str, tokens: int) -> None:
    if tokens < _LEAST:
        msg = (
            f"`token_budget` is {budget}, which leaves {max(0, tokens)} tokens for "
            f"`{option}`; pass a larger budget, or a lower threshold for the other"
        )
        raise ConfigurationError(msg)


def _refuse_too_much(budget: int, found: Thresholds) -> None:
    if found.largest_tokens > budget:
        msg = (
            f"`token_budget` is {budget}, but recent messages may grow to {found.block_after} "
            f"tokens and observations to {found.reflect_block_after} before a turn waits, "
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
