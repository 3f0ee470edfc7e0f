"""Extract values by schema from what is observed, and tell when they change.

A value is kept with its former one. A failure is noted there, and leaves the value as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired, Self, cast

from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.values import Answer, Wanted
from langgraph_om.core.forms import SchemaForm, merge
from langgraph_om.core.step.step import Feature
from langgraph_om.core.wire import Chunk, Event, MemoryRecord, ObservationActivated, ObservationEnd

NAME = "extract"
"""The feature's name, under which an observation has its entries."""


class Extraction(TypedDict):
    """An entry: the answer about one value.

    With neither a patch nor an error nothing changes in it, and a former error is over.
    """

    name: str
    patch: NotRequired[dict[str, Any]]
    """The fields that change."""
    error: NotRequired[str]
    """Why it could not be told."""


class ExtractedValue(TypedDict):
    """A value by schema."""

    value: Any
    """The JSON object; `None` where nothing was found yet."""
    previous: Any
    """The one before."""
    cycle_id: str
    """The cycle that found it, or failed to."""
    at: str
    error: str | None
    """Why the last question about it found nothing."""


class ExtractKeys(TypedDict, total=False):
    """The key of a record."""

    extracted: dict[str, ExtractedValue]
    """Values by schema, by their names; missing before the first."""


class ExtractRecord(MemoryRecord, ExtractKeys, total=False):
    """A record with values by schema."""


def set_values(record: MemoryRecord, event: ObservationEnd | ObservationActivated) -> None:
    """Merge what was found into the values; a failure is noted, and leaves its value as it is."""
    values, entries = read_values(record), list_entries(event)
    for item in entries:
        former = values.get(item["name"])
        value, previous = (former["value"], former["previous"]) if former else (None, None)
        if former and "patch" not in item and "error" not in item:
            values[item["name"]] = {**former, "error": None}
            continue
        if "patch" in item:
            value, previous = merge(value, item["patch"]), value
        values[item["name"]] = {
            "value": value,
            "previous": previous,
            "cycle_id": event["cycle_id"],
            "at": event["at"],
            "error": item.get("error"),
        }
    if entries:
        cast("ExtractRecord", record)["extracted"] = values


def read_values(record: Mapping[str, Any]) -> dict[str, ExtractedValue]:
    """Return the values of a record by name."""
    return dict(record.get("extracted", {}))


def list_entries(found_by: Mapping[str, Any]) -> list[Extraction]:
    """Return the entries of an event or a chunk."""
    entries: list[Extraction] = found_by.get("found", {}).get(NAME, [])
    return entries


def merge_entries(record: MemoryRecord, entries: Sequence[Extraction]) -> dict[str, Any]:
    """Return the values of a record by name, with entries merged into them."""
    values = {name: kept["value"] for name, kept in read_values(record).items()}
    for item in entries:
        if "patch" in item:
            values[item["name"]] = merge(values.get(item["name"]), item["patch"])
    return values


class Extract(Feature):
    """Asks for values by schema with each observation of the own thread."""

    name = NAME
    additions = Additions(keys=ExtractKeys, beside={"observed": set_values})

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas
        self._forms = {name: SchemaForm(schema) for name, schema in schemas.items()}

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `observation.extract`."""
        return cls(setup.observation.extract) if setup.observation.extract else None

    @property
    def value_names(self) -> Mapping[str, str]:
        """Return the names of the values, each with the option that it stands in."""
        return dict.fromkeys(self._forms, "`observation.extract`")

    def values(self, info: CycleInfo, chunks: Sequence[Chunk]) -> Sequence[Wanted]:
        """Return the values; other threads ask for their own."""
        if info.operation != "observation":
            return []
        ahead = [entry for chunk in chunks for entry in list_entries(chunk)]
        known = merge_entries(info.record, ahead)
        failed = {name for name, kept in read_values(info.record).items() if kept["error"]}
        failed |= {entry["name"] for entry in ahead if "error" in entry}
        return [
            Wanted(name, form, known.get(name), name in failed)
            for name, form in self._forms.items()
        ]

    def write_entries(self, info: CycleInfo, answers: Sequence[Answer]) -> list[Extraction]:
        """Write the answers as entries."""
        del info
        return [_write_entry(answer) for answer in answers]

    def announce(self, info: CycleInfo, at: datetime, entries: Sequence[Extraction]) -> list[Event]:
        """Return the events that say which values have changed, and which could not be told."""
        former, values = merge_entries(info.record, []), merge_entries(info.record, entries)
        events: list[Event] = []
        for name in dict.fromkeys(entry["name"] for entry in entries):
            old, new = former.get(name), values.get(name)
            errors = [e["error"] for e in entries if e["name"] == name and "error" in e]
            if new != old:
                events.append(info.event("extracted", at, name=name, value=new, previous=old))
            if errors:
                events.append(info.event("extracted", at, name=name, error=errors[-1]))
        return events


def _write_entry(answer: Answer) -> Extraction:
    if answer.error is not None:
        return {"name": answer.value.name, "error": answer.error}
    if answer.patch is not None:
        return {"name": answer.value.name, "patch": answer.patch}
    return {"name": answer.value.name}
