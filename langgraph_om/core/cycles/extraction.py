"""Values by schema out of what is observed: asked for beside an observation, told when they change.

A value is kept with its former one. What fails is listed there, and never fails the observation.
Where the Observer keeps the working memory, that is one more value of the same question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.core.content.text import escape, sanitize
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.questions import rewrite_by_hook
from langgraph_om.core.effects import AskModel, EffectFlow, Flow, ModelReply
from langgraph_om.core.observe.observer import build_failure
from langgraph_om.core.prompts import fill
from langgraph_om.core.wire import Chunk, Extraction, MemoryRecord, WorkingUpdate
from langgraph_om.core.working import (
    WORKING_NAME,
    Form,
    InvalidError,
    SchemaForm,
    TemplateForm,
    Value,
    find_known,
    merge,
)
from langgraph_om.errors import ObserverError

# Ask the Observer for values by schema, after its answer and on the same prompt.


@dataclass(frozen=True, slots=True)
class Found:
    """What a question found out about one value."""

    name: str
    patch: Any = None
    """What changes in it: fields, or the whole text; `None` where that could not be told."""
    error: str | None = None
    """Why not."""


def extract(
    asked: AskModel,
    observations: str,
    forms: Mapping[str, Form],
    known: Mapping[str, Any],
) -> Flow[list[Found]]:
    """Ask for values; whatever goes wrong is told in what is returned.

    Args:
        asked: What the Observer was asked.
        observations: What it answered.
        forms: The form of each value.
        known: The values so far.

    Returns:
        For each value that changes what changes in it, or why it cannot be told.
    """
    schemas = {name: form.json_schema for name, form in forms.items()}
    shown = {name: _show(form, known.get(name)) for name, form in forms.items()}
    task = fill("observer_extract", forms=_write(schemas), known=escape(_write(shown)))
    answer = f"<observations>\n{escape(observations)}\n</observations>"
    messages = [*asked.messages, AIMessage(answer), HumanMessage(task)]
    reply: ModelReply = yield replace(asked, messages=messages)
    if reply.error is not None:
        return [_fail(name, str(build_failure(reply.error, "Observer"))) for name in forms]
    found = _read_object(reply.text)
    if found is None:
        return [_fail(name, "the answer is no JSON object") for name in forms]
    return [
        read_value(name, form, found[name], known.get(name))
        for name, form in forms.items()
        if found.get(name) and found[name] != shown[name]
    ]


def read_value(name: str, form: Form, given: Any, known: Any) -> Found:
    """Read what was said of one value; an error where the value would not have its form."""
    try:
        patch = form.read_patch(given)
        form.check(merge(known, patch))
    except InvalidError as error:
        return _fail(name, str(error))
    return Found(name, patch)


def _fail(name: str, error: str) -> Found:
    return Found(name, error=error)


def _show(form: Form, value: Any) -> Any:
    """Return a value as the Observer is shown it: an empty text is its template."""
    return form.write(value) if isinstance(form, TemplateForm) else value


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in an answer, which models like to put between fences or words."""
    start, stop = text.find("{"), text.rfind("}")
    try:
        # Some models break the lines of a text as they are.
        found = json.loads(sanitize(text[start : stop + 1]), strict=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


Fields = dict[str, Any]
"""The fields of an event, or of a chunk, with what was found; none where nothing was."""


def extract_values(
    info: CycleInfo, asked: AskModel, observations: str, chunks: Sequence[Chunk]
) -> EffectFlow[Fields]:
    """Ask for the values that the user wants out of a conversation, in one question.

    Args:
        info: The cycle.
        asked: What the Observer was asked last.
        observations: What it wrote.
        chunks: What was observed ahead of the messages.
    """
    forms: dict[str, Form] = {
        name: SchemaForm(schema)
        for name, schema in (info.settings.observation.extract or {}).items()
    }
    values = find_values(info.record, [item for c in chunks for item in c.get("extracted", [])])
    known: dict[str, Value] = {name: values.get(name) for name in forms}
    if info.settings.working is not None:
        forms[WORKING_NAME] = info.settings.working
        ahead = [update for chunk in chunks for update in chunk.get("working", [])]
        known[WORKING_NAME] = find_known(info.record, ahead)
    fields = yield from _ask_for(info, asked, observations, forms, known)
    return _clear_errors(info, fields, forms, _list_failed(info.record, chunks))


def extract_working_of_user(
    info: CycleInfo, asked: AskModel, observations: str
) -> EffectFlow[Fields]:
    """Ask what other threads of a user change in the working memory, where it is the user's.

    Args:
        info: The cycle.
        asked: What the Observer was asked about those threads.
        observations: What it wrote.
    """
    form = info.settings.working
    if form is None or info.settings.working_scope != "resource" or not observations:
        return {}
    known = {WORKING_NAME: find_known(info.record)}
    return (yield from _ask_for(info, asked, observations, {WORKING_NAME: form}, known))


def _ask_for(
    info: CycleInfo,
    asked: AskModel,
    observations: str,
    forms: Mapping[str, Form],
    known: Mapping[str, Value],
) -> EffectFlow[Fields]:
    """Ask for values; without any, nothing is asked."""
    found = list[Found]()
    for item in (yield from extract(asked, observations, forms, known)) if forms else ():
        is_told = item.error is not None
        found.append(item if is_told else (yield from _redact(info, item, forms, known)))
    items = [_write_extraction(item) for item in found if item.name != WORKING_NAME]
    of_working = [item for item in found if item.name == WORKING_NAME]
    updates = [_write_update(info, item, known[WORKING_NAME]) for item in of_working]
    return tell_extracted(items, updates)


def _list_failed(record: MemoryRecord, chunks: Sequence[Chunk]) -> set[str]:
    """Return the values that could not be told when they were asked for before."""
    failed = {name for name, kept in record.get("extracted", {}).items() if kept["error"]}
    working = record.get("working")
    if working is not None and working["error"]:
        failed.add(WORKING_NAME)
    for chunk in chunks:
        failed |= {item["name"] for item in chunk.get("extracted", []) if "error" in item}
        if any("error" in update for update in chunk.get("working", [])):
            failed.add(WORKING_NAME)
    return failed


def _clear_errors(
    info: CycleInfo, fields: Fields, forms: Mapping[str, Form], failed: set[str]
) -> Fields:
    """Return what was found, and that values which had failed were told: nothing changes in them.

    What names neither a change nor an error takes the former error away.
    """
    items: list[Extraction] = list(fields.get("extracted", []))
    updates: list[WorkingUpdate] = list(fields.get("working", []))
    told = {item["name"] for item in items}
    items += [{"name": name} for name in forms if name in failed - told - {WORKING_NAME}]
    if WORKING_NAME in failed and WORKING_NAME in forms and not updates:
        owner = info.record["resource_id"]
        updates.append({"cycle_id": info.cycle_id, "resource_id": owner, "known": None})
    return tell_extracted(items, updates)


def _redact(
    info: CycleInfo, item: Found, forms: Mapping[str, Form], known: Mapping[str, Value]
) -> EffectFlow[Found]:
    """Let the hook that rewrites observations rewrite a value: a text, or fields as JSON."""
    name, form = item.name, forms[item.name]
    is_text = isinstance(form, TemplateForm)
    text = item.patch if is_text else json.dumps(item.patch, ensure_ascii=False)
    field = f"extracted.{name}"
    try:
        said = yield from rewrite_by_hook(info, "after_observation", {field: text})
    except ObserverError as error:
        return Found(name, error=str(error))
    return read_value(name, form, said[field], known[name])


def _write_extraction(item: Found) -> Extraction:
    if item.error is not None:
        return {"name": item.name, "error": item.error}
    return {"name": item.name, "patch": item.patch}


def _write_update(info: CycleInfo, item: Found, known: Value) -> WorkingUpdate:
    update: WorkingUpdate = {
        "cycle_id": info.cycle_id,
        "resource_id": info.record["resource_id"],
        "known": known,
    }
    if item.error is not None:
        return {**update, "error": item.error}
    return {**update, "patch": item.patch}


def find_values(record: MemoryRecord, items: Sequence[Extraction]) -> dict[str, Any]:
    """Return the values of a record, by name, with what was found since merged into them."""
    values = {name: kept["value"] for name, kept in record.get("extracted", {}).items()}
    for item in items:
        if "patch" in item:
            values[item["name"]] = merge(values.get(item["name"]), item["patch"])
    return values


def announce_extracted(info: CycleInfo, at: datetime, ended: Mapping[str, Any]) -> EffectFlow[None]:
    """Say which values have changed, and which could not be told.

    What changes in the working memory is told by the step that writes it.

    Args:
        info: The cycle.
        at: When.
        ended: The event with what was found.
    """
    items: Sequence[Extraction] = ended.get("extracted", [])
    former, values = find_values(info.record, []), find_values(info.record, items)
    for name in dict.fromkeys(item["name"] for item in items):
        old, new = former.get(name), values.get(name)
        errors = [item["error"] for item in items if item["name"] == name and "error" in item]
        if new != old:
            yield info.event("extracted", at, name=name, value=new, previous=old)
        if errors:
            yield info.event("extracted", at, name=name, error=errors[-1])
    updates: Sequence[WorkingUpdate] = ended.get("working", [])
    failed = [update["error"] for update in updates if "error" in update]
    if failed:
        yield info.event("extracted", at, name=WORKING_NAME, error=failed[-1])


def tell_extracted(items: Sequence[Extraction], updates: Sequence[WorkingUpdate]) -> Fields:
    """Return the fields of an event with what was found."""
    fields: Fields = {"extracted": list(items)} if items else {}
    return {**fields, "working": list(updates)} if updates else fields
