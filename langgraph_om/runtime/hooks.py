"""The user's hooks: what they are told, and what is made of their answers.

The drivers call them, with a deadline, and so that what they raise ends no turn.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from langgraph_om.core.cycles.questions import TRANSFORMS
from langgraph_om.core.effects import CallHook, CallReply, LateError, stops_run
from langgraph_om.core.events import describe_cycle
from langgraph_om.core.wire import CycleEnded, CycleStarted, Event
from langgraph_om.errors import ConfigurationError

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
        told = _describe_moment(event)
        if told is None:
            return None
        moment = "start" if event["type"] in _STARTS else "end"
        name = f"on_{told['operation']}_{moment}"
        return CallHook(name, (told,)) if name in self.functions else None

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


def read_hook_reply(name: str, done: CallReply, seconds: float) -> CallReply:
    """Return what came of a hook, which is logged when it failed."""
    error = done.error
    if isinstance(error, LateError):
        error = LateError(f"it did not return within {seconds:.3g} seconds")
    if error is not None and stops_run(error):
        raise error
    if error is not None:
        logger.error("the hook `%s` failed: %s", name, error, exc_info=error)
    return CallReply(done.value, error)


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
        _check_arguments(f"hooks[{name!r}]", function, 1 if name in LIFECYCLE else 2)
    if debug is not None and (not callable(debug) or is_async(debug) or _yields(debug)):
        msg = f"`on_debug_event` is {debug!r}; pass a synchronous function of one mapping"
        raise ConfigurationError(msg)
    if debug is not None:
        _check_arguments("on_debug_event", debug, 1)
    return Hooks(dict(given), debug)


def _check_arguments(option: str, function: Hook, count: int) -> None:
    """Refuse a function that cannot be called with as many arguments as it is given."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError as error:
        told = "one mapping" if count == 1 else "two arguments, the value and a mapping"
        msg = f"`{option}` is {function!r}: {error}; pass a function of {told}"
        raise ConfigurationError(msg) from None
    except ValueError:  # some built-in functions have no signature
        return


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a function, or an object that is called as one, has to be awaited."""
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

_CAPITAL = re.compile("[A-Z]")

_STARTS = ("observation-start", "buffering-start")
_ENDS = ("observation-end", "buffering-end", "observation-failed", "buffering-failed")
_TOLD = ("tokens",)
_TOLD_AT_END = ("observation_tokens", "observations", "duration_ms", "usage", "error")


def _describe_moment(event: Event) -> dict[str, Any] | None:
    """Return what is told of the start or the end of a cycle, for the hook to keep or change."""
    if event["type"] not in (*_STARTS, *_ENDS):
        return None
    keys = _TOLD if event["type"] in _STARTS else (*_TOLD, *_TOLD_AT_END)
    cycle = cast("CycleStarted | CycleEnded", event)
    return {**describe_cycle(cycle), **{key: deepcopy(event.get(key)) for key in keys}}


def build_debug_event(event: Event) -> dict[str, Any] | None:
    """Return what `on_debug_event` is told of an event: its `type` and its facts."""
    if event["type"] == "status":
        return {"type": "step_progress", **_in_snake_case(event["data"])}
    told = _describe_moment(event)
    if told is None:
        return None
    moment = "triggered" if event["type"] in _STARTS else "complete"
    return {"type": f"{told['operation']}_{moment}", **told}


def _in_snake_case(value: Any) -> Any:
    """Copy the data of a stream part with its keys as hooks are told them."""
    if isinstance(value, Mapping):
        return {
            _CAPITAL.sub(r"_\g<0>", key).lower(): _in_snake_case(of) for key, of in value.items()
        }
    return deepcopy(value)
