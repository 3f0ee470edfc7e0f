"""How values stand in the database: texts, times and JSON that come back as they were, or not in.

PostgreSQL takes neither NUL characters nor lone surrogates, and SQLite no lone surrogates; all
text is therefore escaped: JSON to ASCII, ids and titles by `EscapedText`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from sqlalchemy import BigInteger, Dialect, Text
from sqlalchemy.types import TypeDecorator

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
        del dialect
        return None if value is None else _UNSAFE.sub(_escape_character, value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo the escape."""
        del dialect
        return None if value is None else _ESCAPE.sub(_unescape_sequence, value)


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
        del dialect
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the time in UTC."""
        del dialect
        return None if value is None else _EPOCH + value * _MICROSECOND


# --- Arguments -----------------------------------------------------------------------------------


def check_name(option: str, value: object) -> None:
    """Refuse a name that is no text or empty.

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


def check_count(option: str, value: int) -> None:
    """Refuse a negative count.

    Raises:
        ConfigurationError: When it is negative.
    """
    if value < 0:
        msg = f"`{option}` is {value!r}; pass 0 or more"
        raise ConfigurationError(msg)


def check_seconds(option: str, value: float) -> None:
    """Refuse a time span that is no finite number of seconds, or negative.

    Raises:
        ConfigurationError: When it is.
    """
    if not math.isfinite(value) or value < 0:
        msg = f"`{option}` is {value!r}; pass seconds, 0 or more"
        raise ConfigurationError(msg)


# --- JSON ----------------------------------------------------------------------------------------

_MAX_LEVELS = 200
"""Deeper values might be written, and not be read by a caller that is itself deep in calls."""


def encode_json(what: str, value: Mapping[str, Any]) -> str:
    """Write JSON in ASCII.

    Args:
        what: What the value is, for the message of an error.
        value: JSON values; tuples come back as lists.

    Raises:
        ConfigurationError: When it would not come back as it was.
    """
    try:
        return _encode_strictly(dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        field = next((key for key, item in value.items() if _is_refused({key: item})), "?")
        msg = f"`{field}` of {what} is not JSON ({_take_first_line(error)}); pass JSON values"
        raise ConfigurationError(msg) from error


def encode_message(key: str, message: BaseMessage) -> str:
    """Write a message as JSON in ASCII.

    Raises:
        ConfigurationError: When it would not come back as it was; names the message and the field.
    """
    try:
        data = message_to_dict(message)
        text = _encode_strictly(data)
        if message.type not in {"human", "ai", "tool", "system"}:
            messages_from_dict([data])
    except (TypeError, ValueError, RecursionError) as error:
        names = [*type(message).model_fields, *(message.model_extra or ())]
        field = next((name for name in names if _is_field_refused(message, name)), "type")
        msg = (
            f"`{field}` of the message {key!r} cannot be archived "
            f"({_take_first_line(error)}); pass JSON values"
        )
        raise ConfigurationError(msg) from error
    return text


def decode_message(key: str, body: str) -> BaseMessage:
    """Read a message.

    Raises:
        ArchiveError: When another version wrote what this one cannot read.
    """
    try:
        return messages_from_dict([json.loads(body)])[0]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        msg = f"the archive holds a message {key!r} that cannot be read: {_take_first_line(error)}"
        raise ArchiveError(msg) from error


def _encode_strictly(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":"))
    _check_values(value)
    return text


def _check_values(value: Mapping[str, Any]) -> None:
    """Refuse mappings whose keys JSON would turn into text, and values that are nested too deep.

    Raises:
        TypeError: When a key is no text.
        ValueError: When a value is nested too deep.
    """
    level: list[Any] = [value]
    for _ in range(_MAX_LEVELS):
        for item in level:
            if isinstance(item, dict) and (odd := [k for k in item if not isinstance(k, str)]):
                msg = f"the key {odd[0]!r} is no text"
                raise TypeError(msg)
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [v for values in inner for v in values if isinstance(v, dict | list | tuple)]
        if not level:
            return
    msg = f"it is nested deeper than {_MAX_LEVELS} levels"
    raise ValueError(msg)


def _is_refused(value: Mapping[str, Any]) -> bool:
    try:
        _encode_strictly(value)
    except (TypeError, ValueError, RecursionError):
        return True
    return False


def _is_field_refused(message: BaseMessage, field: str) -> bool:
    try:
        return _is_refused(message.model_dump(include={field}))
    except (TypeError, ValueError, RecursionError):
        return True


def _take_first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
