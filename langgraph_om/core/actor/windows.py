"""How long a prompt the Actor's models read: who said so, and how a thread keeps it.

A model's profile tells it, the option `max_input_tokens`, or the first prompt that its provider
refuses. The last one is marked on the answer that follows, so that every process that goes on with
the thread finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.wire import ActorWindow, MemoryRecord, WindowsKnown

ANY_MODEL: Final = ""
"""In the place of a model's name, where that is not known."""
_LEARNED: Final = "om_window"
"""In the response metadata of an answer before which a prompt was refused."""

Windows = Mapping[str, ActorWindow]
"""By the name of a model."""


def find_smallest(windows: Windows) -> ActorWindow | None:
    """Return the smallest of several windows; `None` without any."""
    return min(windows.values(), key=lambda window: window["tokens"], default=None)


def join_windows(*several: Windows) -> dict[str, ActorWindow]:
    """Return the smaller window of each model, of those that are known in several places."""
    joined: dict[str, ActorWindow] = {}
    for windows in several:
        for model, window in windows.items():
            if model not in joined or window["tokens"] < joined[model]["tokens"]:
                joined[model] = window
    return joined


def mark_learned(message: BaseMessage, model: str, tokens: int) -> BaseMessage:
    """Return an answer that says how long a prompt may be, as its provider said before it."""
    if not isinstance(message, AIMessage):
        return message
    learned = {"model": model, "tokens": tokens}
    metadata = {**message.response_metadata, _LEARNED: learned}
    return message.model_copy(update={"response_metadata": metadata})


def list_known(
    record: MemoryRecord, known: Windows, messages: Sequence[BaseMessage]
) -> list[WindowsKnown]:
    """Return the event that tells a thread what is known, where its record does not have it.

    Args:
        record: The memory of the thread.
        known: The windows that this process knows.
        messages: The conversation, whose newest answer may be marked.
    """
    marked = _read_mark(messages)
    if not known and not marked:
        return []
    windows = join_windows(_select_refused(record), marked, known)
    return [] if windows == record.get("windows") else [{"type": "windows", "windows": windows}]


def _read_mark(messages: Sequence[BaseMessage]) -> dict[str, ActorWindow]:
    """Return the window that is marked on the newest answer, if one is."""
    newest = next((message for message in reversed(messages) if message.type == "ai"), None)
    marked: Any = newest.response_metadata.get(_LEARNED) if isinstance(newest, AIMessage) else None
    if not isinstance(marked, Mapping):
        return {}
    model, tokens = marked.get("model"), marked.get("tokens")
    if not isinstance(model, str) or not isinstance(tokens, int) or tokens < 1:
        return {}
    return {model: {"tokens": tokens, "source": "refused"}}


def _select_refused(record: MemoryRecord) -> dict[str, ActorWindow]:
    """Return what providers have refused; options and profiles may be others by now."""
    kept = record.get("windows", {})
    return {model: kept[model] for model in kept if kept[model]["source"] == "refused"}


def select_learned(record: MemoryRecord, models: Iterable[str]) -> dict[str, ActorWindow]:
    """Return what a thread has learned of these models, and of one without a name."""
    learned, named = _select_refused(record), {ANY_MODEL, *models}
    return {model: learned[model] for model in learned if model in named}
