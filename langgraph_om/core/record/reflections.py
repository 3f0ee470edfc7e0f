"""Where a reflection fits into the log as it is by now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from langgraph_om.core.items.protect import keep_protected
from langgraph_om.core.record.ranges import join_empty
from langgraph_om.core.record.record import find_groups
from langgraph_om.core.wire import BufferedReflection, Group


@dataclass(frozen=True, slots=True)
class Placed:
    """A run of the log's groups, and what takes its place."""

    group_ids: list[str]
    groups: list[Group]


@dataclass(frozen=True, slots=True)
class Changes:
    """What edits make of groups."""

    becomes: Mapping[str, Group]
    """By id of the group that is replaced."""
    together: Sequence[Sequence[str]]
    """The ids of those that have to be changed together."""


def place_reflection(log: Sequence[Group], reflection: BufferedReflection) -> Placed | None:
    """Return what a reflection replaces in a log; `None` when nothing that it read is there.

    A rewritten log takes the place of all that it was made from. Edits apply to the groups that are
    still the same.
    """
    together = reflection.get("together")
    if together is not None:
        becomes = dict(zip(reflection["group_ids"], reflection["groups"], strict=True))
        return place_changes(log, Changes(becomes, together), reflection["cycle_id"])
    if find_groups(log, reflection["group_ids"]) is None:
        return None
    return Placed(reflection["group_ids"], reflection["groups"])


def drop_misfits(log: Sequence[Group], reflection: BufferedReflection) -> BufferedReflection:
    """Return edits without those of groups that are not in the log any more."""
    present = {group["id"] for group in log}
    together = [ids for ids in reflection.get("together", ()) if present.issuperset(ids)]
    if len(together) == len(reflection.get("together", ())):
        return reflection
    fitting = {group_id for ids in together for group_id in ids}
    pairs = zip(reflection["group_ids"], reflection["groups"], strict=True)
    kept = [(group_id, group) for group_id, group in pairs if group_id in fitting]
    ids, groups = [each for each, _ in kept], [each for _, each in kept]
    return {**reflection, "group_ids": ids, "groups": groups, "together": together}


def place_changes(log: Sequence[Group], changes: Changes, cycle_id: str) -> Placed | None:
    """Return what edits replace in a log: the shortest run with all changes that fit.

    Args:
        log: The log as it is by now.
        changes: What becomes of which groups.
        cycle_id: Id of the cycle that made them.
    """
    present = {group["id"] for group in log}
    fitting = {group_id for ids in changes.together if present.issuperset(ids) for group_id in ids}
    if not fitting:
        return None
    changed = [changes.becomes[group["id"]] if group["id"] in fitting else group for group in log]
    after = join_empty(changed, cycle_id)
    before = [group["id"] for group in log]
    ids = [group["id"] for group in after]
    start = _count_equal(before, ids)
    rest = _count_equal(before[start:][::-1], ids[start:][::-1])
    return Placed(before[start : len(before) - rest], after[start : len(after) - rest])


class Replaced(NamedTuple):
    """A log in which a run of groups was replaced."""

    log: list[Group]
    groups: list[Group]
    """What stands in the place of the run, with those of it that nobody else may change."""


def replace_groups(
    log: Sequence[Group], read: Sequence[str], written: Sequence[Group]
) -> Replaced | None:
    """Replace exactly the groups that a reflection read; `None` when they are not there any more.

    Args:
        log: The log as it is by now.
        read: Their ids, in log order.
        written: What the reflection made of them.
    """
    start = find_groups(log, read)
    if start is None:
        return None
    stop = start + len(read)
    groups = keep_protected(log[start:stop], written)
    return Replaced([*log[:start], *groups, *log[stop:]], groups)


def _count_equal(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
