"""The `recall` tool and its schema."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

from langgraph_om.core.search import RECALL
from langgraph_om.features.recall.arguments import RECALL_ARGUMENTS, RecallArgument
from langgraph_om.runtime.tools import part_runtime
from langgraph_om.search.source import NearSearch

_WHAT: Final = (
    "Read earlier messages of this conversation word for word: those that your observations were "
    "made from. Start at an id of a `_range` line, or at the beginning, and read page by page."
)
_THREADS: Final = (
    'Earlier conversations with the same user can be read too: mode "threads" lists them, and '
    "`thread_id` opens one."
)
_SEARCH: Final = (
    'Mode "search" finds messages and observations by the words of a `query`{near}, and says '
    "where to read on."
)
_MODES: Final = {
    "messages": "reads messages page by page (the default)",
    "threads": "lists conversations",
    "search": "finds messages and observations by words",
}
_WHEN: Final = (
    "Use it when exact words, numbers or results are needed that you do not see, and before you "
    "say that you do not remember."
)

_OUTSIDE: Final = (
    ", and reads the conversation from the graph's state; run it in a `ToolNode`, or call "
    "`memory.recall(state, config, ...)`"
)


class AnswerCall(Protocol):
    """Answers what a model wrote."""

    def __call__(
        self, state: Any, arguments: Mapping[str, Any], /, *, config: Any, store: Any
    ) -> dict[str, Any]:
        """Answer with the fields of the mode, or one field that says what to write instead."""


class _RecallTool(StructuredTool):
    """Takes whatever a model writes as arguments: recall itself answers what is wrong with them."""

    def _parse_input(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> str | dict[str, Any]:
        """Part what the graph injects from what the model wrote."""
        parsed = super()._parse_input(tool_input, tool_call_id)
        runtime, arguments = part_runtime(parsed, RECALL, _OUTSIDE)
        # In one argument, because a model may write names that a call takes for its own.
        return {"runtime": runtime, "arguments": arguments}


def build_recall_tool(
    answer: AnswerCall, *, reaches_others: bool, near: NearSearch | None
) -> BaseTool:
    """Make the tool of a memory.

    Args:
        answer: Answers a call, given the state, what the model wrote, and the run's `config` and
            `store`.
        reaches_others: Whether other conversations of the user can be read.
        near: What searches beside the words; `None` for nothing.
    """

    def recall(runtime: ToolRuntime, arguments: dict[str, Any]) -> str:
        found = answer(runtime.state, arguments, config=runtime.config, store=runtime.store)
        return json.dumps(found, ensure_ascii=False)

    async def arecall(runtime: ToolRuntime, arguments: dict[str, Any]) -> str:
        # It reads a database, and for a search it asks for an embedding.
        return await asyncio.to_thread(recall, runtime, arguments)

    search = _SEARCH.format(near="" if near is None else near.told)
    parts = (_WHAT, search, _THREADS if reaches_others else "", _WHEN)
    return _RecallTool(
        name=RECALL,
        description=" ".join(filter(None, parts)),
        args_schema=_build_schema(reaches_others=reaches_others),
        func=recall,
        coroutine=arecall,
    )


def _build_schema(*, reaches_others: bool) -> dict[str, Any]:
    """State the arguments that can be used, as JSON Schema.

    Not as a pydantic model, which would keep what it does not understand from recall's own answer.
    """
    offered = {"resource": reaches_others, None: True}
    modes = {"messages": True, "threads": reaches_others, "search": True}
    properties = {
        name: _build_property(argument)
        for name, argument in RECALL_ARGUMENTS.items()
        if offered[argument.needs]
    }
    chosen = [mode for mode, is_offered in modes.items() if is_offered]
    told = "; ".join(f'"{mode}" {_MODES[mode]}' for mode in chosen)
    properties["mode"] |= {"enum": chosen, "description": f"{told}."}
    return {"title": RECALL, "type": "object", "properties": properties}


def _build_property(argument: RecallArgument) -> dict[str, Any]:
    stated: dict[str, Any] = {"type": argument.kind, "description": argument.description}
    limits = {
        "enum": list(argument.choices) or None,
        "minimum": argument.minimum,
        "maximum": argument.maximum,
        "default": argument.default,
    }
    return stated | {name: value for name, value in limits.items() if value is not None}
