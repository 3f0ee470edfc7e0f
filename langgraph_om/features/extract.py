"""Extract values by schema from what is observed, and tell when they change.

A value is kept with its former one. A failure is noted there, and leaves the value as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NotRequired, Self, TypeVar, cast

from pydantic import AfterValidator, TypeAdapter
from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions, Advice, ShownValue
from langgraph_om.core.config.options import Hint
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.questions import AskedValue, ValueAnswer
from langgraph_om.core.forms import SchemaForm, merge
from langgraph_om.core.step.step import Feature
from langgraph_om.core.wire import Chunk, Event, MemoryRecord, ObservationActivated, ObservationEnd
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.runner import StepRunner

KindT = TypeVar("KindT")

NAME = "extract"
"""The feature's name, under which an observation has its entries."""


def _refuse_odd_schemas(value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    for name, schema in (value or {}).items():
        if not isinstance(name, str) or not name.isidentifier():
            msg = f"in which {name!r} is no name"
            raise ValueError(msg)
        SchemaForm(schema)
    return value


class ExtractOptions(TypedDict, total=False):
    """The key of the option `observation` for values by schema."""

    extract: Annotated[
        Mapping[str, Any] | None,
        AfterValidator(_refuse_odd_schemas),
        Hint(
            "a mapping from names to schemas (pydantic models, TypedDicts, JSON Schemas), or None"
        ),
    ]
    """Values by schema, which a second question takes out of what is observed."""


@dataclass(frozen=True, kw_only=True)
class ExtractConfig:
    """The same as a field of `ObservationConfig`."""

    extract: Mapping[str, Any] | None = None


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


def list_shown(record: MemoryRecord) -> Iterator[ShownValue]:
    """Yield the values for the page of a memory."""
    for name, kept in read_values(record).items():
        error = kept["error"]
        notes = (f"the newest question about it found nothing: {error}",) if error else ()
        yield ShownValue(name, kept["value"], notes)


def list_advice(record: MemoryRecord, _: datetime) -> Iterator[Advice]:
    """Yield what to do about values that could not be told."""
    for name, kept in read_values(record).items():
        if kept["error"]:
            yield Advice(
                NAME,
                f"the value {name!r} is as it was: {kept['error']}. It is asked for again with "
                f"the next observation; a schema with descriptions and fewer required fields helps",
            )


class Extract(Feature):
    """Asks for values by schema with each observation of the own thread."""

    name = NAME
    additions = Additions(
        keys=ExtractKeys, beside={"observed": set_values}, shown=list_shown, advice=list_advice
    )

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._forms = {name: SchemaForm(schema) for name, schema in schemas.items()}

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `observation.extract`."""
        wanted = _read_schemas(setup.observation)
        return cls(wanted) if wanted else None

    @property
    def value_names(self) -> Mapping[str, str]:
        """Return the names of the values, each with the option that it stands in."""
        return dict.fromkeys(self._forms, "`observation.extract`")

    def values(self, info: CycleInfo, chunks: Sequence[Chunk]) -> Sequence[AskedValue]:
        """Return the values; other threads ask for their own."""
        if info.operation != "observation":
            return []
        ahead = [entry for chunk in chunks for entry in list_entries(chunk)]
        known = merge_entries(info.record, ahead)
        failed = {name for name, kept in read_values(info.record).items() if kept["error"]}
        failed |= {entry["name"] for entry in ahead if "error" in entry}
        return [
            AskedValue(name, form, known.get(name), name in failed)
            for name, form in self._forms.items()
        ]

    def write_entries(self, info: CycleInfo, answers: Sequence[ValueAnswer]) -> list[Extraction]:
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


def _read_schemas(observation: Any) -> Mapping[str, Any]:
    """Return the schemas of the values by name, from the settings of the Observer."""
    schemas: Mapping[str, Any] | None = observation.extract
    return schemas or {}


def _write_entry(answer: ValueAnswer) -> Extraction:
    if answer.error is not None:
        return {"name": answer.value.name, "error": answer.error}
    if answer.patch is not None:
        return {"name": answer.value.name, "patch": answer.patch}
    return {"name": answer.value.name}


class Extractable:
    """The method of a memory that reads values by schema."""

    _runner: StepRunner

    def extracted(self, state: Any, kind: type[KindT], name: str | None = None) -> KindT | None:
        """Return a value by schema out of a state's memory; asks no model.

        Args:
            state: As for `llm_input_messages`; blank for a thread that never ran.
            kind: The schema of the value, as in `observation={"extract": {name: kind}}`.
            name: Its name, where several have this schema.

        Returns:
            The value, an object of the schema; `None` where nothing was found yet.

        Raises:
            ConfigurationError: When no value, or several, have this schema.
        """
        wanted = _read_schemas(self._runner.settings.observation)
        names = [each for each in wanted if wanted[each] is kind and name in (None, each)]
        if len(names) != 1:
            known = ", ".join(sorted(wanted)) or "none"
            asked = f"{kind!r}" if name is None else f"{kind!r} and the name {name!r}"
            msg = (
                f"{len(names)} values have the schema {asked}; pass the schema and `name` of one "
                f"of `observation.extract`, which are: {known}"
            )
            raise ConfigurationError(msg)
        kept = read_values(self._runner.record(state)).get(names[0])
        if kept is None or kept["value"] is None:
            return None
        return TypeAdapter(kind).validate_json(json.dumps(kept["value"]))
