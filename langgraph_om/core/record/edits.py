"""Edits of the record by hand, in Studio or by `update_state`: which of them can be meant.

An edit merges by key. One that could not be read later is refused when it is made, by the name of
what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langgraph_om.errors import ConfigurationError

_TEXT: Final = ((str,), "a text")
_TEXT_OR_NONE: Final = ((str, type(None)), "a text or None")
_NUMBER: Final = ((int,), "a whole number")

_FORMS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "version": _NUMBER,
    "id": _TEXT,
    "thread_id": _TEXT,
    "resource_id": _TEXT_OR_NONE,
    "scope": _TEXT,
    "generation": _NUMBER,
    "log": ((list,), "a list of groups"),
    "cursor": ((list,), "a list of message ids"),
    "chunks": ((list,), "a list of chunks"),
    "reflection": ((dict, type(None)), "None or a mapping"),
    "pending": ((dict,), "a mapping by operation"),
    "current_task": _TEXT_OR_NONE,
    "suggested_response": _TEXT_OR_NONE,
    "thread_title": _TEXT_OR_NONE,
    "stamps": ((dict,), "a mapping from message ids to ISO times"),
    "token_cache": ((dict,), "a mapping"),
    "turn": ((dict,), "a mapping"),
    "attempts": ((dict,), "a mapping by operation"),
    "usage": ((dict,), "a mapping by operation"),
    "others": ((list,), "a list of mappings, one per thread"),
    "revision": _NUMBER,
    "outbox": ((list,), "a list of changes of the shared log"),
    "tripwire": ((dict, type(None)), "None or a mapping"),
    "archived": _TEXT_OR_NONE,
    "evicted": _TEXT_OR_NONE,
    "evicted_tokens": _NUMBER,
    "deletion": _NUMBER,
    "floor": ((dict,), "a mapping"),
}
"""Per key of the record, the types that its value may have, and what that is."""

_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "log": ("id", "kind", "ranges", "thread_id", "observed_at", "text", "tokens"),
    "chunks": ("id", "cycle_id", "ranges", "thread_id", "text", "tokens", "digest", "created_at"),
    "pending": ("cycle_id", "at", "tokens", "covers"),
    "attempts": ("failures", "at_tokens", "retry_at_tokens"),
}
"""Per key that holds several mappings, the keys that each of them must have."""

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "reflection": ("cycle_id", "group_ids", "groups", "input_tokens", "tokens"),
    "token_cache": ("counter", "counts"),
    "turn": ("request", "step"),
    "tripwire": ("reason", "last_message"),
    "floor": ("message", "starts"),
}
"""Per key that holds one mapping, the keys that it must have."""


def check_edit(edit: Mapping[Any, Any], version: int) -> None:
    """Refuse an edit that cannot be meant.

    Args:
        edit: Keys of the record with their new values.
        version: The version of record that this package writes.

    Raises:
        ConfigurationError: For an unknown key, a value of another type, or a missing part.
    """
    for key, value in edit.items():
        if key not in _FORMS:
            known = ", ".join(sorted(_FORMS))
            msg = f"an update of `om` has the key {str(key)!r}; the keys of a record are {known}"
            raise ConfigurationError(msg)
        types, form = _FORMS[key]
        if not isinstance(value, types) or isinstance(value, bool):
            each = f", each with {', '.join(_PARTS[key])}" if key in _PARTS else ""
            own = f" with {', '.join(_FIELDS[key])}" if key in _FIELDS else ""
            msg = f"an edit sets `om.{key}` to {value!r}; pass {form}{each}{own}"
            raise ConfigurationError(msg)
        _check_parts(key, value)
    if edit.get("version", version) != version:
        msg = f"an edit sets `om.version` to {edit['version']!r}; leave it at {version}"
        raise ConfigurationError(msg)


def _check_parts(key: str, value: Any) -> None:
    parts = list(value.values()) if isinstance(value, dict) else value
    for part in parts if key in _PARTS else []:
        _check_mapping(f"an entry of `om.{key}`", part, _PARTS[key])
    if key in _FIELDS and value is not None:
        _check_mapping(f"`om.{key}`", value, _FIELDS[key])


def _check_mapping(name: str, value: Any, wanted: tuple[str, ...]) -> None:
    missing = [key for key in wanted if not isinstance(value, dict) or key not in value]
    if missing:
        msg = f"an edit leaves {name} without {missing[0]!r}; it needs {', '.join(wanted)}"
        raise ConfigurationError(msg)
