"""What a user may set of observation, reflection and recall: what each setting means and allows.

Rules stand beside the fields, as annotations. A rule is a type as pydantic reads it, with a hint:
`Annotated[int, Field(ge=1), Hint("a whole number of tokens, 1 or more")]`. Values are checked
strictly (`True` is no number) and kept as they were given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from string import Template
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)
from typing_extensions import TypedDict

from langgraph_om.errors import ConfigurationError

T = TypeVar("T")

_MAX_SHOWN = 600
"""How many characters of a wrong value its error shows."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What to pass instead, the end of an error; `$message_tokens` stands for that option."""

    text: str


@dataclass(frozen=True, slots=True)
class Takes:
    """The type that a value is checked by, where it is wider than the one that editors are told."""

    kind: Any


@dataclass(frozen=True, slots=True)
class Preset:
    """The value of an option that is left out."""

    value: Any


class Rule(Generic[T]):
    """What a value has to be.

    Args:
        annotation: A type; as `Annotated` with a `Hint` that ends its errors, and with `Takes`
            where another type is checked.
    """

    def __init__(self, annotation: Any) -> None:
        taken = [data for data in get_args(annotation)[1:] if isinstance(data, Takes)]
        if taken:
            _, *metadata = get_args(annotation)
            annotation = Annotated[(taken[0].kind, *metadata)]
        self._annotation = annotation

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self._annotation)  # made when first needed: it takes its time

    def check(self, option: str, value: T, beside: Mapping[str, Any] | None = None) -> T:
        """Refuse a value that the rule does not allow; return it as it was given.

        Args:
            beside: The values of the same config by name, for rules that relate several.

        Raises:
            ConfigurationError: When the rule does not allow it.
        """
        try:
            self._adapter.validate_python(value, strict=True, context=beside)
        except ValidationError as error:
            hints = [data.text for data in get_args(self._annotation) if isinstance(data, Hint)]
            hint = Template(hints[-1]).safe_substitute(beside or {})
            whole = repr(value)
            shown = whole if len(whole) <= _MAX_SHOWN else f"{whole[:_MAX_SHOWN]}..."
            problems = error.errors(include_url=False, include_input=False)
            # The text of a `ValueError` that a rule of ours raises.
            reasons = [str(problem.get("ctx", {}).get("error", "")) for problem in problems]
            because = next((f", {reason}" for reason in reasons if reason), "")
            msg = f"`{option}` is {shown}{because}; pass {hint}"
            raise ConfigurationError(msg) from None
        return value


@cache
def rules_of(kind: type) -> Mapping[str, Rule[Any]]:
    """Return the rules that stand beside the fields of a class, by the fields' names."""
    annotations = get_type_hints(kind, include_extras=True)
    return {name: Rule(annotation) for name, annotation in annotations.items()}


@cache
def presets_of(kind: type) -> Mapping[str, Any]:
    """Return the values of options that are left out, by name, in the order of the table.

    Args:
        kind: A `TypedDict` with a `Preset` beside each key.
    """
    presets: dict[str, Any] = {}
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        preset = next(data for data in get_args(annotation)[1:] if isinstance(data, Preset))
        presets[name] = preset.value
    return presets


def check_fields(kind: type, values: Mapping[str, Any], form: str) -> None:
    """Refuse values that the rules of a class do not allow.

    Args:
        form: How an error names a field, such as `observation.{}`.

    Raises:
        ConfigurationError: For the first value that is not allowed.
    """
    rules = rules_of(kind)
    for name, value in values.items():
        rules[name].check(form.format(name), value, values)


def find_near(name: str, known: Mapping[str, Any] | list[str]) -> str | None:
    """Return the known name that another one was probably meant to be."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    near = get_close_matches(snake, list(known), n=1, cutoff=0.75)
    return near[0] if near else next(iter(get_close_matches(name, list(known), 1, 0.75)), None)


Tokens = Annotated[int, Field(ge=1), Hint("a whole number of tokens, 1 or more")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), Hint("a number of seconds above 0")]
Flag = Annotated[bool, Hint("True or False")]
Text = Annotated[str | None, Hint("a text or None")]

check_tokens = Rule[int](Tokens).check
check_count = Rule[int](Annotated[int, Field(ge=1), Hint("a whole number, 1 or more")]).check
check_number = Rule[int](Annotated[int, Field(ge=0), Hint("a whole number, 0 or more")]).check
check_seconds = Rule[float](Seconds).check
check_flag = Rule[bool](Flag).check


# What holds where the user sets nothing, and how that is told from the same value set by hand.


ACTORS_OWN = "default"
"""What stands for the model of memory when none is named: the Actor's own."""
DEFAULT_MODEL = "google/gemini-flash-lite-latest"
"""The model of memory when none is named and no Actor is known: an alias, which does not age."""


