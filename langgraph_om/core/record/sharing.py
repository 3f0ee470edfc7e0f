"""The log that the threads of a resource share, as an archive keeps it, and a thread's copy of it.

A change names what it continues or replaces; one that does not fit the log any more is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

from langgraph_om.core.content.message_keys import belongs_to, derive_id
from langgraph_om.core.record.outbox import add_to_outbox
from langgraph_om.core.record.record import (
    HINTS,
    RECORD_VERSION,
    RESPONSE,
    TASK,
    TITLE,
    blank_record,
    check_version,
    drop_misfits,
    find_deleted,
    find_newest_observed,
    is_shared,
    replace_groups,
    select_own_groups,
)
from langgraph_om.core.record.steering import MAX_ACTS, apply_steering, steer
from langgraph_om.core.record.titles import take_hints
from langgraph_om.core.wire import (
    ActsGone,
    Attempt,
    DeletionFound,
    Event,
    Extension,
    Group,
    Hints,
    Joining,
    LogChange,
    MemoryRecord,
    Opened,
    Replacement,
    SharedLog,
    SharedThread,
    Steered,
    SteeredItem,
    SteeringChange,
    Synced,
    TitleFixed,
)

MAX_UNDONE = 20
"""How many acts a shared log keeps to be undone, as each turn of each thread reads them."""


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
        match change["kind"]:
            case "extend":
                shared = _extend(shared, change)
            case "join":
                shared = _join(shared, change)
            case "replace":
                shared = _replace(shared, change)
            case "steer":
                shared = _steer(shared, change)
            case "fix":
                shared = _fix_title(shared, change)
    return shared


def without_thread(stored: Mapping[str, Any], thread_id: str) -> dict[str, Any]:
    """Return a stored log without one thread, and without what runs within it."""
    kept: dict[str, Any] = {**complete_log(stored)}
    kept["log"] = [g for g in kept["log"] if not belongs_to(g["thread_id"], thread_id)]
    for name in ("threads", "fixed"):
        if name in kept:
            kept[name] = {k: own for k, own in kept[name].items() if not belongs_to(k, thread_id)}
    if "acts" in kept:
        kept["acts"] = [
            act
            for act in kept["acts"]
            if not any(belongs_to(key, thread_id) for key in list_threads(act))
        ]
    return kept


def list_threads(act: SteeredItem) -> set[str | None]:
    """Return the threads that hold the item of an act, before it and after it."""
    return {item["thread_id"] for item in (act["before"], act["after"]) if item is not None}


def write_act(log: SharedLog, event: Steered) -> SharedLog:
    """Return a log after what a person does within no thread."""
    done = steer(log["log"], [], log.get("acts", []), event, thread_id="")
    kept = [cast("SteeredItem", {**act, "is_new": False}) for act in done.acts[-MAX_UNDONE:]]
    ids = [*log.get("steered", []), event["id"]][-MAX_ACTS:]
    return {**log, "log": done.log, "steered": ids, "acts": kept}


def diff_record(
    record: MemoryRecord, shared: SharedLog, revision: int, sent: Sequence[LogChange]
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


def list_own_groups(record: MemoryRecord) -> set[str]:
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


def lacks_groups(shared: SharedLog, revision: int, record: MemoryRecord) -> bool:
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


def join_again(record: MemoryRecord) -> list[LogChange]:
    """Return the changes with which a thread brings what it has to a log that lost it."""
    copy: Mapping[str, Any] = record
    own: Joining = {
        "id": derive_id("join", record["id"], record["revision"]),
        "kind": "join",
        "is_newer": True,
        "thread_id": record["thread_id"],
        "groups": select_own_groups(record),
        "cursor": record["cursor"],
        "hints": {name: copy.get(name) for name in HINTS},
    }
    others = [
        change
        for change in record["outbox"]
        if change["kind"] == "extend" and change["thread_id"] != record["thread_id"]
    ]
    return [own, *others]


def find_unsent(record: MemoryRecord, present: AbstractSet[str]) -> Extension | None:
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
    return {
        **blank_record(),
        "scope": "resource",
        "resource_id": resource_id,
        "generation": shared["generation"],
        "log": shared["log"],
        "revision": revision,
        "outbox": [],
        "others": [],
    }


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
    hints: dict[str, str | None] = dict(former["hints"]) if former else dict.fromkeys(HINTS)
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


def _steer(shared: SharedLog, change: SteeringChange) -> SharedLog:
    """Do what a person did to a thread's copy; once, though the thread may send it again."""
    done = shared.get("steered", [])
    if change["id"] in done:
        return shared
    changed = apply_steering(shared["log"], change)
    return {**shared, "log": changed, "steered": [*done, change["id"]][-MAX_ACTS:]}


