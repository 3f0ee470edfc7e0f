"""What events change in the record of a thread that shares its log.

What is changed in the thread's copy is noted in its outbox, and the next step puts it into the
shared log. Rules are those of `core/record/fold.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union, cast

from langgraph_om.core.additions import (
    AddedOperation,
    Additions,
    ResourceForm,
    added_changes,
    added_hints,
    find_deletions,
    forget_log,
    run_beside,
)
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.fold import find_rest, note_success
from langgraph_om.core.record.record import (
    blank_record,
    drop_misfits,
    select_own_groups,
)
from langgraph_om.core.wire import (
    OTHERS,
    Attempt,
    CycleEnded,
    Group,
    MemoryRecord,
    ObservationActivated,
    ObservationEnd,
    Opened,
    ReflectionActivated,
    ReflectionEnd,
    ThreadDeleted,
)
from langgraph_om.features.shared_log.log import (
    LogChange,
    OthersBuffered,
    OthersDescribed,
    OthersEnd,
    SharingKeys,
    SharingRecord,
    Synced,
    complete_log,
    to_record,
    without_thread,
)

"""The name of the operation that observes other threads."""

OTHERS_ID = "om-other-conversations"
"""Id of what shows the Actor the recent messages of other threads."""


def read_sharing(record: MemoryRecord) -> SharingRecord:
    """Return a record with the keys of a thread that shares its log, empty where it is new."""
    known = cast("SharingRecord", record)
    if "outbox" in known:
        return known
    return cast("SharingRecord", {"others": [], "revision": 0, "outbox": [], **known})


def count_others(record: MemoryRecord) -> int:
    """Count the tokens of other threads of which something is to be observed."""
    others = read_sharing(record)["others"]
    return sum(thread["tokens"] for thread in others if thread["observable"])


def write_others(record: MemoryRecord) -> str:
    """Return what shows the excerpts of other threads, with a line on those that have no room."""
    others = read_sharing(record)["others"]
    texts = [thread["text"] for thread in others if thread["text"]]
    hidden = len(others) - len(texts)
    if hidden:
        texts.insert(0, f"[{hidden} other conversation{'' if hidden == 1 else 's'} left out]")
    return fill("other_conversations", conversations="\n\n".join(texts)) if texts else ""


# --- The outbox ----------------------------------------------------------------------------------


def _add_to_outbox(record: MemoryRecord, change_id: str, **change: Any) -> None:
    """Note a change that the shared log does not have yet; without a thread id there is none."""
    is_joining = change["kind"] == "join"
    if not (is_joining or record["scope"] == "resource"):
        return
    if not (change["thread_id"] if is_joining else record["thread_id"]):
        return
    known: Mapping[str, Any] = read_sharing(record)
    hints = {name: known.get(name) for name in added_hints}
    item = {"id": change_id, "cursor": known["cursor"], "hints": hints, **change}
    cast("SharingRecord", record)["outbox"] = [*known["outbox"], cast("LogChange", item)]


def _note_observation(record: MemoryRecord, event: ObservationEnd | ObservationActivated) -> None:
    if event["operation"] == "observation" and record["scope"] == "resource":
        _add_to_outbox(
            record,
            event["cycle_id"],
            kind="extend",
            thread_id=record["thread_id"],
            after=event["after"],
            groups=list(event["groups"]),
            hints={**dict.fromkeys(added_hints), **event["hints"]},
        )


def _note_reflection(record: MemoryRecord, event: ReflectionEnd | ReflectionActivated) -> None:
    rest = find_rest(event)
    waits = {"rest": rest} if rest is not None else {}
    ids, groups = list(event["group_ids"]), event["groups"]
    _add_to_outbox(record, event["cycle_id"], kind="replace", group_ids=ids, groups=groups, **waits)


def _note_change(record: MemoryRecord, change: Mapping[str, Any]) -> None:
    said = {name: value for name, value in change.items() if name != "id"}
    _add_to_outbox(record, change["id"], **said)


def _set_others(record: MemoryRecord, event: OthersDescribed) -> None:
    cast("SharingRecord", record)["others"] = event["others"]


def _finish_others(record: MemoryRecord, event: OthersEnd | OthersBuffered) -> None:
    """Send observations of other threads' messages to the shared log."""
    outbox = read_sharing(record)["outbox"]
    known = {item["id"] for item in [*outbox, *record["log"]]}
    sections = [section for section in event["sections"] if section["groups"][0]["id"] not in known]
    for section in sections:
        _add_to_outbox(record, section["groups"][0]["id"], kind="extend", **section)
    if sections:
        run_beside("observed", record, event)
        note_success(record, cast("CycleEnded", event))


