"""The log that all threads of a resource share: its stored forms, a thread's changes, and its copy.

Rules of this file:

1. A change names what it was computed from: observations name the newest observed message of their
   thread, reflections the groups they read. A change that does not match the log any more is
   dropped; its messages are then observed by another worker, or still unobserved.
2. Changes are applied to the log as it is by now, so that of two workers the later one loses
   nothing of the earlier one's.
3. A thread that the log does not know has nothing observed, whatever its own record says: it was
   deleted, or never took part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from langgraph_om.core.additions import LogChange as AnyChange
from langgraph_om.core.additions import added_changes, added_hints, erase_thread
from langgraph_om.core.content.message_keys import belongs_to, derive_id
from langgraph_om.core.record.record import (
    RECORD_VERSION,
    blank_record,
    check_version,
    find_newest_observed,
    replace_groups,
    select_own_groups,
)
from langgraph_om.core.wire import Attempt, CycleEnd, Found, Group, Hints, MemoryRecord, Observed

# --- What a record has ---------------------------------------------------------------------------


class Excerpt(TypedDict):
    """What is unobserved in another thread of the resource."""

    thread_id: str
    messages: int
    """Its unobserved messages."""
    rest: int
    """How many of these were not read, because there are too many."""
    tokens: int
    """Of all that were read."""
    observable: int
    """How many messages would be observed now."""
    text: str
    """The block that the Actor is shown: the newest messages, or nothing where no room is left."""


class Section(TypedDict):
    """What was observed of one thread, as the shared log takes it in."""

    thread_id: str
    after: str | None
    """The newest message that was observed before; another one in the log, and it is dropped."""
    cursor: list[str]
    """The newest observed messages then, newest last."""
    groups: list[Group]
    hints: Hints


class Extension(AnyChange, Section):
    """A change of the shared log: observations of a thread's messages.

    Its id is that of the cycle, or of the group for another thread's messages.
    """

    kind: Literal["extend"]


class Joining(AnyChange):
    """A change of the shared log: a thread takes part in it from now on, with what it observed."""

    kind: Literal["join"]
    thread_id: str
    is_newer: NotRequired[bool]
    """Whether it goes before what the log has of the thread, because the log lost something."""


class Replacement(AnyChange):
    """A change of the shared log: a reflection, whose `groups` stand for those that it read."""

    kind: Literal["replace"]
    group_ids: list[str]
    """Those; where the log has them no more, it is dropped."""
    rest: NotRequired[Attempt]
    """What the next reflection waits for, where this one left the log as large as it was."""


LogChange = Extension | Joining | Replacement
"""A change of the log that the shared one does not have yet."""


class SharingKeys(TypedDict, total=False):
    """What the record of a thread has that shares its log."""

    others: list[Excerpt]
    """The other threads of the resource that have unobserved messages."""
    revision: int
    """The revision of the shared log that `log` is a copy of."""
    outbox: list[LogChange]
    """Changes of the log that the shared one does not have yet, oldest first."""


class SharingRecord(MemoryRecord, SharingKeys, total=False):
    """The record of a thread that shares its log."""


# --- The shared log, as the archive keeps it -----------------------------------------------------


class SharedThread(TypedDict):
    """What the shared log knows of one thread."""

    cursor: list[str]
    """Ids of its newest observed messages, newest last."""
    hints: Hints
    """Those of its newest observation."""
    is_own: NotRequired[bool]
    """Whether the thread itself set the cursor, to what stood before in its conversation, observed
    or not; otherwise it ends with what was observed last."""


class SharedLog(TypedDict):
    """The memory of a resource."""

    version: int
    """Of the record's form."""
    generation: int
    """How many reflections have replaced groups of it."""
    log: list[Group]
    threads: dict[str, SharedThread]
    """By thread id."""
    fixed: NotRequired[dict[str, Hints]]
    """Hints that persons set, by thread id, which no observation replaces; missing where nobody set
    one."""
    rest: NotRequired[Attempt]
    """What the next reflection waits for, in any thread; missing where it waits for nothing."""


# --- Events --------------------------------------------------------------------------------------


class OthersEnd(CycleEnd, Observed):
    """Messages of other threads are observed."""

    type: Literal["observation-end"]
    operation: Literal["others"]
    sections: list[Section]
    found: NotRequired[Found]


class OthersBuffered(CycleEnd, Observed):
    """A job observed messages of other threads, for the shared log."""

    type: Literal["buffering-end"]
    operation: Literal["others"]
    sections: list[Section]
    found: NotRequired[Found]


