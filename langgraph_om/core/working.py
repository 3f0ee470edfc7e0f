"""The form of a working memory: a template in Markdown, or a schema for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import HumanMessage

from langgraph_om.core.content.message_keys import WORKING_ID
from langgraph_om.core.content.text import escape
from langgraph_om.core.forms import (
    MAX_CHARACTERS,
    Form,
    InvalidError,
    Path,
    SchemaForm,
    TemplateForm,
    Value,
    find_at,
    find_conflicts,
    merge,
    write_path,
)
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.wire import Chunk, MemoryRecord, ObservedWorking, WorkingRead, WorkingUpdate
from langgraph_om.errors import ConfigurationError

NAME = "working"
"""The feature's name, under which an observation has its entries."""

WORKING_NAME = "working_memory"
"""Its name where the Observer is asked about it, and where its changes are told."""

# --- In a graph's state --------------------------------------------------------------------------

PATCH = "om_patch"
"""The key of an update in a graph's state that is merged; any other value replaces what is there.
"""


def read_state_value(stored: Any) -> Value:
    """Return the value that a channel holds; nothing for what is empty."""
    if isinstance(stored, Mapping) and set(stored) == {PATCH}:  # the first update of a channel
        stored = merge(None, stored[PATCH])
    return stored or None


def fold_state_value(stored: Any, update: Any) -> Any:
    """Reduce a channel: a marked update is merged, anything else replaces."""
    if isinstance(update, Mapping) and set(update) == {PATCH}:
        return merge(read_state_value(stored), update[PATCH]) or {}
    return update


def choose_form(template: object, schema: Any) -> Form:
    """Return the form that a user chose; without a choice, our own template.

    Raises:
        ConfigurationError: When both are given, or one of them cannot be used.
    """
    if template is not None and schema is not None:
        msg = (
            "`template` and `schema` are both given; pass `template` for a text in Markdown, or "
            "`schema` for JSON"
        )
        raise ConfigurationError(msg)
    if schema is not None:
        return SchemaForm(schema)
    if template is None:
        return TemplateForm(load("working_memory_template"))
    if not isinstance(template, str) or not template.strip():
        msg = f"`template` is {template!r}; pass a text in Markdown, or `schema` for JSON"
        raise ConfigurationError(msg)
    if len(template) > MAX_CHARACTERS:
        msg = (
            f"`template` has {len(template)} characters; pass one of {MAX_CHARACTERS} at most, as "
            f"it stands in every prompt"
        )
        raise ConfigurationError(msg)
    return TemplateForm(template.strip())


# The working memory in a record, where the Observer keeps it: what is known, and what is new.
#
# An observation finds out what changes in it. That waits in the record, which is checkpointed,
# until a step of a run writes it to where the memory is kept.


