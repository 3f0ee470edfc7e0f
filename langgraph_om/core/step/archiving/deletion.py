"""Tell a thread that was deleted from an archive that lost it.

The archive counts deletions, and the record notes the number that it saw last: a record with a
lower number is a copy from before. What it had then is not archived again. A record that misses in
the archive what it had there, without a deletion, has another archive behind it than before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langgraph_om.core.content.message_keys import Keyed
from langgraph_om.core.effects import EffectFlow, Storage, StorageReply, Warn, call_storage
from langgraph_om.core.record.record import select_own_groups
from langgraph_om.core.wire import Event, Floor, Group, MemoryRecord

Ask = Callable[..., EffectFlow[Any]]
"""Calls a method of the storage."""


def look_for_deletion(record: MemoryRecord, ask: Ask = call_storage) -> EffectFlow[list[Event]]:
    """Return what to note of deletions since the record last looked; nothing where there is none.

    Args:
        record: The memory of the thread.
        ask: What calls the storage.

    Raises:
        ArchiveError: When the storage fails.
    """
    found: Mapping[tuple[str, str], int] = yield from ask(
        "deletions", record["resource_id"], [record["thread_id"]]
    )
    number, seen = sum(found.values()), record.get("deletion", 0)
    if number == seen:
        return []
    has_taken_part = record["archived"] is not None or record["revision"] > 0
    floor: Floor | None = None
    if number > seen and has_taken_part:
        starts = [first for group in select_own_groups(record) for first, _ in group["ranges"]]
        starts = [] if record["scope"] == "resource" else starts
        floor = {"message": record["archived"], "starts": starts}
    is_all = ("resource", record["resource_id"]) in found
    return [{"type": "deletion", "number": number, "floor": floor, "of_resource": is_all}]


def is_survivor(events: Sequence[Event]) -> bool:
    """Return whether the record is a copy from before a deletion that was just found."""
    return any(event["type"] == "deletion" and event["floor"] is not None for event in events)


def warn_of_loss(record: MemoryRecord) -> EffectFlow[None]:
    """Warn, once in a process for each resource, that the archive lacks what it had."""
    name = record["resource_id"] or record["thread_id"]
    reply: StorageReply = yield Storage("note_loss", (name,))
    if reply.value:
        yield Warn(
            "thread %r: the archive lacks what it had, and nothing was deleted: it was emptied, "
            "restored or swapped; the thread brings what it has",
            (record["thread_id"],),
        )


def drop_deleted(record: MemoryRecord, entries: Keyed) -> Keyed:
    """Leave out the messages that the thread had when it was deleted."""
    floor = record.get("floor")
    last = floor.get("message") if floor else None
    places = [at for at, (key, _) in enumerate(entries) if key == last] if last else []
    return entries[places[-1] + 1 :] if places else entries


def drop_deleted_groups(record: MemoryRecord, groups: Sequence[Group]) -> list[Group]:
    """Leave out the groups that tell of what the thread had when it was deleted."""
    floor = record.get("floor")
    starts = set(floor.get("starts", ())) if floor else set()
    return [group for group in groups if starts.isdisjoint(first for first, _ in group["ranges"])]
