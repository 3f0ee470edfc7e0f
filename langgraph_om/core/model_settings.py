"""What a model may be told beside the question: the keys, their values and their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from langgraph_om.errors import ConfigurationError


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


def written_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings that the user wrote; defaults were not written."""
    return {} if isinstance(settings, DefaultSettings) else settings


def check_settings(option: str, settings: Any) -> None:
    """Read model settings.

    Raises:
        ConfigurationError: When they are no mapping, or have an unknown key or a value that can not
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
