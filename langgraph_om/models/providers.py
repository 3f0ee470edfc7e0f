"""From a name to a chat model, and how one call is configured and its answer read.

A call never shows in the user's stream of messages or events.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from langgraph_om.core.config.options import ACTORS_OWN, DEFAULT_MODEL
from langgraph_om.core.tokens import ImageProvider
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
    names = [kind.__name__ for kind in type(first_chat(model)).__mro__]
    return next((_CLASSES[name] for name in names if name in _CLASSES), "other")


def choose_arguments(
    sampling: Sampling, family: Family, profile: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the settings of a role as keyword arguments of a client.

    Defaults are sent where the profile says that the model takes them, and no setting that a client
    does not know by name.
    """
    known = profile or {}
    limit = known.get("max_output_tokens")
    taken = {
        # Google's models are made for their own temperature; a lower one makes them repeat.
        "temperature": known.get("temperature") is True and family != "google",
        "max_output_tokens": isinstance(limit, int) and limit > 0,
    }
    defaults = {key: value for key, value in sampling.defaults.items() if taken.get(key)}
    settings = {**defaults, **sampling.written}
    arguments = {key: value for key, value in settings.items() if value not in (None, {})}
    if known.get("temperature") is False:
        arguments.pop("temperature", None)
    if taken["max_output_tokens"] and "max_output_tokens" in arguments:
        arguments["max_output_tokens"] = min(limit, arguments["max_output_tokens"])
    extra = arguments.pop("extra", {})
    if family != "google":
        arguments.pop("thinking_budget", None)
        if "max_output_tokens" in arguments:
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
    needed = [known.package] if provider in _OWN else ["langchain", known.package]
    missing = [package for package in needed if not _is_installed(package)]
    if not missing:
        return
    if provider in _PROVIDERS:
        own = "" if provider in _OWN else f" {known.package.replace('_', '-')}"
        why = (
            f"which needs the package {missing[0]!r}; install it with `pip install "
            f"'langgraph-om[{known.extra}]'{own}`, or pass {EXAMPLE!r} or a chat model"
        )
    else:
        why = (
            f"and {provider!r} is not a known provider; pass a name such as {EXAMPLE!r} that "
            f"begins with one of {', '.join(sorted(_PROVIDERS))}, or a chat model"
        )
    msg = f"{said}, {why}"
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
        msg = f"the model {name!r} cannot be created: {type(error).__name__}: {error}"
        raise ConfigurationError(msg) from error


def default_model(actor: Any) -> Leaf:
    """Return the model of a memory that names none: the Actor's own, or else `DEFAULT_MODEL`.

    It has neither the Actor's tools nor its callbacks for streamed tokens: those are for the
    Actor's answers.
    """
    model = first_chat(actor)
    if not isinstance(model, BaseChatModel):
        return model if isinstance(model, Runnable) else DEFAULT_MODEL
    silent = {"callbacks": None, "tags": None, "streaming": False}
    heard = {name: value for name, value in silent.items() if vars(model).get(name)}
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
            f"memory has no model: none is named, and the agent's model is unknown. Pass one, "
            f"such as ObservationalMemory(model={EXAMPLE!r}); or, for the default model "
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

    made: BaseChatModel = init_chat_model(f"{provider}:{model}", **options)
    return made


def find_window(model: Any) -> int | None:
    """Return how many tokens a model reads, as its profile says; of several the fewest."""
    profiles = (getattr(chat, "profile", None) or {} for chat in find_leaves(model))
    windows = [profile.get("max_input_tokens") for profile in profiles]
    return min((each for each in windows if isinstance(each, int) and each > 0), default=None)


def find_image_provider(model: Any) -> ImageProvider | None:
    """Return as whose the Actor's images count; `None`: as OpenAI's, also where nobody knows."""
    family = family_of(first_chat(model))
    return family if family in ("google", "anthropic") else None


def find_tools(model: Any) -> Sequence[Any]:
    """Return the tools that are bound to a model; of fallbacks those of the first."""
    model = getattr(model, "__self__", model)
    while model is not None:
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
    chat = first_chat(model)
    return name_object(chat) if isinstance(chat, BaseChatModel) else ""


def first_chat(model: Any) -> Any:
    """Return the chat model that is asked first, or what was given where there is none.

    Args:
        model: A runnable, perhaps with tools or a format bound or with fallbacks; or a method.
    """
    model = getattr(model, "__self__", model)
    return next((leaf for leaf in find_leaves(model) if isinstance(leaf, BaseChatModel)), model)


def find_leaves(model: Any, depth: int = 8) -> Iterator[Any]:
    """Yield the models and functions inside a runnable, the one that is asked first at the front.

    Args:
        depth: Of wrappers.
    """
    inside = [getattr(model, "bound", None), getattr(model, "default", None)]
    steps = getattr(model, "steps", None) or getattr(model, "steps__", None) or ()
    inside += steps.values() if isinstance(steps, Mapping) else steps
    inside += getattr(model, "runnables", None) or ()  # a model and its fallbacks
    links = [link for link in inside if isinstance(link, Runnable)]
    if isinstance(model, BaseChatModel) or not links or not depth:
        yield model
    else:
        for link in links:
            yield from find_leaves(link, depth - 1)


def write_schema(tool: Any) -> str:
    """Return about the text that a model is given of a tool; empty where nobody can tell."""
    try:
        return json.dumps(convert_to_openai_tool(tool), default=str)
    except Exception:  # noqa: BLE001 it is for an estimate alone
        return ""
