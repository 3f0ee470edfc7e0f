"""The ranges of messages that groups cover, and what becomes of those of groups without text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.wire import Group

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