def add_updates(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Keep what an observation found, to be written; an error is kept alone."""
    updates = list_updates(event)
    if not updates:
        return
    kept = _read(record)
    new = [update for update in updates if "patch" in update]
    errors = [update["error"] for update in updates if "error" in update]
    error = errors[-1] if errors else None
    record["working"] = {**kept, "updates": [*kept["updates"], *new], "error": error}


def note_read(record: MemoryRecord, event: WorkingRead) -> None:
    """Note the value that a step has read; what it has written is done."""
    kept = _read(record)
    left = [update for update in kept["updates"] if update["cycle_id"] not in event["written"]]
    error = event["error"] if event["written"] else kept["error"]
    record["working"] = {
        "resource_id": event["resource_id"],
        "value": event["value"],
        "updates": left,
        "error": error,
    }


def forget_updates(chunk: Chunk) -> Chunk:
    """Return a chunk without what it changes in the working memory."""
    found = {name: entries for name, entries in chunk.get("found", {}).items() if name != NAME}
    kept = {key: value for key, value in chunk.items() if key != "found"}
    return cast("Chunk", {**kept, "found": found} if found else kept)


def list_updates(found_by: Mapping[str, Any]) -> list[WorkingUpdate]:
    """Return the entries of an event or a chunk."""
    updates: list[WorkingUpdate] = found_by.get("found", {}).get(NAME, [])
    return updates


def find_unwritten(record: MemoryRecord, resource_id: str | None) -> list[WorkingUpdate]:
    """Return what is still to be written; of a thread that was copied, only what is the user's."""
    updates = _read(record)["updates"]
    return [update for update in updates if update["resource_id"] == resource_id]


def find_known(record: MemoryRecord, ahead: Iterable[WorkingUpdate] = ()) -> Value:
    """Return the value that the Observer is shown.

    Args:
        record: The memory of the thread.
        ahead: What observations found that are not activated yet.
    """
    kept = _read(record)
    is_own = kept["resource_id"] == record["resource_id"]
    value: Value = kept["value"] if is_own else None
    for update in [*kept["updates"], *ahead]:
        if "patch" in update and update["resource_id"] == record["resource_id"]:
            value = merge(value, update["patch"])
    return value or None


def had_failed(record: MemoryRecord, ahead: Iterable[WorkingUpdate]) -> bool:
    """Return whether the value could not be told, or not be written, when it was last asked for."""
    return bool(_read(record)["error"]) or any("error" in update for update in ahead)


def _read(record: MemoryRecord) -> ObservedWorking:
    blank: ObservedWorking = {
        "resource_id": record["resource_id"],
        "value": None,
        "updates": [],
        "error": None,
    }
    return record.get("working", blank)


# The block of working memory in the Actor's prompt.


def render_block(form: Form, value: Value, *, can_write: bool) -> str:
    """Render the block.

    Args:
        form: The form of the memory.
        value: What it holds.
        can_write: Whether the Actor is told to keep it up to date.

    Returns:
        The text; empty where there is nothing to show and nothing can be written.
    """
    if not can_write:
        return (
            fill("working_memory", purpose="", content=escape(form.write(value))) if value else ""
        )
    purpose = load(f"working_memory_{'text' if isinstance(form, TemplateForm) else 'json'}")
    content = form.write(value)
    if not value and not isinstance(form, TemplateForm):
        content = "{}"
    return fill("working_memory", purpose=purpose, content=escape(content))


def write_message(text: str) -> HumanMessage | None:
    """Return the message that shows a block; `None` without one."""
    return HumanMessage(text, id=WORKING_ID) if text else None


# Merge an update into a value that somebody else has changed since its writer was shown it.
#
# The Observer writes from what it was shown when it was asked, and is not there to be asked anew
# when that is written. So nothing that it has not seen is replaced: lines and items that are new
# to both are added, and of any other value the present one stays.


@dataclass(frozen=True, slots=True)
class Joined:
    """What came of updates."""

    previous: Value
    """The value as it was."""
    value: Value
    """The value with them."""
    error: str | None = None
    """Why one of them was not taken, or not all of it."""


def join_updates(form: Form, current: Value, updates: Iterable[WorkingUpdate]) -> Joined:
    """Merge what observations found into the value as it is by now, one after the other."""
    value, errors = current, list[str]()
    for update in updates:
        value, error = merge_late(form, value, update["patch"], update["known"])
        errors += [error] if error else []
    return Joined(current, value, "; ".join(errors) or None)


def merge_late(form: Form, current: Value, patch: Any, known: Value) -> tuple[Value, str | None]:
    """Merge an update into the value as it is by now.

    Args:
        form: The form of the memory.
        current: The value as it is.
        patch: The update.
        known: The value that its writer was shown.

    Returns:
        The value with as much of the update as it can take, and why it did not take the rest.
    """
    if isinstance(patch, str):  # what somebody has emptied meanwhile stays so
        conflicts: list[Path] = [()] if current not in (known, patch) else []
    else:
        conflicts = find_conflicts(patch, known, current)
    kept = list[Path]()
    for path in conflicts:
        joined = _join(form, path, current, patch, known)
        if joined is None:
            kept.append(path)
        patch = joined if not path else _set_at(patch, path, joined)
    merged = merge(current, _without(patch, kept))
    try:
        form.check(merged)
    except InvalidError as error:
        return current, str(error)
    if not kept:
        return merged or None, None
    named = ", ".join(f"`{write_path(path)}`" for path in kept)
    return merged or None, f"{named}: changed by another conversation meanwhile, and kept as it is"


def _join(form: Form, path: Path, current: Value, patch: Any, known: Value) -> Any:
    """Return what is there with what the update adds; `None` where the two cannot be joined."""
    if not path:
        return _join_texts(form.write(current), form.write(patch), form.write(known))
    there, given = find_at(current, path), find_at(patch, path)
    if not (isinstance(there, list) and isinstance(given, list)):
        return None
    before = find_at(known, path)
    shown = before if isinstance(before, list) else []
    return [*there, *(item for item in given if item not in there and item not in shown)]


def _join_texts(there: str, given: str, shown: str) -> str:
    seen = {*there.split("\n"), *shown.split("\n")}
    new = [line for line in given.split("\n") if line not in seen]
    return "\n".join([there, "", *new]) if new else there


def _set_at(patch: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return an update with another value at a path."""
    key, *rest = path
    inner = value if not rest else _set_at(patch[key], tuple(rest), value)
    return {**patch, key: inner}


def _without(patch: Any, paths: list[Path]) -> Any:
    """Return an update without the leaves at these paths."""
    for path in paths:
        patch = _drop(patch, path)
    return patch


def _drop(patch: dict[str, Any], path: Path) -> dict[str, Any]:
    key, *rest = path
    others = {name: inner for name, inner in patch.items() if name != key}
    if not rest:
        return others
    inner = _drop(patch[key], tuple(rest))
    return {**patch, key: inner} if inner else others