class Default:
    """Marks a value that the user left out; it equals the same value without the mark.

    The mark is part of the value, so `dataclasses.replace` keeps it.
    """


class DefaultNumber(Default, float):
    """A number that the user left out."""


class DefaultCount(Default, int):
    """A whole number that the user left out."""


class DefaultText(Default, str):
    """A text that the user left out."""

    __slots__ = ()


class DefaultSettings(Default, dict[str, Any]):
    """A mapping of settings that the user left out."""


def is_default(value: object) -> bool:
    """Return whether the user left a value out."""
    return isinstance(value, Default)


OBSERVER_SETTINGS: Final[Mapping[str, Any]] = {
    "temperature": 0.3,
    "max_output_tokens": 100_000,
}
"""What the Observer's model is sent where the user sets nothing and its profile says it takes."""

REFLECTOR_SETTINGS: Final[Mapping[str, Any]] = {
    "temperature": 0,
    "max_output_tokens": 100_000,
}
"""What the Reflector's model is sent where the user sets nothing and its profile says it takes."""


@dataclass(frozen=True, slots=True)
class Role:
    """A model that a feature asks, beside those of the Observer and the Reflector."""

    name: str
    """Of the role, in traces and in the metadata of calls."""
    option: str
    """The option that names the model, for errors."""
    model: Any
    """What the option names; `None`: the Observer's model."""
    settings: Mapping[str, Any]
    """What is sent with each call, as `model_settings`."""


# Options as mappings: what each key takes and means. The classes further down have the same keys,
# with the values of those that are left out.


PromptVariant = Literal["default", "condensed"]


class ModelSettings(TypedDict, total=False):
    """What may be sent with each call of a model, the option `model_settings`."""

    temperature: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None,
        Hint("a number, 0 or more, or None to send nothing"),
    ]
    """How freely the model chooses its words."""
    max_output_tokens: Annotated[
        Tokens | None, Hint("a whole number of tokens, 1 or more, or None to send nothing")
    ]
    """The longest answer, in tokens; no more is sent than the model is known to take."""
    thinking_budget: Annotated[
        Annotated[int, Field(ge=-1)] | None,
        Hint(
            "a whole number of tokens, 0 for no thinking or -1 for as much as the model likes, or "
            "None to send nothing"
        ),
    ]
    """Tokens that a model of Google may think: 0 for none, -1 for as many as it likes."""
    extra: Annotated[
        Mapping[str, Any] | None,
        Hint("a mapping of keyword arguments for the model's client, or None to send nothing"),
    ]
    """Keyword arguments for the model's client, sent as they are."""


# Settings that are a ratio of a threshold, or tokens: what they come down to.
#
# Each function raises `ValueError` for what cannot be meant, and so serves as a rule, too.


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
_Settings = Annotated[Mapping[str, Any], Hint("a mapping such as {'temperature': 0.3}")]


# --- The keys, and the classes with the values of those that are left out -----------------------


