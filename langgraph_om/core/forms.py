"""Forms of values that models keep up to date: a text after a template, or JSON after a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, cast

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from langgraph_om.core.content.text import sanitize
from langgraph_om.errors import ConfigurationError

# Merge updates into a value: objects deeply, `None` deletes, everything else replaces.
#
# A value is a JSON object, or the text of a template. Its leaves are all that is no object: an
# update of one leaf leaves every other one as it is, also when two conversations write at the
# same time.


Value = str | dict[str, Any] | None
"""A text, a JSON object, or nothing yet."""

Path = tuple[str, ...]
"""The keys that lead to a leaf; none for a text."""

_MISSING = object()


def merge(value: Any, patch: Any) -> Any:
    """Return a value with an update merged into it; neither of both is changed.

    Args:
        patch: A text, which replaces everything, or an object.
    """
    if not isinstance(patch, Mapping):
        return patch
    merged: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {}
    for key, given in patch.items():
        if given is None:
            merged.pop(key, None)
        elif isinstance(given, Mapping):
            inner = merged.get(key)
            merged[key] = merge(inner if isinstance(inner, Mapping) else {}, given)
        else:
            merged[key] = given
    return merged


def join(first: Any, second: Any) -> Any:
    """Return the update that does what one update does, and then another."""
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return second
    return {**first, **{key: join(first.get(key), given) for key, given in second.items()}}


def list_leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each leaf of a value with its path; an empty object below the top is a leaf too."""
    if isinstance(value, Mapping):
        if not value and path:
            yield path, {}
        for key, inner in value.items():
            yield from list_leaves(inner, (*path, key))
    elif value is not None or path:
        yield path, value


def find_at(value: Any, path: Path, default: Any = None) -> Any:
    """Return what stands at a path; the default where nothing does."""
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return default
        value = value[key]
    return value


def find_conflicts(patch: Any, known: Value, current: Value) -> list[Path]:
    """Return where an update would replace what its writer has not seen.

    Args:
        known: The value that its writer was shown.
    """
    conflicts = []
    for path, given in list_leaves(patch):
        there = find_at(current, path)
        if there not in (None, given) and there != find_at(known, path):
            conflicts.append(path)
    return conflicts


def write_path(path: Sequence[str | int]) -> str:
    """Write a path as `preferences.deadlines`."""
    return ".".join(map(str, path))


MAX_CHARACTERS = 20_000
"""A value is no longer than this, as it stands in prompts."""
MAX_DEPTH = 50
"""Levels of a JSON object."""
_INTEGER_BITS = 63
"""Of the largest integers that every store keeps, sign apart."""

_DEFINITIONS = ("$defs", "definitions")
"""Where a JSON Schema keeps what it refers to; a reference begins at the top of the whole."""


class InvalidError(ValueError):
    """A value that the form does not allow; the text names the field and says what is wrong."""


