"""A node or router that calls no model, from a function, without a run of its own in traces.

`RunnableLambda` would trace it, and look at the function's signature in each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    set_config_context,
    var_child_runnable_config,
)


class PlainNode(Runnable[Any, Any]):
    """Calls a function with the state; in asynchronous runs in a thread.

    Args:
        function: What is called.
        name: The name of the node.
    """

    def __init__(self, function: Callable[[Any], Any], name: str) -> None:
        self.name = name
        self._function = function

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002, the name is the base class's
        """Return what the function makes of the state."""
        del options
        if config is not None and config is var_child_runnable_config.get():
            return self._function(input)  # LangGraph has set the context for a node's first step
        # A router is not the first one.
        with set_config_context(ensure_config(config)) as context:
            return context.run(self._function, input)
