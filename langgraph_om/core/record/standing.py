"""What a record knows of standing instructions: each is an item of the log, in the user's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.items import LogItem, list_items, read_head
from langgraph_om.core.record.steering import end_item
from langgraph_om.core.record.users_log import list_in_sight
from langgraph_om.core.wire import Group, MemoryRecord, Opened, StandingEntry

STANDING: Final = "standing"
"""How a group keeps an instruction, and the name of what is found of them."""
MARK: Final = "📌"


@dataclass(frozen=True, slots=True)
class StandingInstruction:
    """A standing instruction that is in force."""

    words: str
    """The user's message, word for word, or a paragraph of a long one."""
    day: str
    """When it was given, such as `Mar 3, 2026`; empty where that is not known."""
    thread_id: str | None
    id: str
    """Of its item, by which `forget` ends it."""


def is_standing(group: Group) -> bool:
    """Return whether a group holds a standing instruction."""
    return "keep" in group and group["keep"]["how"] == STANDING


def select_standing(groups: Iterable[Group]) -> list[Group]:
    """Return the groups of standing instructions."""
    return [group for group in groups if is_standing(group)]


def select_log(groups: Iterable[Group]) -> list[Group]:
    """Return the groups of a log but for standing instructions, which stand apart from it."""
    return [group for group in groups if not is_standing(group)]


def read_rules(record: MemoryRecord) -> list[StandingInstruction]:
    """Return the standing instructions in force, also of the user's other threads, oldest first."""
    return [*map(read_rule, list_items(select_standing(list_in_sight(record))))]


def read_rule(item: LogItem) -> StandingInstruction:
    """Return the instruction that an item holds."""
    heading = item.span.heading
    day = heading.partition(":")[2].strip() if observation_date(heading) is not None else ""
    return StandingInstruction(read_words(item.text), day, item.group["thread_id"], item.id)


def write_words(day: str, time: datetime | None, words: str) -> str:
    """Return the text of a group that holds a user's words; their further lines are indented."""
    clock = f"({time:%H:%M}) " if time is not None else ""
    indented = words.replace("\n", "\n  ")
    return f'{day and f"Date: {day}"}\n* {MARK} {clock}"{indented}"'.lstrip("\n")


def read_words(item: str) -> str:
    """Return the user's words of an item that `write_words` wrote."""
    words = item[read_head(item).end :]
    return words.removeprefix('"').removesuffix('"').replace("\n  ", "\n")


def read_group(group: Group) -> str:
    """Return the user's words of a standing instruction."""
    return read_words(group["text"][group["text"].index(MARK) :])


def end_rules(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take instructions that the user ended out of the log."""
    entries: list[StandingEntry] = event.get("found", {}).get(STANDING, [])
    for entry in entries:
        if entry["change"] == "ended":
            end_item(record, entry["group"], event["cycle_id"], event["at"], entry["by"])


def note_tool(record: MemoryRecord, event: Opened) -> None:
    """Note whether the agent is a tool of another one, which speaks in the user's place."""
    if "tools" in event.get("place", []):
        record["is_tasked"] = True
