"""Where a reflection fits into the log as it is by now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.items import keep_protected
from langgraph_om.core.record.record import find_groups
from langgraph_om.core.wire import BufferedReflection, Group

# The ranges of messages that groups cover, and what becomes of those of groups without text.


MAX_RANGES: Final = 20
"""More ranges of one group are joined in pairs, the oldest first."""

_OwnedRange = tuple[str | None, str, str]
"""A range of messages behind the thread they belong to: thread, first, last."""


def collect_ranges(groups: Sequence[Group]) -> list[list[str]]:
    """Return the ranges of groups, each for itself as long as there are not too many of them.

    Ranges are joined only with the next one of the same thread, which continues where the one
    before it ended.
    """
    ranges = [
        (group["thread_id"], first, last) for group in groups for first, last in group["ranges"]
    ]
    return [[first, last] for _, first, last in _limit(ranges)]


def collect_sources(group: Group, others: Sequence[Group]) -> list[list[str]]:
    """Return the ranges of other groups of its thread from which a group's items come.

    Args:
        group: The group with the items.
        others: Groups before it from which items were joined into it.
    """
    found: dict[tuple[str, str], None] = {}
    for other in [*others, group]:
        own = other["ranges"] if other is not group else []
        for first, last in [*other.get("sources", []), *own]:
            found[first, last] = None
    return [[first, last] for _, first, last in _limit([(None, *ends) for ends in found])]


def join_empty(log: Sequence[Group], cycle_id: str) -> list[Group]:
    """Return a log in which neighbouring groups of one thread without text are one.

    Args:
        log: The groups.
        cycle_id: Id of the cycle that emptied some; the id of a joined group is derived from it.
    """
    runs: list[list[Group]] = []
    newest: dict[str | None, list[Group]] = {}
    for group in log:
        run = newest.get(group["thread_id"])
        if run is not None and not run[-1]["text"] and not group["text"]:
            run.append(group)
            continue
        newest[group["thread_id"]] = [group]
        runs.append(newest[group["thread_id"]])
    return [run[0] if len(run) == 1 else _join(run, cycle_id) for run in runs]


def _join(run: Sequence[Group], cycle_id: str) -> Group:
    return {
        "id": derive_id("group", cycle_id, "empty", run[0]["id"]),
        "kind": "reflection",
        "ranges": collect_ranges(run),
        "thread_id": run[0]["thread_id"],
        "observed_at": run[-1]["observed_at"],
        "text": "",
        "tokens": 0,
    }


def _limit(ranges: Sequence[_OwnedRange]) -> Sequence[_OwnedRange]:
    while len(ranges) > MAX_RANGES and len(joined := _join_oldest(ranges)) < len(ranges):
        ranges = joined
    return ranges


def _join_oldest(ranges: Sequence[_OwnedRange]) -> list[_OwnedRange]:
    """Join pairs of neighbours of one thread, from the oldest on, while there are too many."""
    joined: list[_OwnedRange] = []
    at = 0
    while at < len(ranges):
        owner, first, last = ranges[at]
        excess = len(joined) + len(ranges) - at - MAX_RANGES
        if excess > 0 and at + 1 < len(ranges) and ranges[at + 1][0] == owner:
            at += 1
            last = ranges[at][2]
        joined.append((owner, first, last))
        at += 1
    return joined


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
