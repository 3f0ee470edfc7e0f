"""The schemas of a graph under construction: what its nodes see, and what its input may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, is_dataclass, make_dataclass, replace
from functools import partial
from typing import Any, cast, get_type_hints

from langgraph.graph import START, StateGraph
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

Builder = StateGraph[Any, Any, Any, Any]


def typed_dict(name: str, fields: Mapping[str, Any]) -> Any:
    """Make a TypedDict of fields that are known only at run time."""
    make: Any = TypedDict
    return make(name, dict(fields))


def show_channels(builder: Builder, name: str, channels: Mapping[str, Any]) -> None:
    """Let a node of the user see channels beside what it sees already.

    Args:
        builder: The graph, which has the channels.
        name: The node.
        channels: Keys of the state, with their types.
    """
    spec = builder.nodes[name]
    seen = builder.schemas.get(spec.input_schema, {})
    new = {key: kind for key, kind in channels.items() if key not in seen}
    if not new:
        return
    schema = _extend(spec.input_schema, new)
    # Adding the node anew is the public way to make a schema known to the builder.
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
    """Take channels into the graph's input; a schema that is a class of its own has to name them.

    Args:
        builder: The graph, which has the channels.
        channels: Keys of the state, with their types.
    """
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