class ObservationOptions(TypedDict, total=False):
    """The keys of the option `observation`, as a mapping."""

    model: Any
    """The Observer's model; not together with the top-level `model`."""
    instruction: Text
    """Added at the end of the Observer's system prompt."""
    message_tokens: Tokens
    """Tokens of unobserved messages at which they are observed."""
    max_tokens_per_batch: Tokens
    """Tokens of one batch when several threads are observed at once (resource scope)."""
    model_settings: _Settings
    """Settings sent with each call, where the model takes them: `temperature`,
    `max_output_tokens`, `thinking_budget` (Gemini 2.5) and `extra`. `extra` is a mapping for
    the model's client. A setting that is left out has its default, and `None` is not sent. A
    chat model object gets only the settings that are given."""
    buffer_tokens: Annotated[
        Annotated[_Number, allowed_by(interval_tokens)] | Off,
        Hint(
            "a fraction in (0, 1), a token count below `message_tokens` ($message_tokens), or False"
        ),
    ]
    """Interval of background observation: tokens, or a fraction of `message_tokens`; `False`:
    off."""
    buffer_activation: Annotated[
        _Number,
        allowed_by(kept_tokens),
        Hint(
            "a ratio in (0, 1] to remove, or a token count to keep, 1000 or more and below "
            "`message_tokens` ($message_tokens)"
        ),
    ]
    """How much an activation removes (a ratio), or how many tokens it keeps (1000 or more)."""
    block_after: Annotated[
        Annotated[_Number, allowed_by(block_tokens)] | None,
        Hint("a multiplier in (1, 2), or a token count above the threshold ($message_tokens)"),
    ]
    """Where a turn begins to wait for the Observer: a multiplier in (1, 2), or tokens; `None`
    is 1.2."""
    previous_observer_tokens: Annotated[
        Annotated[int, Field(ge=0)] | Off | None,
        Hint("a whole number of tokens, 0 or more, False for all, or None for a share"),
    ]
    """Tokens of earlier observations that the Observer is shown: 0 for none, `False` for all.
    `None`: a tenth of `message_tokens`, but 500 to 1500. Half of them are for items that share
    words with the messages."""
    activate_after_idle: Annotated[
        Annotated[_Number, Field(gt=0)] | Literal["auto"] | None,
        Hint("a number of seconds above 0, 'auto' for the provider's cache, or None"),
    ]
    """Seconds of a pause after which the next turn puts prepared observations into the log. The
    provider's cache of the prompt is gone by then, so a change costs nothing. `"auto"`: as long as
    the cache of the provider that answered last keeps a prompt. The same is done once another
    provider answers. `None`: only at the threshold."""


class ReflectionOptions(TypedDict, total=False):
    """The keys of the option `reflection`, as a mapping."""

    model: Any
    """The Reflector's model; not together with the top-level `model`."""
    instruction: Text
    """Added at the end of the Reflector's system prompt."""
    observation_tokens: Tokens
    """Tokens of the observation log at which it is reflected."""
    model_settings: _Settings
    """Settings sent with each call, as in `observation`."""
    buffer_activation: Annotated[float, Field(gt=0, le=1), Hint("a ratio in (0, 1]")]
    """The fraction of `observation_tokens` at which a background reflection starts."""
    block_after: Annotated[
        Annotated[_Number, allowed_by(block_tokens)] | None,
        Hint("a multiplier in (1, 2), or a token count above the threshold ($observation_tokens)"),
    ]
    """Where a turn begins to wait for the Reflector: a multiplier in (1, 2), or tokens; `None`
    is 1.2."""


@dataclass(frozen=True, kw_only=True)
class ObservationConfig:
    """When the Observer runs and what it is asked; `ObservationOptions` says what its keys mean."""

    keys = ObservationOptions

    model: Any = None
    instruction: str | None = None
    message_tokens: int = DefaultCount(30_000)
    max_tokens_per_batch: int = 10_000
    model_settings: Mapping[str, Any] = field(
        default_factory=lambda: DefaultSettings(OBSERVER_SETTINGS)
    )
    buffer_tokens: float | Literal[False] = DefaultNumber(0.2)
    buffer_activation: float = 0.8
    block_after: float | None = None
    previous_observer_tokens: int | Literal[False] | None = None
    activate_after_idle: float | Literal["auto"] | None = None


@dataclass(frozen=True, kw_only=True)
class ReflectionConfig:
    """When the Reflector runs and what it is asked; a mapping with the same keys does as well.

    `ReflectionOptions` says what each of them means.
    """

    keys = ReflectionOptions

    model: Any = None
    instruction: str | None = None
    observation_tokens: int = DefaultCount(40_000)
    model_settings: Mapping[str, Any] = field(
        default_factory=lambda: DefaultSettings(REFLECTOR_SETTINGS)
    )
    buffer_activation: float = DefaultNumber(0.5)
    block_after: float | None = None
