"""Keep the user's standing instructions: in their words, before the observations, until they end.

Each is a group of the log of its own. So it follows forks, restarts and shared logs as every group
does, a person can forget it, and no reflection is asked about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import derive_id, runs_in_tool
from langgraph_om.core.content.text import escape
from langgraph_om.core.items import list_items
from langgraph_om.core.observe.standing_words import FACT, MARK, Reading, read_marks, read_own
from langgraph_om.core.page import Apart
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.standing import (
    STANDING,
    list_left_out,
    read_day,
    read_rule,
    read_rules,
    read_words,
    select_standing,
)
from langgraph_om.core.wire import (
    Event,
    Found,
    Group,
    LeftOut,
    LeftOutSynced,
    MemoryRecord,
    SharedLog,
    StandingEntry,
)

if TYPE_CHECKING:
    from langgraph_om.core.cycles.cycle import CycleInfo

MOST_TOKENS: Final = 1000
"""Of all instructions; beyond it, they are ordinary observations."""
MOST_OF_LOG: Final = 4
"""Instructions take a quarter of the log's threshold at most, since no reflection shortens them."""


def is_tasked(info: CycleInfo) -> bool:
    """Return whether another agent speaks as the user in the messages of a cycle."""
    known = info.record.get("standing", {})
    is_own = info.operation == "observation" and known.get("is_tasked", False)
    return is_own or runs_in_tool(info.record["thread_id"])


def list_rows(record: MemoryRecord) -> list[tuple[str | None, ...]]:
    """Return id, day, thread, state and words of each instruction, and of those without room."""
    return [
        *(
            (each.id, each.day, each.thread_id, "in force", each.words)
            for each in read_rules(record)
        ),
        *(
            (None, each["day"], each["thread_id"], "no room", each["words"])
            for each in list_left_out(record)
        ),
    ]


def _find_room(settings: Settings) -> int:
    """Return the tokens of all instructions, which no reflection shortens."""
    return min(MOST_TOKENS, settings.thresholds.observation_tokens // MOST_OF_LOG)


def describe_marks(held: str) -> str:
    """Return what the Observer is told of the mark, and of its end where it may see one."""
    return "\n".join([load("standing_mark"), *([load("standing_ends")] if held else [])])


def select_in_force(groups: Sequence[Group], ahead: Sequence[Found]) -> Sequence[Group]:
    """Return groups without the instructions that a buffered observation has seen end."""
    entries: list[StandingEntry] = [each for found in ahead for each in found.get(STANDING, [])]
    ended = {entry.get("group") for entry in entries if entry["change"] == "ended"}
    return [group for group in groups if group["id"] not in ended] if ended else groups


def list_held(groups: Sequence[Group]) -> str:
    """Return the instructions in force, which the Observer may see end."""
    lines = [group["text"].rpartition("\n")[2] for group in select_standing(groups)]
    return fill("standing_held", instructions="\n".join(lines)) if lines else ""


def sort_notes(
    info: CycleInfo,
    groups: Sequence[Group],
    known: Sequence[Group],
    said: Sequence[str],
) -> tuple[list[Group], Found]:
    """Take the standing instructions out of what was observed.

    Args:
        known: The groups that the Observer was given as known.
        said: The words of the user that it was shown, message by message.
    """
    if not any(MARK in group["text"] for group in groups):
        return list(groups), {}
    own_words = read_own(() if is_tasked(info) else said)
    count = info.settings.counter.count_text
    held = {read_words(group["text"]): group for group in select_standing(known)}
    room = _find_room(info.settings) - sum(group["tokens"] for group in held.values())
    whole = "after_observation" not in info.settings.transforms
    sorted_groups: list[Group] = []
    entries: list[StandingEntry] = []
    for group in groups:
        reading = read_marks(group["text"], own_words, list(held), whole=whole)
        entries += [
            {"change": "ended", "words": words, "group": held.pop(words)["id"]}
            for words in reading.ended
        ]
        own: list[Group] = []
        for words, text in reading.found.items():
            tokens = count(text)
            if tokens > room:
                _put_back(reading, text)
                left_out: LeftOut = {
                    "words": words,
                    "day": read_day(text),
                    "thread_id": group["thread_id"],
                }
                entries.append({"change": "no-room", "words": words, "left_out": left_out})
                continue
            room -= tokens
            one = _build_group(group, text, tokens, len(own))
            own.append(one)
            held[words] = one
            entries.append({"change": "began", "words": words, "group": one["id"]})
        is_changed = reading.rest != group["text"]
        rest: Group = {**group, "text": reading.rest, "tokens": count(reading.rest)}
        sorted_groups += [rest if is_changed else group, *own]
    return sorted_groups, {STANDING: entries} if entries else {}


def set_apart(settings: Settings, record: MemoryRecord) -> Apart | None:
    """Return the instructions in force, with those for which there was no room."""
    groups, left_out = select_standing(record["log"]), list_left_out(record)
    if not groups and not left_out:
        return None
    said = [each["words"] for each in left_out]
    return Apart(STANDING, "Standing instructions", groups, _find_room(settings), said)


def sync_left_out(record: MemoryRecord, log: SharedLog) -> Sequence[Event]:
    """Take over what had no room in the log that threads share."""
    known = record.get("standing", {}).get("left_out", [])
    left_out = log.get("left_out", [])
    event: LeftOutSynced = {"type": "left-out", "left_out": left_out}
    return [event] if left_out != known else []


def announce_rules(info: CycleInfo, at: datetime, entries: Sequence[Any]) -> list[Event]:
    """Return an event for each instruction that begins, ends, or has no room."""
    return [
        info.event("standing", at, change=entry["change"], words=entry["words"])
        for entry in entries
    ]


def write_rules(record: MemoryRecord) -> str:
    """Return the instructions in force, with their days, for the system message."""
    groups = select_standing(record["log"])
    if not groups:
        return ""
    rules = [*map(read_rule, list_items(groups))]
    days = [f"{rule.day}: " if rule.day else "" for rule in rules]
    lines = [f'* {day}"{rule.words}"' for day, rule in zip(days, rules, strict=True)]
    return fill("standing_rules", rules=escape("\n".join(lines)))


def select_log(groups: Sequence[Group]) -> list[Group]:
    """Return the groups of a log but for standing instructions, which stand apart from it."""
    return [group for group in groups if group.get("feature") != STANDING]


def _build_group(group: Group, text: str, tokens: int, number: int) -> Group:
    """Return the group of one instruction, of the messages of the group that it was noted in."""
    return {
        "id": derive_id(STANDING, group["id"], number),
        "kind": "observation",
        "ranges": [],
        "thread_id": group["thread_id"],
        "observed_at": group["observed_at"],
        "text": text,
        "tokens": tokens,
        "sources": group["ranges"],
        "feature": STANDING,
    }


def _put_back(reading: Reading, text: str) -> None:
    """Keep an instruction without room as an ordinary fact."""
    fact = text.replace(MARK, FACT, 1)
    heading, _, item = fact.partition("\n")
    if heading and reading.rest.startswith(f"{heading}\n"):
        fact = item
    reading.rest = f"{reading.rest}\n{fact}" if reading.rest else fact
