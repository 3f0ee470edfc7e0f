"""Let a person change the log and pin messages: remember, forget, correct, pin and undo.

The updates with which that is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph_om.archive.types import sum_deletions
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.content.text import truncate_to_tokens
from langgraph_om.core.events import iso
from langgraph_om.core.items import list_items
from langgraph_om.core.observe.transcript import format_day
from langgraph_om.core.record.kept import list_pinned, name_pinned
from langgraph_om.core.record.steering import CORRECTED, NOTED, find_act, find_item, write_item
from langgraph_om.core.record.users_log import do_act
from langgraph_om.core.search import read_text
from langgraph_om.core.wire import Group, Steered, UserLog
from langgraph_om.errors import ArchiveError, ConfigurationError, ItemError
from langgraph_om.features.sharing import Known, read_known
from langgraph_om.parts import SteeringAction
from langgraph_om.runtime.acting import Update, check_text, make_act_id
from langgraph_om.runtime.runner import StepRunner

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive


MAX_ITEM_CHARACTERS: Final = 4000
"""Of what a person has noted, which no reflection shortens."""
_TYPICAL_HEAD = "* 🔴 (09:12) "


def remember(runner: StepRunner, text: str, day: date | str | None, state: Any) -> Update:
    """Return the update that adds what a person wants to be remembered."""
    now, settings = runner.clock(), runner.settings
    if state is not None:
        settings = runner.actor.settings_for(runner.record(state), runner.conversation(state))
    words, local = _check_item(text), now.astimezone(settings.timezone)
    heading = f"Date: {format_day(_read_day(day) or local.date())}"
    head = f"* 🔴 ({local:%H:%M}) " if day is None else "* 🔴 "
    item = write_item(head, words, NOTED)
    tokens = settings.counter.count_text(f"{heading}\n{item}")
    return [{**_start("remember", now), "text": item, "day": heading, "tokens": tokens}]


def change(
    runner: StepRunner, action: SteeringAction, item: str, state: Any, text: str | None = None
) -> Update:
    """Return the update that does something to an item, which is looked up in a state."""
    wanted = check_text("item", item)
    if state is not None:
        record = runner.record(state)
        wanted = find_item(wanted, list_items(record["log"], record["chunks"])).id
    event = {**_start(action, runner.clock()), "item": wanted}
    if text is not None:
        event["text"] = _check_item(text)
        typical = f"Date: Sep 30, 2026\n{_TYPICAL_HEAD}{event['text']} {CORRECTED}"
        event["tokens"] = runner.settings.counter.count_text(typical)
    return [event]


def undo(runner: StepRunner, act: str | None) -> Update:
    """Return the update that takes back an act."""
    return [{**_start("undo", runner.clock()), "item": act}]


def _start(action: SteeringAction, now: datetime) -> dict[str, Any]:
    return {"type": "steered", "id": make_act_id(), "action": action, "at": iso(now)}


def _check_item(text: object) -> str:
    words = check_text("text", text)
    if len(words) > MAX_ITEM_CHARACTERS:
        msg = (
            f"`text` has {len(words)} characters; pass {MAX_ITEM_CHARACTERS} at most: it is part "
            f"of every prompt and is never condensed"
        )
        raise ConfigurationError(msg)
    return words


def _read_day(value: date | str | None) -> date | None:
    """Read the day that a person names.

    Raises:
        ConfigurationError: When it is none.
    """
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    try:
        return datetime.fromisoformat(value).date()
    except (TypeError, ValueError):
        msg = f"`date` is {value!r}; pass a date, or ISO text such as '2026-03-02'"
        raise ConfigurationError(msg) from None


# --- Through the archive -------------------------------------------------------------------------

_MAX_TRIES: Final = 20


def list_actable(archive: SQLAlchemyArchive, resource_id: str) -> UserLog:
    """Return a user's log with all that a person can change: threads' own items, and noted ones.

    Raises:
        ArchiveError: When the storage fails.
    """
    known = read_known(archive, resource_id)
    logs = _read_logs(archive, resource_id, known)
    return {**known.log, "log": [group for log in logs.values() for group in log]}


def act_on_items(
    archive: SQLAlchemyArchive, resource_id: str, events: Sequence[Steered], now: datetime
) -> None:
    """Do what a person wants to items of a user, in the archive's log of the thread that has them.

    The thread does the same to its own when it goes on.

    Raises:
        ArchiveError: When the storage fails, or others change the log all the time.
        ItemError: When an item or act cannot be told.
    """
    for event in events:
        if not any(_act(archive, resource_id, event, now) for _ in range(_MAX_TRIES)):
            msg = f"the log of {resource_id!r} keeps changing; try again"
            raise ArchiveError(msg)


def _act(archive: SQLAlchemyArchive, resource_id: str, event: Steered, now: datetime) -> bool:
    known = read_known(archive, resource_id)
    logs = _read_logs(archive, resource_id, known)
    thread_id = _find_owner(known.log, logs, event)
    number = sum_deletions(archive.deletions(resource_id, [thread_id]))
    log, groups = do_act(known.log, logs.get(thread_id, []), event, thread_id)
    if not thread_id:
        log["log"] = [*(each for each in log["log"] if each["thread_id"]), *groups]
    is_done = archive.commit_record(resource_id, dict(log), expected=known.revision, now=now)
    if is_done and thread_id:
        ids = [group["id"] for group in groups]
        archive.add_groups(thread_id, resource_id, groups, now, ids, deletion=number)
    return is_done


def _read_logs(
    archive: SQLAlchemyArchive, resource_id: str, known: Known
) -> dict[str, list[Group]]:
    """Return each thread's own log, and by an empty name what was noted within none."""
    ids = [each for own in known.present.values() for each in own]
    found = cast("dict[str, list[Group]]", archive.read_groups(resource_id, ids))
    noted = [each for each in known.log["log"] if not each["thread_id"]]
    return {"": noted, **{thread_id: own[::-1] for thread_id, own in found.items()}}


