"""Edits of the record by hand, in Studio or by `update_state`: which of them can be meant.

An edit merges by key. One that could not be read later is refused when it is made, by the name of
what is wrong with it. The rules are the types of the record themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from langgraph_om.core.wire import Group, LogChange, MemoryRecord
from langgraph_om.errors import ConfigurationError

_FORMS: Final = {str: "a text", int: "a whole number", NoneType: "None", bool: "True or False"}
_BRANCHES: Final = frozenset(change.__name__ for change in get_args(LogChange))
"""What pydantic puts into an error's path for a type of a union: no place in the value."""


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
    return get_type_hints(MemoryRecord)


@cache
def _adapter(key: str) -> TypeAdapter[Any]:
    return TypeAdapter(_types()[key])


def _explain(key: str, value: object, error: ValidationError) -> ConfigurationError:
    """Return an error that names the part of the value that is wrong, and what to pass."""
    wanted = f"pass {_describe(_types()[key])}"
    problem = error.errors(include_url=False, include_context=False)[0]
    path = "".join(f"[{step!r}]" for step in problem["loc"] if step not in _BRANCHES)
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
