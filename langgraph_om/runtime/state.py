"""What a graph's state holds: the conversation and the record, whatever kind of state it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langchain_core.messages import BaseMessage

from langgraph_om.core.record.record import complete_record
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError


def values_of(state: Any) -> Any:
    """Return the values of a state snapshot; anything else is a state already."""
    return state if isinstance(state, Mapping) else getattr(state, "values", state)


def conversation_of(state: Any, key: str) -> list[BaseMessage]:
    """Return the messages of a state.

    Raises:
        ConfigurationError: When they are no list of messages.
    """
    messages = _value(state, key)
    if messages is None:
        return []
    odd: Any = (
        next((m for m in messages[-1:] if not isinstance(m, BaseMessage)), None)
        if isinstance(messages, list)
        else messages
    )
    if odd is not None:
        msg = (
            f"the state's `{key}` holds {odd!r}; it must be a list of LangChain "
            f"messages, kept by a reducer such as `add_messages` (or set `messages_key`)"
        )
        raise ConfigurationError(msg)
    return cast("list[BaseMessage]", messages)


def _value(state: Any, key: str) -> Any:
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


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


def read_stored_record(state: Any) -> Any:
    """Return the record in a state, `{}` for an empty one, `None` when there is no place for it."""
    if isinstance(state, Mapping):
        return state["om"] or {} if "om" in state else None
    return (getattr(state, "om", None) or {}) if hasattr(state, "om") else None
