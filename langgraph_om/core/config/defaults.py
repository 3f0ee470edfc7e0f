"""What holds where the user sets nothing, and how that is told from the same value set by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DEFAULT_MODEL = "google/gemini-2.5-flash"
"""The model of Observer and Reflector when none is named, and what `"default"` stands for."""


class Default:
    """Marks a value that the user left out; it equals the same value without the mark.

    The mark is part of the value, so `dataclasses.replace` keeps it.
    """

    __slots__ = ()


class DefaultNumber(Default, float):
    """A number that the user left out."""

    __slots__ = ()


class DefaultCount(Default, int):
    """A whole number that the user left out."""

    __slots__ = ()


class DefaultText(Default, str):
    """A text that the user left out."""

    __slots__ = ()


class DefaultSettings(Default, dict[str, Any]):
    """A mapping of settings that the user left out."""

    __slots__ = ()


def is_default(value: object) -> bool:
    """Return whether the user left a value out."""
    return isinstance(value, Default)


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
