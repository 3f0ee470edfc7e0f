"""The host's options of a memory: read from what the user wrote, with the environment's say."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, cast
from zoneinfo import ZoneInfo

from langchain_core.runnables import RunnableConfig

from langgraph_om.buffering import (
    BackgroundBuffering,
    Buffering,
    InlineBuffering,
    ParallelBuffering,
)
from langgraph_om.core.config import (
    DEFAULT_MODEL,
    ObservationConfig,
    ReflectionConfig,
    select_models,
)
from langgraph_om.core.counters import TokenxCounter
from langgraph_om.core.tokens import TokenCounter
from langgraph_om.errors import ConfigurationError
from langgraph_om.models import AgentModels, ModelValue, check_model

__all__ = [
    "check_buffering",
    "check_counter",
    "check_resource",
    "check_zone",
    "choose_models",
    "refuse_unfinished",
    "system_clock",
    "with_prompt_switch",
]

_PROMPT_SWITCHES = {
    "OM_USE_CONDENSED_PROMPT": "condensed",
    "OM_USE_LEGACY_PROMPT": "legacy",
}
"""Environment variables that choose the Observer's prompt when the setting is left at its default.
"""


def choose_models(
    model: ModelValue | None,
    observing: ObservationConfig,
    reflecting: ReflectionConfig,
    *,
    is_checked: bool,
    given: Mapping[str, bool],
) -> AgentModels:
    """Choose and check the Observer's and the Reflector's model.

    Args:
        model: The top-level model.
        observing: The Observer's settings.
        reflecting: The Reflector's settings.
        is_checked: Whether the models will be used.
        given: Options that ask for a model to be named, and whether they are given.

    Raises:
        ConfigurationError: When a model is missing, named twice, or can never work.
    """
    named = (model, observing.model, reflecting.model)
    option = next((name for name, is_given in given.items() if is_given), None)
    if is_checked and option and all(value is None for value in named):
        msg = (
            f"`{option}` is set and no model is; write model='default' for the default model "
            f"or name one"
        )
        raise ConfigurationError(msg)
    observer, reflector = select_models(model, observing, reflecting)
    if is_checked:
        given_models = {
            "observation.model": observing.model,
            "reflection.model": reflecting.model,
        }
        for option, value in {"model": model, **given_models}.items():
            if value is not None and value != "default":
                check_model(option, value)
        if observer is DEFAULT_MODEL or reflector is DEFAULT_MODEL:
            check_model("model", DEFAULT_MODEL)
    return AgentModels(
        values={"observer": observer, "reflector": reflector},
        settings={
            "observer": observing.model_settings,
            "reflector": reflecting.model_settings,
        },
    )


def system_clock() -> datetime:
    """Tell the current time."""
    return datetime.now(UTC)


def refuse_unfinished(given: Mapping[str, bool]) -> None:
    """Refuse options that a later version will know.

    Raises:
        ConfigurationError: When one is given.
    """
    for option, is_given in given.items():
        if is_given:
            msg = f"`{option}` is not available in this version; leave it out"
            raise ConfigurationError(msg)


def with_prompt_switch(config: ObservationConfig) -> ObservationConfig:
    """Let the environment choose the prompt where the setting is left at its default."""
    if config.prompt != "default":
        return config
    for variable, prompt in _PROMPT_SWITCHES.items():
        if os.environ.get(variable) == "1":
            values = {**vars(config), "prompt": prompt}
            return ObservationConfig(**values)
    return config


def check_resource(value: Any) -> str | Callable[[RunnableConfig], str | None] | None:
    """Read who a thread belongs to.

    Raises:
        ConfigurationError: When it is no id, function or nothing.
    """
    if value is None or callable(value) or (isinstance(value, str) and value):
        return cast("str | None", value)
    msg = f"`resource_id` is {value!r}; write an id, a function of the run's configuration, or None"
    raise ConfigurationError(msg)


def check_counter(value: object) -> TokenCounter:
    """Read a token counter; nothing is the default one.

    Raises:
        ConfigurationError: When it does not count.
    """
    if value is None:
        return TokenxCounter()
    if isinstance(value, type) or not isinstance(value, TokenCounter):
        msg = (
            f"`token_counter` is {value!r}; write an object with `identity`, `count_text` and "
            f"`count_message`, such as `TokenxCounter()`"
        )
        raise ConfigurationError(msg)
    return value


def check_buffering(value: object) -> Buffering:
    """Read an executor; nothing is the default one.

    Raises:
        ConfigurationError: When it is something else.
    """
    if value is None:
        return BackgroundBuffering()
    if not isinstance(value, BackgroundBuffering | InlineBuffering | ParallelBuffering):
        msg = (
            f"`buffering` is {value!r}; write BackgroundBuffering(), InlineBuffering() or "
            f"ParallelBuffering()"
        )
        raise ConfigurationError(msg)
    return value


def check_zone(value: object) -> tzinfo:
    """Read a time zone.

    Raises:
        ConfigurationError: When there is none of this name.
    """
    if isinstance(value, tzinfo):
        return value
    try:
        return ZoneInfo(str(value))
    except (OSError, ValueError, LookupError) as error:
        msg = f"`timezone` is {value!r}; write an IANA name such as 'Europe/Berlin', or a tzinfo"
        raise ConfigurationError(msg) from error
