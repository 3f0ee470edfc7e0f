"""What a user may set of observation, reflection and recall: what each setting means and allows.

Rules stand beside the fields, see `checks`; `check_config` applies them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import AfterValidator, BeforeValidator, Field
from typing_extensions import TypedDict

from langgraph_om.core.config.checks import Flag, Hint, Text, Tokens, check_fields, rules_of
from langgraph_om.core.config.ratios import (
    allowed_by,
    block_tokens,
    interval_tokens,
    kept_tokens,
)
from langgraph_om.errors import ConfigurationError

DEFAULT_MODEL = "google/gemini-2.5-flash"
"""The model of Observer and Reflector when none is named, and what `"default"` stands for."""

Scope = Literal["thread", "resource"]
PromptVariant = Literal["default", "condensed", "legacy"]
ReflectionForm = Literal["edits", "rewrite"]


# --- What is left out ----------------------------------------------------------------------------


class Default:
    """Marks a value that the user left out; it equals the same value without the mark.

    The mark is part of the value, so `dataclasses.replace` keeps it.
    """

    __slots__ = ()


class _DefaultNumber(Default, float):
    __slots__ = ()


class _DefaultCount(Default, int):
    __slots__ = ()


class _DefaultText(Default, str):
    __slots__ = ()


class _DefaultSettings(Default, dict[str, Any]):
    __slots__ = ()


def is_default(value: object) -> bool:
    """Return whether the user left a value out."""
    return isinstance(value, Default)


_MESSAGE_TOKENS: Final = _DefaultCount(30_000)
_OBSERVATION_TOKENS: Final = _DefaultCount(40_000)
_INTERVAL: Final = _DefaultNumber(0.2)
_REFLECTION_START: Final = _DefaultNumber(0.5)
_WIDEST: Final[Any] = _DefaultText("resource")

OBSERVER_SETTINGS: Final[Mapping[str, Any]] = {
    "temperature": 0.3,
    "max_output_tokens": 100_000,
    "thinking_budget": 215,
}
"""What the Observer's model is sent where the user sets nothing."""

REFLECTOR_SETTINGS: Final[Mapping[str, Any]] = {
    "temperature": 0,
    "max_output_tokens": 100_000,
    "thinking_budget": 1024,
}
"""What the Reflector's model is sent where the user sets nothing."""


# --- Rules ---------------------------------------------------------------------------------------


def one_of(words: Any) -> Hint:
    """Return the hint for one of several words, a `Literal`."""
    return Hint(f"one of {', '.join(map(repr, get_args(words)))}")


def _refuse_numbers(value: object) -> object:
    if value is not False:  # 0 equals it
        raise ValueError
    return value


Off = Annotated[Literal[False], BeforeValidator(_refuse_numbers)]
"""`False`, and not 0."""

_Number = Annotated[float, Field(allow_inf_nan=False)]
_MIME_PATTERN = re.compile(r"\*(?:/\*)?|[\w.+-]{1,80}/(?:\*|[\w.+-]{1,80})")


def _refuse_other_patterns(pattern: str) -> str:
    if not _MIME_PATTERN.fullmatch(pattern.strip()):
        raise ValueError
    return pattern


_MimePattern = Annotated[str, AfterValidator(_refuse_other_patterns)]
_Settings = Annotated[Mapping[str, Any], Hint("a mapping such as {'temperature': 0.3}")]


class ModelSettings(TypedDict, total=False):
    """What may be sent with each call of a model."""

    temperature: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None,
        Hint("a number, 0 or more, or None to send nothing"),
    ]
    max_output_tokens: Annotated[
        Tokens | None, Hint("a whole number of tokens, 1 or more, or None to send nothing")
    ]
    thinking_budget: Annotated[
        Annotated[int, Field(ge=-1)] | None,
        Hint(
            "a whole number of tokens, 0 for no thinking or -1 for as much as the model likes, or "
            "None to send nothing"
        ),
    ]
    extra: Annotated[
        Mapping[str, Any] | None,
        Hint("a mapping of keyword arguments for the model's client, or None to send nothing"),
    ]


