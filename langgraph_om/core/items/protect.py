"""What a person pinned or wrote is changed by nobody else (law 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langgraph_om.core.wire import Group


def is_protected(group: Mapping[str, object]) -> bool:
    """Return whether a group holds an item that a person pinned or wrote."""
    return bool(group.get("person"))


def keep_protected(read: Sequence[Group], written: Sequence[Group]) -> list[Group]:
    """Return what takes the place of groups, with those that nobody else may change.

    Args:
        read: The groups that are replaced, in log order.
        written: What a reflection made of them, whatever that is.
    """
    own = {group["id"]: group for group in read if is_protected(group)}
    if not own or [group for group in written if group["id"] in own] == list(own.values()):
        return list(written)
    result = [group for group in written if group["id"] not in own]
    for at, group in enumerate(read):
        if group["id"] in own:
            result.insert(_find_place(read[at + 1 :], result), group)
    return result


def _find_place(behind: Sequence[Group], written: Sequence[Group]) -> int:
    """Return the place before what became of the groups that stood behind one."""
    starts = {first for group in behind for first, _ in group["ranges"]}
    ids = {group["id"] for group in behind}
    for at, group in enumerate(written):
        if group["id"] in ids or any(first in starts for first, _ in group["ranges"]):
            return at
    return len(written)
