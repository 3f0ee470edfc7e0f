"""Fold events into the record: the only code that changes memory, and the channel's reducer.

Rules of this file, and of the reducers of each type of event, in `reducers`:

1. Everything that changes memory is an event, and `fold` is where events take effect.
2. `fold` is deterministic, never mutates what it is given, and
   `fold(fold(r, xs), ys) == fold(r, xs + ys)`, so it serves as the reducer of either kind of
   channel.
3. An event that was folded already, or that was computed from memory that has moved on since,
   changes nothing: observations name the cursor they continue, reflections the groups they read.
   The cursor never moves back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, cast, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from langgraph_om.core.additions import (
    added_operations,
    added_reducers,
    added_types,
    run_beside,
)
from langgraph_om.core.record.record import check_version, complete_record
from langgraph_om.core.record.reducers import (
    Draft,
    activate,
    end_buffering,
    fail_buffering,
    finish_cycle,
    note_failure,
    note_step,
    note_windows,
    open_record,
    set_counts,
    start_buffering,
    trip,
    waive,
)
from langgraph_om.core.wire import Event, Group, MemoryRecord
from langgraph_om.errors import ConfigurationError

# Edits of the record by hand, in Studio or by `update_state`: which of them can be meant.
#
# An edit merges by key. One that could not be read later is refused when it is made, by the name
# of what is wrong with it. The rules are the types of the record themselves.


_FORMS: Final = {str: "a text", int: "a whole number", NoneType: "None", bool: "True or False"}
_BY_OPERATION: Final = frozenset({"pending", "attempts", "usage"})
"""Keys with a value for each kind of work."""


def check_edit(edit: Mapping[Any, Any]) -> None:
    """Refuse an edit that cannot be meant.

    Args:
        edit: Keys of the record with their new values.

    Raises:
        ConfigurationError: For an unknown key, a value of another type, or a missing part.
    """
    types = _types()
    for key, value in edit.items():
        if key not in types:
            known = ", ".join(sorted(types))
            msg = f"an update of `om` has the key {str(key)!r}; the keys of a record are {known}"
            raise ConfigurationError(msg)
        try:
            _adapter(key).validate_python(value, strict=True)
        except ValidationError as error:
            raise _explain(key, value, error) from None
        operations = {"observation", "reflection", *added_operations()}
        if key in _BY_OPERATION and not operations.issuperset(value):
            wanted = ", ".join(sorted(operations))
            msg = f"`om.{key}` has the keys {', '.join(sorted(value))}; those of it are {wanted}"
            raise ConfigurationError(msg)


def estimate_edited(former: Sequence[Group], edited: Sequence[Group]) -> list[Group]:
    """Return an edited log in which a group of another length has about the tokens of that."""
    known = {group["id"]: group for group in former}

    def estimate(group: Group) -> Group:
        old = known.get(group["id"])
        if old is None or old["text"] == group["text"] or old["tokens"] != group["tokens"]:
            return group
        tokens = round(old["tokens"] * len(group["text"]) / max(1, len(old["text"])))
        return {**group, "tokens": max(tokens, len(group["text"]) // 4)}

    return [estimate(group) for group in edited]


def check_record(record: Mapping[Any, Any]) -> None:
    """Refuse a record that cannot be read; keys that are not of this version are passed over.

    Raises:
        ConfigurationError: For a value of another type, or a missing part.
    """
    check_edit({key: value for key, value in record.items() if key in _types()})


@cache
def _types() -> Mapping[str, Any]:
    """Return the type of each key of the record."""
    return {**get_type_hints(MemoryRecord), **added_types()}


def _branches() -> frozenset[str]:
    """Return what pydantic puts into a path for types of a union: no places in the value."""
    lists = (get_args(kind)[0] for kind in _types().values() if get_origin(kind) is list)
    kinds = (kind for entry in lists for kind in get_args(entry) if is_typeddict(kind))
    return frozenset(kind.__name__ for kind in kinds)


@cache
def _adapter(key: str) -> TypeAdapter[Any]:
    return TypeAdapter(_types()[key])


def _explain(key: str, value: object, error: ValidationError) -> ConfigurationError:
    """Return an error that names the part of the value that is wrong, and what to pass."""
    wanted = f"pass {_describe(_types()[key])}"
    problem = error.errors(include_url=False, include_context=False)[0]
    path = "".join(f"[{step!r}]" for step in problem["loc"] if step not in _branches())
    if not path:
        return ConfigurationError(f"`om.{key}` is {value!r}; {wanted}")
    if problem["type"] == "missing":
        return ConfigurationError(f"`om.{key}{path}` is missing; {wanted}")
    return ConfigurationError(f"`om.{key}{path}` is {problem['input']!r}; {wanted}")


def _describe(annotation: Any) -> str:
    """Return in words what a type of the record allows."""
    origin, args = get_origin(annotation), get_args(annotation)
    if is_typeddict(annotation):
        return f"a mapping with {', '.join(get_type_hints(annotation))}"
    if origin is list:
        return f"a list of {_describe_entries(args[0])}"
    if origin is dict:
        return f"a mapping from {_describe(args[0])} to {_describe(args[1])}"
    if origin is UnionType:
        none_first = sorted(args, key=lambda one: one is not NoneType)
        return " or ".join(_describe(one) for one in none_first)
    return " or ".join(map(repr, args)) if origin is Literal else _FORMS[annotation]


def _describe_entries(annotation: Any) -> str:
    kinds = [f"{kind.__name__.lower()}s" for kind in get_args(annotation)]
    if kinds:
        return " or ".join(kinds)
    if not is_typeddict(annotation):
        return "texts"
    keys = ", ".join(get_type_hints(annotation))
    return f"{annotation.__name__.lower()}s, each with {keys}"


def fold(record: Mapping[str, Any] | None, updates: Sequence[Any]) -> MemoryRecord:
    """Apply updates in order, as the reducer of the `om` channel.

    Args:
        record: The memory so far; empty or `None` for a new thread.
        updates: Each a list of events, one event (a mapping with `type`), or a mapping of record
            keys, which is merged by key (a manual edit).

    Returns:
        The new record; the given one is unchanged.

    Raises:
        ConfigurationError: When an update is none of these.
    """
    draft = cast("MemoryRecord", Draft(complete_record(record)))
    for update in updates:
        for event in update if isinstance(update, list | tuple) else [update]:
            _apply(draft, event)
    return cast("MemoryRecord", dict(draft))


def fold_one(record: Mapping[str, Any] | None, update: object) -> MemoryRecord:
    """Apply one update, as a plain LangGraph reducer."""
    return fold(record, [update])


def _apply(record: MemoryRecord, event: object) -> None:
    if event is None:
        return
    if not isinstance(event, Mapping):
        msg = (
            f"an update of `om` is {event!r}; pass an event, a mapping of record keys, or "
            f"LangGraph's `Overwrite` to replace the whole record"
        )
        raise ConfigurationError(msg)
    if "type" in event:
        kind = str(event["type"])
        reducer = _REDUCERS.get(kind) or added_reducers().get(kind)
        if reducer is not None:
            reducer(record, event)
        elif kind not in added_reducers():
            msg = f"an update of `om` has the unknown event type {event['type']!r}"
            raise ConfigurationError(msg)
        return
    check_version("`om.version`", event)
    check_edit(event)
    if record["id"] and event.get("id", record["id"]) != record["id"]:
        return  # the memory of another agent, such as a subagent whose state is merged into this
    run_beside("edited", record, event)
    if "log" in event:
        event = {**event, "log": estimate_edited(record["log"], event["log"])}
    record.update(cast("MemoryRecord", event))
    cast("Draft", record).owns_counts = False


def _ignore(record: MemoryRecord, event: Event) -> None:
    """Change nothing; the event is only streamed."""


_REDUCERS: dict[str, Callable[[MemoryRecord, Any], None]] = {
    "opened": open_record,
    "counted": set_counts,
    "stepped": note_step,
    "windows": note_windows,
    "observation-end": finish_cycle,
    "observation-failed": note_failure,
    "buffering-start": start_buffering,
    "buffering-end": end_buffering,
    "buffering-failed": fail_buffering,
    "activation": activate,
    "observation-start": _ignore,
    "extracted": _ignore,
    "status": _ignore,
    "view-trimmed": _ignore,
    "tripped": trip,
    "tripwire": _ignore,
    "waived": waive,
}

_FOLDED = frozenset(kind for kind, reducer in _REDUCERS.items() if reducer is not _ignore)


def is_folded(event: Event) -> bool:
    """Return whether an event changes memory and therefore goes into the channel."""
    kind = event["type"]
    return kind in _FOLDED or added_reducers().get(kind) is not None