# --- Configs -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ObservationConfig:
    """When the Observer runs and what it is asked; a mapping with the same keys does as well."""

    model: Any = None
    """The Observer's model; not together with the top-level `model`."""
    instruction: Text = None
    """Added at the end of the Observer's system prompt."""
    thread_title: Flag = False
    """Whether the Observer also suggests a title for the thread."""
    message_tokens: Tokens = _MESSAGE_TOKENS
    """Tokens of unobserved messages at which they are observed."""
    max_tokens_per_batch: Tokens = 10_000
    """Tokens of one batch when several threads are observed at once (resource scope)."""
    model_settings: _Settings = field(default_factory=lambda: _DefaultSettings(OBSERVER_SETTINGS))
    """Sent with each call, where the model takes it: `temperature`, `max_output_tokens`,
    `thinking_budget` (Gemini 2.5) and `extra`, a mapping for the model's client. What is left out
    has its default, and `None` is not sent; a chat model object gets only what is written here."""
    buffer_tokens: Annotated[
        Annotated[_Number, allowed_by(interval_tokens)] | Off,
        Hint(
            "a fraction in (0, 1), a token count below `message_tokens` ($message_tokens), or False"
        ),
    ] = _INTERVAL
    """Interval of background observation: tokens, or a fraction of `message_tokens`; `False`: off.
    """
    buffer_activation: Annotated[
        _Number,
        allowed_by(kept_tokens),
        Hint(
            "a ratio in (0, 1] to remove, or a token count to keep, 1000 or more and below "
            "`message_tokens` ($message_tokens)"
        ),
    ] = 0.8
    """How much an activation removes (a ratio), or how many tokens it keeps (1000 or more)."""
    block_after: Annotated[
        Annotated[_Number, allowed_by(block_tokens)] | None,
        Hint("a multiplier in (1, 2), or a token count above the threshold ($message_tokens)"),
    ] = None
    """Where waiting for the Observer begins: a multiplier in (1, 2), or tokens. `None`: 1.2."""
    previous_observer_tokens: Annotated[
        Annotated[int, Field(ge=0)] | Off | None,
        Hint("a whole number of tokens, 0 or more, False for all, or None for a share"),
    ] = None
    """Tokens of earlier observations that the Observer is shown; 0: none, `False`: all, `None`: 7 %
    of `message_tokens`, and 2000 at most."""
    keep_turns: Annotated[int, Field(ge=0), Hint("a whole number of user turns, 0 or more")] = 0
    """How many of the newest user turns stay verbatim, however many tokens they have."""
    observe_attachments: Annotated[
        bool | Literal["auto"] | Sequence[_MimePattern],
        Hint(
            "True, False, 'auto' or a list of MIME patterns such as ['image/*', 'application/pdf']"
        ),
    ] = "auto"
    """Whether the Observer is shown what is attached to messages: all of it, none, what matches
    MIME patterns such as `["image/*", "application/pdf"]`, or (`"auto"`) what its model takes."""
    prompt: Annotated[PromptVariant, one_of(PromptVariant)] = "default"
    """Which of the Observer's prompts is used."""


@dataclass(frozen=True, kw_only=True)
class ReflectionConfig:
    """When the Reflector runs and what it is asked; a mapping with the same keys does as well."""

    model: Any = None
    """The Reflector's model; not together with the top-level `model`."""
    instruction: Text = None
    """Added at the end of the Reflector's system prompt."""
    observation_tokens: Tokens = _OBSERVATION_TOKENS
    """Tokens of the observation log at which it is reflected."""
    model_settings: _Settings = field(default_factory=lambda: _DefaultSettings(REFLECTOR_SETTINGS))
    """Sent with each call, where the model takes it; see `ObservationConfig`."""
    buffer_activation: Annotated[float, Field(gt=0, le=1), Hint("a ratio in (0, 1]")] = (
        _REFLECTION_START
    )
    """The fraction of `observation_tokens` at which a background reflection starts."""
    block_after: Annotated[
        Annotated[_Number, allowed_by(block_tokens)] | None,
        Hint("a multiplier in (1, 2), or a token count above the threshold ($observation_tokens)"),
    ] = None
    """Where waiting for the Reflector begins: a multiplier in (1, 2), or tokens. `None`: 1.2."""
    form: Annotated[ReflectionForm, one_of(ReflectionForm)] = "edits"
    """Whether the Reflector edits single items of the log and the rest stays as it is, or writes
    the log anew (`"rewrite"`, for models that cannot do edits)."""


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig:
    """How the recall tool reaches back to raw messages; `{}` switches it on with defaults."""

    vector: Flag = False
    """Whether semantic search is offered too."""
    scope: Annotated[Scope, one_of(Scope)] = _WIDEST
    """Whether the tool reaches other threads of the resource, or only its own thread. Left out,
    and without an archive, it is its own thread."""
    instructions: Text = None
    """Added to the guidance the Actor gets about recall."""


