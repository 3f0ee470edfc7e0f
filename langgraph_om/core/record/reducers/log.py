"""Events that put observations and reflections into the log, made in the turn or activated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph_om.core.record.record import HINTS, find_groups, find_newest_observed
from langgraph_om.core.record.reducers.attempts import find_rest, note_success, reset_attempts
from langgraph_om.core.record.reducers.draft import add_to_outbox, set_hints
from langgraph_om.core.record.reflections import replace_groups
from langgraph_om.core.wire import (
    Group,
    MemoryRecord,
    ObservationActivated,
    ObservationEnd,
    OthersBuffered,
    OthersEnd,
    ReflectionActivated,
    ReflectionEnd,
)
from langgraph_om.core.working.merge import merge
from langgraph_om.core.working.state import add_updates


def finish_cycle(record: MemoryRecord, event: ObservationEnd | ReflectionEnd | OthersEnd) -> None:
    """Put what a cycle of the turn came to into the log."""
    if event["operation"] == "observation":
        _finish_observation(record, event)
    elif event["operation"] == "reflection":
        _finish_reflection(record, event)
    else:
        finish_others(record, event)


def _finish_observation(record: MemoryRecord, event: ObservationEnd) -> None:
    """Add observations to the log; the cursor moves only from where the Observer began."""
    if _extend_log(record, event, event["groups"]):
        set_hints(record, event)
        _set_extracted(record, event)
        add_updates(record, event.get("working", []))
        note_success(record, event)


def _finish_reflection(record: MemoryRecord, event: ReflectionEnd) -> None:
    """Replace exactly the groups that a reflection read."""
    if _replace_groups(record, event):
        set_hints(record, event)
        note_success(record, event)


def finish_others(record: MemoryRecord, event: OthersEnd | OthersBuffered) -> None:
    """Send observations of other threads' messages to the shared log."""
    known = {item["id"] for item in [*record["outbox"], *record["log"]]}
    sections = [section for section in event["sections"] if section["groups"][0]["id"] not in known]
    for section in sections:
        add_to_outbox(record, section["groups"][0]["id"], kind="extend", **section)
    if sections:
        add_updates(record, event.get("working", []))
        note_success(record, event)


def activate(record: MemoryRecord, event: ObservationActivated | ReflectionActivated) -> None:
    """Put buffered work into the log, without a model."""
    if event["operation"] == "reflection":
        if _replace_groups(record, event):
            record["reflection"] = None
            reset_attempts(record, event)
        return
    ids = event["chunk_ids"]
    if [chunk["id"] for chunk in record["chunks"][: len(ids)]] != ids:
        return
    if _extend_log(record, event, event["groups"]):
        record["chunks"] = record["chunks"][len(ids) :]
        set_hints(record, event)
        _set_extracted(record, event)
        add_updates(record, event.get("working", []))


def _extend_log(
    record: MemoryRecord, event: ObservationEnd | ObservationActivated, groups: Sequence[Group]
) -> bool:
    if event["after"] != find_newest_observed(record):
        return False
    observed = record["observed"]
    known = {group["id"] for group in record["log"]}
    if "strays" in event:  # these do not move the cursor, which would tell that they are observed
        is_known = any(group["id"] in known for group in groups)
        is_awaited = observed and groups[0]["ranges"][0][0] in observed["strays"]
        if observed is not None and (is_known or is_awaited):  # or they are observed for ever
            record["observed"] = {**observed, "strays": event["strays"]}
        if is_known or not is_awaited:
            return False
    behind = event.get("before")
    at = find_groups(record["log"], [behind]) if behind else None
    at = len(record["log"]) if at is None else at
    # After a fork the log may have them although the cursor was set back: it has to move on.
    new = [group for group in groups if group["id"] not in known]
    before = record["log"][:at]
    is_shared = record["scope"] == "resource"
    added = [*before, *new] if is_shared else _join_empty(before, new, event["after"])
    record["log"] = [*added, *record["log"][at:]]
    record["cursor"] = list(event["cursor"])
    if record["scope"] == "resource":
        hints = {name: event.get(name) for name in HINTS}
        add_to_outbox(
            record,
            event["cycle_id"],
            kind="extend",
            thread_id=record["thread_id"],
            after=event["after"],
            groups=list(groups),
            hints=hints,
        )
    return True


def _join_empty(log: list[Group], new: Sequence[Group], after: str | None) -> list[Group]:
    """Add groups to a log; one without a text is joined to such a one right before it.

    So a long small talk, of which nothing is noted, has one group and not one for each observation.
    """
    joined = list(log)
    for group in new:
        before = joined[-1] if joined else None
        if before is None or before["text"] or group["text"] or not _ends_at(before, after):
            joined.append(group)
        else:
            *known, (first, _) = before["ranges"]
            (_, last), *more = group["ranges"]
            joined[-1] = {**before, "ranges": [*known, [first, last], *more]}
        after = joined[-1]["ranges"][-1][1] if joined[-1]["ranges"] else None
    return joined


def _ends_at(group: Group, key: str | None) -> bool:
    return bool(group["ranges"]) and group["ranges"][-1][1] == key


def _replace_groups(record: MemoryRecord, event: ReflectionEnd | ReflectionActivated) -> bool:
    read = event["group_ids"]
    replaced = replace_groups(record["log"], read, event["groups"])
    if replaced is None:
        return False
    record["log"], groups = replaced.log, replaced.groups
    record["generation"] = record["generation"] + 1
    if record["scope"] == "resource":
        waits: dict[str, Any] = {}
        if (rest := find_rest(event)) is not None:
            waits["rest"] = rest
        add_to_outbox(
            record, event["cycle_id"], kind="replace", group_ids=list(read), groups=groups, **waits
        )
    return True


def _set_extracted(record: MemoryRecord, event: ObservationEnd | ObservationActivated) -> None:
    """Merge what was found into the values; a failure is noted, and leaves its value as it is."""
    values = dict(record.get("extracted", {}))
    for item in event.get("extracted", []):
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
    if values:
        record["extracted"] = values
