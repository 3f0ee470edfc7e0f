"""From a name to a chat model, and how one call is configured and its answer read.

A call never shows in the user's stream of messages or events.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from langchain_core.language_models import BaseChatModel

from langgraph_om.core.config.checks import find_near
from langgraph_om.core.config.defaults import DEFAULT_MODEL
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.model_value import is_leaf, leaves_of, show_model
from langgraph_om.models.parameters import Family

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


_PROVIDERS = {
    "google": _Provider(
        "langchain_google_genai", "google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "google"
    ),
    "openai": _Provider("langchain_openai", "openai", ("OPENAI_API_KEY",), "openai"),
    "anthropic": _Provider("langchain_anthropic", keys=("ANTHROPIC_API_KEY",), family="anthropic"),
    "anthropic_bedrock": _Provider("langchain_aws", family="anthropic"),
    "azure_openai": _Provider("langchain_openai", family="openai"),
    "bedrock": _Provider("langchain_aws"),
    "bedrock_converse": _Provider("langchain_aws"),
    "bedrock_mantle_anthropic": _Provider("langchain_aws"),
    "bedrock_mantle_openai": _Provider("langchain_aws"),
    "google_anthropic_vertex": _Provider("langchain_google_vertexai", family="anthropic"),
    "google_genai": _Provider(
        "langchain_google_genai", keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"), family="google"
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
            f"`{option}` is {show_model(value)}; pass a name such as 'openai/gpt-5-mini', "
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
    provider, name = _split(DEFAULT_MODEL if value == "default" else value)
    if not provider or not name:
        msg = f"{said}; pass 'provider/model', such as 'openai/gpt-5-mini'"
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
            f"'openai/gpt-5-mini' that begins with one of {', '.join(sorted(_PROVIDERS))}, or a "
            f"chat model"
        )
        raise ConfigurationError(msg)
    wanted = f"langgraph-om[{known.extra}]"
    commands = " ".join([f"'{wanted}'"] + ([] if provider in _OWN else [_distribution(known)]))
    msg = (
        f"{said}, which needs the package {missing[0]!r}; install it with `pip install "
        f"{commands}`, pass a provider with an extra of its own ({', '.join(map(repr, _OWN))}), "
        f"as in 'openai/gpt-5-mini', or a chat model"
    )
    raise ConfigurationError(msg)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # a mistyped name need not be the name of a package
        return False


def _provider(name: str) -> _Provider:
    return _PROVIDERS.get(name) or _Provider(f"langchain_{name}")


def _distribution(provider: _Provider) -> str:
    return provider.package.replace("_", "-")


def _split(name: str) -> tuple[str, str]:
    at = min((name.find(mark) for mark in "/:" if mark in name), default=-1)
    return (name[:at], name[at + 1 :]) if at > 0 else ("", name)


def family_and_name(name: str) -> tuple[Family, str]:
    """Return the family of the client of a model, and the model's name without its provider."""
    provider, model = _split(name)
    return _provider(provider).family, model


def find_missing_key(name: str) -> str | None:
    """Return the environment variable of a model's key where it has one and none is set."""
    keys = _provider(_split(name)[0]).keys
    return keys[0] if keys and not any(os.environ.get(key) for key in keys) else None


def chat_model(name: str, options: Mapping[str, Any] | None = None) -> BaseChatModel:
    """Make the chat model that a name stands for.

    Args:
        name: `provider/model` or `provider:model`.
        options: Keyword arguments of the provider's client.

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
        else:
            msg = f"the model {name!r} cannot be made: {type(error).__name__}: {error}"
        raise ConfigurationError(msg) from error


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
