"""Settings read from what the user gave: a config class, a mapping, a flag, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from langgraph_om.core.config.checks import check_fields, rules_of
from langgraph_om.core.config.defaults import is_default
from langgraph_om.core.config.mappings import ModelSettings
from langgraph_om.core.config.options import (
    InjectConfig,
    ObservationConfig,
    ReflectionConfig,
    RetrievalConfig,
    TitleConfig,
)
from langgraph_om.errors import ConfigurationError

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
