"""What a graph's state holds: the conversation and the record, whatever kind of state it is.

States come from nodes, from LangGraph (`StateSnapshot`), and from a server (JSON values).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call

from langgraph_om.core.content.message_keys import find_others
from langgraph_om.core.content.text import as_sequence
from langgraph_om.core.record.record import blank_record, complete_record
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError

_NO_STATE: Final = (
    "this is the configuration of a run, and not its state; call the same method of "
    "`memory.of(graph, config)`, such as `memory.of(graph, config).view()`, or pass "
    "`graph.get_state(config)`"
)


def values_of(state: Any, key: str) -> Any:
    """Return the values of a state snapshot or of a server's state; anything else is a state."""
    if isinstance(state, Mapping):
        if "configurable" in state and "om" not in state and key not in state:
            raise ConfigurationError(_NO_STATE)
        is_wrapped = "values" in state and "om" not in state and key not in state
        values = state["values"] if is_wrapped else None
    else:
        values = getattr(state, "values", None)
        is_wrapped = hasattr(state, "values") and not hasattr(state, key)
    # A thread that never ran has none, which a server may write as a list.
    return (values or {}) if is_wrapped else state


def as_state(given: Any, key: str) -> Any:
    """Return a state; a plain list of messages is one without memory."""
    # A `StateSnapshot` is a tuple, too.
    is_plain = isinstance(given, list | tuple) and not hasattr(given, "values")
    return {key: list(given)} if is_plain else given


def conversation_of(state: Any, key: str) -> list[BaseMessage]:
    """Return the messages of a state.

    Raises:
        ConfigurationError: When they are no list of messages.
    """
    messages = channel_of(state, key)
    if messages is None:
        return []
    if not isinstance(messages, list):
        raise _not_messages(key, messages)
    # By class, because this is asked in every step about a conversation of any length.
    others = find_others(messages)
    if not others or all(isinstance(messages[at], BaseMessage) for at in others):
        return cast("list[BaseMessage]", messages)
    odd = next((m for m in messages if not isinstance(m, BaseMessage | Mapping)), None)
    if odd is not None:
        raise _not_messages(key, odd)
    try:
        return convert_to_messages([*map(restore_message, messages)])
    except (ValueError, NotImplementedError) as error:
        raise _not_messages(key, messages[-1]) from error


def read_messages(messages: object) -> list[BaseMessage]:
    """Return the messages that a program hands in, in any form that LangChain knows.

    Raises:
        ConfigurationError: When they are no list.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        msg = f"`messages` is {messages!r}; pass the conversation, a list of messages"
        raise ConfigurationError(msg)
    try:
        return convert_to_messages([*map(restore_message, messages)])
    except (ValueError, NotImplementedError) as error:
        msg = f"`messages` has what LangChain does not read as a message: {error}"
        raise ConfigurationError(msg) from error


def _not_messages(key: str, odd: object) -> ConfigurationError:
    return ConfigurationError(
        f"the state's `{key}` holds {odd!r}; it must be a list of LangChain "
        f"messages, kept by a reducer such as `add_messages` (or set `messages_key`)"
    )


def channel_of(state: Any, key: str) -> Any:
    """Return the value of a channel of a graph's state; `None` where there is none."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


# --- Messages as JSON values ---------------------------------------------------------------------

_CLASSES: dict[str, type[BaseMessage]] = {
    "ai": AIMessage,
    "human": HumanMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}


def restore_message(item: Any) -> Any:
    """Return a message on which `model_dump` was called as a message, with all its fields.

    `convert_to_messages`, which reads other forms too, drops some of them, and reads no call with
    arguments that are not JSON.
    """
    if not isinstance(item, Mapping):
        return item
    kind = str(item.get("type"))
    if kind == "remove" and item.get("id"):
        return RemoveMessage(id=str(item["id"]))
    if kind in _CLASSES and "additional_kwargs" in item:
        return _CLASSES[kind].model_validate(dict(item))
    calls = [call for call in as_sequence(item.get("tool_calls")) if isinstance(call, Mapping)]
    if not any("function" in call for call in calls):
        return item
    rest = {name: value for name, value in item.items() if name != "tool_calls"}
    (message,) = convert_to_messages([{"content": "", **rest}])
    return message.model_copy(update=_read_calls(calls))


def _read_calls(calls: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Read calls in the form of OpenAI; models write arguments too that nobody can read."""
    valid, invalid = list[Any](), list[Any]()
    for call in calls:
        function = call.get("function") or call
        about: Any = {"name": function.get("name") or "", "id": call.get("id")}
        given = function.get("arguments", function.get("args"))
        try:
            arguments = json.loads(given) if isinstance(given, str) else given
        except ValueError:
            arguments = given
        if arguments is None or isinstance(arguments, Mapping):
            valid.append(tool_call(**about, args=dict(arguments or {})))
        else:
            error = "the arguments are not a JSON object"
            invalid.append(invalid_tool_call(**about, args=str(given), error=error))
    return {"tool_calls": valid, "invalid_tool_calls": invalid}


# --- The record ----------------------------------------------------------------------------------


def record_of(state: Any) -> MemoryRecord:
    """Return the record in a state.

    Raises:
        ConfigurationError: When the state has no place for one.
    """
    record = read_stored_record(state)
    if record is None:
        msg = (
            "the state has no `om`, so the memory cannot be seen here. A node: add it to the "
            "builder before `add_observational_memory(builder, memory, before=...)`, or give it "
            "`input_schema` with a field `om: dict`. Outside of the graph: use "
            "`graph.get_state(config).values`"
        )
        raise ConfigurationError(msg)
    return complete_record(record)


def record_seen_from_outside(state: Any, key: str) -> MemoryRecord:
    """Return the record in a state that somebody looks at; a blank one where nothing ran yet.

    Raises:
        ConfigurationError: When it is what a node sees, with messages and no place for a record, or
            no state at all.
    """
    values = values_of(state, key)
    is_object = hasattr(values, key) or hasattr(values, "om")
    if values and not isinstance(values, Mapping) and not is_object:
        msg = f"the state is {state!r}; pass `graph.get_state(config)`, or its `values`"
        raise ConfigurationError(msg)
    # A snapshot shows the whole state: without a record there is none. A node may not see it.
    is_whole = values is not state or not channel_of(values, key)
    return blank_record() if is_whole and read_stored_record(values) is None else record_of(values)


def read_stored_record(state: Any) -> Any:
    """Return the record in a state, `{}` for an empty one, `None` when there is no place for it."""
    if isinstance(state, Mapping):
        return state["om"] or {} if "om" in state else None
    return (getattr(state, "om", None) or {}) if hasattr(state, "om") else None
