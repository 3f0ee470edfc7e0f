"""What a model value is, and how one call to a model is configured and its answer read.

A call never shows in the user's stream of messages or events.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config

from langgraph_om.core.observer import ModelCall, ModelReply
from langgraph_om.errors import ConfigurationError

__all__ = ["AgentModels", "ModelValue", "call_config", "chat_model", "check_model", "read_reply"]

ModelValue = str | BaseChatModel | Runnable[Any, Any]
"""A model: `"provider/model"`, a chat model, or any runnable from messages to a message."""

NO_STREAM = "nostream"
"""LangGraph's tag for model calls that stay out of `stream_mode="messages"`."""


# --- From a model value to a model ---------------------------------------------------------------

_PACKAGES = {
    "google": ("langchain_google_genai", "google"),
    "openai": ("langchain_openai", "openai"),
}
"""Per provider: the package that brings its chat model, and the extra that installs it."""


def check_model(option: str, value: object) -> None:
    """Refuse a model value that can never work, before anything is called.

    Raises:
        ConfigurationError: For a value of another type, a name not of the form `provider/model`,
            or a provider whose package is not installed.
    """
    if isinstance(value, BaseChatModel | Runnable):
        return
    if not isinstance(value, str):
        msg = (
            f"`{option}` is {value!r}; write a name such as 'openai/gpt-5-mini', "
            f"a chat model, or a runnable over messages"
        )
        raise ConfigurationError(msg)
    provider, name = _split(value)
    if not provider or not name:
        msg = f"`{option}` is {value!r}; write 'provider/model', such as 'openai/gpt-5-mini'"
        raise ConfigurationError(msg)
    package, extra = _PACKAGES.get(provider, ("langchain", "agents"))
    if importlib.util.find_spec(package) is None:
        known = ", ".join(map(repr, sorted(_PACKAGES)))
        hint = "" if provider in _PACKAGES else f" and the package of {provider!r}"
        msg = (
            f"`{option}` is {value!r}, which needs the package {package!r}{hint}; install it with "
            f"`pip install 'langgraph-om[{extra}]'`, write a provider with an extra of its own "
            f"({known}), or pass a chat model"
        )
        raise ConfigurationError(msg)


def _split(name: str) -> tuple[str, str]:
    at = min((name.find(mark) for mark in "/:" if mark in name), default=-1)
    return (name[:at], name[at + 1 :]) if at > 0 else ("", name)


def chat_model(name: str, settings: Mapping[str, Any] | None = None) -> BaseChatModel:
    """Make the chat model that a name stands for.

    Args:
        name: `provider/model` or `provider:model`.
        settings: `temperature` and `max_output_tokens`, sent where the model takes them.
    """
    provider, model = _split(name)
    options = dict(settings or {})
    if provider == "google":
        from langchain_google_genai import ChatGoogleGenerativeAI  # noqa: PLC0415 optional extra

        return cast("BaseChatModel", ChatGoogleGenerativeAI(model=model, **options))
    if "max_output_tokens" in options:
        options["max_tokens"] = options.pop("max_output_tokens")
    if provider == "openai":
        from langchain_openai import ChatOpenAI  # noqa: PLC0415 optional extra

        if model.startswith(("o1", "o3", "o4", "gpt-5")):
            options.pop("temperature", None)  # reasoning models refuse it
        return cast("BaseChatModel", ChatOpenAI(model=model, **options))
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 optional extra

    made: BaseChatModel = init_chat_model(f"{provider}:{model}", **options)
    return made


@dataclass
class AgentModels:
    """The Observer's and the Reflector's models, made when first needed."""

    values: Mapping[str, ModelValue]
    """Per role: a checked model value."""
    settings: Mapping[str, Mapping[str, Any]]
    """Per role: sampling settings for models that are named by a string."""
    _made: dict[str, Runnable[Any, Any]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def get(self, role: str) -> Runnable[Any, Any]:
        """Return a role's model."""
        with self._lock:
            if role not in self._made:
                value = self.values[role]
                self._made[role] = (
                    chat_model(value, self.settings[role]) if isinstance(value, str) else value
                )
            return self._made[role]


# --- One call ------------------------------------------------------------------------------------


def call_config(call: ModelCall, run: RunnableConfig | None = None) -> RunnableConfig:
    """Configure a call so that traces show it by name and the user's streams do not show it.

    Args:
        call: The question.
        run: The configuration of the run; inside a node it is found without being passed.
    """
    config: RunnableConfig = {
        "run_name": f"om_{call.role}",
        "tags": [NO_STREAM, f"om_{call.role}"],
        "metadata": {"om_role": call.role, "lc_source": "observational_memory", **_internal_mark()},
    }
    callbacks = ensure_config(run).get("callbacks")
    if callbacks is not None:
        config["callbacks"] = _without_event_streams(callbacks)
    return config


def _internal_mark() -> dict[str, Any]:
    """Mark the call as internal for the stream transformers of langchain, when that is there."""
    # Only what is imported can be listening; importing it here would take a second of a turn.
    module = sys.modules.get("langchain.agents.middleware.internal_call_transformer")
    mark: dict[str, Any] = module.internal_call_metadata() if module else {}
    return mark


def _without_event_streams(callbacks: Any) -> Any:
    """Leave out the listeners of `astream_events`; tracers and the user's own listeners stay."""
    if isinstance(callbacks, BaseCallbackManager):
        quiet = callbacks.copy()
        quiet.handlers = [h for h in quiet.handlers if not _is_event_stream(h)]
        quiet.inheritable_handlers = [
            h for h in quiet.inheritable_handlers if not _is_event_stream(h)
        ]
        return quiet
    return [h for h in callbacks if not _is_event_stream(h)]


def _is_event_stream(handler: object) -> bool:
    return type(handler).__module__ == "langchain_core.tracers.event_stream"


_CUT_OFF = {
    *("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "pause_turn"),
    *("content_filter", "safety", "image_safety", "recitation", "refusal", "language", "other"),
    *("blocklist", "prohibited_content", "spii", "malformed_function_call"),
}
"""How providers say that an answer ended before its end: by a limit, or by a filter."""


def read_reply(answer: object, at: datetime) -> ModelReply:
    """Read what a model returned."""
    if not isinstance(answer, BaseMessage):
        return ModelReply(at, text=answer if isinstance(answer, str) else str(answer))
    metadata = answer.response_metadata
    reason = str(
        metadata.get("finish_reason")
        or metadata.get("stop_reason")
        or metadata.get("done_reason")
        or (metadata.get("incomplete_details") or {}).get("reason")
        or ""
    )
    spent = answer.usage_metadata if isinstance(answer, AIMessage) else None
    usage = (
        {"inputTokens": spent["input_tokens"], "outputTokens": spent["output_tokens"]}
        if spent
        else {}
    )
    return ModelReply(at, str(answer.text), cut_off=reason.lower() in _CUT_OFF, usage=usage)
