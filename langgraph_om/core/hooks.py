"""The user's hooks as the flows see them: what may be called when, with what, and what comes back.

A transform hook is a question that a flow asks and whose answer it uses; a lifecycle hook is told
of an event and changes nothing. Nothing here calls them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.text import clean
from langgraph_om.core.record.record import outward
from langgraph_om.errors import ObserverError

TRANSFORMS = ("before_observation", "after_observation", "before_reflection", "after_reflection")
"""Hooks whose result is used in the place of what they are given."""

LIFECYCLE = (
    *("on_observation_start", "on_observation_end"),
    *("on_reflection_start", "on_reflection_end"),
)
"""Hooks that are told of a cycle."""

HOOKS = (*LIFECYCLE, *TRANSFORMS)


@dataclass(frozen=True, slots=True)
class HookCall:
    """A call of one of the user's hooks; whoever drives the flow makes it."""

    name: str
    arguments: Sequence[Any]


@dataclass(frozen=True, slots=True)
class HookReply:
    """What came of a `HookCall`."""

    value: Any = None
    error: Exception | None = None
    is_late: bool = False
    """Whether it did not return within the deadline."""


# --- Transforms ----------------------------------------------------------------------------------


def transformed_messages(
    messages: Sequence[BaseMessage], about: Mapping[str, Any]
) -> Generator[HookCall, HookReply, list[BaseMessage]]:
    """Let `before_observation` change what the Observer is shown.

    Raises:
        ObserverError: When the hook failed or returned something else than messages.
    """
    name = "before_observation"
    copies = [_copied(message) for message in messages]
    value = yield from _asked(name, copies, about)
    if value is None:
        return copies
    if not isinstance(value, list | tuple):
        raise _returned(name, f"`{type(value).__name__}`", "a list of messages")
    for each in value:
        if not isinstance(each, BaseMessage):
            raise _returned(name, f"a list with `{type(each).__name__}`", "a list of messages")
    return list(value)


def _copied(message: BaseMessage) -> BaseMessage:
    """Copy a message; what can not be copied, as a lock in an artifact, is shared."""
    return message.model_copy(update={name: _copy_of(value) for name, value in message})


def _copy_of(value: Any) -> Any:
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 a value of any type may refuse
        return value


def transformed_text(
    name: str, text: str, about: Mapping[str, Any]
) -> Generator[HookCall, HookReply, str]:
    """Let a hook change a text.

    Raises:
        ObserverError: When the hook failed or returned something else than text.
    """
    value = yield from _asked(name, text, about)
    if value is None:
        return text
    if not isinstance(value, str):
        raise _returned(name, f"`{type(value).__name__}`", "a text")
    return clean(str.__str__(value))  # a checkpoint holds no subclass of `str`


def _returned(name: str, what: str, wanted: str) -> ObserverError:
    """Make the error for a hook's wrong answer; what it holds may be what no record shall keep."""
    msg = f"the hook `{name}` returned {what}; return {wanted}, or None to keep what was given"
    return ObserverError(msg)


def _asked(
    name: str, value: object, about: Mapping[str, Any]
) -> Generator[HookCall, HookReply, Any]:
    reply = yield HookCall(name, (value, dict(about)))
    if reply.is_late:
        msg = f"the hook `{name}` failed: it did not return within the deadline"
        raise ObserverError(msg) from reply.error
    if reply.error is not None:  # its text may quote what the hook was to hide
        msg = f"the hook `{name}` failed: {type(reply.error).__name__}; the log says more"
        raise ObserverError(msg) from reply.error
    return reply.value


# --- Lifecycle -----------------------------------------------------------------------------------

_STARTS = ("observation-start", "buffering-start")
_ENDS = ("observation-end", "buffering-end", "observation-failed", "buffering-failed")
_TOLD = ("operation", "trigger", "cycle_id", "record_id", "thread_id", "resource_id", "tokens")
_TOLD_AT_END = ("observation_tokens", "observations", "duration_ms", "usage", "error")


def _told(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is told of the start or the end of a cycle, for the hook to keep or change."""
    kind = event["type"]
    if kind not in (*_STARTS, *_ENDS):
        return None
    keys = _TOLD if kind in _STARTS else (*_TOLD, *_TOLD_AT_END)
    told = {key: deepcopy(event.get(key)) for key in keys}
    told["operation"] = outward(event["operation"])
    told["trigger"] = "buffer" if kind.startswith("buffering") else "turn"
    return told


def lifecycle_call(event: Mapping[str, Any]) -> HookCall | None:
    """Return the call of the lifecycle hook that an event is for."""
    told = _told(event)
    if told is None:
        return None
    moment = "start" if event["type"] in _STARTS else "end"
    return HookCall(f"on_{told['operation']}_{moment}", (told,))


def debug_event(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what `on_debug_event` is told of an event: its `type` and its facts."""
    if event["type"] == "status":
        return {"type": "step_progress", **deepcopy(event["data"])}
    told = _told(event)
    if told is None:
        return None
    moment = "triggered" if event["type"] in _STARTS else "complete"
    return {"type": f"{told['operation']}_{moment}", **told}
