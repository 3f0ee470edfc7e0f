"""What a run and its state say: whose conversation it is, whether memory is on, and what is kept.

A run's configuration has it, and so has its context, which LangGraph keeps there too. States come
from nodes, from LangGraph (`StateSnapshot`), and from a server (JSON values).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import tzinfo
from itertools import filterfalse
from typing import Any, Final, Literal, TypeVar, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.config import var_child_runnable_config
from typing_extensions import TypedDict

from langgraph_om.core.config.options import check_flag
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.dates import read_zone
from langgraph_om.core.content.message_keys import find_others, find_parent_thread
from langgraph_om.core.record.record import blank_record, complete_record
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError

logger = logging.getLogger("langgraph_om")

ValueT = TypeVar("ValueT")

ResourceId = str | Callable[[RunnableConfig], str | None] | None

RUNTIME = "__pregel_runtime"
"""Where LangGraph keeps what `langgraph.runtime.get_runtime` returns; read from the configuration
at hand, because that may be of another run than the one around the call."""
_CHECKPOINTER = "__pregel_checkpointer"
"""Where it keeps a graph's checkpointer."""


Access = Literal["none", "read", "write"]
"""How a run takes part in memory: not at all, by showing it, or by changing it too."""


class MemoryContext(TypedDict, total=False):
    """What a run can tell memory, as `context=` or in `configurable`.

    The `context_schema` of graphs that have none of their own.
    """

    om_enabled: bool
    """Whether memory is on for this run."""
    om_read_only: bool
    """Whether this run shows memory without changing it."""
    resource_id: str
    """The user or entity that the thread belongs to."""
    timezone: str
    """The user's time zone: an IANA name such as `America/New_York`, or an offset."""


_ACTOR: ContextVar[Any] = ContextVar("om_actor", default=None)


@contextmanager
def acting(model: Any) -> Iterator[None]:
    """Say which model the agent has that runs here; `None` says nothing."""
    token = _ACTOR.set(_ACTOR.get() if model is None else model)
    try:
        yield
    finally:
        _ACTOR.reset(token)


def find_acting() -> Any:
    """Return the model of the agent that runs here; `None` where nobody has said."""
    return _ACTOR.get()


@dataclass
class Runs:
    """Reads the runs of one memory, and warns once of what is missing in one."""

    resource_id: ResourceId = None
    """The id, or what finds it; `None`: the run says it."""
    enabled: bool = True
    """Whether memory is in force at all."""
    _warned: set[str] = field(init=False, default_factory=set)

    def is_on(self, config: RunnableConfig | None = None) -> bool:
        """Return whether memory is in force for this run (`om_enabled`)."""
        return self.access(config) != "none"

    def is_read_only(self, config: RunnableConfig | None = None) -> bool:
        """Return whether memory is shown in this run and nothing of it changes (`om_read_only`)."""
        return self.access(config) == "read"

    def access(self, config: RunnableConfig | None = None) -> Access:
        """Return how a run takes part in memory, as its two flags say.

        Raises:
            ConfigurationError: When one is no flag, or context and configuration disagree.
        """
        configurable = read_configurable(config)
        if not self.enabled or not _read_flag("om_enabled", configurable, default=True):
            return "none"
        return "read" if _read_flag("om_read_only", configurable, default=False) else "write"

    def may_write(self, config: RunnableConfig | None = None) -> bool:
        """Return whether this run may change memory."""
        return self.access(config) == "write"

    def identity(self, config: RunnableConfig | None, thread_id: str = "") -> Identity:
        """Tell whose conversation a run is about.

        Raises:
            ConfigurationError: When context and configuration disagree, the id is one of a nested
                thread, or the user's function fails outside of a run.
        """
        configurable = read_configurable(config)
        thread = str(thread_id or configurable.get("thread_id") or "")
        if not thread:
            self.warn_once(
                "no `thread_id` in the run's configuration; memory works within the run, "
                "and its record and events carry an empty thread id"
            )
        elif _CHECKPOINTER in configurable and configurable[_CHECKPOINTER] is None:
            self.warn_once(
                "thread %r: the graph has no checkpointer, so its memory is lost when the run "
                "ends, whatever the `thread_id`; compile the graph with a checkpointer",
                thread,
            )
        if find_parent_thread(thread) is not None:
            msg = (
                f"`thread_id` is {thread!r}; '|>' in an id marks the thread of an agent inside "
                f"another; pass an id without it"
            )
            raise ConfigurationError(msg)
        # The nodes around the agent, without the ids of their tasks and memory's own.
        place = tuple([part.partition(":")[0] for part in _split_space(configurable)])
        resource_id = self._read_resource(config, configurable)
        return Identity(thread, resource_id, _read_timezone(configurable), place)

    def warn_of_repetition(self, config: RunnableConfig | None, thread_id: str) -> None:
        """Warn where an agent in another graph has a long history, and memory begins with it."""
        configurable = ensure_config(config).get("configurable", {})
        around = _split_space(configurable)
        # A task's id in the name: LangGraph keeps no state of this agent from run to run.
        if configurable.get(_CHECKPOINTER) is not None and any(":" in part for part in around):
            self.warn_once(
                "thread %r: the agent in the node %r starts with a long history and no memory: as "
                "a node of another graph, it starts over in each run and observes the whole "
                "history again. Compile the agent with `checkpointer=True`, or put memory on "
                "the graph around it",
                thread_id,
                around[-1].partition(":")[0],
            )

    def find_resource(self, config: RunnableConfig | None) -> str | None:
        """Tell whose conversation a run is about; `None` where nobody says.

        Raises:
            ConfigurationError: As `identity`.
        """
        return self._read_resource(config, read_configurable(config))

    def _read_resource(
        self, config: RunnableConfig | None, configurable: Mapping[str, Any]
    ) -> str | None:
        if isinstance(self.resource_id, str):
            return self.resource_id
        if self.resource_id is None:
            said = _read_said("resource_id", configurable)
            if not said:
                return None
            ids = {place: str(value) for place, value in said.items() if value is not None}
            return _agree(ids) if ids else None
        try:
            found = self.resource_id(ensure_config(config))
        except Exception as error:
            if RUNTIME in configurable:
                raise
            found = configurable.get("resource_id")
            if found is None:
                msg = (
                    f"`resource_id` is a function, which failed outside a run: "
                    f"{type(error).__name__}: {error}; pass the id: "
                    f'{{"configurable": {{"thread_id": ..., "resource_id": ...}}}}'
                )
                raise ConfigurationError(msg) from error
        return None if found is None else str(found)

    def name_resource(self, config: RunnableConfig) -> str | None:
        """Tell whose thread a call outside of a run says it is; `None` where that is not told."""
        try:
            return self.find_resource(config)
        except ConfigurationError:  # a function that needs a run
            return None

    def warn_once(self, text: str, *arguments: Any) -> None:
        """Log a warning, unless this one was logged already."""
        if text not in self._warned:
            self._warned.add(text)
            logger.warning(text, *arguments)


