"""Where the user's hooks are called: with a deadline, and so that what they raise ends no turn.

A hook runs in a thread or task of its own, so that one that hangs, and will not be cancelled
either, can be left behind. Only what ends a process (`KeyboardInterrupt`, `SystemExit`) passes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from langgraph_om.core.cycles.hooks import TRANSFORMS
from langgraph_om.core.effects import CallHook, HookReply
from langgraph_om.core.events import public_operation
from langgraph_om.core.wire import Event
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.timeouts import finished_within, in_thread

logger = logging.getLogger("langgraph_om")

Hook = Callable[..., Any]


@dataclass(frozen=True)
class Hooks:
    """The user's hooks and debug callback."""

    functions: Mapping[str, Hook] = field(default_factory=dict)
    debug: Callable[[dict[str, Any]], Any] | None = None

    @property
    def transforms(self) -> frozenset[str]:
        """The transform hooks that are set."""
        return frozenset(TRANSFORMS) & self.functions.keys()

    def about(self, event: Event) -> CallHook | None:
        """Return the call of the lifecycle hook that an event is for, if the user has set it."""
        call = build_lifecycle_call(event)
        return call if call is not None and call.name in self.functions else None

    def tell(self, event: Event) -> None:
        """Tell the debug callback of an event; what it raises is logged, no more."""
        told = build_debug_event(event) if self.debug is not None else None
        if told is None or self.debug is None:
            return
        kind = told["type"]
        try:
            result = self.debug(told)
            if inspect.iscoroutine(result):  # as from a lambda around an async function
                result.close()
                logger.warning("`on_debug_event` is async; it was not run on %r", kind)
        except Exception:
            logger.exception("`on_debug_event` failed on %r", kind)

    def call(self, call: CallHook, seconds: float) -> HookReply:
        """Call a hook, and wait so many seconds at most; what it raises is a reply too."""
        function = self.functions[call.name]

        def work() -> Any:
            result = function(*call.arguments)
            return asyncio.run(_within(seconds, result)) if inspect.isawaitable(result) else result

        future = in_thread(work, call.name)
        done, _ = wait({future}, timeout=seconds)
        return _build_reply(call, future) if done else _note_late(call, seconds)

    async def acall(self, call: CallHook, seconds: float) -> HookReply:
        """Call a hook without blocking the event loop; else like `call`."""
        work = _acarry_out(self.functions[call.name], call)
        done = await finished_within(seconds, work, call.name)
        return _build_reply(call, done) if done is not None else _note_late(call, seconds)


async def _acarry_out(function: Hook, call: CallHook) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*call.arguments)
    future = in_thread(lambda: function(*call.arguments), call.name)
    result = await asyncio.wrap_future(future)
    return await result if inspect.isawaitable(result) else result


async def _within(seconds: float, awaitable: Any) -> Any:
    async with asyncio.timeout(seconds):
        return await awaitable


def _build_reply(call: CallHook, done: Future[Any] | asyncio.Task[Any]) -> HookReply:
    try:
        return HookReply(done.result())
    except asyncio.CancelledError:  # the hook's own: when the turn is cancelled nobody is here
        return _note_failed(call, HookReply(error=RuntimeError("it was cancelled")))
    except Exception as error:  # noqa: BLE001 whatever a hook raises is a reply
        return _note_failed(call, HookReply(error=error))


def _note_late(call: CallHook, seconds: float) -> HookReply:
    error = TimeoutError(f"it did not return within {seconds:.3g} seconds")
    return _note_failed(call, HookReply(error=error, is_late=True))


def _note_failed(call: CallHook, reply: HookReply) -> HookReply:
    logger.warning("the hook `%s` failed: %s", call.name, reply.error, exc_info=reply.error)
    return reply


def check_hooks(hooks: object, debug: object) -> Hooks:
    """Read the hooks and the debug callback.

    Raises:
        ConfigurationError: When a hook is unknown or cannot be called.
    """
    given: Any = {} if hooks is None else hooks
    if not isinstance(given, Mapping):
        msg = f"`hooks` is {hooks!r}; pass a mapping from a hook's name to a function"
        raise ConfigurationError(msg)
    for name, function in given.items():
        if name not in HOOKS:
            msg = f"`hooks` has {name!r}; the hooks are {', '.join(HOOKS)}"
            raise ConfigurationError(msg)
        if not callable(function) or _yields(function):
            msg = f"`hooks[{name!r}]` is {function!r}; pass a function that returns, sync or async"
            raise ConfigurationError(msg)
    if debug is not None and (not callable(debug) or _is_async(debug) or _yields(debug)):
        msg = f"`on_debug_event` is {debug!r}; pass a function of one mapping that is not async"
        raise ConfigurationError(msg)
    return Hooks(dict(given), debug)


def _is_async(function: Hook) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 of an object, its method
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _yields(function: Hook) -> bool:
    """Return whether a function is a generator, which does nothing when it is called."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


LIFECYCLE = (
    *("on_observation_start", "on_observation_end"),
    *("on_reflection_start", "on_reflection_end"),
)
"""Hooks that are told of a cycle."""

HOOKS = (*LIFECYCLE, *TRANSFORMS)


# --- Lifecycle -----------------------------------------------------------------------------------

_STARTS = ("observation-start", "buffering-start")
_ENDS = ("observation-end", "buffering-end", "observation-failed", "buffering-failed")
_TOLD = ("operation", "trigger", "cycle_id", "record_id", "thread_id", "resource_id", "tokens")
_TOLD_AT_END = ("observation_tokens", "observations", "duration_ms", "usage", "error")


def _describe_cycle(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is told of the start or the end of a cycle, for the hook to keep or change."""
    kind = event["type"]
    if kind not in (*_STARTS, *_ENDS):
        return None
    keys = _TOLD if kind in _STARTS else (*_TOLD, *_TOLD_AT_END)
    told = {key: deepcopy(event.get(key)) for key in keys}
    told["operation"] = public_operation(event["operation"])
    told["trigger"] = "buffer" if kind.startswith("buffering") else "turn"
    return told


def build_lifecycle_call(event: Mapping[str, Any]) -> CallHook | None:
    """Return the call of the lifecycle hook that an event is for."""
    told = _describe_cycle(event)
    if told is None:
        return None
    moment = "start" if event["type"] in _STARTS else "end"
    return CallHook(f"on_{told['operation']}_{moment}", (told,))


def build_debug_event(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what `on_debug_event` is told of an event: its `type` and its facts."""
    if event["type"] == "status":
        return {"type": "step_progress", **deepcopy(event["data"])}
    told = _describe_cycle(event)
    if told is None:
        return None
    moment = "triggered" if event["type"] in _STARTS else "complete"
    return {"type": f"{told['operation']}_{moment}", **told}
