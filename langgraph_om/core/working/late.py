"""Merge an update into a value that somebody else has changed since its writer was shown it.

The Observer writes from what it was shown when it was asked, and is not there to be asked anew when
that is written. So nothing that it has not seen is replaced: lines and items that are new to both
are added, and of any other value the present one stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from langgraph_om.core.wire import WorkingUpdate
from langgraph_om.core.working.form import Form, InvalidError
from langgraph_om.core.working.merge import (
    Path,
    Value,
    find_at,
    find_conflicts,
    merge,
    write_path,
)


@dataclass(frozen=True, slots=True)
class Joined:
    """What came of updates."""

    previous: Value
    """The value as it was."""
    value: Value
    """The value with them."""
    error: str | None = None
    """Why one of them was not taken, or not all of it."""


def join_updates(form: Form, current: Value, updates: Iterable[WorkingUpdate]) -> Joined:
    """Merge what observations found into the value as it is by now, one after the other."""
    value, errors = current, list[str]()
    for update in updates:
        value, error = merge_late(form, value, update["patch"], update["known"])
        errors += [error] if error else []
    return Joined(current, value, "; ".join(errors) or None)


def merge_late(form: Form, current: Value, patch: Any, known: Value) -> tuple[Value, str | None]:
    """Merge an update into the value as it is by now.

    Args:
        form: The form of the memory.
        current: The value as it is.
        patch: The update.
        known: The value that its writer was shown.

    Returns:
        The value with as much of the update as it can take, and why it did not take the rest.
    """
    if isinstance(patch, str):  # what somebody has emptied meanwhile stays so
        conflicts: list[Path] = [()] if current not in (known, patch) else []
    else:
        conflicts = find_conflicts(patch, known, current)
    kept = list[Path]()
    for path in conflicts:
        joined = _join(form, path, current, patch, known)
        if joined is None:
            kept.append(path)
        patch = joined if not path else _set_at(patch, path, joined)
    merged = merge(current, _without(patch, kept))
    try:
        form.check(merged)
    except InvalidError as error:
        return current, str(error)
    if not kept:
        return merged or None, None
    named = ", ".join(f"`{write_path(path)}`" for path in kept)
    return merged or None, f"{named}: changed by another conversation meanwhile, and kept as it is"


def _join(form: Form, path: Path, current: Value, patch: Any, known: Value) -> Any:
    """Return what is there with what the update adds; `None` where the two cannot be joined."""
    if not path:
        return _join_texts(form.write(current), form.write(patch), form.write(known))
    there, given = find_at(current, path), find_at(patch, path)
    if not (isinstance(there, list) and isinstance(given, list)):
        return None
    before = find_at(known, path)
    shown = before if isinstance(before, list) else []
    return [*there, *(item for item in given if item not in there and item not in shown)]


def _join_texts(there: str, given: str, shown: str) -> str:
    seen = {*there.split("\n"), *shown.split("\n")}
    new = [line for line in given.split("\n") if line not in seen]
    return "\n".join([there, "", *new]) if new else there


def _set_at(patch: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return an update with another value at a path."""
    key, *rest = path
    inner = value if not rest else _set_at(patch[key], tuple(rest), value)
    return {**patch, key: inner}


def _without(patch: Any, paths: list[Path]) -> Any:
    """Return an update without the leaves at these paths."""
    for path in paths:
        patch = _drop(patch, path)
    return patch


def _drop(patch: dict[str, Any], path: Path) -> dict[str, Any]:
    key, *rest = path
    others = {name: inner for name, inner in patch.items() if name != key}
    if not rest:
        return others
    inner = _drop(patch[key], tuple(rest))
    return {**patch, key: inner} if inner else others
