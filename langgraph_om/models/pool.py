"""Keep the Observer's and the Reflector's models, each with the settings that it takes.

A model that is named by a string is made once per role; what it refuses is remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import Runnable

from langgraph_om.core.config.options import (
    ACTORS_OWN,
    OBSERVER_SETTINGS,
    REFLECTOR_SETTINGS,
    ObservationConfig,
    ReflectionConfig,
)
from langgraph_om.core.config.settings import Parts
from langgraph_om.core.content.parts import Attachment, is_profiled
from langgraph_om.errors import ConfigurationError, ObservationalMemoryError
from langgraph_om.models.model_value import Leaf, ModelValue, leaves_of, name_object
from langgraph_om.models.providers import (
    Family,
    Sampling,
    chat_model,
    check_default,
    check_value,
    choose_arguments,
    default_model,
    family_of,
    family_of_name,
    find_needs,
    find_window,
    first_chat,
)
from langgraph_om.models.retries import DEFAULT_RETRIES, may_be_too_long

_PASSED_ON: Mapping[str, tuple[str, ...]] = {"openai": ("image",), "anthropic": ("image", "file")}
"""What these clients pass on by its URL; others would fetch it themselves, or refuse it."""

Asked = tuple[str, str, str]
"""A role, the name of its model, and the id of the thread that it is asked about."""


@dataclass
class ModelPool:
    """The Observer's and the Reflector's models, made when first needed."""

    values: Mapping[str, ModelValue]
    """A checked model value per role."""
    settings: Mapping[str, Sampling]
    """The settings per role."""
    _made: dict[tuple[str, str, bool], BoundModel] = field(default_factory=dict, repr=False)
    _bare: set[str] = field(default_factory=set, repr=False)
    """Names of models that took a question without settings that nobody asked for."""
    _refused: dict[Asked, tuple[int, int | None]] = field(default_factory=dict, repr=False)
    """The sizes of questions that were refused, and what their errors allow."""
    _learned: dict[Asked, int] = field(default_factory=dict, repr=False)
    """How many tokens a model reads for a thread, since it took a shorter question."""

    def get(self, role: str, leaf: Leaf, *, is_bare: bool = False) -> BoundModel:
        """Return a model with a role's settings.

        Args:
            is_bare: Without those that nobody asked for.
        """
        sampling, name = self.settings[role], name_of(leaf)
        if not isinstance(leaf, str):
            return _bind_settings(leaf, sampling)
        is_bare = is_bare or name in self._bare
        client = self._made.get((role, name, is_bare))
        if client is None:  # two threads may both make one; the first is kept
            made = _make_model(name, sampling, is_bare=is_bare)
            client = self._made.setdefault((role, name, is_bare), made)
        return client

    def find_room(self, key: Asked, leaf: Leaf) -> int | None:
        """Return how many tokens a question may have, as a profile says or a thread has learned."""
        told = find_window(self.get(key[0], leaf).runnable)
        known = [each for each in (told, self._learned.get(key)) if each is not None]
        return int(min(known) * _SURE) if known else None

    def note_refused(self, key: Asked, size: int, allowed: int | None) -> int:
        """Note that a question was refused, and return how many tokens another one may have.

        Returns:
            One token less than the refused one has where nobody knows; 0 where that is no use.
        """
        if len(self._refused) + len(self._learned) > _MOST_NOTED:
            self._refused.clear()
            self._learned.clear()
        self._refused[key] = size, allowed
        if size < _LEAST_REFUSED:
            return 0
        return size - 1 if allowed is None else int(allowed * _SURE)

    def note_taken(self, key: Asked, size: int, without: Collection[str]) -> None:
        """Remember what helped, once a question was taken."""
        if "settings" in without:
            self._bare.add(key[1])
        refused, allowed = self._refused.pop(key, (0, None))
        if size < refused:
            self._learned[key] = allowed or refused - 1

    def explain(self, role: str, leaf: Leaf, error: Exception) -> Exception:
        """Return the error for a refusal, which says so where it may be about users' settings."""
        asked = self.settings[role].asked
        if not asked or may_be_too_long(error):
            return error
        msg = (
            f"{name_of(leaf)} rejected a question sent with your `{role}` `model_settings`, "
            f"{sorted(asked)}, which are never left out: {error}"
        )
        explained = ObservationalMemoryError(msg)
        explained.__cause__ = error
        return explained

    @property
    def _leaves(self) -> list[tuple[str, Leaf]]:
        """Each role's models, as far as they are known without a call."""
        roles = self.values.items()
        return [(role, leaf) for role, value in roles for _, leaf in leaves_of(role, value)]

    def list_models(self, actor: Any) -> Iterator[tuple[str, str, list[str]]]:
        """Yield each role's models: role, name, and what that lacks, such as its key.

        Args:
            actor: The Actor's model or its name, as far as it is known.
        """
        for role, leaf in self._leaves:
            model = leaf
            if leaf == ACTORS_OWN:
                model = actor if isinstance(actor, str) else default_model(actor)
            has_key = not isinstance(model, str) or self.settings[role].asked.get("extra")
            yield role, name_of(model), [] if has_key else find_needs(name_of(model))

    @property
    def asks_actor(self) -> bool:
        """Whether a role asks the Actor's own model."""
        return any(leaf == ACTORS_OWN for _, leaf in self._leaves)

    def check(self, actor: Any) -> None:
        """Refuse to begin a thread where a role has no model at all.

        Raises:
            ConfigurationError: When none is named and the default one cannot work.
        """
        if ACTORS_OWN in self.values.values() and isinstance(default_model(actor), str):
            check_default()


