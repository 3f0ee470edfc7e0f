"""The host's options of a memory: read from what the user wrote, with the environment's say."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, cast
from zoneinfo import ZoneInfo

from langchain_core.runnables import RunnableConfig
from sqlalchemy import Engine

from langgraph_om.archive import MessageArchive, SQLAlchemyArchive
from langgraph_om.core.config.checks import check_flag
from langgraph_om.core.config.options import (
    DEFAULT_MODEL,
    ObservationConfig,
    ReflectionConfig,
    Thresholds,
    select_models,
)
from langgraph_om.core.model_settings import OBSERVER_SETTINGS, REFLECTOR_SETTINGS, written_settings
from langgraph_om.core.sizes import observer_question_tokens, reflector_question_tokens
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.model_value import ModelValue, covers, leaves_of
from langgraph_om.models.parameters import Sampling
from langgraph_om.models.pool import AgentModels, check_settings_apply
from langgraph_om.models.providers import check_value
from langgraph_om.runtime.executors import (
    BackgroundBuffering,
    Buffering,
    InlineBuffering,
    ParallelBuffering,
)

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
    thresholds: Thresholds,
    counter: TokenCounter,
) -> AgentModels:
    """Choose and check the Observer's and the Reflector's model.

    Args:
        model: The top-level model.
        observing: The Observer's settings.
        reflecting: The Reflector's settings.
        is_checked: Whether the models will be used.
        given: Options that ask for a model to be named, and whether they are given.
        thresholds: The limits, which tiers have to cover.
        counter: Counts the prompts, which tiers have to cover too.

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
    models = AgentModels(
        values={"observer": observer, "reflector": reflector},
        settings={
            "observer": Sampling(OBSERVER_SETTINGS, written_settings(observing.model_settings)),
            "reflector": Sampling(REFLECTOR_SETTINGS, written_settings(reflecting.model_settings)),
        },
    )
    if is_checked:
        options = {
            "model": model,
            "observation.model": observing.model,
            "reflection.model": reflecting.model,
        }
        if all(value is None for value in named):
            options["model"] = DEFAULT_MODEL
        for option, value in options.items():
            if value is not None:
                check_value(option, value)
        _check_settings_apply(models)
        _check_tiers(models, observing, reflecting, thresholds, counter)
    return models


def _check_settings_apply(models: AgentModels) -> None:
    """Refuse model settings that a model object can not be given."""
    for role, owner in (("observer", "observation"), ("reflector", "reflection")):
        for _, leaf in leaves_of("model", models.values[role]):
            check_settings_apply(f"{owner}.model_settings", leaf, models.settings[role])


def _check_tiers(
    models: AgentModels,
    observing: ObservationConfig,
    reflecting: ReflectionConfig,
    thresholds: Thresholds,
    counter: TokenCounter,
) -> None:
    """Refuse tiers without one for the largest question that is sure to be asked."""
    for role in ("observer", "reflector"):
        value = models.values[role]
        if covers(value, sys.maxsize):
            continue
        tokens = (
            observer_question_tokens(observing, thresholds, counter)
            if role == "observer"
            else reflector_question_tokens(reflecting, thresholds, counter, observing.prompt)
        )
        if not covers(value, tokens):
            msg = (
                f"the model of the {role.capitalize()} is {value!r}, and with these thresholds its "
                f"input reaches {tokens} tokens, prompt included; add a tier with room to spare, "
                f"such as {2 * tokens}"
            )
            raise ConfigurationError(msg)


def system_clock() -> datetime:
    """Tell the current time."""
    return datetime.now(UTC)


def check_scope(scope: str, *, has_archive: bool) -> None:
    """Read over what a log goes.

    Raises:
        ConfigurationError: When several threads shall share one and nothing keeps it.
    """
    if scope == "resource" and not has_archive:
        msg = (
            '`scope` is "resource" and there is no `archive` to keep what the threads share; set '
            '`archive` too, such as archive="sqlite:///memory.db"'
        )
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
        return EstimatingCounter()
    if isinstance(value, type) or not isinstance(value, TokenCounter):
        msg = (
            f"`token_counter` is {value!r}; write an object with `identity`, `count_text` and "
            f"`count_message`, such as `EstimatingCounter()`"
        )
        raise ConfigurationError(msg)
    return value


def check_archive(value: object) -> MessageArchive | None:
    """Read an archive: one, or where SQLAlchemy finds its database.

    Raises:
        ConfigurationError: When it is something else.
    """
    if value is None:
        return None
    if isinstance(value, str | Engine):
        return SQLAlchemyArchive(value)
    if isinstance(value, type) or not isinstance(value, MessageArchive):
        msg = (
            f"`archive` is {value!r}; write a URL such as 'sqlite:///memory.db', a SQLAlchemy "
            f"engine, or an object with the methods of `MessageArchive`"
        )
        raise ConfigurationError(msg)
    return value


def check_evict(*, evict: object, has_archive: bool) -> bool:
    """Read whether observed messages leave the conversation.

    Raises:
        ConfigurationError: When there is no archive to keep them.
    """
    if check_flag("evict", evict) and not has_archive:
        msg = "`evict` is True and there is no `archive` to keep the messages; set `archive` too"
        raise ConfigurationError(msg)
    return bool(evict)


def check_hides_ids(value: object, scope: str) -> bool:
    """Read whether models are shown thread ids in a hashed form only.

    Raises:
        ConfigurationError: When it is no flag.
    """
    return scope == "resource" if value is None else check_flag("obscure_thread_ids", value)


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
