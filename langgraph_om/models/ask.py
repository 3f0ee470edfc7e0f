"""One question to a model: asked with a deadline, and answered whatever happens.

Which model is asked, how often and after which pause is decided once, in `_tries`; `ask` and `aask`
carry it out and differ only in how they wait. What a model raises, or that it does not answer in
time, is an answer too; a call that hangs is left behind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig, ensure_config

from langgraph_om.core.effects import ModelCall, ModelReply
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.models.pool import AgentModels


@dataclass(frozen=True)
class Calls:
    """What is needed to ask."""

    models: AgentModels
    clock: Callable[[], datetime]
    deadline: float
    """Seconds for all calls of one cycle together."""
    counter: TokenCounter
    """Tells the size of a question where a model is chosen by it."""
    config: RunnableConfig | None = None
    """The configuration of the run, where it is not found around the call."""


NO_STREAM = "nostream"
"""LangGraph's tag for model calls that stay out of `stream_mode="messages"`."""


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
        "metadata": {
            "om_role": call.role,
            **_about(call),
            "lc_source": "observational_memory",
            **_internal_mark(),
        },
    }
    callbacks = ensure_config(run).get("callbacks")
    if callbacks is not None:
        config["callbacks"] = _without_event_streams(callbacks)
    return config


def _about(call: ModelCall) -> dict[str, Any]:
    """Say which cycle a call belongs to, so that traces can be searched and summed by it."""
    return {f"om_{key}": value for key, value in call.about.items() if value}


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
    *("blocklist", "prohibited_content", "spii", "malformed_function_call", "malformed_response"),
    *("unexpected_tool_call", "too_many_tool_calls"),
}
"""How providers say that an answer ended before its end: by a limit, or by a filter."""


def read_reply(answer: object, at: datetime) -> ModelReply:
    """Read what a model returned; thoughts are not part of an answer."""
    if isinstance(answer, str):
        return ModelReply(at, text=answer)
    if not isinstance(answer, BaseMessage):
        msg = f"the model returned {type(answer).__name__}; return a message or a text"
        return ModelReply(at, error=TypeError(msg))
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
    cut_off = reason.lower() in _CUT_OFF
    return ModelReply(at, _text_of(answer.content), cut_off=cut_off, usage=usage)


def _text_of(content: object) -> str:
    """Return the text of a message's content, whether it is a text, blocks, or nothing."""
    if isinstance(content, str):
        return content
    texts = []
    for block in content if isinstance(content, list) else []:
        text = block.get("text") if isinstance(block, Mapping) else block
        is_text = not isinstance(block, Mapping) or block.get("type", "text") in _TEXT_BLOCKS
        if is_text and isinstance(text, str):
            texts.append(text)
    return "".join(texts)


_TEXT_BLOCKS = ("text", "output_text")
