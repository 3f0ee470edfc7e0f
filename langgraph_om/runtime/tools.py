"""What tools and features need of the graph around them, and of the tools beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_store
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import BaseStore

from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.runner import StepRunner


class MemoryTool(StructuredTool):
    """A tool of memory, which answers what is wrong with what a model writes.

    It reads and writes a database, so an asynchronous run has a thread call its one function.
    """

    outside: str
    """What can not be done outside of a graph, and what to do; for the error."""

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 its name in langchain
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call the function in a thread, and callbacks in the event loop of the run."""
        # Of a tool without a coroutine, `StructuredTool` has the thread call callbacks as well.
        return await BaseTool.ainvoke(self, input, config, **kwargs)

    def _parse_input(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> str | dict[str, Any]:
        """Part what the graph injects from what the model wrote.

        Raises:
            ConfigurationError: When no graph calls the tool.
        """
        parsed = super()._parse_input(tool_input, tool_call_id)
        given = parsed if isinstance(parsed, dict) else {}
        runtime = next((each for each in given.values() if isinstance(each, ToolRuntime)), None)
        if runtime is None:
            msg = f"the tool `{self.name}` was called outside of a graph{self.outside}"
            raise ConfigurationError(msg)
        arguments = {name: value for name, value in given.items() if value is not runtime}
        # In one argument, because a model may write names that a call takes for its own.
        return {"runtime": runtime, "arguments": arguments}


def find_store() -> BaseStore | None:
    """Return the store of the run around this call; `None` outside of one."""
    try:
        return get_store()
    except (RuntimeError, KeyError):
        return None


def refuse_second_tools(tools: Iterable[Any], runner: StepRunner) -> None:
    """Refuse another tool of the name of one of the memory: a model could call only one of them.

    Raises:
        ConfigurationError: When there is one.
    """
    own = {
        each.name: (each, bring.__self__.asks_for_model)
        for bring in (runner.settings.features.having("list_tools") if runner.enabled else ())
        if bring.__self__.asks_for_model
        for each in bring()
    }
    for tool in tools if own else ():
        name = tool.get("name") if isinstance(tool, dict) else None
        name = name or getattr(tool, "name", None) or getattr(tool, "__name__", None)
        if name in own and tool is not own[name][0]:
            msg = (
                f"a tool of the agent is called `{name}`, and so is the memory's; give yours "
                f"another name, or leave `{own[name][1]}` out"
            )
            raise ConfigurationError(msg)
