"""From a name to a chat model, and how one call is configured and its answer read.

A call never shows in the user's stream of messages or events.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from langgraph_om.core.config.options import ACTORS_OWN, DEFAULT_MODEL, find_near
from langgraph_om.core.tokens.images import ImageProvider, name_formula
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.model_value import (
    EXAMPLE,
    Leaf,
    is_leaf,
    leaves_of,
    name_object,
    show_model,
)

# Choose the settings that a model is sent, in the terms of its client.
#
# What a user set is sent wherever the model takes it; defaults are sent only to models that are
# named by a string, and only what their profile says they take. What a model has refused once is
# not sent to it again.


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


# --- What a model takes --------------------------------------------------------------------------


def fit_to_model(
    sampling: Sampling, family: Family, profile: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the settings that a model named by a string takes, as its profile says."""
    known = profile or {}
    taken = {
        # Google's models are made for their own temperature; a lower one makes them repeat.
        "temperature": known.get("temperature") is True and family != "google",
        "max_output_tokens": isinstance(known.get("max_output_tokens"), int),
    }
    settings = {
        key: value
        for key, value in sampling.defaults.items()
        if key not in sampling.written and taken.get(key)
    }
    return limit_output({**settings, **sampling.asked}, family, profile)


def limit_output(
    settings: Mapping[str, Any], family: Family, profile: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return settings without those that a model is known not to take."""
    fit = dict(settings)
    known = profile or {}
    if known.get("temperature") is False:
        fit.pop("temperature", None)
    limit = known.get("max_output_tokens")
    if "max_output_tokens" in fit and isinstance(limit, int) and limit > 0:
        fit["max_output_tokens"] = min(limit, fit["max_output_tokens"])
    if family != "google":
        fit.pop("thinking_budget", None)
    return fit


def to_arguments(settings: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return settings as keyword arguments of a client."""
    arguments = dict(settings)
    extra = arguments.pop("extra", {})
    if family != "google" and "max_output_tokens" in arguments:
        arguments["max_tokens"] = arguments.pop("max_output_tokens")
    return {**arguments, **extra}


# --- From a name to a chat model -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Provider:
    package: str
    """What brings its chat model."""
    extra: str = "agents"
    """The extra of this package that installs it."""
    keys: tuple[str, ...] = ()
    """Environment variables, one of which holds the key."""
    family: Family = "other"
    small: str = ""
    """Its small model, which is enough for a memory."""


_GOOGLE_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_PROVIDERS = {
    "google": _Provider(
        "langchain_google_genai", "google", _GOOGLE_KEYS, "google", "gemini-flash-lite-latest"
    ),
    "openai": _Provider("langchain_openai", "openai", ("OPENAI_API_KEY",), "openai", "gpt-6-luna"),
    "anthropic": _Provider(
        "langchain_anthropic",
        keys=("ANTHROPIC_API_KEY",),
        family="anthropic",
        small="claude-haiku-5-5",
    ),
    "anthropic_bedrock": _Provider("langchain_aws", family="anthropic"),
    "azure_openai": _Provider("langchain_openai", family="openai"),
    "bedrock": _Provider("langchain_aws"),
    "bedrock_converse": _Provider("langchain_aws"),
    "bedrock_mantle_anthropic": _Provider("langchain_aws"),
    "bedrock_mantle_openai": _Provider("langchain_aws"),
    "google_anthropic_vertex": _Provider("langchain_google_vertexai", family="anthropic"),
    "google_genai": _Provider(
        "langchain_google_genai",
        keys=_GOOGLE_KEYS,
        family="google",
        small="gemini-flash-lite-latest",
    ),
    "google_vertexai": _Provider("langchain_google_vertexai", family="google"),
    "nvidia": _Provider("langchain_nvidia_ai_endpoints"),
    **{
        name: _Provider(f"langchain_{name}")
        for name in (
            *("azure_ai", "baseten", "cohere", "deepseek", "fireworks", "groq", "huggingface"),
            *("ibm", "litellm", "meta", "mistralai", "ollama", "openrouter", "perplexity"),
            *("together", "upstage", "xai"),
        )
    },
}
"""Providers by name. Another one is taken where the package named after it is installed, but never
advised to be installed: a package of a mistyped name can be anybody's."""

_OWN = ("google", "openai")
"""Providers with an extra of their own, made without `langchain`."""


def check_model(option: str, value: object) -> None:
    """Refuse what is no single model, or one that can never work.

    Raises:
        ConfigurationError: For a value of another type, a name not of the form `provider/model`,
            or a provider whose package is not installed.
    """
    if not is_leaf(value):
        msg = (
            f"`{option}` is {show_model(value)}; pass a name such as {EXAMPLE!r}, "
            f"a chat model, or a runnable over messages"
        )
        raise ConfigurationError(msg)
    check_value(option, value)


def check_value(option: str, value: object) -> None:
    """Refuse a model value that can never work, before anything is called.

    Raises:
        ConfigurationError: For what is no model value, and for what is wrong with a name in it.
    """
    for said, leaf in leaves_of(option, value):
        if isinstance(leaf, str):
            _check_name(said, leaf)


def _check_name(said: str, value: str) -> None:
    if value == ACTORS_OWN:
        return
    provider, name = _split(value)
    if not provider or not name:
        msg = f"{said}; pass 'provider/model', such as {EXAMPLE!r}"
        raise ConfigurationError(msg)
    known = _provider(provider)
    missing = [
        package
        for package in ([] if provider in _OWN else ["langchain"]) + [known.package]
        if not _is_installed(package)
    ]
    if not missing:
        return
    if provider not in _PROVIDERS:
        near = find_near(provider, _PROVIDERS)
        meant = f"{f'{near}/{name}'!r} if that was meant, or " if near else ""
        msg = (
            f"{said}, and {provider!r} is no known provider; pass {meant}a name such as "
            f"{EXAMPLE!r} that begins with one of {', '.join(sorted(_PROVIDERS))}, or a "
            f"chat model"
        )
        raise ConfigurationError(msg)
    wanted = f"langgraph-om[{known.extra}]"
    own = [] if provider in _OWN else [known.package.replace("_", "-")]
    commands = " ".join([f"'{wanted}'", *own])
    msg = (
        f"{said}, which needs the package {missing[0]!r}; install it with `pip install "
        f"{commands}`, pass a provider with an extra of its own ({', '.join(map(repr, _OWN))}), "
        f"as in {EXAMPLE!r}, or a chat model"
    )
    raise ConfigurationError(msg)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # a mistyped name need not be the name of a package
        return False


def _provider(name: str) -> _Provider:
    return _PROVIDERS.get(name) or _Provider(f"langchain_{name}")


def _split(name: str) -> tuple[str, str]:
    at = min((name.find(mark) for mark in "/:" if mark in name), default=-1)
    return (name[:at], name[at + 1 :]) if at > 0 else ("", name)


def family_of_name(name: str) -> Family:
    """Return the family of the client of a model that is named by a string."""
    return _provider(_split(name)[0]).family


def find_missing_key(name: str) -> str | None:
    """Return the environment variable of a model's key where it has one and none is set."""
    keys = _provider(_split(name)[0]).keys
    return keys[0] if keys and not any(os.environ.get(key) for key in keys) else None


def chat_model(name: str, options: Mapping[str, Any] | None = None) -> BaseChatModel:
    """Make the chat model that a name stands for.

    Raises:
        ConfigurationError: When the client cannot be made, as without a key.
    """
    provider, model = _split(name)
    try:
        return _client(provider, model, dict(options or {}))
    except Exception as error:
        key = find_missing_key(name)
        if key is not None:
            msg = f"the model {name!r} needs a key; set the environment variable {key}"
            raise ConfigurationError(msg) from None
        msg = f"the model {name!r} cannot be made: {type(error).__name__}: {error}"
        raise ConfigurationError(msg) from error


def default_model(actor: Any) -> Leaf:
    """Return the model of a memory that names none: the Actor's own, or else `DEFAULT_MODEL`.

    It has neither the Actor's tools nor what its object tells of tokens as they come: those are
    for the Actor's answers.
    """
    model = _unwrap(actor)
    if not isinstance(model, BaseChatModel):
        return model if isinstance(model, Runnable) else DEFAULT_MODEL
    silent = {"callbacks": None, "tags": None, "streaming": False}
    heard = {name: value for name, value in silent.items() if getattr(model, name, None)}
    return model.model_copy(update=heard) if heard else model


def find_needs(name: str) -> list[str]:
    """Return what a model that is named by a string lacks here: its package, its key."""
    provider, key = _provider(_split(name)[0]), find_missing_key(name)
    packages = f"'langgraph-om[{provider.extra}]'"
    if provider.extra == "agents":
        packages += f" {provider.package.replace('_', '-')}"
    needs = [] if _is_installed(provider.package) else [f"install {packages}"]
    return [*needs, *([f"set {key}"] if key else [])]


def find_small(name: str) -> str | None:
    """Return a small model of the provider of a model, where one is known and it is another."""
    provider, model = _split(name)
    small = _provider(provider).small
    return f"{provider}:{small}" if small and not model.startswith(small) else None


def check_default() -> None:
    """Refuse that no model is named and no Actor is known, where `DEFAULT_MODEL` cannot work.

    Raises:
        ConfigurationError: When its package is not installed, or its key is not set.
    """
    needs = find_needs(DEFAULT_MODEL)
    if needs:
        msg = (
            f"memory has no model: none is named, and it knows no agent's model. Pass one, such as "
            f"ObservationalMemory(model={EXAMPLE!r}); or, for the default model "
            f"{DEFAULT_MODEL!r}, {' and '.join(needs)}"
        )
        raise ConfigurationError(msg)


def _client(provider: str, model: str, options: dict[str, Any]) -> BaseChatModel:
    if provider == "google":
        from langchain_google_genai import ChatGoogleGenerativeAI  # noqa: PLC0415 optional extra

        return cast("BaseChatModel", ChatGoogleGenerativeAI(model=model, **options))
    if provider == "openai":
        from langchain_openai import ChatOpenAI  # noqa: PLC0415 optional extra

        return cast("BaseChatModel", ChatOpenAI(model=model, **options))
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 optional extra

    make = partial(init_chat_model, f"{provider}:{model}")
    made: BaseChatModel
    try:
        made = make(**options)
    except (TypeError, ValueError) as error:
        if "max_retries" not in options or "max_retries" not in str(error):
            raise
        del options["max_retries"]  # a client that cannot be told to leave retries to us
        made = make(**options)
    return made


def find_window(model: Any) -> int | None:
    """Return how many tokens a model reads, as its profile says; of fallbacks the fewest."""
    for _ in range(_MOST_WRAPPERS):
        fallbacks = getattr(model, "fallbacks", None)
        if isinstance(fallbacks, Sequence) and hasattr(model, "runnable"):
            windows = map(find_window, (model.runnable, *fallbacks))
            return min((tokens for tokens in windows if tokens is not None), default=None)
        profile = getattr(model, "profile", None)
        if isinstance(profile, Mapping):
            tokens = profile.get("max_input_tokens")
            return tokens if isinstance(tokens, int) and tokens > 0 else None
        if not hasattr(model, "bound"):
            return None
        model = model.bound
    return None


def find_formula(model: Any) -> tuple[ImageProvider, str] | None:
    """Return by which provider's formula, and of which of its models, the Actor's images count.

    `None` is the usual one, also where nobody knows.
    """
    chat = _unwrap(model)
    family = family_of(chat)
    if family == "other":
        return None
    name = getattr(chat, "model_name", None) or getattr(chat, "model", None)
    return name_formula(family, name if isinstance(name, str) else "")


def find_tools(model: Any) -> Sequence[Any]:
    """Return the tools that are bound to a model; of fallbacks those of the first."""
    model = getattr(model, "__self__", model)
    for _ in range(_MOST_WRAPPERS):
        bound = getattr(model, "kwargs", None)
        if isinstance(bound, Mapping) and bound.get("tools"):
            return list(bound["tools"])
        model = getattr(model, "bound", None) or getattr(model, "runnable", None)
    return ()


def name_actor(model: Any) -> str:
    """Return the name of the Actor's model; of fallbacks that of the first.

    Args:
        model: A chat model, perhaps with tools bound or with fallbacks, or a method of one.
    """
    chat = _unwrap(model)
    return name_object(chat) if isinstance(chat, BaseChatModel) else ""


def _unwrap(model: Any) -> Any:
    """Return the chat model behind tools or a format that are bound, fallbacks, or a method."""
    model = getattr(model, "__self__", model)
    return next(_find_chats(model, _MOST_WRAPPERS), model)


def _find_chats(model: Any, depth: int) -> Iterator[BaseChatModel]:
    """Yield the chat models inside a runnable, the one that is asked first at the front."""
    if isinstance(model, BaseChatModel):
        yield model
    elif isinstance(model, Runnable) and depth:
        inside = [getattr(model, name, None) for name in ("bound", "runnable", "default")]
        steps = getattr(model, "steps", None) or getattr(model, "steps__", None) or ()
        for part in (*inside, *(steps.values() if isinstance(steps, Mapping) else steps)):
            yield from _find_chats(part, depth - 1)


_MOST_WRAPPERS = 8


def write_schema(tool: Any) -> str:
    """Return about the text that a model is given of a tool; empty where nobody can tell."""
    try:
        return json.dumps(convert_to_openai_tool(tool), default=str)
    except Exception:  # noqa: BLE001 it is for an estimate alone
        return ""
