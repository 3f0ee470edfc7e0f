"""Which models the Observer and the Reflector have, and whether these can do what will be asked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from langgraph_om.core.config.defaults import (
    DEFAULT_MODEL,
    OBSERVER_SETTINGS,
    REFLECTOR_SETTINGS,
    TITLE_SETTINGS,
    is_default,
)
from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig, TitleConfig
from langgraph_om.core.config.thresholds import Thresholds, resolve_previous_tokens
from langgraph_om.core.observe.observer import ObserverInput, observe
from langgraph_om.core.reflect.reflector import ReflectorInput, reflect
from langgraph_om.core.tokens.counter import TokenCounter, count_messages
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.model_value import ModelValue, covers, leaves_of, show_model
from langgraph_om.models.parameters import Sampling
from langgraph_om.models.pool import ModelPool, check_settings_apply
from langgraph_om.models.providers import check_value


def choose_models(
    model: ModelValue | None,
    observing: ObservationConfig,
    reflecting: ReflectionConfig,
    *,
    is_checked: bool,
    given: Mapping[str, bool],
    thresholds: Thresholds,
    counter: TokenCounter,
    titles: TitleConfig | None = None,
) -> ModelPool:
    """Choose and check the Observer's and the Reflector's model, and what is asked for titles.

    Args:
        model: The top-level model.
        observing: The Observer's settings.
        reflecting: The Reflector's settings.
        is_checked: Whether the models will be used.
        given: Options that ask for a model to be named, and whether they are given.
        thresholds: The limits, which tiers have to cover.
        counter: Counts the prompts, which tiers have to cover too.
        titles: How titles are made; `None`: they are not.

    Raises:
        ConfigurationError: When a model is missing, named twice, or can never work.
    """
    named = (model, observing.model, reflecting.model)
    is_named = any(value is not None for value in named)
    if is_checked:
        _check_named(model, None if is_named else next((n for n in given if given[n]), None))
    observer, reflector = select_models(model, observing, reflecting)
    title: Any = titles.model if titles is not None else None
    models = ModelPool(
        values={"observer": observer, "reflector": reflector, "title": _first(title, observer)},
        settings={
            "title": Sampling(TITLE_SETTINGS, {}),
            "observer": _sampling(OBSERVER_SETTINGS, observing.model_settings),
            "reflector": _sampling(REFLECTOR_SETTINGS, reflecting.model_settings),
        },
    )
    if is_checked:
        options = {
            "model": model,
            "observation.model": observing.model,
            "reflection.model": reflecting.model,
            "thread_title.model": title,
        }
        if not is_named:
            options["model"] = DEFAULT_MODEL
        for option, value in options.items():
            if value is not None:
                check_value(option, value)
        _check_settings_apply(models)
        _check_tiers(models, observing, reflecting, thresholds, counter)
    return models


def _check_named(model: object, option: str | None) -> None:
    """Refuse a flag for a model, and an option that asks for a model where none is named."""
    if isinstance(model, bool):
        call = "ObservationalMemory()" if model else "ObservationalMemory(enabled=False)"
        msg = f"`model` is {model}; call `{call}`, or pass a model"
        raise ConfigurationError(msg)
    if option is not None:
        msg = (
            f"`{option}` is set and no model is; pass model='default' for the default model "
            f"or name one"
        )
        raise ConfigurationError(msg)


def select_models(
    top: object, observation: ObservationConfig, reflection: ReflectionConfig
) -> tuple[Any, Any]:
    """Choose the Observer's and the Reflector's model.

    Returns:
        Both models; `DEFAULT_MODEL` where none or `"default"` is named.

    Raises:
        ConfigurationError: When the top-level `model` is joined by a nested one.
    """
    for option, nested in (("observation", observation), ("reflection", reflection)):
        if top is not None and nested.model is not None:
            msg = (
                f"`{option}.model` is {show_model(nested.model)} while `model` is "
                f"{show_model(top)}; pass either `model` for both agents or the nested ones"
            )
            raise ConfigurationError(msg)
    observer = _first(top, observation.model, reflection.model)
    reflector = _first(top, reflection.model, observation.model)
    return observer, reflector


def _first(*models: object) -> Any:
    chosen = next((model for model in models if model is not None), DEFAULT_MODEL)
    return DEFAULT_MODEL if isinstance(chosen, str) and chosen == "default" else chosen


def _sampling(defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> Sampling:
    """Return a role's settings; what was left out is not asked for by the user."""
    return Sampling(defaults, {} if is_default(settings) else settings)


def _check_settings_apply(models: ModelPool) -> None:
    """Refuse model settings that a model object cannot be given."""
    for role, owner in (("observer", "observation"), ("reflector", "reflection")):
        for _, leaf in leaves_of("model", models.values[role]):
            check_settings_apply(f"{owner}.model_settings", leaf, models.settings[role])


def _check_tiers(
    models: ModelPool,
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
            count_observer_question(observing, thresholds, counter)
            if role == "observer"
            else count_reflector_question(reflecting, thresholds, counter, observing.prompt)
        )
        if not covers(value, tokens):
            msg = (
                f"the model of the {role.capitalize()} is {show_model(value)}, and with these "
                f"thresholds its input reaches {tokens} tokens, prompt included; add a tier with "
                f"room to spare, such as {2 * tokens}"
            )
            raise ConfigurationError(msg)


def count_observer_question(
    config: ObservationConfig, thresholds: Thresholds, counter: TokenCounter
) -> int:
    """Return the size of the Observer's question when the turn begins to wait for it.

    Args:
        config: The Observer's settings.
        thresholds: The limits in force.
        counter: What counts tokens.
    """
    shown = resolve_previous_tokens(config)
    previous = thresholds.observation_tokens if shown is False else shown
    empty = ObserverInput(
        transcript="",
        instruction=config.instruction,
        prompt=config.prompt,
        thread_title=config.thread_title,
    )
    prompt = count_messages(counter, next(observe(empty)).messages)
    return prompt + previous + thresholds.block_messages_at(previous)


def count_reflector_question(
    config: ReflectionConfig, thresholds: Thresholds, counter: TokenCounter, prompt: str
) -> int:
    """Return the size of the Reflector's question when the turn begins to wait for it.

    Args:
        config: The Reflector's settings.
        thresholds: The limits in force.
        counter: What counts tokens.
        prompt: Which of the Observer's prompts wrote the log.
    """
    empty = ReflectorInput(
        log="", tokens=1, target=1, instruction=config.instruction, prompt=prompt
    )
    question = next(reflect(empty, counter)).messages
    return count_messages(counter, question) + thresholds.block_observations_at(0)
