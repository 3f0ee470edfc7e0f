"""How large the questions to the Observer and the Reflector get, in tokens, with given settings."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from langgraph_om.core.config.options import (
    DEFAULT_MODEL,
    OBSERVER_SETTINGS,
    REFLECTOR_SETTINGS,
    ObservationConfig,
    ReflectionConfig,
    select_models,
    select_written_settings,
)
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.observe.observer import ObserverInput, observe
from langgraph_om.core.reflect.reflector import ReflectorInput, reflect
from langgraph_om.core.tokens.counter import TokenCounter, count_messages
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.model_value import ModelValue, covers, leaves_of
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
) -> ModelPool:
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
    models = ModelPool(
        values={"observer": observer, "reflector": reflector},
        settings={
            "observer": Sampling(
                OBSERVER_SETTINGS, select_written_settings(observing.model_settings)
            ),
            "reflector": Sampling(
                REFLECTOR_SETTINGS, select_written_settings(reflecting.model_settings)
            ),
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
                f"the model of the {role.capitalize()} is {value!r}, and with these thresholds its "
                f"input reaches {tokens} tokens, prompt included; add a tier with room to spare, "
                f"such as {2 * tokens}"
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
    shown = config.previous_observer_tokens
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
