"""How values stand in the tables, so that they come back as they were.

PostgreSQL takes neither NUL characters nor lone surrogates, and SQLite no lone surrogates; all text
is therefore escaped: JSON to ASCII, ids and titles by `EscapedText`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from langchain_core.messages import BaseMessage, messages_from_dict
from sqlalchemy import BigInteger, Dialect, Text
from sqlalchemy.types import TypeDecorator

from langgraph_om.core.content.text import LARGE_INTEGER_BITS, write_repr, write_short_json
from langgraph_om.errors import ArchiveError, ConfigurationError

# --- Column types --------------------------------------------------------------------------------

_UNSAFE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|0|u[0-9a-f]{4})")


class EscapedText(TypeDecorator[str]):
    r"""Text in which a backslash starts `\\`, `\0` (NUL) or `\ud800` (a lone surrogate)."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape."""
        return None if value is None else escape_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo the escape."""
        return None if value is None else _ESCAPE.sub(_unescape_sequence, value)


def escape_text(value: str) -> str:
    """Return a text as `EscapedText` stores it."""
    return _UNSAFE.sub(_escape_character, value)


def _escape_character(match: re.Match[str]) -> str:
    character = match[0]
    return {"\\": "\\\\", "\x00": "\\0"}.get(character) or f"\\u{ord(character):04x}"


def _unescape_sequence(match: re.Match[str]) -> str:
    code = match[1]
    return {"\\": "\\", "0": "\x00"}.get(code) or chr(int(code[1:], 16))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Moment(TypeDecorator[datetime]):
    """A time as microseconds since 1970, which both databases compare alike."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Count microseconds."""
        return None if value is None else store_moment(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the time in UTC."""
        return None if value is None else read_moment(value)


def store_moment(value: datetime) -> int:
    """Return a time as `Moment` stores it."""
    return (value - _EPOCH) // _MICROSECOND


def read_moment(stored: int) -> datetime:
    """Return the time, in UTC, that `store_moment` has stored."""
    return _EPOCH + stored * _MICROSECOND


# --- Arguments -----------------------------------------------------------------------------------


def check_name(option: str, value: object) -> None:
    """Refuse a name that is no text or empty; pydantic would refuse lone surrogates too.

    Raises:
        ConfigurationError: When it cannot name anything.
    """
    if not isinstance(value, str) or not value:
        msg = f"`{option}` is {value!r}; pass a text that is not empty"
        raise ConfigurationError(msg)


def check_time(option: str, value: datetime | None) -> None:
    """Refuse a time that could mean any of several moments.

    Raises:
        ConfigurationError: When it has no timezone.
    """
    if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
        msg = f"`{option}` is {value!r}; pass a datetime with a timezone, as `datetime.now(UTC)`"
        raise ConfigurationError(msg)


# --- JSON ----------------------------------------------------------------------------------------

MAX_LEVELS: Final = 50
"""How deep values may be nested in a message: one that is read deep in calls has to come back."""
OUTLINE_CHARACTERS: Final = 2000
"""About how much is told of a value that stands deeper."""


def encode_json(value: Mapping[str, Any]) -> str:
    """Write JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"))


def encode_message(message: BaseMessage) -> str:
    """Write a message as JSON in ASCII, with text for what is no JSON value.

    A class of somebody's own becomes the nearest one of langchain's. An artifact that is no JSON
    value is left out: it was made for the program, not to be read.
    """
    try:
        fields = message.model_dump()
    except (TypeError, ValueError, RecursionError):  # a value of any type may refuse
        fields = dict(message)
    if "artifact" in fields and not _is_json(fields["artifact"]):
        fields["artifact"] = None
    fields["content"] = "" if fields["content"] is None else fields["content"]
    known: Any = next(
        kind
        for kind in type(message).__mro__
        if kind.__module__.startswith("langchain_core.messages.")
    )
    fields["type"] = known.model_fields["type"].default
    if not isinstance(fields["type"], str):  # of no class but `BaseMessage`
        fields |= {"type": "chat", "role": message.type}
    return encode_json({"type": fields["type"], "data": _to_json(fields, frozenset())})


def decode_message(key: str, body: str) -> BaseMessage:
    """Read a message.

    Raises:
        ArchiveError: When another version wrote what this one cannot read.
    """
    try:
        return messages_from_dict([json.loads(body)])[0]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        msg = f"the archive holds a message {key!r} that cannot be read: {reason}"
        raise ArchiveError(msg) from error


def _to_json(value: object, parents: frozenset[int]) -> Any:
    """Return the JSON value nearest to a value; what is nested too deep is outlined as text."""
    if isinstance(value, int) and value.bit_length() >= LARGE_INTEGER_BITS:
        return "[large integer]"
    if value is None or isinstance(value, str | int | float):
        return value
    if not isinstance(value, dict | list | tuple):
        return write_repr(value) if isinstance(value, bytes) else _to_text(value)
    if len(parents) >= MAX_LEVELS or id(value) in parents:
        return write_short_json(value, OUTLINE_CHARACTERS)
    inside = parents | {id(value)}
    if isinstance(value, dict):
        return {_to_text(key): _to_json(each, inside) for key, each in value.items()}
    return [_to_json(each, inside) for each in value]


def _to_text(value: object) -> str:
    """Return the text of a key or value that JSON does not have."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 a value of any type may refuse
        return write_repr(value)


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
