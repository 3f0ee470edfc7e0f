"""What the threads of a user know of each other: a thread's view of it, and the user's own log.

Each thread has its own log, which the archive keeps. What it is shown of the others is read from
there at the beginning of a turn, and put into the record as `others`: no thread has a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langgraph_om.core.content.message_keys import belongs_to
from langgraph_om.core.record.record import RECORD_VERSION, blank_record, check_version
from langgraph_om.core.record.steering import steer
from langgraph_om.core.wire import Group, MemoryRecord, Steered, UserAct, UserLog


def list_in_sight(record: MemoryRecord) -> list[Group]:
    """Return the groups that the Actor is shown: those of the user's other threads, then its own.

    Standing instructions that were ended in another thread than the one that has them are left out.
    """
    others = record.get("others")
    if others is None:
        return record["log"]
    return drop_ended([*others["known"], *record["log"]])


def drop_ended(groups: Sequence[Group]) -> list[Group]:
    """Return groups without the standing instructions that another one of them ends."""
    ended = {group_id for group in groups for group_id in group.get("ends", ())}
    return [group for group in groups if group["id"] not in ended]


def list_kept_elsewhere(record: MemoryRecord) -> list[Group]:
    """Return what features keep in the user's other threads, such as standing instructions."""
    known = record.get("others", {}).get("known", [])
    return [group for group in known if "feature" in group]


def is_of_user(record: MemoryRecord) -> bool:
    """Return whether a record is a user's log, which is about several threads."""
    return record["scope"] == "resource" and not record["thread_id"]


def count_due(record: MemoryRecord) -> int:
    """Count the tokens of other threads of which something is to be observed or condensed."""
    others = record.get("others")
    return 0 if others is None else others["due_tokens"]


def complete_log(stored: Mapping[str, Any] | None) -> UserLog:
    """Return a user's log with all fields from what an archive has stored.

    Raises:
        ConfigurationError: When it is of another version.
    """
    found = stored or {}
    check_version("the `version` of the user's log", found)
    blank: UserLog = {"version": RECORD_VERSION, "generation": 0, "log": [], "of": {}}
    return cast("UserLog", {**blank, **found})


def believe(log: UserLog, present: Mapping[str, Sequence[str]]) -> UserLog:
    """Return a user's log without what is about threads that changed what it holds of them.

    One that forgot something, was deleted, moved or forked lacks a group: all of it is read anew.

    Args:
        present: By thread, the ids of the groups that its log has now.
    """
    of = {key: ids for key, ids in log["of"].items() if {*present.get(key, ())}.issuperset(ids)}
    return {**log, "log": [each for each in log["log"] if _is_of(each, of)], "of": of}


def _is_of(group: Group, threads: Mapping[str, object]) -> bool:
    return not group["thread_id"] or group["thread_id"] in threads


def take_in(log: UserLog, groups: Sequence[Group]) -> UserLog:
    """Return a user's log with groups of threads, as they are."""
    of = {key: [*ids] for key, ids in log["of"].items()}
    for group in groups:
        of.setdefault(str(group["thread_id"]), []).append(group["id"])
    told = [without_leftover(group) for group in groups if group["text"] or group.get("ends")]
    return {**log, "log": [*log["log"], *told], "of": of}


def without_leftover(group: Group) -> Group:
    """Return a group as the log of its thread has it."""
    return cast("Group", {key: value for key, value in group.items() if key != "leftover"})


def list_threads(stored: Mapping[str, Any]) -> set[str]:
    """Return the threads that a stored log tells of."""
    return {*stored.get("of", ()), *(act["thread_id"] for act in stored.get("acts", ()))}


def without_thread(stored: Mapping[str, Any], thread_id: str) -> dict[str, Any]:
    """Return a stored log without one thread, and without what runs within it."""
    kept = without_known(stored, thread_id)
    if "acts" in kept:
        kept["acts"] = [act for act in kept["acts"] if not belongs_to(act["thread_id"], thread_id)]
    return kept


def without_known(stored: Mapping[str, Any], thread_id: str) -> dict[str, Any]:
    """Return a stored log without what it holds of a thread, which is read anew from its log."""
    log = complete_log(stored)
    return {
        **log,
        "log": [group for group in log["log"] if not belongs_to(group["thread_id"], thread_id)],
        "of": {key: ids for key, ids in log["of"].items() if not belongs_to(key, thread_id)},
    }


def do_act(
    log: UserLog, groups: Sequence[Group], event: Steered, thread_id: str
) -> tuple[UserLog, list[Group]]:
    """Return a user's log with what a person does to a thread's groups, and what these become.

    Args:
        thread_id: Empty for groups that were noted within no thread.

    Raises:
        ItemError: As for `steer`.
    """
    done = steer(groups, [], log.get("acts", []), event, thread_id=thread_id)
    act = {**done.acts[-1], "is_new": False, "thread_id": thread_id, "event": event}
    return {**log, "acts": cast("list[UserAct]", [*done.acts[:-1], act])}, done.log


def to_record(log: UserLog, resource_id: str) -> MemoryRecord:
    """Return a user's log as a record, without what belongs to one thread."""
    return {
        **blank_record(),
        "scope": "resource",
        "resource_id": resource_id,
        "generation": log["generation"],
        "log": log["log"],
    }