def _find_owner(log: UserLog, logs: Mapping[str, Sequence[Group]], event: Steered) -> str:
    """Return whose item an act is about; empty for one that was noted within no thread."""
    if event["action"] == "remember":
        return ""
    if event["action"] == "undo":
        return find_act(log.get("acts", []), event.get("item"))["thread_id"]
    groups = [group for own in logs.values() for group in own]
    return find_item(event.get("item") or "", list_items(groups)).group["thread_id"] or ""


# --- Pinned messages ------------------------------------------------------------------------------


PIN_ROOM: Final = 1000
"""Tokens of all of them."""
_LEAST: Final = 50
"""Tokens of a preview that is worth showing."""


def pin_message(runner: StepRunner, message_id: str, state: Any) -> Update:
    """Return the update that pins a message of a state; what has no room is cut."""
    wanted = check_text("message_id", message_id)
    count, record = runner.settings.counter.count_text, runner.record(state)
    found = [each for each in runner.conversation(state) if each.id == wanted]
    if not found:
        msg = (
            f"no message has the id {wanted!r}; pass the id of one that is in the state. One that "
            f"was evicted can be kept with `remember`"
        )
        raise ItemError(msg)
    others = [each for each in list_pinned(record) if name_pinned(each) != wanted]
    taken = sum(each["tokens"] for each in others)
    if taken > PIN_ROOM - _LEAST:
        msg = (
            f"{len(others)} pinned messages take {taken} tokens, which leaves no room for another; "
            f"unpin one"
        )
        raise ItemError(msg)
    text = truncate_to_tokens(read_text(found[-1]).strip(), PIN_ROOM - taken, count)
    act, at = make_act_id(), iso(runner.clock())
    kept: Group = {
        "id": derive_id("item", act, wanted),
        "kind": "observation",
        "ranges": [],
        "thread_id": record["thread_id"],
        "observed_at": at,
        "text": text,
        "tokens": count(text),
        "sources": [[wanted, wanted]],
        "keep": {
            "by": "person",
            "how": "message",
            "since": at,
            "role": role_of(found[-1]) or "message",
        },
    }
    told = {"type": "steered", "id": act, "action": "pin-message", "at": at}
    return [{**told, "item": wanted, "message": kept}]


def unpin_message(runner: StepRunner, message_id: str, state: Any) -> Update:
    """Return the update that lets go of a message, which is looked up in a state."""
    wanted = check_text("message_id", message_id)
    if state is not None:
        ids = [*map(name_pinned, list_pinned(runner.record(state)))]
        if wanted not in ids:
            msg = f"the message {wanted!r} is not pinned; these are: {ids}"
            raise ItemError(msg)
    at = iso(runner.clock())
    told = {"type": "steered", "id": make_act_id(), "action": "unpin-message", "at": at}
    return [{**told, "item": wanted}]
