"""Checks of values by rules that stand beside them, as annotations.

A rule is a type as pydantic reads it, with a hint: `Annotated[int, Field(ge=1), Hint("a whole
number of tokens, 1 or more")]`. Values are checked strictly (`True` is no number) and kept as they
were given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from string import Template
from typing import Annotated, Any, Generic, TypeVar, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

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
            option: The name of the value in an error.
            value: What was given.
            beside: The values of the same config by name, for rules that relate several.

        Raises:
            ConfigurationError: When the rule does not allow it.
        """
        try:
            self._adapter.validate_python(value, strict=True, context=beside)
        except ValidationError as error:
            hints = [data.text for data in get_args(self._annotation) if isinstance(data, Hint)]
            hint = Template(hints[-1]).safe_substitute(beside or {})
            raise to_configuration_error(option, value, hint, error) from None
        return value


def to_configuration_error(
    option: str, value: object, hint: str, error: ValidationError
) -> ConfigurationError:
    """Return an error that names an option and its value, and says what to pass instead.

    A reason that a rule of ours gives (the text of its `ValueError`) stands between them.
    """
    whole = repr(value)
    shown = whole if len(whole) <= _MAX_SHOWN else f"{whole[:_MAX_SHOWN]}..."
    problems = error.errors(include_url=False, include_input=False)
    reasons = [str(problem.get("ctx", {}).get("error", "")) for problem in problems]
    because = next((f", {reason}" for reason in reasons if reason), "")
    return ConfigurationError(f"`{option}` is {shown}{because}; pass {hint}")


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
        kind: The class with the rules.
        values: Values by the names of fields; each must be known.
        form: How an error names a field, such as `observation.{}`.

    Raises:
        ConfigurationError: For the first value that is not allowed.
    """
    rules = rules_of(kind)
    for name, value in values.items():
        rules[name].check(form.format(name), value, values)


def find_near(name: str, known: Mapping[str, Any] | list[str]) -> str | None:
    """Return the known name that another one was probably meant to be."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.75)), None)


Tokens = Annotated[int, Field(ge=1), Hint("a whole number of tokens, 1 or more")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), Hint("a number of seconds above 0")]
Flag = Annotated[bool, Hint("True or False")]
Text = Annotated[str | None, Hint("a text or None")]

check_count = Rule[int](Tokens).check
check_seconds = Rule[float](Seconds).check
check_flag = Rule[bool](Flag).check
