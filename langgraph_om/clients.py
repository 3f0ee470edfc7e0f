"""The Observer's and the Reflector's models, each ready to be asked with the settings it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from langgraph_om.core.config import DEFAULT_MODEL
from langgraph_om.errors import ConfigurationError
from langgraph_om.models import chat_model, family_and_name
from langgraph_om.retries import DEFAULT_RETRIES, status_of
from langgraph_om.sampling import (
    Sampling,
    family_of,
    fitted,
    in_words,
    limited,
    named_in,
    takes_settings,
)
from langgraph_om.tiers import Leaf, ModelValue

__all__ = ["AgentModels", "Client", "check_settings_apply", "name_of", "retries_of"]


@dataclass
class AgentModels:
    """The Observer's and the Reflector's models, made when first needed."""

    values: Mapping[str, ModelValue]
    """Per role: a checked model value."""
    settings: Mapping[str, Sampling]
    """Per role: what is sent with each call."""
    _made: dict[tuple[str, str], Client] = field(default_factory=dict, repr=False)
    _refused: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)
    """Per model: settings that it has refused."""

    def get(self, role: str, leaf: Leaf) -> Client:
        """Return a model, ready to be asked with a role's settings."""
        sampling, name = self.settings[role], name_of(leaf)
        refused = self._refused.get(name, frozenset())
        if not isinstance(leaf, str):
            return _with_settings(leaf, sampling, refused)
        client = self._made.get((role, name))
        if client is None:  # two threads may both make one; the first is kept
            client = self._made.setdefault((role, name), _named(name, sampling, refused))
        return client

    def learn(self, role: str, leaf: Leaf, error: BaseException) -> bool:
        """Remember the settings that a model has refused.

        Returns:
            Whether the model is worth asking again, without them.
        """
        if status_of(error) not in _REFUSING:
            return False
        name = name_of(leaf)
        named = named_in(str(error), self.get(role, leaf).sent)
        if not named:
            return False
        self._refused[name] = self._refused.get(name, frozenset()) | named
        for each in self.settings:
            self._made.pop((each, name), None)
        return True


@dataclass(frozen=True, slots=True)
class Client:
    """A model to ask."""

    runnable: Runnable[Any, Any]
    sent: frozenset[str] = frozenset()
    """The settings that go with each call."""


_REFUSING = (400, 422)


def name_of(leaf: Leaf) -> str:
    """Name a model in errors, and tell it from others."""
    if isinstance(leaf, str):
        return DEFAULT_MODEL if leaf == "default" else leaf
    name = getattr(leaf, "model_name", None) or getattr(leaf, "model", None)
    kind = type(leaf).__name__
    return f"{kind}({name})" if isinstance(name, str) else kind


def retries_of(leaf: Leaf) -> int:
    """Tell how often a model is asked again where the user does not say.

    An object brings the retries of its own client, which would multiply with ours.
    """
    return DEFAULT_RETRIES if isinstance(leaf, str) else 0


def _named(name: str, sampling: Sampling, refused: frozenset[str]) -> Client:
    family, model = family_and_name(name)
    # Google's client takes 1 for a single attempt, and 0 for its own default.
    once: dict[str, Any] = {"max_retries": 1 if family == "google" else 0}
    plain = chat_model(name, {**once, **(sampling.asked.get("extra") or {})})
    settings = fitted(sampling, family, model, getattr(plain, "profile", None))
    kept = {key: value for key, value in settings.items() if key not in refused}
    words = in_words(kept, family)
    unwanted = {*refused, *(key for key, value in sampling.written.items() if value is None)}
    if family == "google" and "temperature" in unwanted:
        words["temperature"] = None  # this client has a temperature of its own
    if not words:
        return Client(plain)
    return Client(chat_model(name, {**once, **words}), frozenset(kept))


def _with_settings(
    model: Runnable[Any, Any], sampling: Sampling, refused: frozenset[str]
) -> Client:
    """Bind what the user wrote to an object; defaults are not for objects."""
    if not sampling.asked:
        return Client(model)
    check_settings_apply("model_settings", model, sampling)
    family = family_of(model)
    chat: Any = model
    while not isinstance(chat, BaseChatModel):
        chat = chat.bound
    name = str(getattr(chat, "model_name", None) or getattr(chat, "model", None) or "")
    settings = limited(sampling.asked, family, name, getattr(chat, "profile", None))
    kept = {key: value for key, value in settings.items() if key not in refused}
    return Client(model.bind(**in_words(kept, family)) if kept else model, frozenset(kept))


def check_settings_apply(option: str, model: object, sampling: Sampling) -> None:
    """Refuse settings for an object of which it is not known how it takes them.

    Raises:
        ConfigurationError: When the user wrote any.
    """
    if sampling.asked and not isinstance(model, str) and not takes_settings(model):
        msg = (
            f"`{option}` is {dict(sampling.written)!r}, which can not be applied to "
            f"{type(model).__name__}; give it to the model's own constructor and leave it out here"
        )
        raise ConfigurationError(msg)
