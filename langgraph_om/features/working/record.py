"""A working memory in a record, where the Observer keeps it: what is known, and what is new.

An observation finds out what changes in it. That waits in the record, which is checkpointed, until
a step of a run writes it to where the memory is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NotRequired, cast

from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions, Advice, ShownValue
from langgraph_om.core.forms import (
    Form,
    InvalidError,
    Path,
    Value,
    find_at,
    find_conflicts,
    merge,
    write_path,
)
from langgraph_om.core.page.html import count
from langgraph_om.core.wire import Chunk, MemoryRecord, ThreadDeleted

NAME = "working"
"""The feature's name, under which an observation has its entries."""

WORKING_NAME = "working_memory"
"""Its name where the Observer is asked about it, and where its changes are told."""

MESSAGE_ID: Final = "om-working-memory"
"""Id of the message that shows the Actor the memory."""

TAG: Final = "working-memory"
"""Name of the tag around it."""


_MANY_WAITING: Final = 5
"""Changes that no turn has written."""


class WorkingUpdate(TypedDict):
    """What an observation found out for the working memory, where the Observer keeps that.

    With neither a patch nor an error nothing changes in it, and a former error is over.
    """

    cycle_id: str
    """The cycle that asked."""
    resource_id: str | None
    """Whose memory it is for."""
    known: Any
    """The value that the Observer was shown: a text, a JSON object, or `None`."""
    patch: NotRequired[Any]
    """The whole text, or the fields that change."""
    error: NotRequired[str]
    """Why it could not be told."""


class ObservedWorking(TypedDict):
    """The working memory as a thread knows it, where the Observer keeps that."""

    resource_id: str | None
    """Whose it is."""
    value: Any
    """As the newest step read it, which the Observer is shown: a text, an object, or `None`."""
    updates: list[WorkingUpdate]
    """What observations found since, which the next step writes."""
    error: str | None
    """Why what the newest observation found was not written, or not all of it."""


class WorkingRead(TypedDict):
    """A step has written what observations found for the working memory, and read that."""

    type: Literal["working-read"]
    resource_id: str | None
    value: Any
    written: list[str]
    """The cycles whose updates are done."""
    error: str | None
    """Why some of them were not written."""


class WorkingKeys(TypedDict, total=False):
    """The key of a record."""

    working: ObservedWorking
    """Only with a working memory that the Observer keeps: missing before the first step."""


def add_updates(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Keep what an observation found, to be written; an error is kept alone."""
    updates = list_updates(event)
    if not updates:
        return
    kept = _read(record)
    new = [update for update in updates if "patch" in update]
    errors = [update["error"] for update in updates if "error" in update]
    error = errors[-1] if errors else None
    cast("WorkingKeys", record)["working"] = {
        **kept,
        "updates": [*kept["updates"], *new],
        "error": error,
    }


def note_read(record: MemoryRecord, event: WorkingRead) -> None:
    """Note the value that a step has read; what it has written is done."""
    kept = _read(record)
    left = [update for update in kept["updates"] if update["cycle_id"] not in event["written"]]
    error = event["error"] if event["written"] else kept["error"]
    cast("WorkingKeys", record)["working"] = {
        "resource_id": event["resource_id"],
        "value": event["value"],
        "updates": left,
        "error": error,
    }


def drop_deleted(record: MemoryRecord, event: ThreadDeleted) -> None:
    """Let go of what a deleted thread knows, and of changes that are a deleted resource's."""
    cast("WorkingKeys", record).pop("working", None)
    if event["of_resource"]:
        record["chunks"] = [_forget_updates(chunk) for chunk in record["chunks"]]


def _forget_updates(chunk: Chunk) -> Chunk:
    """Return a chunk without what it changes."""
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
    return cast("WorkingKeys", record).get("working", blank)


def list_shown(record: MemoryRecord) -> Iterator[ShownValue]:
    """Yield the value for the page of a memory, as it is once all that was found is written."""
    if NAME not in record:
        return
    waiting, error = len(find_unwritten(record, record["resource_id"])), _read(record)["error"]
    notes = [f"{count(waiting, 'change')} found, written by the next turn"] if waiting else []
    notes += [f"not all of the newest change was taken: {error}"] if error else []
    yield ShownValue("working memory", find_known(record), tuple(notes))


def list_advice(record: MemoryRecord, _: datetime) -> Iterator[Advice]:
    """Yield what to do about changes that were not written."""
    kept = _read(record)
    if kept["error"]:
        yield Advice(
            "working-memory",
            f"the newest change of the working memory was not taken, or not all of it: "
            f"{kept['error']}",
        )
    waiting = len(find_unwritten(record, record["resource_id"]))
    if waiting >= _MANY_WAITING:
        yield Advice(
            "working-memory",
            f"{waiting} changes of the working memory wait to be written. Each turn writes them: "
            f"see that turns run with this memory, and that the store answers",
        )


ADDITIONS: Final = Additions(
    keys=WorkingKeys,
    reducers={"working-read": note_read},
    beside={"observed": add_updates, "deleted": drop_deleted},
    of_log=("working",),
    shown=list_shown,
    advice=list_advice,
    message_ids=(MESSAGE_ID,),
)


# Merge an update into a value that somebody else has changed since its writer was shown it.
#
# The Observer writes from what it was shown when it was asked, and is not there to be asked anew
# when that is written. So nothing that it has not seen is replaced: lines and items that are new
# to both are added, and of any other value the present one stays.


@dataclass(frozen=True, slots=True)
class JoinedUpdates:
    """What came of updates."""

    previous: Value
    """The value as it was."""
    value: Value
    """The value with them."""
    error: str | None = None
    """Why one of them was not taken, or not all of it."""


def join_updates(form: Form, current: Value, updates: Iterable[WorkingUpdate]) -> JoinedUpdates:
    """Merge what observations found into the value as it is by now, one after the other."""
    value, errors = current, list[str]()
    for update in updates:
        value, error = merge_late(form, value, update["patch"], update["known"])
        errors += [error] if error else []
    return JoinedUpdates(current, value, "; ".join(errors) or None)


def merge_late(form: Form, current: Value, patch: Any, known: Value) -> tuple[Value, str | None]:
    """Merge an update into the value as it is by now.

    Args:
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
    for path in kept:
        patch = _without(patch, path)
    merged = merge(current, patch)
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
        return join_texts(form.write(current), form.write(patch), form.write(known))
    there, given = find_at(current, path), find_at(patch, path)
    if not (isinstance(there, list) and isinstance(given, list)):
        return None
    before = find_at(known, path)
    shown = before if isinstance(before, list) else []
    return [*there, *(item for item in given if item not in there and item not in shown)]


def join_texts(there: str, given: str, shown: str) -> str:
    """Return a text with the lines of another behind it, those that were shown left out."""
    seen = {*there.split("\n"), *shown.split("\n")}
    new = [line for line in given.split("\n") if line not in seen]
    return "\n".join([there, "", *new]) if new else there


def _set_at(patch: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return an update with another value at a path."""
    key, *rest = path
    inner = value if not rest else _set_at(patch[key], tuple(rest), value)
    return {**patch, key: inner}


def _without(patch: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return an update without the leaf at a path."""
    key, *rest = path
    others = {name: inner for name, inner in patch.items() if name != key}
    if not rest:
        return others
    inner = _without(patch[key], tuple(rest))
    return {**patch, key: inner} if inner else others
