"""What a record knows of its archive: up to where that has the conversation, and what was deleted.

`archived` is the last message that was archived, and `evicted` the last one that was removed since.
"""

from __future__ import annotations

from typing import Any, Final, cast

from langgraph_om.core.record.record import CURSOR_TAIL, blank_record
from langgraph_om.core.wire import Archived, DeletionFound, Evicted, MemoryRecord, Opened


def note_archived(record: MemoryRecord, event: Archived) -> None:
    """Note up to where the archive has the conversation."""
    record["archived"] = event["last"]
    if event["branch"] is not None:
        record["branch"] = event["branch"]


def note_evicted(record: MemoryRecord, event: Evicted) -> None:
    """Note up to where observed messages were removed; what comes back changes nothing."""
    ids, former = event["ids"], record.get("evicted")
    if former == event["last"]:
        return
    record["evicted"] = event["last"]
    observed = record["observed"]
    if observed is not None:
        new = len(ids) - (ids.index(former) + 1 if former in ids else 0)
        record["observed"] = {
            **observed,
            "index": observed["index"] - new,
            "count": observed["count"] - new,
        }
    if event["tokens"]:
        record["evicted_tokens"] = record.get("evicted_tokens", 0) + event["tokens"]


def note_number(record: MemoryRecord, event: DeletionFound) -> bool:
    """Note how often the thread was deleted; return whether what it had is to be forgotten."""
    if event["prunings"] != record.get("prunings", 0):
        record["prunings"] = event["prunings"]
        record["log"] = [group for group in record["log"] if group["id"] not in event["gone"]]
    is_news = event["number"] != record.get("deletion", 0)
    record["deletion"] = event["number"]
    if event["floor"] is None:
        return False
    record["floor"] = event["floor"]
    if is_news:
        _forget_all(record, event["floor"]["messages"])
    return is_news  # or what it had then has another end by now


_IDENTITY: Final = ("thread_id", "resource_id", "scope", "id", "version", "generation", "usage")
_PLACE: Final = ("turn", "head", "stamps", "token_cache", "windows")
_DELETED: Final = ("deletion", "prunings", "floor")
_KEPT: Final = frozenset({*_IDENTITY, *_PLACE, *_DELETED})
"""What a record keeps when its thread is deleted: whose it is, and where the conversation is."""


def _forget_all(record: MemoryRecord, said: list[str]) -> None:
    """Forget what memory has of a thread; what was said before is not observed again."""
    draft = cast("dict[str, Any]", record)
    for key in draft.keys() - _KEPT:
        del draft[key]
    for key, value in blank_record().items():
        draft.setdefault(key, value)
    record["cursor"] = said[-CURSOR_TAIL:]


def begin_anew(record: MemoryRecord, event: Opened) -> None:
    """Forget what the archive has of another thread, and what was deleted of another resource."""
    gone: tuple[str, ...] = ()
    if record["thread_id"] != event["thread_id"]:  # nothing is archived under its new id yet
        gone = ("archived", "branch", *_DELETED)
    elif record["resource_id"] != event["resource_id"]:
        if record.get("archived") is None:
            gone = ("deletion", "floor")
        else:
            record["deletion"] = None
    for key in gone:
        cast("dict[str, Any]", record).pop(key, None)
