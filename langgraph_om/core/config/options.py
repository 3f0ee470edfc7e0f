"""What a user may set of observation, reflection and recall: what each setting means and allows.

Rules stand beside the fields, see `checks`; `check_config` applies them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from langgraph_om.core.config.checks import Flag, Hint, Text, Tokens, check_fields, rules_of
from langgraph_om.core.config.mappings import (
    InjectOptions,
    ModelSettings,
    PromptVariant,
    ReflectionForm,
    Scope,
)
from langgraph_om.core.config.ratios import (
    allowed_by,
    block_tokens,
    interval_tokens,
    kept_tokens,
)
from langgraph_om.core.working.form import SchemaForm
from langgraph_om.errors import ConfigurationError

DEFAULT_MODEL = "google/gemini-2.5-flash"
"""The model of Observer and Reflector when none is named, and what `"default"` stands for."""


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

TITLE_SETTINGS: Final[Mapping[str, Any]] = {
    "temperature": 0.3,
    "max_output_tokens": 2_000,
    "thinking_budget": 0,
}
"""What is sent with the question for a title."""


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


def _refuse_odd_schemas(value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    for name, schema in (value or {}).items():
        if not isinstance(name, str) or not name.isidentifier():
            msg = f"in which {name!r} is no name"
            raise ValueError(msg)
        SchemaForm(schema)
    return value


_MimePattern = Annotated[str, AfterValidator(_refuse_other_patterns)]
_Settings = Annotated[Mapping[str, Any], Hint("a mapping such as {'temperature': 0.3}")]


# --- Configs -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ObservationConfig:
    """When the Observer runs and what it is asked; a mapping with the same keys does as well.

    Args:
        model: The Observer's model; not together with the top-level `model`.
        instruction: Added at the end of the Observer's system prompt.
        thread_title: Whether the Observer also suggests a title for the thread.
        message_tokens: Tokens of unobserved messages at which they are observed.
        max_tokens_per_batch: Tokens of one batch when several threads are observed at once
            (resource scope).
        model_settings: Sent with each call, where the model takes it: `temperature`,
            `max_output_tokens`, `thinking_budget` (Gemini 2.5) and `extra`, a mapping for the
            model's client. What is left out has its default, and `None` is not sent; a chat model
            object gets only what is written here.
        buffer_tokens: Interval of background observation: tokens, or a fraction of
            `message_tokens`; `False`: off.
        buffer_activation: How much an activation removes (a ratio), or how many tokens it keeps
            (1000 or more).
        block_after: Where waiting for the Observer begins: a multiplier in (1, 2), or tokens.
            `None`: 1.2.
        previous_observer_tokens: Tokens of earlier observations that the Observer is shown; 0:
            none, `False`: all, `None`: 7 % of `message_tokens`, and 2000 at most.
        buffer_on_idle: Seconds after the Actor's answer after which what is unobserved is observed
            ahead of need, however little, unless the conversation goes on before; `None`: never.
            Needs background buffering, and the process that gave the answer to be there still.
        activate_after_idle: Seconds of a pause after which the next turn begins with all that was
            made ahead of need, since the provider's cache is cold anyway; `"auto"`:
            `cache_seconds`, `None`: only at the threshold.
        activate_on_provider_change: Whether the same is done once another provider answers, whose
            cache is empty.
        keep_turns: How many of the newest user turns stay verbatim, however many tokens they have.
        extract: Values by schema, which a second question takes out of what is observed.
        observe_reasoning: Whether the Observer is shown the reasoning of answers, which the user
            does not see.
        observe_attachments: Whether the Observer is shown what is attached to messages: all of it,
            none, what matches MIME patterns such as `["image/*", "application/pdf"]`, or (`"auto"`)
            what its model takes.
        prompt: Which of the Observer's prompts is used.
    """

    model: Any = None
    instruction: Text = None
    thread_title: Flag = False
    message_tokens: Tokens = _MESSAGE_TOKENS
    max_tokens_per_batch: Tokens = 10_000
    model_settings: _Settings = field(default_factory=lambda: _DefaultSettings(OBSERVER_SETTINGS))
    buffer_tokens: Annotated[
        Annotated[_Number, allowed_by(interval_tokens)] | Off,
        Hint(
            "a fraction in (0, 1), a token count below `message_tokens` ($message_tokens), or False"
        ),
    ] = _INTERVAL
    buffer_activation: Annotated[
        _Number,
        allowed_by(kept_tokens),
        Hint(
            "a ratio in (0, 1] to remove, or a token count to keep, 1000 or more and below "
            "`message_tokens` ($message_tokens)"
        ),
    ] = 0.8
    block_after: Annotated[
        Annotated[_Number, allowed_by(block_tokens)] | None,
        Hint("a multiplier in (1, 2), or a token count above the threshold ($message_tokens)"),
    ] = None
    previous_observer_tokens: Annotated[
        Annotated[int, Field(ge=0)] | Off | None,
        Hint("a whole number of tokens, 0 or more, False for all, or None for a share"),
    ] = None
    buffer_on_idle: Annotated[
        Annotated[_Number, Field(gt=0)] | None, Hint("a number of seconds above 0, or None")
    ] = None
    activate_after_idle: Annotated[
        Annotated[_Number, Field(gt=0)] | Literal["auto"] | None,
        Hint("a number of seconds above 0, 'auto' for `cache_seconds`, or None"),
    ] = None
    activate_on_provider_change: Flag = False
    keep_turns: Annotated[int, Field(ge=0), Hint("a whole number of user turns, 0 or more")] = 0
    extract: Annotated[
        Mapping[str, Any] | None,
        AfterValidator(_refuse_odd_schemas),
        Hint(
            "a mapping from names to schemas (pydantic models, TypedDicts, JSON Schemas), or None"
        ),
    ] = None
    observe_reasoning: Flag = False
    observe_attachments: Annotated[
        bool | Literal["auto"] | Sequence[_MimePattern],
        Hint(
            "True, False, 'auto' or a list of MIME patterns such as ['image/*', 'application/pdf']"
        ),
    ] = "auto"
    prompt: Annotated[PromptVariant, one_of(PromptVariant)] = "default"


@dataclass(frozen=True, kw_only=True)
class ReflectionConfig:
    """When the Reflector runs and what it is asked; a mapping with the same keys does as well.

    Args:
        model: The Reflector's model; not together with the top-level `model`.
        instruction: Added at the end of the Reflector's system prompt.
        observation_tokens: Tokens of the observation log at which it is reflected.
        model_settings: Sent with each call, where the model takes it; see `ObservationConfig`.
        buffer_activation: The fraction of `observation_tokens` at which a background reflection
            starts.
        block_after: Where waiting for the Reflector begins: a multiplier in (1, 2), or tokens.
            `None`: 1.2.
        form: Whether the Reflector edits single items of the log and the rest stays as it is, or
            writes the log anew (`"rewrite"`, for models that cannot do edits).
    """

    model: Any = None
    instruction: Text = None
    observation_tokens: Tokens = _OBSERVATION_TOKENS
    model_settings: _Settings = field(default_factory=lambda: _DefaultSettings(REFLECTOR_SETTINGS))
    buffer_activation: Annotated[float, Field(gt=0, le=1), Hint("a ratio in (0, 1]")] = (
        _REFLECTION_START
    )
    block_after: Annotated[
        Annotated[_Number, allowed_by(block_tokens)] | None,
        Hint("a multiplier in (1, 2), or a token count above the threshold ($observation_tokens)"),
    ] = None
    form: Annotated[ReflectionForm, one_of(ReflectionForm)] = "edits"


@dataclass(frozen=True, kw_only=True)
class InjectConfig:
    """What is found for a message of the user, and shown with it; `{}` means the defaults.

    Args:
        top_k: How many messages at most.
        message_range: How many messages before and after each of them are shown with it.
        min_score: How well a message has to match; `None`: whatever is found.
    """

    top_k: Annotated[int, Field(ge=1, le=50), Hint("a whole number from 1 to 50")] = 4
    message_range: Annotated[int, Field(ge=0, le=20), Hint("a whole number from 0 to 20")] = 2
    min_score: Annotated[
        float | None, Field(ge=0, le=1, allow_inf_nan=False), Hint("a number from 0 to 1, or None")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig:
    """How the recall tool reaches back to raw messages; `{}` switches it on with defaults.

    Args:
        vector: Whether search is by meaning too, in the graph's store, beside the search by words.
        scope: Whether the tool reaches other threads of the resource, or only its own thread. Left
            out, and without an archive, it is its own thread.
        instructions: Added to the guidance the Actor gets about recall.
        inject: Whether each new message of the user is searched for, and what is found shown before
            it: a flag, or a mapping with `top_k`, `message_range` and `min_score`, see
            `InjectConfig`.
    """

    vector: Flag = False
    scope: Annotated[Scope, one_of(Scope)] = _WIDEST
    instructions: Text = None
    inject: Annotated[
        bool | InjectOptions,
        Hint(
            'True, False, or a mapping such as {"top_k": 4, "message_range": 2, "min_score": 0.2}'
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class TitleConfig:
    """How titles of threads are made; `{}` switches it on with defaults.

    Args:
        model: What is asked for a title; `None`: the Observer's model.
        instructions: Added to the question for a title.
    """

    model: Any = None
    instructions: Annotated[
        str | Callable[..., Any] | None,
        Hint("a text, a function of the run's configuration that returns one, or None"),
    ] = None


# --- Reading -------------------------------------------------------------------------------------

ConfigT = TypeVar(
    "ConfigT", ObservationConfig, ReflectionConfig, RetrievalConfig, InjectConfig, TitleConfig
)


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
    option: str,
    config: ObservationConfig | ReflectionConfig | RetrievalConfig | InjectConfig | TitleConfig,
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
    resolve_inject(config)
    if config.scope == "thread" or has_archive:
        return config
    if not is_default(config.scope):
        msg = (
            "`retrieval.scope` is 'resource' and there is no `archive`, which keeps the messages "
            "of other threads; set `archive`, or pass 'thread'"
        )
        raise ConfigurationError(msg)
    return replace(config, scope="thread")


def resolve_inject(config: RetrievalConfig | None) -> InjectConfig | None:
    """Read the option `retrieval.inject`: nothing when it is off.

    Raises:
        ConfigurationError: When a setting of it cannot be meant.
    """
    if config is None or config.inject is False:
        return None
    value: Any = None if config.inject is True else config.inject
    inject = as_config(InjectConfig, "retrieval.inject", value)
    check_config("retrieval.inject", inject)
    return inject


def resolve_titles(value: bool | Mapping[Any, Any]) -> TitleConfig | None:  # noqa: FBT001 an option
    """Read the option `thread_title`: nothing when it is off.

    Raises:
        ConfigurationError: When a setting of it cannot be meant.
    """
    if value is False:
        return None
    config = as_config(TitleConfig, "thread_title", None if value is True else value)
    check_config("thread_title", config)
    return config
