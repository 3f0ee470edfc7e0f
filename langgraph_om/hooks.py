"""Where the user's hooks are called: with a deadline, and so that what they raise ends no turn."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from langgraph_om.core.events import Event
from langgraph_om.core.hooks import (
    HOOKS,
    TRANSFORMS,
    HookCall,
    HookReply,
    debug_event,
    lifecycle_call,
)
from langgraph_om.errors import ConfigurationError

__all__ = ["Hooks", "check_hooks"]

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

    def about(self, event: Event) -> HookCall | None:
        """Return the call of the lifecycle hook that an event is for, if the user has set it."""
        call = lifecycle_call(event)
        return call if call is not None and call.name in self.functions else None

    def tell(self, event: Event) -> None:
        """Tell the debug callback of an event; what it raises is logged, no more."""
        told = debug_event(event) if self.debug is not None else None
        if told is None or self.debug is None:
            return
        try:
            self.debug(told)
        except Exception:
            logger.exception("`on_debug_event` failed on %r", told["type"])

    def call(self, call: HookCall, seconds: float) -> HookReply:
        """Call a hook, and wait so many seconds at most; what it raises is a reply too."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                result = self.functions[call.name](*call.arguments)
                is_async = inspect.isawaitable(result)
                future.set_result(asyncio.run(_result(result)) if is_async else result)
            except BaseException as error:  # noqa: BLE001 it is raised again where it is awaited
                future.set_exception(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(run,), name=call.name, daemon=True).start()
        try:
            return HookReply(future.result(timeout=seconds))
        except Exception as error:  # noqa: BLE001 whatever a hook raises is a reply
            return _failed(call, error)

    async def acall(self, call: HookCall, seconds: float) -> HookReply:
        """Call a hook without blocking the event loop; else like `call`."""
        function = self.functions[call.name]
        try:
            async with asyncio.timeout(seconds):
                if inspect.iscoroutinefunction(function):
                    return HookReply(await function(*call.arguments))
                result = await asyncio.to_thread(function, *call.arguments)
                return HookReply(await result if inspect.isawaitable(result) else result)
        except Exception as error:  # noqa: BLE001 whatever a hook raises is a reply
            return _failed(call, error)


async def _result(awaitable: Any) -> Any:
    return await awaitable


def _failed(call: HookCall, error: Exception) -> HookReply:
    if isinstance(error, TimeoutError) and not str(error):
        error = TimeoutError("it did not return within the deadline")
    if call.name not in TRANSFORMS:  # a transform's failure is the cycle's, and is told there
        logger.warning("the hook `%s` failed: %s", call.name, error, exc_info=error)
    return HookReply(error=error)


def check_hooks(hooks: object, debug: object) -> Hooks:
    """Read the hooks and the debug callback.

    Raises:
        ConfigurationError: When a hook is unknown or can not be called.
    """
    given: Any = {} if hooks is None else hooks
    if not isinstance(given, Mapping):
        msg = f"`hooks` is {hooks!r}; write a mapping from a hook's name to a function"
        raise ConfigurationError(msg)
    for name, function in given.items():
        if name not in HOOKS:
            msg = f"`hooks` has {name!r}; the hooks are {', '.join(HOOKS)}"
            raise ConfigurationError(msg)
        if not callable(function):
            msg = f"`hooks[{name!r}]` is {function!r}; write a function, sync or async"
            raise ConfigurationError(msg)
    if debug is not None and (not callable(debug) or inspect.iscoroutinefunction(debug)):
        msg = f"`on_debug_event` is {debug!r}; write a function of one mapping that is not async"
        raise ConfigurationError(msg)
    return Hooks(dict(given), debug)
