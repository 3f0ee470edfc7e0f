"""What a record knows of standing instructions: a group of the log for each, and those left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from unicodedata import category, normalize

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.items import LogItem, list_items, read_head
from langgraph_om.core.record.outbox import add_to_outbox
from langgraph_om.core.record.record import is_shared
from langgraph_om.core.wire import (
    Group,
    LeftOut,
    LeftOutSynced,
    MemoryRecord,
    Opened,
    StandingEntry,
)

STANDING: Final = "standing"
"""What keeps the groups of instructions: their `feature`."""
MOST_LEFT_OUT: Final = 20
"""How many instructions without room are known."""

_MARKS_OF_QUOTES: Final = frozenset("\"'`´‘’‚‛“”„‟«»‹›「」『』*_")
"""Characters that are passed over when words are compared."""


@dataclass(frozen=True, slots=True)
class StandingInstruction:
    """A standing instruction that is in force."""

    words: str
    """The user's."""
    day: str
    """When it was given, as its heading says; empty where that is not known."""
    thread_id: str | None
    id: str
    """Of its item, by which `forget` ends it."""


def select_standing(groups: Iterable[Group]) -> list[Group]:
    """Return the groups of standing instructions."""
    return [group for group in groups if group.get("feature") == STANDING]


def read_rules(record: MemoryRecord) -> list[StandingInstruction]:
    """Return the standing instructions that are in force, oldest first."""
    items = list_items(record["log"])
    return [read_rule(item) for item in items if item.group.get("feature") == STANDING]


def read_rule(item: LogItem) -> StandingInstruction:
    """Return the instruction that an item holds."""
    group = item.group
    return StandingInstruction(
        read_words(item.text), read_day(group["text"]), group["thread_id"], item.id
    )


def read_words(text: str) -> str:
    """Return the user's words of an instruction as the log has it."""
    item = text.rpartition("\n")[2]
    words = item[read_head(item).end :]
    return words.strip().removeprefix('"').removesuffix('"')


def read_day(text: str) -> str:
    """Return when an instruction was given, as its heading says; empty where that is not known."""
    heading = text.partition("\n")[0]
    return heading.partition(":")[2].strip() if observation_date(heading) is not None else ""


def list_left_out(record: MemoryRecord) -> list[LeftOut]:
    """Return the instructions for which there was no room, and which are not in force since."""
    noted = record.get("standing", {}).get("left_out", [])
    held = [rule.words for rule in read_rules(record)] if noted else []
    return [each for each in noted if not any(is_same(each["words"], one) for one in held)]


def add_left_out(noted: Sequence[LeftOut], new: LeftOut) -> list[LeftOut]:
    """Return the newest instructions without room, with one more."""
    others = [each for each in noted if not is_same(each["words"], new["words"])]
    return [*others, new][-MOST_LEFT_OUT:]


# Whether two texts have the same words.


def fold_text(text: str) -> str:
    """Return a text in the form in which words are compared.

    Spaces, quotation marks, invisible characters and letter case do not count, nor in which of
    Unicode's ways a letter is written. A letter of another script is another letter.
    """
    return "".join(map(fold_letter, text))


def fold_letter(letter: str) -> str:
    """Return what a letter counts as; empty for none."""
    if letter in _MARKS_OF_QUOTES or letter.isspace():
        return ""
    if letter.isascii():
        return letter.lower()
    if category(letter) == "Cf":
        return ""
    folded = normalize("NFKD", normalize("NFKD", letter).casefold())
    return "".join(part for part in folded if not part.isspace())


def is_same(words: str, others: str) -> bool:
    """Return whether two texts have the same words, spaces and quotation marks aside."""
    return fold_text(words) == fold_text(others)


# Reducers.


def end_rules(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take instructions that the user ended out of the log, and note those without room."""
    entries: Sequence[StandingEntry] = event.get("found", {}).get(STANDING, [])
    for entry in entries:
        left_out = entry.get("left_out")
        if left_out is not None:
            set_left_out(record, add_left_out(list_left_out(record), left_out))
            key = derive_id("left-out", event["cycle_id"], left_out["words"])
            add_to_outbox(record, key, kind="rule-left-out", left_out=left_out, groups=[])
        ended = [group for group in record["log"] if group["id"] == entry.get("group")]
        if entry["change"] != "ended" or not ended:
            continue
        record["log"] = [group for group in record["log"] if group not in ended]
        group = ended[0]["id"]
        key = derive_id("end", event["cycle_id"], group)
        add_to_outbox(record, key, kind="rule-ended", group=group, groups=[])


def note_tool(record: MemoryRecord, event: Opened) -> None:
    """Note whether the agent is a tool of another one."""
    if "tools" in event.get("place", []):
        record["standing"] = {**record.get("standing", {}), "is_tasked": True}
    if is_shared(record) and record["resource_id"] != event["resource_id"]:
        set_left_out(record, [])


def take_left_out(record: MemoryRecord, event: LeftOutSynced) -> None:
    """Take over what had no room in the log that threads share."""
    set_left_out(record, event["left_out"])


def set_left_out(record: MemoryRecord, left_out: Sequence[LeftOut]) -> None:
    """Note for which instructions there was no room."""
    if [*left_out] != [*record.get("standing", {}).get("left_out", [])]:
        record["standing"] = {**record.get("standing", {}), "left_out": [*left_out]}
