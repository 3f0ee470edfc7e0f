"""The `recall` tool as LangChain has tools: a schema, and functions that get the run's state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Final

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

from langgraph_om.errors import ConfigurationError
from langgraph_om.memory import ObservationalMemory
from langgraph_om.recall.arguments import RECALL_ARGUMENTS, RecallArgument

RECALL: Final = "recall"
"""The tool's name."""

_WHAT: Final = (
    "Read earlier messages of this conversation word for word: those that your observations were "
    "made from. Start at an id of a `_range` line, or at the beginning, and read page by page."
)
_THREADS: Final = (
    'Earlier conversations with the same user can be read too: mode "threads" lists them, and '
    "`threadId` opens one."
)
_SEARCH: Final = 'Mode "search" finds a place to read from by the meaning of a `query`.'
_MODES: Final = {
    "messages": "reads messages page by page (the default)",
    "threads": "lists conversations",
    "search": "finds observations by meaning",
}
_WHEN: Final = (
    "Use it when exact words, numbers or results are needed that you do not see, and before you "
    "say that you do not remember."
)


def check_namesakes(tools: Iterable[Any], memory: ObservationalMemory) -> None:
    """Refuse another tool of the same name: a model could call only one of them.

    Raises:
        ConfigurationError: When there is one.
    """
    own = memory.recall_tool
    if own is None:
        return
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        name = name or getattr(tool, "name", None) or getattr(tool, "__name__", None)
        if name == RECALL and tool is not own:
            msg = (
                "a tool of the agent is called `recall`, and so is the memory's; give yours "
                "another name, or leave `retrieval` out"
            )
            raise ConfigurationError(msg)


class _RecallTool(StructuredTool):
    """Takes whatever a model writes as arguments: recall itself answers what is wrong with them."""

    def _parse_input(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> str | dict[str, Any]:
        """Part what the graph injects from what the model wrote."""
        parsed = super()._parse_input(tool_input, tool_call_id)
        given = parsed if isinstance(parsed, dict) else {}
        runtime = next((each for each in given.values() if isinstance(each, ToolRuntime)), None)
        if runtime is None:
            msg = (
                "the tool `recall` was called outside of a graph, and reads the conversation from "
                "the graph's state; run it in a `ToolNode`, or call `memory.recall(state, config, "
                "...)`"
            )
            raise ConfigurationError(msg)
        # In one argument, because a model may write names that a call takes for its own.
        arguments = {key: value for key, value in given.items() if value is not runtime}
        return {"runtime": runtime, "arguments": arguments}


def build_recall_tool(
    memory: ObservationalMemory, *, reaches_others: bool, searches: bool
) -> BaseTool:
    """Make the tool of a memory.

    Args:
        memory: Answers the calls.
        reaches_others: Whether other conversations of the user can be read.
        searches: Whether there is a search by meaning.
    """

    def recall(runtime: ToolRuntime, arguments: dict[str, Any]) -> str:
        answer = memory.answer_recall(
            runtime.state, arguments, config=runtime.config, store=runtime.store
        )
        return json.dumps(answer, ensure_ascii=False)

    async def arecall(runtime: ToolRuntime, arguments: dict[str, Any]) -> str:
        # It reads a database, and for a search it asks for an embedding.
        return await asyncio.to_thread(recall, runtime, arguments)

    parts = (_WHAT, _THREADS if reaches_others else "", _SEARCH if searches else "", _WHEN)
    return _RecallTool(
        name=RECALL,
        description=" ".join(filter(None, parts)),
        args_schema=_schema(reaches_others=reaches_others, searches=searches),
        func=recall,
        coroutine=arecall,
    )


def _schema(*, reaches_others: bool, searches: bool) -> dict[str, Any]:
    """State the arguments that can be used, as JSON Schema.

    Not as a pydantic model, which would keep what it does not understand from recall's own answer.
    """
    offered = {"resource": reaches_others, "search": searches, None: True}
    modes = {"messages": True, "threads": reaches_others, "search": searches}
    properties = {
        name: _property(argument)
        for name, argument in RECALL_ARGUMENTS.items()
        if offered[argument.needs]
    }
    chosen = [mode for mode, is_offered in modes.items() if is_offered]
    if len(chosen) == 1:
        del properties["mode"]
    else:
        told = "; ".join(f'"{mode}" {_MODES[mode]}' for mode in chosen)
        properties["mode"] |= {"enum": chosen, "description": f"{told}."}
    return {"title": RECALL, "type": "object", "properties": properties}


def _property(argument: RecallArgument) -> dict[str, Any]:
    stated: dict[str, Any] = {"type": argument.kind, "description": argument.description}
    limits = {
        "enum": list(argument.choices) or None,
        "minimum": argument.least,
        "maximum": argument.most,
        "default": argument.default,
    }
    return stated | {name: value for name, value in limits.items() if value is not None}
