"""What a record keeps beside the log: extracted values, and pinned and recalled messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langgraph_om.core.content.text import escape, escape_attribute
from langgraph_om.core.forms import merge
from langgraph_om.core.prompts import fill
from langgraph_om.core.wire import (
    Extraction,
    Group,
    MemoryRecord,
    Opened,
    Recalled,
    RecalledBlock,
)

EXTRACT: Final = "extract"
"""The name under which an observation has what was found of values."""


# Extracted values.


def list_entries(found_by: Mapping[str, Any]) -> list[Extraction]:
    """Return the entries of an event or a chunk."""
    entries: list[Extraction] = found_by.get("found", {}).get(EXTRACT, [])
    return entries


def merge_entries(record: MemoryRecord, entries: Sequence[Extraction]) -> dict[str, Any]:
    """Return the values of a record by name, with entries merged into them."""
    values = {name: kept["value"] for name, kept in record.get("extracted", {}).items()}
    for item in entries:
        if "patch" in item:
            values[item["name"]] = _apply(item, values.get(item["name"]))
    return values


def set_values(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Merge what was found into the values; a failure is noted, and leaves its value as it is."""
    values, entries = {**record.get("extracted", {})}, list_entries(event)
    for item in entries:
        former = values.get(item["name"])
        value, previous = (former["value"], former["previous"]) if former else (None, None)
        if former and "patch" not in item and "error" not in item:
            values[item["name"]] = {**former, "error": None}
            continue
        if "patch" in item:
            value, previous = _apply(item, value), value
        values[item["name"]] = {
            "value": value,
            "previous": previous,
            "cycle_id": event["cycle_id"],
            "at": event["at"],
            "error": item.get("error"),
        }
    if entries:
        record["extracted"] = values


def _apply(item: Extraction, value: Any) -> Any:
    """Return a value with what changes in it."""
    return item["patch"] if item.get("is_whole") else merge(value, item["patch"])


# Pinned messages.


def list_pinned(record: Mapping[str, Any]) -> list[Group]:
    """Return the messages that a person pinned, in the order in which that was done."""
    pinned: list[Group] = record.get("pinned", [])
    return pinned


def name_pinned(group: Group) -> str:
    """Return the id of a pinned message."""
    return group["sources"][0][0]


def write_pinned(record: MemoryRecord) -> str:
    """Return the messages for the system message."""
    blocks = [
        f'<pinned-message id="{escape_attribute(name_pinned(each))}" '
        f'role="{each["keep"].get("role", "")}">\n{escape(each["text"])}\n</pinned-message>'
        for each in list_pinned(record)
    ]
    return fill("pinned_messages", messages="\n\n".join(blocks)) if blocks else ""


# Messages recalled for the live request.


def set_recalled(record: MemoryRecord, event: Recalled) -> None:
    """Keep what was found for the live request, in the place of what was found before."""
    said: Mapping[str, Any] = event
    kept = {name: said[name] for name in RecalledBlock.__annotations__}
    record["recalled"] = cast("RecalledBlock", kept)


def leave_recalled(record: MemoryRecord, event: Opened) -> None:
    """Let go of what was found for another thread or user."""
    if (record["thread_id"], record["resource_id"]) != (event["thread_id"], event["resource_id"]):
        record.pop("recalled", None)
