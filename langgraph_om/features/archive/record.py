"""What the archive adds to a record: how far it has the conversation, and what was deleted of it.

The archive counts deletions, and the record notes the number that it saw last: a record with a
lower number is a copy from before. What it had then is not archived again.
"""

from __future__ import annotations

from typing import Literal, cast

from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions, Deletions
from langgraph_om.core.record.reducers import Draft, forget_deleted
from langgraph_om.core.wire import MemoryRecord, Opened, ThreadDeleted


class Floor(TypedDict):
    """What a record had when its thread was deleted; nothing of it is archived again."""

    message: str | None
    """The last message that was archived then; `None` for none."""
    starts: list[str]
    """First message ids of the ranges of its groups then; none in resource scope."""


class ArchiveKeys(TypedDict, total=False):
    """The keys that the archive adds to a record."""

    archived: str | None
    """The last message that the archive has; missing or `None` without any."""
    branch: str
    """The archive's name for the conversation as this record knows it, which no other branch
    changes; missing before something is archived."""
    deletion: int
    """How often thread and resource had been deleted when the record last looked; 0 if missing."""
    floor: Floor
    """Missing but after a deletion that the record survived."""


class ArchiveRecord(MemoryRecord, ArchiveKeys):
    """A record with the keys that the archive adds."""


class Archived(TypedDict):
    """The archive has the conversation up to this message."""

    type: Literal["archived"]
    last: str
    branch: str | None
    """The archive's name for the conversation up to there."""


class DeletionFound(ThreadDeleted):
    """Thread or resource were deleted from the archive, or it counts their deletions anew."""

    type: Literal["deletion"]
    number: int
    """How often they were deleted so far."""
    floor: Floor | None
    """`None` where the record had nothing there that was deleted."""


def view(record: MemoryRecord) -> ArchiveRecord:
    """Return a record as one that has the archive's keys."""
    return cast("ArchiveRecord", record)


def note_archived(record: MemoryRecord, event: Archived) -> None:
    """Note up to where the archive has the conversation."""
    view(record)["archived"] = event["last"]
    if event["branch"] is not None:
        view(record)["branch"] = event["branch"]


def note_deletion(record: MemoryRecord, event: DeletionFound) -> None:
    """Note how often the thread was deleted, and what the record had then."""
    view(record)["deletion"] = event["number"]
    if event["floor"] is None:
        return
    view(record)["floor"] = event["floor"]
    forget_deleted(record, event)


def begin_anew(record: MemoryRecord, event: Opened) -> None:
    """Forget what the archive has of another thread, and what was deleted of another resource."""
    gone: tuple[str, ...] = ()
    if record["thread_id"] != event["thread_id"]:  # nothing is archived under its new id yet
        gone = ("archived", "branch", "deletion", "floor")
    elif record["resource_id"] != event["resource_id"]:
        gone = ("deletion", "floor")
    for key in gone:
        cast("Draft", record).pop(key, None)


def read_deletions(record: MemoryRecord) -> Deletions:
    """Return what a record knows of deletions of its thread."""
    number, floor = view(record).get("deletion", 0), view(record).get("floor")
    if floor is None:
        return Deletions(number)
    return Deletions(number, floor.get("message"), frozenset(floor.get("starts", ())))


ADDITIONS = Additions(
    keys=ArchiveKeys,
    reducers={"archived": note_archived, "deletion": note_deletion},
    beside={"opened": begin_anew},
    deletions=read_deletions,
)
