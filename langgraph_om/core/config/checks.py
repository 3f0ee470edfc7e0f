"""Checks of single settings: each names the setting, its value, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from langgraph_om.errors import ConfigurationError


def check_count(option: str, value: object, *, least: int = 1) -> int:
    """Read a whole number of tokens; `True` is not one.

    Raises:
        ConfigurationError: When it is none, or below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        msg = f"`{option}` is {value!r}; write a whole number of tokens, {least} or more"
        raise ConfigurationError(msg)
    return value


def check_flag(option: str, value: object) -> bool:
    """Read a flag.

    Raises:
        ConfigurationError: When it is neither `True` nor `False`.
    """
    if not isinstance(value, bool):
        msg = f"`{option}` is {value!r}; write True or False"
        raise ConfigurationError(msg)
    return value


def check_choice(option: str, value: object, choices: Sequence[str]) -> str:
    """Read one of several words.

    Raises:
        ConfigurationError: When it is another.
    """
    if value not in choices:
        msg = f"`{option}` is {value!r}; write one of {', '.join(map(repr, choices))}"
        raise ConfigurationError(msg)
    return str(value)


def check_text(option: str, value: object) -> None:
    """Read a text or nothing.

    Raises:
        ConfigurationError: When it is something else.
    """
    if value is not None and not isinstance(value, str):
        msg = f"`{option}` is {value!r}; write a text or None"
        raise ConfigurationError(msg)


def check_number(option: str, value: object, hint: str) -> float:
    """Read a number; `True` and NaN are none.

    Args:
        option: The setting's name.
        value: What was given.
        hint: What to write instead.

    Raises:
        ConfigurationError: When it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 NaN
        msg = f"`{option}` is {value!r}; write {hint}"
        raise ConfigurationError(msg)
    return float(value)


def check_seconds(option: str, value: object) -> float:
    """Read a time span in seconds.

    Raises:
        ConfigurationError: When it is no finite number above 0.
    """
    hint = "a number of seconds above 0"
    seconds = check_number(option, value, hint)
    if not 0 < seconds < float("inf"):
        msg = f"`{option}` is {value!r}; write {hint}"
        raise ConfigurationError(msg)
    return seconds


def check_key(option: str, value: object) -> str:
    """Read the name of a key of the graph's state.

    Raises:
        ConfigurationError: When it is empty, or the memory's own `om`.
    """
    if not isinstance(value, str) or not value or value == "om":
        msg = f"`{option}` is {value!r}; write the name of the state's list of messages"
        raise ConfigurationError(msg)
    return value


def check_callable(option: str, value: Any) -> Any:
    """Read a function or nothing.

    Raises:
        ConfigurationError: When it cannot be called.
    """
    if value is None or callable(value):
        return value
    msg = f"`{option}` is {value!r}; write a function or None"
    raise ConfigurationError(msg)


def check_clock(option: str, clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Wrap a clock so that a time without a zone is an error where it is told.

    Raises:
        ConfigurationError: When it cannot be called; later, when it tells no aware time.
    """
    told = check_callable(option, clock)

    def aware() -> datetime:
        now = told()
        if not isinstance(now, datetime) or now.tzinfo is None:
            msg = f"`{option}` returned {now!r}; return an aware datetime"
            raise ConfigurationError(msg)
        return now

    return aware
