"""Merge updates into a working memory: objects deeply, `None` deletes, everything else replaces.

A value is a JSON object, or the text of a template. Its leaves are all that is no object: an update
of one leaf leaves every other one as it is, also when two conversations write at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Value = str | dict[str, Any] | None
"""A working memory: a text, a JSON object, or nothing yet."""

Path = tuple[str, ...]
"""The keys that lead to a leaf; none for a text."""

WORKING_NAME = "working_memory"
"""Its name where the Observer is asked about it, and where its changes are told."""

_MISSING = object()


def merge(value: Any, patch: Any) -> Any:
    """Return a value with an update merged into it; neither of both is changed.

    Args:
        value: What there is.
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


def list_leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each leaf of a value with its path; an empty object below the top is a leaf too."""
    if isinstance(value, Mapping):
        if not value and path:
            yield path, {}
        for key, inner in value.items():
            yield from list_leaves(inner, (*path, key))
    elif value is not None or path:
        yield path, value


def find_at(value: Any, path: Path) -> Any:
    """Return what stands at a path; `None` where nothing does."""
    for key in path:
        value = value.get(key, _MISSING) if isinstance(value, Mapping) else _MISSING
        if value is _MISSING:
            return None
    return value


def find_conflicts(patch: Any, known: Value, current: Value) -> list[Path]:
    """Return where an update would replace what its writer has not seen.

    Args:
        patch: The update.
        known: The value that its writer was shown.
        current: The value as it is.
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


# --- In a graph's state --------------------------------------------------------------------------

PATCH = "om_patch"
"""The key of an update in a graph's state that is merged; any other value replaces what is there.
"""


def read_state_value(stored: Any) -> Value:
    """Return the value that a channel holds; nothing for what is empty."""
    if isinstance(stored, Mapping) and set(stored) == {PATCH}:  # the first update of a channel
        stored = merge(None, stored[PATCH])
    return stored or None


def fold_state_value(stored: Any, update: Any) -> Any:
    """Reduce a channel: a marked update is merged, anything else replaces."""
    if isinstance(update, Mapping) and set(update) == {PATCH}:
        return merge(read_state_value(stored), update[PATCH]) or {}
    return update