def find_writer(config: RunnableConfig | None = None) -> Callable[[Any], object]:
    """Return what writes to the custom stream of the run around; to nowhere outside of one."""
    runtime: Any = read_configurable(config).get(RUNTIME)
    return getattr(runtime, "stream_writer", None) or (lambda _: None)


def _read_said(name: str, configurable: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run says of something, by where it is said, its context first."""
    said: dict[str, Any] = {}
    context: Any = getattr(configurable.get(RUNTIME), "context", None)
    if context is not None:
        is_mapping = isinstance(context, Mapping)
        value = context.get(name) if is_mapping else getattr(context, name, None)
        if value is not None:
            said[f'context["{name}"]'] = value
    if name in configurable:
        said[f'configurable["{name}"]'] = configurable[name]
    return said


def _read_flag(name: str, configurable: Mapping[str, Any], *, default: bool) -> bool:
    said = _read_said(name, configurable)
    if not said:
        return default
    return _agree({place: check_flag(place, value) for place, value in said.items()})


def _read_timezone(configurable: Mapping[str, Any]) -> tzinfo | None:
    said = _read_said("timezone", configurable)
    if not said:
        return None
    value = _agree(said)
    try:
        return read_zone(value)
    except ValueError as error:
        msg = (
            f"`{next(iter(said))}` is {value!r}; pass an IANA name such as 'America/New_York', "
            f"an offset such as '-05:00', or a tzinfo"
        )
        raise ConfigurationError(msg) from error


def read_configurable(config: RunnableConfig | None = None) -> Mapping[str, Any]:
    """Return what a run was configured with; flags are asked for several times in each step."""
    if config is not None:
        return ensure_config(config).get("configurable", {})
    around = var_child_runnable_config.get()
    return (around and around.get("configurable")) or {}


def _agree(said: Mapping[str, ValueT]) -> ValueT:
    """Return the one value that is said."""
    values = [*said.values()]
    if any(value != values[0] for value in values):
        shown = " and ".join(f"`{place}` is {value!r}" for place, value in said.items())
        msg = f"{shown}; pass one of them, or the same in both"
        raise ConfigurationError(msg)
    return values[0]


def _split_space(configurable: Mapping[str, Any]) -> list[str]:
    """Return the nodes around the agent, as LangGraph writes them into its checkpoints' space."""
    space = str(configurable.get("checkpoint_ns") or "")
    return [*filterfalse(str.isdigit, space.split("|")[:-1])]


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
        msg = f"`messages` holds something that LangChain can't read as a message: {error}"
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

    `convert_to_messages`, which reads other forms too, drops some of them.
    """
    if not isinstance(item, Mapping):
        return item
    kind = str(item.get("type"))
    if kind == "remove" and item.get("id"):
        return RemoveMessage(id=str(item["id"]))
    if kind in _CLASSES and "additional_kwargs" in item:
        return _CLASSES[kind].model_validate(dict(item))
    return item


# --- The record ----------------------------------------------------------------------------------


def record_of(state: Any) -> MemoryRecord:
    """Return the record in a state.

    Raises:
        ConfigurationError: When the state has no place for one.
    """
    record = read_stored_record(state)
    if record is None:
        msg = (
            "the state has no `om`, so memory cannot be seen here. In a node: add it to the "
            "builder before `add_observational_memory(builder, memory, before=...)`, or give it "
            "`input_schema` with a field `om: dict`. Outside the graph: use "
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
