"""The tool `update_working_memory`: what a model writes, and the change of the state it becomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from langgraph_om.core.forms import Form, TemplateForm, Value, merge
from langgraph_om.runtime.tools import part_runtime

PATCH = "om_patch"
"""The key of an update in a graph's state that is merged; any other value replaces what is there.
"""


def read_state_value(stored: Any) -> Value:
    """Return the value that a channel holds; nothing for what is empty."""
    if isinstance(stored, Mapping) and set(stored) == {PATCH}:  # the first update of a channel
        stored = merge(None, stored[PATCH])
    return stored or None


def fold_state_value(stored: Any, update: Any) -> Any:
    """Reduce a channel: a marked update is merged, anything else replaces."""
    if isinstance(update, Mapping) and set(update) == {PATCH}:
        return merge(read_state_value(stored), update[PATCH]) or {}
    return update


Stored = dict[str, Any] | str
"""What a channel of the state holds: a JSON object, a text, or an empty one of both."""


def take_last(former: str, update: str) -> str:
    """Replace the block; hooks and nodes of one superstep may both write it."""
    del former
    return update


UPDATE_TOOL: Final = "update_working_memory"
"""The tool's name."""

_READ: Final = "__pregel_read"
"""Where LangGraph keeps, in a node's configuration, what reads the state's channels."""

_OUTSIDE: Final = "; run it in a `ToolNode`, or call `working.update(store, resource_id, memory)`"

_WHAT: Final = "Keep what is to be known in every conversation with this user up to date."
_TEXT: Final = "Write the whole text anew: it replaces the former one."
_JSON: Final = "Write the fields that change: they are merged into the rest."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call."""

    text: str
    """What the model is told."""
    patch: Any = None
    """What was written; `None` where nothing was."""
    known: Value = None
    """The whole value, where the text shows it to the model."""


Answer = Callable[[Any, Any, RunnableConfig, Any], Outcome]
"""Carries out a call: what the model wrote, the value in the state, configuration and store."""


class _UpdateTool(StructuredTool):
    """Takes whatever a model writes: what is wrong with it is answered, not raised."""

    def _parse_input(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> str | dict[str, Any]:
        """Part what the graph injects from what the model wrote."""
        parsed = super()._parse_input(tool_input, tool_call_id)
        runtime, arguments = part_runtime(parsed, UPDATE_TOOL, _OUTSIDE)
        # Some models leave the one argument out and write the fields themselves.
        memory = arguments.get("memory", arguments)
        return {"runtime": runtime, "memory": memory}


def build_tool(form: Form, answer: Answer, value_key: str, messages_key: str) -> BaseTool:
    """Make the tool.

    Args:
        form: The form of the memory.
        answer: Carries out a call.
        value_key: The state's key of the value.
        messages_key: The state's key of the conversation.
    """

    def update(runtime: ToolRuntime, memory: Any) -> Command[Any]:
        known = read_channel(runtime, value_key)
        outcome = answer(memory, known, runtime.config, runtime.store)
        status = "error" if outcome.patch is None else "success"
        message = ToolMessage(
            outcome.text, tool_call_id=runtime.tool_call_id, name=UPDATE_TOOL, status=status
        )
        changes: dict[str, Any] = {messages_key: [message]}
        if outcome.patch is not None:
            is_text = isinstance(outcome.patch, str)
            changes[value_key] = outcome.patch if is_text else {PATCH: outcome.patch}
        elif outcome.known is not None:
            changes[value_key] = outcome.known
        return Command(update=changes)

    async def aupdate(runtime: ToolRuntime, memory: Any) -> Command[Any]:
        return await asyncio.to_thread(update, runtime, memory)  # it reads and writes a database

    how = _TEXT if isinstance(form, TemplateForm) else _JSON
    return _UpdateTool(
        name=UPDATE_TOOL,
        description=f"{_WHAT} {how}",
        args_schema={"title": UPDATE_TOOL, **form.arguments},
        func=update,
        coroutine=aupdate,
    )


def read_channel(runtime: ToolRuntime, key: str) -> Any:
    """Return the value of a channel, also where the node of the tools does not see it."""
    state = runtime.state
    if isinstance(state, Mapping) and key in state:
        return state[key]
    read = runtime.config.get("configurable", {}).get(_READ)
    for channels in read.args if isinstance(read, partial) else ():
        channel = channels.get(key) if isinstance(channels, Mapping) else None
        if channel is not None:
            return channel.get() if channel.is_available() else None
    return getattr(state, key, None)