_SURE = 0.95
"""Of what a model reads, so much is used: memory and provider count differently."""
_MOST_NOTED = 1000
_LEAST_REFUSED = 600
"""Tokens; no model reads less."""


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A model with the settings it is sent."""

    runnable: Runnable[Any, Any]
    adds: bool = False
    """Whether it is sent settings that nobody asked for."""
    profile: Mapping[str, Any] | None = None
    """What langchain knows of the model, if anything."""
    family: Family = "other"

    def takes(self, attachment: Attachment) -> bool:
        """Return whether the model is sent an attachment, as far as is known."""
        if attachment.url and attachment.kind not in _PASSED_ON.get(self.family, ()):
            return False
        return is_profiled(attachment, self.profile)


def name_of(leaf: Leaf) -> str:
    """Return a model's name, for errors and to tell it from others."""
    return leaf if isinstance(leaf, str) else name_object(leaf)


def retries_of(leaf: Leaf) -> int:
    """Return how often a model call is retried if the user doesn't set it.

    Clients retry too, which would multiply with our retries: for a model object, and for a client
    that we may not know how to stop from retrying.
    """
    return DEFAULT_RETRIES if isinstance(leaf, str) and family_of_name(leaf) != "other" else 0


def _check_settings_apply(option: str, model: object, sampling: Sampling) -> None:
    """Refuse settings for a model object if it is unknown how that takes them."""
    if sampling.asked and not isinstance(model, str) and family_of(model) == "other":
        msg = (
            f"`{option}` is {dict(sampling.written)!r}, which cannot be applied to "
            f"{type(model).__name__}; pass it to the model's own constructor instead"
        )
        raise ConfigurationError(msg)


def _make_model(name: str, sampling: Sampling, *, is_bare: bool) -> BoundModel:
    """Make a model that is named by a string, with the settings that it takes.

    Args:
        is_bare: Without those that nobody asked for.
    """
    family = family_of_name(name)
    # Google's client takes 1 for a single attempt, and 0 for its own default.
    attempts = {"google": 1, "openai": 0, "anthropic": 0}.get(family)
    once: dict[str, Any] = {} if attempts is None else {"max_retries": attempts}
    plain = chat_model(name, {**once, **(sampling.asked.get("extra") or {})})
    asked = choose_arguments(Sampling({}, sampling.written), family, plain.profile)
    arguments = asked if is_bare else choose_arguments(sampling, family, plain.profile)
    adds = arguments != asked
    if family == "google":
        arguments.setdefault("temperature", None)  # this client has a temperature of its own
    made = chat_model(name, {**once, **arguments}) if arguments else plain
    return BoundModel(made, adds, made.profile, family_of(made))


def _bind_settings(model: Runnable[Any, Any], sampling: Sampling) -> BoundModel:
    """Bind what the user set to a model object, which gets no defaults."""
    family, profile = family_of(model), getattr(first_chat(model), "profile", None)
    _check_settings_apply("model_settings", model, sampling)
    settings = choose_arguments(Sampling({}, sampling.written), family, profile)
    bound = model.bind(**settings) if settings else model
    return BoundModel(bound, profile=profile, family=family)


# Which models the Observer and the Reflector have, and whether these can do what will be asked.


def choose_models(
    model: ModelValue | None,
    observing: ObservationConfig,
    reflecting: ReflectionConfig,
    *,
    is_checked: bool,
    parts: Parts,
) -> ModelPool:
    """Choose and check the Observer's and the Reflector's model, and those that features ask.

    Args:
        is_checked: Whether the models will be used.

    Raises:
        ConfigurationError: When a model is named twice, or can never work.
    """
    given: object = model
    if is_checked and isinstance(given, bool):
        call = "ObservationalMemory()" if given else "ObservationalMemory(enabled=False)"
        msg = f"`model` is {given}; call `{call}`, or pass a model"
        raise ConfigurationError(msg)
    observer, reflector = select_models(model, observing, reflecting)
    roles = [] if parts.titles is None else parts.titles.roles
    models = ModelPool(
        values={
            "observer": observer,
            "reflector": reflector,
            **{role.name: _first(role.model, observer) for role in roles},
        },
        settings={
            **{role.name: Sampling(role.settings, {}) for role in roles},
            "observer": _sampling(OBSERVER_SETTINGS, observing),
            "reflector": _sampling(REFLECTOR_SETTINGS, reflecting),
        },
    )
    if is_checked:
        options = {
            "model": model,
            "observation.model": observing.model,
            "reflection.model": reflecting.model,
            **{role.option: role.model for role in roles},
        }
        for option, value in options.items():
            if value is not None:
                check_value(option, value)
        for role, owner in (("observer", "observation"), ("reflector", "reflection")):
            for _, leaf in leaves_of("model", models.values[role]):
                _check_settings_apply(f"{owner}.model_settings", leaf, models.settings[role])
    return models


def select_models(
    top: object, observation: ObservationConfig, reflection: ReflectionConfig
) -> tuple[Any, Any]:
    """Choose the Observer's and the Reflector's model."""
    for option, nested in (("observation", observation), ("reflection", reflection)):
        if top is not None and nested.model is not None:
            msg = (
                f"`{option}.model` and `model` are both given; pass either `model` for both agents "
                "or the nested ones"
            )
            raise ConfigurationError(msg)
    observer = _first(top, observation.model, reflection.model)
    reflector = _first(top, reflection.model, observation.model)
    return observer, reflector


def _first(*models: object) -> Any:
    return next((model for model in models if model is not None), ACTORS_OWN)


def _sampling(
    defaults: Mapping[str, Any], config: ObservationConfig | ReflectionConfig
) -> Sampling:
    """Return a role's settings; what was left out is not asked for by the user."""
    return Sampling(defaults, config.model_settings if config.has("model_settings") else {})