# --- The same as mappings, for editors and type checkers -----------------------------------------


class ObservationOptions(TypedDict, total=False):
    """The option `observation` as a mapping; `ObservationConfig` says what its keys mean."""

    model: Any
    instruction: str | None
    thread_title: bool
    message_tokens: int
    max_tokens_per_batch: int
    model_settings: Mapping[str, Any]
    buffer_tokens: float | Literal[False]
    buffer_activation: float
    block_after: float | None
    previous_observer_tokens: int | Literal[False] | None
    keep_turns: int
    observe_attachments: bool | Literal["auto"] | Sequence[str]
    prompt: PromptVariant


class ReflectionOptions(TypedDict, total=False):
    """The option `reflection` as a mapping; `ReflectionConfig` says what its keys mean."""

    model: Any
    instruction: str | None
    observation_tokens: int
    model_settings: Mapping[str, Any]
    buffer_activation: float
    block_after: float | None
    form: ReflectionForm


class RetrievalOptions(TypedDict, total=False):
    """The option `retrieval` as a mapping; `RetrievalConfig` says what its keys mean."""

    vector: bool
    scope: Scope
    instructions: str | None


# --- Reading -------------------------------------------------------------------------------------

ConfigT = TypeVar("ConfigT", ObservationConfig, ReflectionConfig, RetrievalConfig)


def as_config(kind: type[ConfigT], option: str, value: Any) -> ConfigT:
    """Read an option given as its config class, as a mapping, or not at all.

    Raises:
        ConfigurationError: When it has an unknown key.
    """
    if isinstance(value, kind):
        return value
    given: Mapping[Any, Any] = {} if value is None else value
    known = sorted(entry.name for entry in fields(kind))
    unknown = sorted(set(map(str, given)) - set(known))
    if unknown:
        msg = f"`{option}` has the unknown key {unknown[0]!r}; the keys are {', '.join(known)}"
        raise ConfigurationError(msg)
    return kind(**given)


def check_config(
    option: str, config: ObservationConfig | ReflectionConfig | RetrievalConfig
) -> None:
    """Refuse a config with a value that cannot be meant.

    Raises:
        ConfigurationError: For the first such value, by the name of its option.
    """
    check_fields(type(config), vars(config), f"{option}.{{}}")
    settings: Mapping[str, Any] = vars(config).get("model_settings", {})
    known = rules_of(ModelSettings)
    for name, value in settings.items():
        if name not in known:
            msg = (
                f"`{option}.model_settings` has the unknown key {name!r}; the keys are "
                f"{', '.join(known)}, and what the model's client takes beside them goes into "
                f"'extra', as in {{'extra': {{{name!r}: {value!r}}}}}"
            )
            raise ConfigurationError(msg)
    check_fields(ModelSettings, settings, f"{option}.model_settings[{{!r}}]")


def resolve_retrieval(
    value: bool | RetrievalConfig | Mapping[Any, Any],  # noqa: FBT001 it is an option
    *,
    has_archive: bool,
) -> RetrievalConfig | None:
    """Read the option `retrieval`: nothing when it is off.

    Raises:
        ConfigurationError: When a setting of it cannot be meant, or it reaches further than what
            is kept.
    """
    if value is False:
        return None
    config = as_config(RetrievalConfig, "retrieval", None if value is True else value)
    check_config("retrieval", config)
    if config.scope == "thread" or has_archive:
        return config
    if not is_default(config.scope):
        msg = (
            "`retrieval.scope` is 'resource' and there is no `archive`, which keeps the messages "
            "of other threads; set `archive`, or pass 'thread'"
        )
        raise ConfigurationError(msg)
    return replace(config, scope="thread")
