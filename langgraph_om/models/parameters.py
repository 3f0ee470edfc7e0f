"""Choose the settings that a model is sent, in the terms of its client.

What a user set is sent wherever the model takes it; defaults are sent only to models that are named
by a string. What a model has refused once is not sent to it again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel

Family = Literal["openai", "google", "anthropic", "other"]
"""Clients that use the same names for settings."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings of one role."""

    defaults: Mapping[str, Any]
    written: Mapping[str, Any]
    """What the user set; `None` for a setting that is not to be sent."""

    @property
    def asked(self) -> dict[str, Any]:
        """The settings that the user wants to be sent."""
        return {key: value for key, value in self.written.items() if value not in (None, {})}


_CLASSES: dict[str, Family] = {
    "BaseChatOpenAI": "openai",
    "ChatOpenAI": "openai",
    "ChatGoogleGenerativeAI": "google",
    "ChatAnthropic": "anthropic",
}


def family_of(model: object) -> Family:
    """Return the family of a chat model, from its class; what is bound to it does not matter."""
    while not isinstance(model, BaseChatModel) and hasattr(model, "bound"):
        model = model.bound
    names = [kind.__name__ for kind in type(model).__mro__]
    return next((_CLASSES[name] for name in names if name in _CLASSES), "other")


def accepts_settings(model: object) -> bool:
    """Return whether it is known how a model object takes settings."""
    return family_of(model) != "other"


# --- What a model takes --------------------------------------------------------------------------


_MIN_BUDGET = {"gemini-2.5-flash-lite": 512, "gemini-2.5-flash": 1, "gemini-2.5-pro": 128}
"""The models that take a thinking budget, and the smallest one besides 0 (off) and -1 (dynamic)."""

_REASONING = re.compile(r"o\d|gpt-5(?!-chat)")
_GEMINI_3 = re.compile(r"(?:models/)?gemini-(?:[3-9]|\d\d)")


def fit_to_model(
    sampling: Sampling, family: Family, name: str, profile: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the settings that a model named by a string takes, as far as is known.

    Args:
        sampling: The settings of the role.
        family: The family of its client.
        name: The model's name, without its provider.
        profile: What langchain knows of the model, if anything.
    """
    defaults = dict(sampling.defaults)
    if _GEMINI_3.match(name):
        defaults.pop(
            "temperature", None
        )  # made for their own default; a lower one makes them repeat
    settings = {key: value for key, value in defaults.items() if key not in sampling.written}
    return limit_output({**settings, **sampling.asked}, family, name, profile)


def limit_output(
    settings: Mapping[str, Any], family: Family, name: str, profile: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the settings that a model takes, with output and thinking limits that it accepts."""
    fit = dict(settings)
    known = profile or {}
    is_reasoning = family == "openai" and _REASONING.match(name)
    if known.get("temperature") is False or is_reasoning:
        fit.pop("temperature", None)
    limit = known.get("max_output_tokens")
    if "max_output_tokens" in fit and isinstance(limit, int) and limit > 0:
        fit["max_output_tokens"] = min(limit, fit["max_output_tokens"])
    if "thinking_budget" in fit:
        budget = fit.pop("thinking_budget")
        model = name.removeprefix("models/")
        minimum = next((n for stem, n in _MIN_BUDGET.items() if model.startswith(stem)), None)
        if family == "google" and minimum is not None:
            fit["thinking_budget"] = max(budget, minimum) if budget > 0 else budget
    return fit


def to_arguments(settings: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return settings as keyword arguments of a client."""
    arguments = dict(settings)
    extra = arguments.pop("extra", {})
    if family != "google" and "max_output_tokens" in arguments:
        arguments["max_tokens"] = arguments.pop("max_output_tokens")
    return {**arguments, **extra}


# --- What a model refuses ------------------------------------------------------------------------


_NAMES_IN_ERRORS = {
    "temperature": ("temperature",),
    "max_output_tokens": (
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "maxoutputtokens"),
        *("in the completion", "max_new_tokens", "output tokens", "completion tokens"),
    ),
    "thinking_budget": ("thinking",),
}


def find_refused(message: str, sent: Collection[str]) -> frozenset[str]:
    """Return which of the settings that were sent an error message is about."""
    lowered = message.lower()
    return frozenset(
        setting
        for setting, words in _NAMES_IN_ERRORS.items()
        if setting in sent and any(word in lowered for word in words)
    )
