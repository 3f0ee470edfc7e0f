"""Extract values from what is observed or reflected, and tell when they change.

A value is a text after instructions, or JSON after a schema. It is kept with its former one. A
failure is noted there, and leaves the value as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from pydantic import TypeAdapter

from langgraph_om.core.config.options import EXTRACTORS, refuse
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.questions import AskedValue, ValueAnswer
from langgraph_om.core.effects import CallReply, CallWithConfig, EffectFlow
from langgraph_om.core.forms import Form, InvalidError, SchemaForm, TemplateForm, merge
from langgraph_om.core.record.kept import list_entries, merge_entries
from langgraph_om.core.wire import Chunk, Event, Extraction
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.runner import StepRunner

KindT = TypeVar("KindT")


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """A value extracted from what is observed or reflected.

    Args:
        instructions: What the value is, for the model; required without a schema.
        schema: A pydantic model, a TypedDict, a dataclass or a JSON Schema of an object; `None`:
            the value is a text.
        include_previous: Whether the model sees the current value and updates it; otherwise it
            writes a new one each time.
        on_extracted: Called, sync or async, before a value is kept, with the value (a JSON object
            or a text) and a mapping about it (`name`, `previous`, `cycle_id`, `thread_id`,
            `resource_id`). What it returns is kept instead, unless that is `None`; if it raises,
            the value stays as it was.
    """

    instructions: str | None = None
    schema: Any = None
    include_previous: bool = True
    on_extracted: Callable[[Any, dict[str, Any]], Any] | None = field(
        default=None, repr=False, compare=False
    )

    @cached_property
    def form(self) -> Form:
        """The form of the value.

        Raises:
            ConfigurationError: When the schema is not a valid one.
            ValueError: When there are neither instructions nor a schema.
        """
        if self.schema is None:
            if not (self.instructions or "").strip():
                msg = "it has neither `instructions` nor a `schema`"
                raise ValueError(msg)
            return TemplateForm("", str(self.instructions))
        return SchemaForm(self.schema, self.instructions)


def _read_extractor(given: Any) -> Extractor:
    """Read one value of the option: an extractor, instructions, or a schema."""
    if isinstance(given, Extractor):
        return given
    return Extractor(instructions=given) if isinstance(given, str) else Extractor(schema=given)


def read_wanted(given: Mapping[str, Any] | None) -> dict[str, Extractor]:
    """Return the values of the option `observation.extract`, by name.

    Raises:
        ConfigurationError: When a value cannot be read.
    """
    wanted = {name: _read_extractor(each) for name, each in (given or {}).items()}
    for name, each in wanted.items():
        if not name.isidentifier():
            because = f", in which {name!r} is not an identifier"
            refuse("observation.extract", given, EXTRACTORS, because)
        try:
            _ = each.form
        except ValueError as error:
            reason = str(error).partition("; pass")[0]  # what to pass stands in the hint
            because = f", in which {name!r} cannot be read: {reason}"
            refuse("observation.extract", given, EXTRACTORS, because)
    return wanted


class Extract:
    """Asks for values with each observation of the own thread."""

    def __init__(self, wanted: Mapping[str, Extractor]) -> None:
        self._wanted = wanted

    def values(self, info: CycleInfo, chunks: Sequence[Chunk]) -> Sequence[AskedValue]:
        """Return the values; other threads ask for their own."""
        if info.operation != "observation":
            return []
        ahead = [entry for chunk in chunks for entry in list_entries(chunk)]
        known = merge_entries(info.record, ahead)
        failed = {name for name, kept in info.record.get("extracted", {}).items() if kept["error"]}
        failed |= {entry["name"] for entry in ahead if "error" in entry}
        return [
            AskedValue(
                name, each.form, known.get(name) if each.include_previous else None, name in failed
            )
            for name, each in self._wanted.items()
        ]

    def write_entries(
        self, info: CycleInfo, answers: Sequence[ValueAnswer]
    ) -> EffectFlow[list[Extraction]]:
        """Write the answers as entries, as the user's functions leave them."""
        entries: list[Extraction] = []
        for answer in answers:
            each = self._wanted[answer.value.name]
            entry = _write_entry(answer, is_whole=not each.include_previous)
            if each.on_extracted is not None and "patch" in entry:
                entry = yield from _ask_user(info, each, each.on_extracted, entry)
            entries.append(entry)
        return entries

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


def _write_entry(answer: ValueAnswer, *, is_whole: bool) -> Extraction:
    name = answer.value.name
    if answer.error is not None:
        return {"name": name, "error": answer.error}
    if answer.patch is None:
        return {"name": name}
    value = merge(answer.value.known, answer.patch)
    entry: Extraction = {"name": name, "patch": answer.patch, "value": value}
    return {**entry, "is_whole": True} if is_whole else entry


def _ask_user(
    info: CycleInfo, each: Extractor, call: Callable[..., Any], entry: Extraction
) -> EffectFlow[Extraction]:
    """Let the user's function see a value, and change it."""
    name, found = entry["name"], entry["value"]
    about = {
        "name": name,
        "previous": merge_entries(info.record, []).get(name),
        "cycle_id": info.cycle_id,
        "thread_id": info.record["thread_id"],
        "resource_id": info.record["resource_id"],
    }
    reply: CallReply = yield CallWithConfig(
        f"extract[{name!r}].on_extracted", lambda _: call(deepcopy(found), about)
    )
    if reply.error is not None:
        return {"name": name, "error": f"`on_extracted` failed: {reply.failure}"}
    if reply.value is None:
        return entry
    try:
        value = each.form.read_patch(reply.value)
        each.form.check(value)
    except InvalidError as error:
        return {"name": name, "error": f"what `on_extracted` returned is not such a value: {error}"}
    return {"name": name, "patch": value, "value": value, "is_whole": True}


def read_extracted(
    runner: StepRunner, state: Any, kind: type[KindT], name: str | None
) -> KindT | None:
    """Return a value of a state's memory as an object of its schema."""
    extractors = read_wanted(runner.settings.observation.extract)
    wanted = {key: each.schema or str for key, each in extractors.items()}
    names = [each for each in wanted if wanted[each] is kind and name in (None, each)]
    if len(names) != 1:
        known = ", ".join(sorted(wanted)) or "none"
        asked = f"{kind!r}" if name is None else f"{kind!r} and the name {name!r}"
        msg = (
            f"{len(names)} values have the schema {asked}; pass the schema and `name` of one "
            f"of `observation.extract`, which are: {known}"
        )
        raise ConfigurationError(msg)
    kept = runner.record(state).get("extracted", {}).get(names[0])
    if kept is None or kept["value"] is None:
        return None
    return TypeAdapter(kind).validate_json(json.dumps(kept["value"]))