# --- Taking part ---------------------------------------------------------------------------------


def _join_or_leave(record: MemoryRecord, event: Opened) -> None:
    if event["scope"] == "resource":
        _join(cast("SharingRecord", record), event)
    elif record["scope"] == "resource":
        _leave(cast("SharingRecord", record))


def _join(record: SharingRecord, event: Opened) -> None:
    """Let the thread take part in a shared log from now on, and send its own observations there."""
    was_shared = record["scope"] == "resource"
    record["observed"] = None  # the shared log says what is observed
    record.setdefault("others", [])
    record["outbox"] = []
    record["revision"] = 0
    if was_shared and record["resource_id"] != event["resource_id"]:
        # Log and pending work belong to another resource.
        forget_log(record)
        kept = ("id", "thread_id", "resource_id", "scope", "stamps", "token_cache", "usage")
        former: Mapping[str, Any] = record
        blank: Mapping[str, Any] = {**blank_record(), **{key: former[key] for key in kept}}
        record.update(cast("SharingRecord", blank))
        record["others"] = []
    elif record["cursor"]:
        groups = select_own_groups(record)
        own: list[Group] = [{**group, "thread_id": event["thread_id"]} for group in groups]
        thread_id = event["thread_id"]  # which the record does not have yet
        _add_to_outbox(record, event["id"], kind="join", groups=own, thread_id=thread_id)


def _leave(record: SharingRecord) -> None:
    """Give the thread a log of its own again, with the observations of its own messages."""
    record["log"] = select_own_groups(record)
    for key in SharingKeys.__annotations__:
        cast("dict[str, Any]", record).pop(key, None)
    pending = record["pending"]
    record["pending"] = {key: job for key, job in pending.items() if key == "observation"}


# --- What comes from the shared log --------------------------------------------------------------


def _take_over_log(record: MemoryRecord, event: Synced) -> None:
    """Take over the shared log; the changes that it has taken in or refused are done."""
    copy = cast("SharingRecord", record)
    bodies = {group["id"]: group for group in [*record["log"], *event["groups"]]}
    record["log"] = [bodies[key] for key in event["order"] if key in bodies]
    if record["reflection"] is not None:  # what it says of a deleted thread is not kept
        record["reflection"] = drop_misfits(record["log"], record["reflection"])
    outbox = read_sharing(record)["outbox"]
    copy["outbox"] = [change for change in outbox if change["id"] not in event["sent"]]
    copy["generation"], copy["revision"] = event["generation"], event["revision"]
    record["cursor"] = event["cursor"]
    run_beside("synced", record, event)
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


def _drop_deleted(record: MemoryRecord, event: ThreadDeleted) -> None:
    """Drop what the thread had in the shared log when it was deleted."""
    if record["scope"] != "resource":
        return
    own, is_all = record["thread_id"], event["of_resource"]
    draft = cast("dict[str, Any]", record)
    for key in ("log", "outbox"):
        draft[key] = [
            item
            for item in draft.get(key, ())
            if not is_all and item.get("thread_id") not in (None, own)
        ]
    forget_log(record)
    draft.update(cursor=[], observed=None, chunks=[], reflection=None, pending={}, revision=0)
    deletions = find_deletions(record)
    if deletions.last is not None:  # what the copy still has of the time before is not observed
        draft["cursor"] = [deletions.last]
        key = derive_id("deleted", record["id"], deletions.number)
        blank = dict.fromkeys(added_hints)
        _add_to_outbox(record, key, kind="join", thread_id=own, groups=[], hints=blank)


def _list_types() -> dict[str, Any]:
    """Return the type of the outbox, with the changes that other features make in the log."""
    changes: Any = Union[(LogChange, *(change.form for change in added_changes.values()))]
    return {"outbox": list[changes]}


ADDITIONS = Additions(
    keys=SharingKeys,
    types=_list_types,
    reducers={
        "synced": _take_over_log,
        "others": _set_others,
    },
    beside={
        "observed": _note_observation,
        "reflected": _note_reflection,
        "changed": _note_change,
        "opened": _join_or_leave,
        "deleted": _drop_deleted,
    },
    operations={
        OTHERS: AddedOperation(
            finish=_finish_others,
            count=count_others,
            shown_as="observation",
            label="observing other threads",
        )
    },
    message_ids=(OTHERS_ID,),
    waits=lambda record: bool(read_sharing(record)["outbox"]),
    has_sent=lambda record: read_sharing(record)["revision"] > 0,
    of_resource=ResourceForm(
        read=to_record,
        complete=complete_log,
        erase=without_thread,
        owner=lambda record: f"{record['resource_id']}" if record["scope"] == "resource" else None,
    ),
)