class Synced(TypedDict):
    """The thread's copy of the shared log is brought up to date."""

    type: Literal["synced"]
    revision: int
    generation: int
    order: list[str]
    """Ids of all groups of the log."""
    groups: list[Group]
    """Those that the copy has not, or otherwise."""
    cursor: list[str]
    sent: list[str]
    """Ids of the changes in the outbox that the log took in or refused."""
    rest: Attempt | None
    """What the log's next reflection waits for."""
    hints: NotRequired[Hints]
    """Only where another thread observed messages of this one."""


class OthersDescribed(TypedDict):
    """What is unobserved in the other threads of the resource."""

    type: Literal["others"]
    others: list[Excerpt]


def make_blank_log() -> SharedLog:
    """Return the log of a resource without observations."""
    return {"version": RECORD_VERSION, "generation": 0, "log": [], "threads": {}}


def complete_log(stored: Mapping[str, Any] | None) -> SharedLog:
    """Return a log with all fields from what an archive has stored.

    Raises:
        ConfigurationError: When it is of another version.
    """
    found = stored or {}
    check_version("the `version` of the shared log", found)
    return cast("SharedLog", {**make_blank_log(), **found})


def apply_changes(shared: SharedLog, changes: Sequence[LogChange]) -> SharedLog:
    """Apply changes to a log in order, leaving out those that do not fit any more."""
    for change in changes:
        added = added_changes.get(change["kind"])
        if added is not None:
            shared = cast("SharedLog", added.apply(shared, change))
        elif change["kind"] == "extend":
            shared = _extend(shared, change)
        elif change["kind"] == "join":
            shared = _join(shared, change)
        elif change["kind"] == "replace":
            shared = _replace(shared, change)
    return shared


def without_thread(stored: Mapping[str, Any], thread_id: str) -> dict[str, Any]:
    """Return a stored log without one thread, and without what runs within it."""
    kept: dict[str, Any] = {**complete_log(stored)}
    kept["log"] = [g for g in kept["log"] if not belongs_to(g["thread_id"], thread_id)]
    for name in ("threads", "fixed"):
        if name in kept:
            kept[name] = {k: own for k, own in kept[name].items() if not belongs_to(k, thread_id)}
    return erase_thread(kept, thread_id)


def diff_record(
    record: SharingRecord, shared: SharedLog, revision: int, sent: Sequence[LogChange]
) -> Synced:
    """Return the event that brings a thread's copy of the log up to date.

    Args:
        sent: The thread's own changes that it took in or refused.
    """
    present = {group["id"]: group for group in record["log"]}
    own = shared["threads"].get(record["thread_id"])
    cursor = list(own["cursor"]) if own else []
    event: Synced = {
        "type": "synced",
        "revision": revision,
        "generation": shared["generation"],
        "order": [group["id"] for group in shared["log"]],
        "groups": [group for group in shared["log"] if present.get(group["id"]) != group],
        "cursor": cursor,
        "sent": [change["id"] for change in sent],
        "rest": shared.get("rest"),
    }
    if own and cursor != record["cursor"]:  # another thread observed messages of this one
        event["hints"] = own["hints"]
    return event


def list_own_groups(record: SharingRecord) -> set[str]:
    """Return the ids of all groups that a thread has, sent or not."""
    sent = [group for change in record["outbox"] for group in change["groups"]]
    return {group["id"] for group in [*record["log"], *sent]}


def without_groups(shared: SharedLog, thread_id: str, ids: AbstractSet[str]) -> SharedLog:
    """Return a log without groups of a deleted thread.

    Who sent them did not know yet that it was deleted.
    """
    own = [each for each in shared["log"] if each["thread_id"] == thread_id]
    gone = {group["id"] for group in own} & ids
    if not gone:
        return shared
    threads = dict(shared["threads"])
    if len(gone) == len(own):
        threads.pop(thread_id, None)
    log = [group for group in shared["log"] if group["id"] not in gone]
    return {**shared, "log": log, "threads": threads}


def lacks_groups(shared: SharedLog, revision: int, record: SharingRecord) -> bool:
    """Return whether a log lost what a thread's copy has: it is another one, or an older one."""
    if revision < record["revision"]:
        return True
    if not record["revision"] or shared["generation"] > record["generation"]:
        return False
    unsent = {group["id"] for change in record["outbox"] for group in change["groups"]}
    present = {group["id"] for group in shared["log"]} | unsent
    if record["thread_id"] not in shared["threads"]:
        return any(group["id"] not in present for group in select_own_groups(record))
    if revision > record["revision"] or shared["generation"] < record["generation"]:
        return False
    return any(group["id"] not in present for group in record["log"])


