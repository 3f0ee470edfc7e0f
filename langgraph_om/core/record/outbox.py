"""What the record of a thread has that shares its log, and changes that it has yet to send.

What is changed in the thread's copy of the log is noted in its outbox, and the next step puts it
into the shared log. Without a shared log, or a thread id, nothing is noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langgraph_om.core.record.record import HINTS, is_shared
from langgraph_om.core.wire import (
    Attempt,
    Group,
    LogChange,
    MemoryRecord,
    ObservationActivated,
    ObservationEnd,
    OthersBuffered,
    OthersEnd,
    ReflectionActivated,
    ReflectionEnd,
)


def count_others(record: MemoryRecord) -> int:
    """Count the tokens of other threads of which something is to be observed."""
    others = record.get("others", [])
    return sum(thread["tokens"] for thread in others if thread["observable"])


def add_to_outbox(record: MemoryRecord, change_id: str, **change: Any) -> None:
    """Note a change that the shared log does not have yet."""
    is_joining = change["kind"] == "join"  # the record does not have its new thread and scope yet
    if not (is_joining or is_shared(record)):
        return
    if not (change["thread_id"] if is_joining else record["thread_id"]):
        return
    known: Mapping[str, Any] = record
    hints = {name: known.get(name) for name in HINTS}
    item = {"id": change_id, "cursor": known["cursor"], "hints": hints, **change}
    record["outbox"] = [*record.get("outbox", []), cast("LogChange", item)]


def send_observation(record: MemoryRecord, event: ObservationEnd | ObservationActivated) -> None:
    """Note what was observed of the own thread."""
    add_to_outbox(
        record,
        event["cycle_id"],
        kind="extend",
        thread_id=record["thread_id"],
        after=event["after"],
        groups=list(event["groups"]),
        hints={**dict.fromkeys(HINTS), **event["hints"]},
    )


def send_reflection(
    record: MemoryRecord,
    event: ReflectionEnd | ReflectionActivated,
    groups: list[Group],
    rest: Attempt | None,
) -> None:
    """Note a reflection.

    Args:
        groups: Those that stand in the log now.
        rest: What the next one waits for.
    """
    waits = {"rest": rest} if rest is not None else {}
    ids = list(event["group_ids"])
    add_to_outbox(record, event["cycle_id"], kind="replace", group_ids=ids, groups=groups, **waits)


def send_others(record: MemoryRecord, event: OthersEnd | OthersBuffered) -> bool:
    """Note what was observed of other threads; return whether any of it is new."""
    outbox = record.get("outbox", [])
    known = {item["id"] for item in [*outbox, *record["log"]]}
    sections = [section for section in event["sections"] if section["groups"][0]["id"] not in known]
    for section in sections:
        add_to_outbox(record, section["groups"][0]["id"], kind="extend", **section)
    return bool(sections)
