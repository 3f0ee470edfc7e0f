"""Let a person change the log: remember, forget, correct, pin and undo.

The methods and updates with which that is done, and its part in a record, in a step, on the page of
a memory, and in the log that threads share.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final

from langgraph_om.core.content.dates import read_zone
from langgraph_om.core.events import iso
from langgraph_om.core.items import list_items
from langgraph_om.core.observe.transcript import format_day
from langgraph_om.core.page import write_words
from langgraph_om.core.record.steering import CORRECTED, NOTED, find_item, write_item
from langgraph_om.core.wire import Group, SteeringAction
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.acting import Update, check_text, make_act_id
from langgraph_om.runtime.runner import StepRunner

MAX_ITEM_CHARACTERS: Final = 4000
"""Of what a person has noted, which no reflection shortens."""
_TYPICAL_HEAD = "* 🔴 (09:12) "


def remember(runner: StepRunner, text: str, day: date | str | None, state: Any) -> Update:
    """Return the update that adds what a person wants to be remembered."""
    now, settings = runner.clock(), runner.settings
    if state is not None:
        settings = runner.settings_for(runner.record(state), runner.conversation(state))
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
            f"`text` has {len(words)} characters; pass {MAX_ITEM_CHARACTERS} at most, as it stands "
            f"in every prompt and is never condensed"
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


MAX_SHOWN: Final = 20
"""Acts on the page of a memory."""


def describe_act(record: Mapping[str, Any], act_id: str) -> str:
    """Return the words of an item before an act and after it."""
    acts = [act for act in record.get("steered", []) if act["id"] == act_id]
    groups = [group for act in acts for group in (act["before"], act["after"]) if group]
    words = [item.words for group in groups for item in list_items([group], [])]
    return " -> ".join(dict.fromkeys(words))


# What the page of a memory says of it.


_DONE: Final[Mapping[SteeringAction, str]] = {
    "remember": "remembered",
    "forget": "forgot",
    "correct": "corrected",
    "pin": "pinned",
    "unpin": "unpinned",
    "undo": "took back",
}


def list_done(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a person did to the log, newest first, at the user's time."""
    zone = read_zone(record.get("timezone", "UTC"))
    return [
        {
            "id": act["id"],
            "at": datetime.fromisoformat(act["at"]).astimezone(zone).isoformat(),
            "done": _DONE[act["action"]].capitalize(),
            "undone": act["undone"],
            "before": _first_line(act["before"]),
            "after": _first_line(act["after"]),
        }
        for act in reversed(record.get("steered", [])[-MAX_SHOWN:])
    ]


def find_left(record: Mapping[str, Any], act: str) -> list[str]:
    """Return the group that holds an item as an act left it."""
    after = [own["after"] for own in record.get("steered", []) if own["id"] == act]
    return [group["id"] for group in after if group is not None]


def _first_line(group: Group | None) -> str:
    lines = group["text"].split("\n") if group is not None else [""]
    return write_words(lines[1] if len(lines) > 1 else lines[0])
