"""Define the reducer of a `messages` channel that is stored as deltas.

It returns what LangGraph's `add_messages` returns, in the batched form that a `DeltaChannel` needs,
with two differences that replay requires: a message without an id gets one derived from its place
and content instead of a random one, and removing a message that is not there is not an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, is_dataclass, make_dataclass, replace
from functools import partial
from operator import is_
from typing import Any, TypeAlias, cast, get_type_hints

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.channels.base import BaseChannel
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

from langgraph_om.core.content.message_keys import content_digest, derive_id, find_others
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.run import restore_message

MEMORY_SNAPSHOTS = 50
"""After how many updates the `om` channel is stored whole, where LangGraph does it after 100.

Messages have two updates for each of `om`: the user's or a tool's, and the Actor's. A load walks
back until it has both channels, past whole conversations where memory's snapshot is the older one.
"""

REMOVE_ALL = "__remove_all__"
"""The id with which a `RemoveMessage` clears the conversation (LangGraph's `REMOVE_ALL_MESSAGES`).
"""


def messages_reducer(state: Sequence[AnyMessage] | None, updates: Sequence[Any]) -> list[Any]:
    """Merge updates into a conversation, in order.

    Args:
        state: The conversation so far; it is not changed.
        updates: Messages or lists of messages, in any form that LangChain reads.

    Returns:
        The conversation: a message with a known id replaces the old one in place, others are
        appended.
    """
    merged: list[BaseMessage | None]
    places: dict[str, int]
    merged, places = _read_state(state or [])
    has_gaps = False
    for update in updates:
        removed: set[str] = set()
        for message in _read_update(update):
            if isinstance(message, RemoveMessage):
                if message.id == REMOVE_ALL:
                    merged, places, removed = [], {}, set()
                elif message.id in places:
                    removed.add(message.id)
            elif message.id in places:
                removed.discard(message.id)
                merged[places[message.id]] = message
            else:
                added = message if message.id else _add_id(message, len(places), places)
                places[str(added.id)] = len(merged)
                merged.append(added)
        for key in removed:
            merged[places.pop(key)] = None
            has_gaps = True
    if has_gaps:
        return [message for message in merged if message is not None]
    return _PlacedList(merged, places)


class _PlacedList(list[Any]):
    """A conversation that carries the places of its ids, so that the next update need not look."""

    __slots__ = ("_places", "_seen")

    def __init__(
        self, messages: Sequence[Any], places: dict[str, int], seen: Sequence[Any] | None = None
    ) -> None:
        super().__init__(messages)
        self._places = places
        self._seen = messages if seen is None else seen
        """The messages of these places, in a list that nobody else has."""

    def read_places(self) -> dict[str, int] | None:
        """Return the places; `None` when somebody has changed the list since."""
        is_same = len(self) == len(self._seen) and all(map(is_, self, self._seen))
        return dict(self._places) if is_same else None

    def __copy__(self) -> list[Any]:
        """Copy it as channels do in each step; what was changed since is found when it is read."""
        return _PlacedList(self, self._places, self._seen)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave what is only good for speed out of copies and files."""
        return list, (list(self),)


def _add_id(message: BaseMessage, number: int, taken: Mapping[str, int]) -> BaseMessage:
    """Return the message with an id from its place and content, which replay derives again.

    The message itself keeps none: an edge reads the state with the writes of one task alone, where
    equal messages of two tasks have one place.
    """
    key = derive_id("message", number, content_digest(message))
    while key in taken:
        key = f"{key}+"
    return message.model_copy(update={"id": key})


def _read_state(state: Sequence[Any]) -> tuple[list[BaseMessage | None], dict[str, int]]:
    """Return the conversation so far as messages, and the place of each id.

    A server may pass it as JSON values.
    """
    places = state.read_places() if isinstance(state, _PlacedList) else None
    if places is not None:
        return list(state), places
    is_read = all(isinstance(state[at], BaseMessage) for at in find_others(state))
    messages = list(state) if is_read else _read_update(list(state))
    return [*messages], {message.id: at for at, message in enumerate(messages) if message.id}


def _read_update(update: Any) -> list[BaseMessage]:
    if update is None:
        return []
    items = update if isinstance(update, list) else [update]
    if not find_others(items):  # nothing to convert, as nearly always
        return items
    messages = convert_to_messages([*map(restore_message, items)])
    return [*map(message_chunk_to_message, messages)]


# --- Channels of users ---------------------------------------------------------------------------


def check_removal(channel: BaseChannel[Any, Any, Any], messages_key: str, option: str) -> None:
    """Check that messages can be removed from a channel; most reducers would append the request.

    Raises:
        ConfigurationError: When they cannot.
    """
    probe = HumanMessage("probe", id="om-probe")
    try:
        tried = channel.from_checkpoint([probe])
        tried.update([[RemoveMessage(id="om-probe")]])
        is_removed = not tried.get()
    except Exception:  # noqa: BLE001 a reducer of the user, which may raise anything
        is_removed = False
    if is_removed:
        return
    msg = (
        f"`{option}` is True, and the reducer of the state's `{messages_key}` does not know "
        f"`RemoveMessage`, so messages can't be removed; use `add_messages` from "
        f"`langgraph.graph.message`, as in `Annotated[list, add_messages]`, or omit `{option}`"
    )
    raise ConfigurationError(msg)


# The schemas of a graph under construction: what its nodes see, and what its input may hold.


Builder: TypeAlias = StateGraph[Any, Any, Any, Any]


def typed_dict(name: str, fields: Mapping[str, Any]) -> Any:
    """Make a TypedDict of fields that are known only at run time."""
    make: Any = TypedDict
    return make(name, dict(fields))


def show_channels(builder: Builder, name: str, channels: Mapping[str, Any]) -> None:
    """Let a node of the user see channels beside what it sees already."""
    spec = builder.nodes[name]
    seen = builder.schemas.get(spec.input_schema, {})
    new = {key: kind for key, kind in channels.items() if key not in seen}
    if not new:
        return
    schema = _extend(spec.input_schema, new)
    # Adding the node again is the public way to give the builder a schema.
    del builder.nodes[name]
    builder.add_node(name, spec.runnable, input_schema=schema)
    builder.nodes[name] = replace(spec, input_schema=schema)


def _extend(schema: Any, channels: Mapping[str, Any]) -> Any:
    """Extend a state schema of any kind by fields, which are empty where nothing was written."""
    name = f"{schema.__name__}WithMemory"
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        added: Any = {key: (Any, _blank(kind)) for key, kind in channels.items()}
        return create_model(name, __base__=schema, **added)
    if is_dataclass(schema):
        entries: Any = [
            (key, Any, field(default_factory=partial(_blank, kind), kw_only=True))
            for key, kind in channels.items()
        ]
        return make_dataclass(name, entries, bases=(cast("type", schema),))
    hints = get_type_hints(schema, include_extras=True)
    return typed_dict(name, {**hints, **channels})


def _blank(kind: Any) -> Any:
    return "" if kind is str else {}


def keep_out_of_input(builder: Builder, key: str) -> None:
    """Take a key out of the graph's input: a client that echoes state back changes nothing."""
    known = builder.schemas[builder.input_schema]
    if key not in known:
        return
    hints = get_type_hints(builder.input_schema, include_extras=True)
    narrowed = typed_dict(
        f"{builder.input_schema.__name__}Input",
        {name: hint for name, hint in hints.items() if name != key},
    )
    builder.schemas[narrowed] = {name: kept for name, kept in known.items() if name != key}
    builder.input_schema = narrowed


def keep_updates(builder: Builder, key: str) -> None:
    """Let `update_state` write a key wherever a run stands; call after `keep_out_of_input`.

    LangGraph takes an update for one of the node that ran last. Before a run, and where the first
    node has failed, that is `__start__`, which drops the keys that the graph's input lacks. So
    `__start__` may write this key, and the input of a run is stripped of it.
    """
    compile_graph = builder.compile

    def compile_with_key(*args: Any, **options: Any) -> Any:
        graph, known = compile_graph(*args, **options), builder.schemas[builder.input_schema]
        start = graph.nodes[START]
        builder.schemas[builder.input_schema] = {**known, key: builder.channels[key]}
        try:
            graph.attach_node(START, None)
        finally:
            builder.schemas[builder.input_schema] = known
        write_keys, *_ = graph.nodes[START].writers
        graph.nodes[START] = start.copy(
            {"writers": [write_keys, *start.writers[1:]], "mapper": partial(_drop, key)}
        )
        return graph

    builder.compile = compile_with_key  # type: ignore[method-assign]


def _drop(key: str, given: Any) -> Any:
    if not isinstance(given, Mapping) or key not in given:
        return given
    return {name: value for name, value in given.items() if name != key}


def put_into_input(builder: Builder, channels: Mapping[str, Any]) -> None:
    """Take channels into the graph's input; a schema that is a class has to name them itself."""
    schema = builder.input_schema
    known = builder.schemas[schema]
    new = {key: kind for key, kind in channels.items() if key not in known}
    is_class = is_dataclass(schema) or (isinstance(schema, type) and issubclass(schema, BaseModel))
    if not new or is_class:
        return
    hints = get_type_hints(schema, include_extras=True)
    widened = typed_dict(f"{schema.__name__}WithMemory", {**hints, **new})
    builder.schemas[widened] = {**known, **{key: builder.channels[key] for key in new}}
    builder.input_schema = widened
