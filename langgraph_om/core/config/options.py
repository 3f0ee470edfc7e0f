"""What a user may set, what each setting means, and the absolute numbers it comes down to.

Ratios end here: `resolve_thresholds` turns every fraction and multiplier into tokens, once, and no
other module sees a ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeVar, cast

from langgraph_om.core.config.checks import check_choice, check_flag, check_text
from langgraph_om.errors import ConfigurationError

DEFAULT_MODEL = "google/gemini-2.5-flash"
"""The model of Observer and Reflector when none is named, and what `"default"` stands for."""

Scope = Literal["thread", "resource"]
PromptVariant = Literal["default", "condensed", "legacy"]

SCOPES = ("thread", "resource")
PROMPT_VARIANTS = ("default", "condensed", "legacy")


class Default(float):
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
    buffer_tokens: float | Literal[False] = Default(0.2)
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
    buffer_activation: float = Default(0.5)
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


class DefaultSettings(dict[str, Any]):
    """Default settings that can be told from the same ones written by the user."""


OBSERVER_SETTINGS: Final[Mapping[str, Any]] = DefaultSettings(
    temperature=0.3, max_output_tokens=100_000, thinking_budget=215
)
"""What the Observer's model is sent where the user writes nothing."""

REFLECTOR_SETTINGS: Final[Mapping[str, Any]] = DefaultSettings(
    temperature=0, max_output_tokens=100_000, thinking_budget=1024
)
"""What the Reflector's model is sent where the user writes nothing."""


def select_written_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings that the user wrote; defaults were not written."""
    return {} if isinstance(settings, DefaultSettings) else settings


def check_settings(option: str, settings: Any) -> None:
    """Read model settings.

    Raises:
        ConfigurationError: When they are no mapping, or have an unknown key or a value that cannot
            be meant.
    """
    if not isinstance(settings, Mapping) or not all(isinstance(key, str) for key in settings):
        msg = f"`{option}` is {settings!r}; write a mapping such as {{'temperature': 0.3}}"
        raise ConfigurationError(msg)
    for name, value in settings.items():
        if name not in _CHECKS:
            msg = (
                f"`{option}` has the unknown key {name!r}; the keys are {', '.join(_CHECKS)}, and "
                f"what the model's client takes beside them goes into 'extra', as in "
                f"{{'extra': {{{name!r}: {value!r}}}}}"
            )
            raise ConfigurationError(msg)
        is_fine, hint = _CHECKS[name]
        if value is not None and not is_fine(value):
            msg = f"`{option}[{name!r}]` is {value!r}; write {hint}, or None to send nothing"
            raise ConfigurationError(msg)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_temperature(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    )


_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "temperature": (_is_temperature, "a number, 0 or more"),
    "max_output_tokens": (
        lambda value: _is_whole(value, 1),
        "a whole number of tokens, 1 or more",
    ),
    "thinking_budget": (
        lambda value: _is_whole(value, -1),
        "a whole number of tokens, 0 for no thinking or -1 for as much as the model likes",
    ),
    "extra": (
        lambda value: isinstance(value, Mapping),
        "a mapping of keyword arguments for the model's client",
    ),
}
"""Per key: what tells whether a value can be meant, and what to write instead."""
