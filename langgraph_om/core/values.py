"""Values that others put in a message are read without raising, whatever they hold."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

UNREADABLE: Final = "[unreadable]"
OMITTED: Final = "[omitted]"

# Base64 or its URL-safe form, in one run or in long lines. Possessive, hence linear.
_ENCODED = re.compile(r"(?:[A-Za-z0-9+/_-]{40,}+\r?\n)*+[A-Za-z0-9+/_-]*+={0,2}\s*+")
_ENCODED_MIN_LENGTH: Final = 256  # a shorter one may be a word or an id
_DATA_URI = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)


def json_text(value: object) -> str:
    """Return a text as it is and any other value as compact JSON, or as close as it gets."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    except Exception:  # noqa: BLE001  (recursive, too deep, odd keys, a failing `__str__`)
        return repr_text(value)


def repr_text(value: object) -> str:
    """Return the `repr` of a value, or a note when it has none."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (counting must not raise for what a caller put in a message)
        return UNREADABLE


def json_without_payloads(value: object) -> tuple[str, int]:
    """Return the JSON text of a value without binary data, and how many payloads were left out."""
    payloads: list[str] = []
    try:
        return json_text(_readable(value, payloads, frozenset())), len(payloads)
    except Exception:  # noqa: BLE001  (nested too deep to be walked: count it as one attachment)
        return UNREADABLE, 1


def _readable(value: object, payloads: list[str], parents: frozenset[int]) -> object:
    if isinstance(value, str) and not _is_encoded(value):
        return value
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        payloads.append(OMITTED)
        return OMITTED
    if not isinstance(value, (Mapping, list, tuple)):
        return value
    if id(value) in parents:
        return OMITTED
    parents |= {id(value)}
    if not isinstance(value, Mapping):
        return [_readable(item, payloads, parents) for item in value]
    # Encrypted fields mean nothing to a reader: they are noted, not estimated.
    return {
        key: OMITTED if _is_encrypted(key) else _readable(item, payloads, parents)
        for key, item in value.items()
    }


def _is_encrypted(key: object) -> bool:
    return isinstance(key, str) and ("encrypted" in key or "signature" in key.lower())


def _is_encoded(text: str) -> bool:
    if len(text) <= _ENCODED_MIN_LENGTH:
        return _DATA_URI.match(text) is not None
    return (_DATA_URI.match(text) or _ENCODED.fullmatch(text)) is not None


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_sequence(value: object) -> Sequence[Any]:
    """Return a list or tuple as it is, and an empty one for anything else."""
    return value if isinstance(value, (list, tuple)) else ()
