"""What tools and features need of the graph around them, and of the tools beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_store
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import BaseStore

from langgraph_om.errors import ConfigurationError


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
            ValidationError: When the arguments are none of its schema.
        """
        given = tool_input if isinstance(tool_input, dict) else {}
        runtime = next((each for each in given.values() if isinstance(each, ToolRuntime)), None)
        if runtime is None:
            msg = f"the tool `{self.name}` was called outside a graph{self.outside}"
            raise ConfigurationError(msg)
        arguments = {name: value for name, value in given.items() if value is not runtime}
        super()._parse_input(arguments, tool_call_id)
        # In one argument, because a model may write names that a call takes for its own.
        return {"runtime": runtime, "arguments": arguments}


def find_store() -> BaseStore | None:
    """Return the store of the run around this call; `None` outside of one."""
    try:
        return get_store()
    except (RuntimeError, KeyError):
        return None


def binds_tools(model: Any) -> bool:
    """Return whether a chat model can be given tools; the base class has a method that raises."""
    bind = getattr(model, "bind_tools", None)
    return bind is not None and getattr(bind, "__func__", bind) is not BaseChatModel.bind_tools


def refuse_second_recall(tools: Iterable[Any], own: BaseTool | None) -> None:
    """Refuse another tool with the name of the memory's: a model could call only one of them.

    Raises:
        ConfigurationError: When there is one.
    """
    for tool in tools if own is not None else ():
        name = tool.get("name") if isinstance(tool, dict) else None
        name = name or getattr(tool, "name", None) or getattr(tool, "__name__", None)
        if own is not None and name == own.name and tool is not own:
            msg = (
                f"the agent has a tool named `{name}`, and so does memory; rename yours, "
                f"or pass retrieval=False to the memory"
            )
            raise ConfigurationError(msg)