def _fix_title(shared: SharedLog, change: TitleFixed) -> SharedLog:
    """Keep a person's title, so that what other threads observe never replaces it."""
    fixed = shared.get("fixed", {})
    own = {**fixed.get(change["thread_id"], {}), **change["fixed"]}
    kept: Hints = {name: hint for name, hint in own.items() if hint is not None}
    return {**shared, "fixed": {**fixed, change["thread_id"]: kept}}


# --- A thread's copy -----------------------------------------------------------------------------


def join_or_leave(record: MemoryRecord, event: Opened) -> None:
    """Let a thread take part in a shared log from now on, or have a log of its own again."""
    if event["scope"] == "resource":
        _join_log(record, event)
    elif is_shared(record):
        _leave_log(record)


def _join_log(record: MemoryRecord, event: Opened) -> None:
    """Let the thread take part, and send its own observations."""
    was_shared = is_shared(record)
    record["observed"] = None  # the shared log says what is observed
    record.setdefault("others", [])
    record["outbox"] = []
    record["revision"] = 0
    if was_shared and record["resource_id"] != event["resource_id"]:
        # Log and pending work belong to another resource.
        _forget_log(record)
        kept = ("id", "thread_id", "resource_id", "scope", "stamps", "token_cache", "usage")
        former: Mapping[str, Any] = record
        blank: Mapping[str, Any] = {**blank_record(), **{key: former[key] for key in kept}}
        record.update(cast("MemoryRecord", blank))
        record["others"] = []
    elif record["cursor"]:
        groups = select_own_groups(record)
        own: list[Group] = [{**group, "thread_id": event["thread_id"]} for group in groups]
        thread_id = event["thread_id"]  # which the record does not have yet
        add_to_outbox(record, event["id"], kind="join", groups=own, thread_id=thread_id)


def _leave_log(record: MemoryRecord) -> None:
    """Keep the observations of the thread's own messages."""
    record["log"] = select_own_groups(record)
    for key in ("others", "revision", "outbox"):
        cast("dict[str, Any]", record).pop(key, None)
    pending = record["pending"]
    record["pending"] = {key: job for key, job in pending.items() if key == "observation"}


def _forget_log(record: MemoryRecord) -> None:
    """Let go of what tells of a log that is deleted, or left for another one."""
    record.pop("title", None)
    record.pop("steered", None)
    record[TITLE] = record[TASK] = record[RESPONSE] = None


def take_over_log(record: MemoryRecord, event: Synced) -> None:
    """Take over the shared log; the changes that it has taken in or refused are done."""
    bodies = {group["id"]: group for group in [*record["log"], *event["groups"]]}
    record["log"] = [bodies[key] for key in event["order"] if key in bodies]
    if record["reflection"] is not None:  # what it says of a deleted thread is not kept
        record["reflection"] = drop_misfits(record["log"], record["reflection"])
    outbox = record.get("outbox", [])
    record["outbox"] = [change for change in outbox if change["id"] not in event["sent"]]
    record["generation"], record["revision"] = event["generation"], event["revision"]
    record["cursor"] = event["cursor"]
    take_hints(record, event)
    _set_rest(record, event["rest"])


def _set_rest(record: MemoryRecord, rest: Attempt | None) -> None:
    """Take over what the log's next reflection waits for; a failure of this thread's own stays."""
    own = record["attempts"].get("reflection")
    if own is not None and own["failures"]:
        return
    attempts = dict(record["attempts"])
    attempts.pop("reflection", None)
    if rest is not None:
        attempts["reflection"] = rest
    record["attempts"] = attempts


def drop_deleted_part(record: MemoryRecord, event: DeletionFound) -> None:
    """Drop what the thread had in the shared log when it was deleted."""
    if not is_shared(record):
        return
    own, is_all = record["thread_id"], event["of_resource"]
    draft = cast("dict[str, Any]", record)
    for key in ("log", "outbox"):
        draft[key] = [
            item
            for item in draft.get(key, ())
            if not is_all and item.get("thread_id") not in (None, own)
        ]
    _forget_log(record)
    draft.update(cursor=[], observed=None, chunks=[], reflection=None, pending={}, revision=0)
    last = find_deleted(record)
    if last is not None:  # what the copy still has of the time before is not observed
        record["cursor"] = [last]
        key = derive_id("deleted", record["id"], record.get("deletion") or 0)
        blank = dict.fromkeys(HINTS)
        add_to_outbox(record, key, kind="join", thread_id=own, groups=[], hints=blank)


def drop_lost_acts(record: MemoryRecord, log: SharedLog) -> list[Event]:
    """Let go of acts on threads that the shared log has no more."""
    known = {None, record["thread_id"], *log["threads"]}
    gone = [
        act["id"] for act in record.get("steered", []) if not known.issuperset(list_threads(act))
    ]
    event: ActsGone = {"type": "acts-gone", "ids": gone}
    return [event] if gone else []
