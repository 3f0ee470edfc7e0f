"""A node or router from functions, without a run of its own in traces beside the node's.

`RunnableLambda` would trace it once more, and look at the function's signature in each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    set_config_context,
    var_child_runnable_config,
)


class PlainNode(Runnable[Any, Any]):
    """Calls a function with the state.

    Args:
        function: What is called.
        name: The name of the node.
        afunction: What is called in asynchronous runs; `None`: the function, in a thread.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        name: str,
        afunction: Callable[[Any], Coroutine[Any, Any, Any]] | None = None,
    ) -> None:
        self.name = name
        self._function = function
        self._afunction = afunction

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002, the name is the base class's
        """Return what the function makes of the state."""
        del options
        if _is_in_force(config):
            return self._function(input)
        with set_config_context(ensure_config(config)) as context:
            return context.run(self._function, input)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002, the name is the base class's
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Any:
        """Return what the asynchronous function makes of the state."""
        if self._afunction is None:
            return await super().ainvoke(input, config, **options)
        if _is_in_force(config):
            return await self._afunction(input)
        with set_config_context(ensure_config(config)) as context:
            return await asyncio.create_task(self._afunction(input), context=context)


def _is_in_force(config: RunnableConfig | None) -> bool:
    """Return whether LangGraph has set the context, as it does for a node, but not for a router."""
    return config is not None and config is var_child_runnable_config.get()
