"""The memory of one thread as plain JSON values, and `fold`, the only code that changes it.

Rules of this file:

1. Everything that changes memory is an event, and `fold` is where events take effect.
2. `fold` is deterministic, never mutates what it is given, and
   `fold(fold(r, xs), ys) == fold(r, xs + ys)`, so it serves as the reducer of either kind of
   channel.
3. An event that was folded already, or that was computed from memory that has moved on since,
   changes nothing: observations name the cursor they continue, reflections the groups they read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langgraph_om.core.content.text import show_key
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.errors import ConfigurationError

RECORD_VERSION = 1
"""Version of the record's form; a record of a later version is refused, never guessed at."""

HINTS = ("current_task", "suggested_response", "thread_title")
"""What an observation may say beside its items."""

CURSOR_TAIL = 16
"""How many of the newest observed message ids the cursor keeps, in case some are removed."""


def blank_record() -> MemoryRecord:
    """Return the memory of a thread that was never looked at.

    What a person wants to read of a state comes first, the bookkeeping last.
    """
    return {
        "log": [],
        "current_task": None,
        "suggested_response": None,
        "thread_title": None,
        "chunks": [],
        "reflection": None,
        "pending": {},
        "attempts": {},
        "usage": {},
        "generation": 0,
        "tripwire": None,
        "thread_id": "",
        "resource_id": None,
        "scope": "thread",
        "id": "",
        "version": RECORD_VERSION,
        "others": [],
        "revision": 0,
        "outbox": [],
        "turn": {"request": None, "step": -1},
        "archived": None,
        "evicted": None,
        "cursor": [],
        "stamps": {},
        "token_cache": {"counter": "", "counts": {}},
    }


RECORD_KEYS = frozenset(blank_record())


def log_tokens(record: MemoryRecord) -> int:
    """Count the tokens of the observation log."""
    return sum(group["tokens"] for group in record["log"])


def count_failures(record: MemoryRecord, operation: str) -> int:
    """Count the failures in a row of an operation."""
    count: int = record["attempts"].get(operation, {}).get("failures", 0)
    return count


def find_newest_observed(record: Mapping[str, Any]) -> str | None:
    """Return the id of the newest observed message, as the cursor knows it."""
    cursor: list[str] = record["cursor"]
    return cursor[-1] if cursor else None


def select_valid_counts(record: MemoryRecord, counter: str) -> dict[str, list[Any]]:
    """Return the cached token counts that a counter of this identity made."""
    cache = record["token_cache"]
    counts: dict[str, list[Any]] = cache["counts"]
    return counts if cache["counter"] == counter else {}


def complete_record(value: object) -> MemoryRecord:
    """Complete what the channel holds (`None`, `{}` or a record) to a whole record.

    Raises:
        ConfigurationError: When it is no mapping, or was written by a later version.
    """
    if not value:
        return blank_record()
    if not isinstance(value, Mapping):
        msg = f"`om` is {type(value).__name__}; it must be a memory record (a mapping) or absent"
        raise ConfigurationError(msg)
    version = value.get("version", RECORD_VERSION)
    if not isinstance(version, int) or version > RECORD_VERSION:
        msg = (
            f"`om.version` is {version!r}, this package reads records up to version "
            f"{RECORD_VERSION}; upgrade langgraph-om"
        )
        raise ConfigurationError(msg)
    unknown = sorted(set(map(str, value)) - RECORD_KEYS)
    if unknown:
        msg = f"`om` has the key {unknown[0]!r}, which is no key of a memory record"
        raise ConfigurationError(msg)
    if len(value) == len(RECORD_KEYS):
        return cast("MemoryRecord", value)
    return cast("MemoryRecord", {**blank_record(), **value})


def find_log_owner(record: MemoryRecord) -> str:
    """Name whose log it is: threads that share one name what they do to it alike."""
    is_shared = record["scope"] == "resource"
    return f"{record['resource_id']}" if is_shared else record["id"]


def select_own_groups(record: MemoryRecord) -> list[Group]:
    """Return the groups of a log that are about the record's own conversation."""
    if record["scope"] != "resource":
        return record["log"]
    return [group for group in record["log"] if group["thread_id"] == record["thread_id"]]


def find_groups(log: Sequence[Group], ids: Sequence[str]) -> int | None:
    """Tell where a run of groups stands in a log; `None` when it does not stand there any more."""
    present = [group["id"] for group in log]
    if not ids or ids[0] not in present:
        return None
    start = present.index(ids[0])
    return start if present[start : start + len(ids)] == list(ids) else None


def write_log(groups: Sequence[Group]) -> str:
    """Render groups as one text, a blank line between them."""
    return "\n\n".join(group["text"] for group in groups if group["text"])


def write_range(group: Group) -> str:
    """Name the messages that a group was written from; nothing when it names none."""
    ranges = ",".join(f"{show_key(first)}:{show_key(last)}" for first, last in group["ranges"])
    return f"_range: `{ranges}`_" if ranges else ""


def group_by_thread(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Sort the groups of threads by thread, in the order of their first ones."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        if group["thread_id"] is not None:
            found.setdefault(group["thread_id"], []).append(group)
    return found