def join_again(record: SharingRecord) -> list[LogChange]:
    """Return the changes with which a thread brings what it has to a log that lost it."""
    copy: Mapping[str, Any] = record
    own: Joining = {
        "id": derive_id("join", record["id"], record["revision"]),
        "kind": "join",
        "is_newer": True,
        "thread_id": record["thread_id"],
        "groups": select_own_groups(record),
        "cursor": record["cursor"],
        "hints": {name: copy.get(name) for name in added_hints},
    }
    others = [
        change
        for change in record["outbox"]
        if change["kind"] == "extend" and change["thread_id"] != record["thread_id"]
    ]
    return [own, *others]


def find_unsent(record: SharingRecord, present: AbstractSet[str]) -> Extension | None:
    """Return the first of a thread's observations of its own messages that a log does not have."""
    for change in record["outbox"]:
        if change["groups"] and all(group["id"] in present for group in change["groups"]):
            continue
        if change["kind"] == "extend" and change["thread_id"] == record["thread_id"]:
            return change
    return None


def to_record(stored: Mapping[str, Any], resource_id: str, revision: int) -> MemoryRecord:
    """Return a stored log as the record of a resource, without what belongs to one thread."""
    shared = complete_log(stored)
    record = {
        **blank_record(),
        "scope": "resource",
        "resource_id": resource_id,
        "generation": shared["generation"],
        "log": shared["log"],
        "revision": revision,
        "outbox": [],
        "others": [],
    }
    return cast("MemoryRecord", record)


# --- Effects: one per kind of change -------------------------------------------------------------


def _extend(shared: SharedLog, change: Extension) -> SharedLog:
    """Add observations of a thread's messages."""
    thread_id = change["thread_id"]
    known = shared["threads"].get(thread_id)
    if (find_newest_observed(known) if known else None) != change["after"]:
        return shared
    return _put_thread(shared, change, change["groups"])


def _join(shared: SharedLog, change: Joining) -> SharedLog:
    """Add a thread that had a log of its own, or was copied.

    The observations of a thread that took part before replace those that it left behind, unless
    others have observed more of it meanwhile. What a lost log had of it is older in any case.
    """
    thread_id = change["thread_id"]
    known = shared["threads"].get(thread_id)
    if known is not None:
        ends = {last for group in change["groups"] for _, last in group["ranges"]}
        goes_on = find_newest_observed(known) in {*ends, *change["cursor"]} and change["groups"]
        if not goes_on and not change.get("is_newer"):
            return shared
        others = [group for group in shared["log"] if group["thread_id"] != thread_id]
        brought = {group["id"] for group in change["groups"]}
        if all(
            group["id"] in brought for group in shared["log"] if group["thread_id"] == thread_id
        ):
            others = shared["log"]
        shared = {**shared, "log": others}
    return _put_thread(shared, change, change["groups"])


def _put_thread(
    shared: SharedLog, change: Extension | Joining, groups: Sequence[Group]
) -> SharedLog:
    present = {group["id"] for group in shared["log"]}
    former = shared["threads"].get(change["thread_id"])
    hints: dict[str, str | None] = dict(former["hints"]) if former else dict.fromkeys(added_hints)
    hints.update({name: hint for name, hint in change["hints"].items() if hint is not None})
    thread: SharedThread = {"cursor": list(change["cursor"]), "hints": hints}
    if change["kind"] == "join":
        thread["is_own"] = True
    others = {key: each for key, each in shared["threads"].items() if key != change["thread_id"]}
    return {
        **shared,
        "log": [*shared["log"], *(group for group in groups if group["id"] not in present)],
        "threads": {**_shorten_cursors(others), change["thread_id"]: thread},
    }


MAX_LONG_CURSORS = 32
"""Of how many threads, those that were observed last, more than the newest message is named."""


def _shorten_cursors(threads: Mapping[str, SharedThread]) -> dict[str, SharedThread]:
    """Keep one id of threads that were observed long ago; the log is read in every turn."""
    quiet = len(threads) - MAX_LONG_CURSORS + 1
    return {
        key: {**each, "cursor": each["cursor"][-1:]} if at < quiet else each
        for at, (key, each) in enumerate(threads.items())
    }


def _replace(shared: SharedLog, change: Replacement) -> SharedLog:
    """Replace exactly the groups that a reflection read."""
    replaced = replace_groups(shared["log"], change["group_ids"], change["groups"])
    if replaced is None:
        return shared
    changed: SharedLog = {**shared}
    changed.pop("rest", None)
    if "rest" in change:
        changed["rest"] = change["rest"]
    return {
        **changed,
        "generation": shared["generation"] + 1,
        "log": replaced[0],
    }
