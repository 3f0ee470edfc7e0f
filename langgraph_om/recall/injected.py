"""Part what a graph injects into the call of a tool from what a model wrote."""

from __future__ import annotations

from typing import Any

from langgraph.prebuilt import ToolRuntime

from langgraph_om.errors import ConfigurationError


def part_runtime(parsed: object, tool: str, outside: str) -> tuple[ToolRuntime, dict[str, Any]]:
    """Return the runtime of a call, and what the model wrote.

    Args:
        parsed: The arguments of the call as its tool reads them.
        tool: The name of the tool.
        outside: What can not be done outside of a graph, and what to do; for the error.

    Raises:
        ConfigurationError: When no graph calls the tool.
    """
    given = parsed if isinstance(parsed, dict) else {}
    runtime = next((each for each in given.values() if isinstance(each, ToolRuntime)), None)
    if runtime is None:
        msg = f"the tool `{tool}` was called outside of a graph{outside}"
        raise ConfigurationError(msg)
    return runtime, {name: value for name, value in given.items() if value is not runtime}
