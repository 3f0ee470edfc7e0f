"""What a user may set, what each setting means, and the absolute numbers it comes down to.

Ratios end here: `resolve_thresholds` turns every fraction and multiplier into tokens, once, and no
other module sees a ratio.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, cast

from langgraph_om.core.config.checks import (
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_text,
)
from langgraph_om.core.model_settings import (
    OBSERVER_SETTINGS,
    REFLECTOR_SETTINGS,
    DefaultSettings,
    check_settings,
)
from langgraph_om.errors import ConfigurationError

DEFAULT_MODEL = "google/gemini-2.5-flash"
"""The model of Observer and Reflector when none is named, and what `"default"` stands for."""

Scope = Literal["thread", "resource"]
PromptVariant = Literal["default", "condensed", "legacy"]

SCOPES = ("thread", "resource")
PROMPT_VARIANTS = ("default", "condensed", "legacy")

_MIN_ABSOLUTE_KEEP = 1000
_DEFAULT_BLOCK_AFTER = 1.2


class _Default(float):
    """A default that can be told from the same number written by the user."""

    __slots__ = ()


class _DefaultText(str):
    """A default that can be told from the same text written by the user."""

    __slots__ = ()


_WIDEST: Scope = cast("Scope", _DefaultText("resource"))


@dataclass(frozen=True, kw_only=True)
class ObservationConfig:
    """When the Observer runs and what it is asked; a mapping with the same keys does as well."""

    model: Any = None
    """The Observer's model; not together with the top-level `model`."""
    instruction: str | None = None
    """Added at the end of the Observer's system prompt."""
    thread_title: bool = False
    """Whether the Observer also suggests a title for the thread."""
    message_tokens: int = 30_000
    """Tokens of unobserved messages at which they are observed."""
    max_tokens_per_batch: int = 10_000
    """Tokens of one batch when several threads are observed at once (resource scope)."""
    model_settings: Mapping[str, Any] = field(
        default_factory=lambda: DefaultSettings(OBSERVER_SETTINGS)
    )
    """Sent with each call, where the model takes it: `temperature`, `max_output_tokens`,
    `thinking_budget` (Gemini 2.5) and `extra`, a mapping for the model's client. What is left out
    has its default, and `None` is not sent; a chat model object gets only what is written here."""
    buffer_tokens: float | Literal[False] = _Default(0.2)
    """Interval of background observation: tokens, or a fraction of `message_tokens`; `False`: off.
    """
    buffer_activation: float = 0.8
    """How much an activation removes (a ratio), or how many tokens it keeps (1000 or more)."""
    block_after: float | None = None
    """Where waiting for the Observer begins: a multiplier in (1, 2), or tokens. `None`: 1.2."""
    previous_observer_tokens: int | Literal[False] = 2000
    """Tokens of earlier observations that the Observer is shown; 0: none, `False`: all."""
    observe_attachments: bool | Literal["auto"] | Sequence[str] = "auto"
    """Whether the Observer is shown what is attached to messages: all of it, none, what matches
    MIME patterns such as `["image/*", "application/pdf"]`, or (`"auto"`) what its model takes."""
    prompt: PromptVariant = "default"
    """Which of the Observer's prompts is used."""


@dataclass(frozen=True, kw_only=True)
class ReflectionConfig:
    """When the Reflector runs and what it is asked; a mapping with the same keys does as well."""

    model: Any = None
    """The Reflector's model; not together with the top-level `model`."""
    instruction: str | None = None
    """Added at the end of the Reflector's system prompt."""
    observation_tokens: int = 40_000
    """Tokens of the observation log at which it is reflected."""
    model_settings: Mapping[str, Any] = field(
        default_factory=lambda: DefaultSettings(REFLECTOR_SETTINGS)
    )
    """Sent with each call, where the model takes it; see `ObservationConfig`."""
    buffer_activation: float = _Default(0.5)
    """The fraction of `observation_tokens` at which a background reflection starts."""
    block_after: float | None = None
    """Where waiting for the Reflector begins: a multiplier in (1, 2), or tokens. `None`: 1.2."""


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig:
    """How the recall tool reaches back to raw messages; `{}` switches it on with defaults."""

    vector: bool = False
    """Whether semantic search is offered too."""
    scope: Scope = _WIDEST
    """Whether the tool reaches other threads of the resource, or only its own thread. Left out,
    and without an archive, it is its own thread."""
    instructions: str | None = None
    """Added to the guidance the Actor gets about recall."""


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


ConfigT = TypeVar("ConfigT", ObservationConfig, ReflectionConfig, RetrievalConfig)


def as_config(kind: type[ConfigT], option: str, value: object) -> ConfigT:
    """Read an option given as its config class, as a mapping, or not at all.

    Raises:
        ConfigurationError: When it is of another type or has an unknown key.
    """
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        msg = f"`{option}` is {value!r}; write a {kind.__name__} or a mapping with its keys"
        raise ConfigurationError(msg)
    known = {entry.name for entry in fields(kind)}
    unknown = sorted(set(map(str, value)) - known)
    if unknown:
        msg = (
            f"`{option}` has the unknown key {unknown[0]!r}; "
            f"the keys are {', '.join(sorted(known))}"
        )
        raise ConfigurationError(msg)
    return kind(**value)


def resolve_retrieval(value: object, *, has_archive: bool) -> RetrievalConfig | None:
    """Read the option `retrieval`: nothing when it is off.

    Raises:
        ConfigurationError: When it is of another type, or reaches further than what is kept.
    """
    if value is False:
        return None
    if value is not True and not isinstance(value, RetrievalConfig | Mapping):
        msg = f"`retrieval` is {value!r}; write True, False, a RetrievalConfig or a mapping"
        raise ConfigurationError(msg)
    config = as_config(RetrievalConfig, "retrieval", None if value is True else value)
    check_flag("retrieval.vector", config.vector)
    check_choice("retrieval.scope", config.scope, SCOPES)
    check_text("retrieval.instructions", config.instructions)
    if config.scope == "thread" or has_archive:
        return config
    if not isinstance(config.scope, _DefaultText):
        msg = (
            "`retrieval.scope` is 'resource' and there is no `archive`, which keeps the messages "
            "of other threads; set `archive`, or write 'thread'"
        )
        raise ConfigurationError(msg)
    return replace(config, scope="thread")


def select_models(
    top: object, observation: ObservationConfig, reflection: ReflectionConfig
) -> tuple[Any, Any]:
    """Choose the Observer's and the Reflector's model.

    Returns:
        Both models; `DEFAULT_MODEL` where none or `"default"` is named.

    Raises:
        ConfigurationError: When the top-level `model` is joined by a nested one.
    """
    for option, nested in (("observation", observation), ("reflection", reflection)):
        if top is not None and nested.model is not None:
            msg = (
                f"`{option}.model` is {nested.model!r} while `model` is {top!r}; "
                f"write either `model` for both agents or the nested ones"
            )
            raise ConfigurationError(msg)
    observer = _first(top, observation.model, reflection.model)
    reflector = _first(top, reflection.model, observation.model)
    return observer, reflector


def _first(*models: object) -> object:
    chosen = next((model for model in models if model is not None), DEFAULT_MODEL)
    return DEFAULT_MODEL if isinstance(chosen, str) and chosen == "default" else chosen


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
            if isinstance(reflection.buffer_activation, _Default)
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
        isinstance(observation.buffer_tokens, _Default)
        and isinstance(reflection.buffer_activation, _Default)
        and observation.block_after is None
        and reflection.block_after is None
    )
