"""Let a person change the log: remember, forget, correct, pin and undo.

The updates with which that is done.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Final

from langgraph_om.core.events import iso
from langgraph_om.core.items import list_items
from langgraph_om.core.observe.transcript import format_day
from langgraph_om.core.record.steering import CORRECTED, NOTED, find_item, write_item
from langgraph_om.errors import ConfigurationError
from langgraph_om.parts import SteeringAction
from langgraph_om.runtime.acting import Update, check_text, make_act_id
from langgraph_om.runtime.runner import StepRunner

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
            f"`text` has {len(words)} characters; pass {MAX_ITEM_CHARACTERS} at most: it is "
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