@dataclass(frozen=True)
class TemplateForm:
    """A text after a template."""

    template: str
    told: str = (
        "Markdown: the whole text anew, its headings and labels as they are, with all that "
        "still holds; what is not known stays blank."
    )
    """What a model is told of an update."""

    @property
    def json_schema(self) -> dict[str, Any]:
        """What an update is, as JSON Schema."""
        return {"type": "string", "description": self.told}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the tool, as JSON Schema."""
        told = "The whole text anew, Markdown, with all that is to be kept of the former one."
        return _build_arguments({"type": "string", "description": told})

    def read_patch(self, given: Any) -> str:
        """Read what a model wrote.

        Raises:
            InvalidError: When it is no text.
        """
        if not isinstance(given, str):
            msg = f"`memory` is {type(given).__name__}; write the whole text as a string"
            raise InvalidError(msg)
        return sanitize(given).strip()

    def check(self, value: Value) -> None:
        """Refuse a value that is too long.

        Raises:
            InvalidError: When it is.
        """
        _check_size(value if isinstance(value, str) else "")

    def write(self, value: Value) -> str:
        """Write a value as models are shown it; the template where there is none yet."""
        return value if isinstance(value, str) and value else self.template


@dataclass(frozen=True)
class SchemaForm:
    """A JSON object after a schema.

    Args:
        schema: A pydantic model, a TypedDict, a dataclass, or a JSON Schema as a mapping.
        told: What a model is told of the object beside that; `None`: nothing.

    Raises:
        ConfigurationError: When it is none of these, or describes no object.
    """

    schema: Any
    told: str | None = None

    def __post_init__(self) -> None:
        if self.json_schema.get("type") != "object":
            msg = _tell_of_schema(self.schema, "which doesn't describe an object")
            raise ConfigurationError(msg)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        try:
            return TypeAdapter(self.schema)
        except (PydanticUserError, TypeError, NameError) as error:
            msg = _tell_of_schema(self.schema, f"which pydantic cannot read ({_first_line(error)})")
            raise ConfigurationError(msg) from error

    @cached_property
    def _validator(self) -> Any:
        """What checks values against a JSON Schema."""
        try:
            from jsonschema.exceptions import SchemaError  # noqa: PLC0415 an extra
            from jsonschema.validators import validator_for  # noqa: PLC0415 the same
        except ImportError as error:
            msg = (
                "`schema` is a JSON Schema, which needs the package 'jsonschema'; install it with "
                "`pip install 'langgraph-om[jsonschema]'`, or pass a pydantic model"
            )
            raise ConfigurationError(msg) from error
        kind = validator_for(self.schema)
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            msg = _tell_of_schema(
                self.schema, f"which is not a valid JSON Schema ({error.message})"
            )
            raise ConfigurationError(msg) from error
        return kind(self.schema)

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The schema as JSON Schema."""
        more = {"description": self.told} if self.told else {}
        if isinstance(self.schema, Mapping):
            _ = self._validator
            return {**self.schema, **more}
        try:
            return {**self._adapter.json_schema(), **more}
        except PydanticUserError as error:
            msg = _tell_of_schema(self.schema, f"which has no JSON Schema ({_first_line(error)})")
            raise ConfigurationError(msg) from error

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the tool, as JSON Schema: no field is required of an update."""
        schema = _without_required(self.json_schema)
        definitions = {key: schema.pop(key) for key in _DEFINITIONS if key in schema}
        told = "Only what changes: objects are merged, lists are replaced, null deletes a field."
        return {**_build_arguments({**schema, "description": told}), **definitions}

    def read_patch(self, given: Any) -> dict[str, Any]:
        """Read what a model wrote, an object or its JSON.

        Raises:
            InvalidError: When it is no object, or holds what a store cannot keep.
        """
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except ValueError as error:
                msg = f"`memory` is not JSON: {error}"
                raise InvalidError(msg) from error
        if not isinstance(given, Mapping):
            msg = f"`memory` is {type(given).__name__}; write an object with the fields that change"
            raise InvalidError(msg)
        try:
            whole = json.loads(json.dumps(given))
        except (TypeError, ValueError, RecursionError) as error:
            msg = f"`memory` has a value that JSON can't represent: {error}"
            raise InvalidError(msg) from error
        return cast("dict[str, Any]", _clean(whole))

    def check(self, value: Value) -> None:
        """Refuse a value that the schema does not allow, or that is too long.

        Raises:
            InvalidError: When it does not; every field that is wrong is named.
        """
        whole = value if isinstance(value, dict) else {}
        text = self.write(whole)
        _check_size(text)
        if isinstance(self.schema, Mapping):
            errors = [*self._validator.iter_errors(whole)]
            problems = [(error.absolute_path, error.message) for error in errors]
        else:
            problems = self._find_problems(whole)
        if problems:
            raise InvalidError("; ".join(_tell_problem(*problem) for problem in problems[:5]))

    def _find_problems(self, whole: dict[str, Any]) -> list[tuple[Sequence[str | int], str]]:
        """Find what pydantic refuses, and fields that it would silently leave out."""
        try:
            read = self._adapter.validate_json(json.dumps(whole))
        except ValidationError as error:
            found = error.errors(include_url=False)
            return [(problem["loc"], problem["msg"]) for problem in found]
        kept = self._adapter.dump_python(read, mode="json", by_alias=True)
        return [
            (path, "there is no such field")
            for path, _ in list_leaves(whole)
            if find_at(kept, path, _MISSING) is _MISSING
        ]

    def write(self, value: Value) -> str:
        """Write a value as models are shown it."""
        return json.dumps(value or {}, ensure_ascii=False, indent=2)


Form = TemplateForm | SchemaForm


def _tell_of_schema(schema: Any, reason: str) -> str:
    return (
        f"`schema` is {schema!r}, {reason}; pass a pydantic model, a TypedDict, a dataclass or a "
        'JSON Schema with `"type": "object"`'
    )


def _clean(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    """Return a JSON value that every store can keep: databases refuse some of what JSON can say."""
    if len(path) > MAX_DEPTH:
        msg = f"`memory` has more than {MAX_DEPTH} levels; nest it less"
        raise InvalidError(msg)
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, dict):
        return {sanitize(key): _clean(inner, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner, (*path, at)) for at, inner in enumerate(value)]
    if isinstance(value, float) and not isfinite(value):
        raise InvalidError(_tell_problem(path, f"{value} is not a number in JSON"))
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        raise InvalidError(_tell_problem(path, "the number is too large; write it as a string"))
    return value


def _build_arguments(memory: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"memory": memory}, "required": ["memory"]}


def _without_required(schema: Any) -> Any:
    """Return a JSON Schema that asks for no field, at any depth."""
    if isinstance(schema, Mapping):
        return {
            key: _without_required(inner)
            for key, inner in schema.items()
            # A property may be called `required`: its value is an object then.
            if not (key == "required" and isinstance(inner, list))
        }
    return [_without_required(item) for item in schema] if isinstance(schema, list) else schema


def _check_size(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        msg = (
            f"it would have {len(text)} characters, and {MAX_CHARACTERS} is the most; shorten or "
            f"leave out what matters least"
        )
        raise InvalidError(msg)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _tell_problem(path: Sequence[str | int], message: str) -> str:
    return f"`{write_path(path)}`: {message}" if path else message
