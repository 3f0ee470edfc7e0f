"""Keep the user's standing instructions: in their words, before the observations, until they end.

Each is a group of the log of its own. So it follows forks, restarts and shared logs as every group
does, a person can forget it, and no reflection is asked about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NotRequired, cast

from typing_extensions import TypedDict

from langgraph_om.core.additions import (
    AddedChange,
    Additions,
    Advice,
    Log,
    LogChange,
    as_event,
    name_fields,
    run_beside,
)
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import belongs_to, derive_id, runs_in_tool
from langgraph_om.core.content.text import escape
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.items import LogItem, list_items
from langgraph_om.core.page import Apart, count
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.wire import (
    Event,
    Found,
    Group,
    MemoryRecord,
    Opened,
    ThreadDeleted,
)
from langgraph_om.features.standing.words import (
    FACT,
    MARK,
    Reading,
    is_same,
    read_marks,
    read_own,
    read_words,
)

NAME: Final = "standing"
"""The feature's name, which its groups have."""
MOST_TOKENS: Final = 1000
"""Of all instructions; beyond it, they are ordinary observations."""
MOST_OF_LOG: Final = 4
"""Instructions take a quarter of the log's threshold at most, since no reflection shortens them."""
MOST_LEFT_OUT: Final = 20
"""How many instructions without room are known."""


class LeftOut(TypedDict):
    """An instruction for which there was no room."""

    words: str
    """The user's."""
    day: str
    """When it was given, as its heading says; empty where that is not known."""
    thread_id: str | None


class StandingState(TypedDict, total=False):
    """What a record knows of standing instructions, beside those in its log."""

    is_tasked: bool
    """Whether the agent runs within a tool of another agent, which speaks in the user's place."""
    left_out: list[LeftOut]
    """Instructions for which there was no room, the newest 20, oldest first."""


class StandingKeys(TypedDict, total=False):
    """The key of a record."""

    standing: StandingState


class StandingEntry(TypedDict):
    """An entry of an observation: an instruction that begins, ends, or has no room."""

    change: Literal["began", "ended", "no-room"]
    words: str
    """The user's."""
    group: NotRequired[str]
    """Id of the group that holds it."""
    left_out: NotRequired[LeftOut]
    """What is noted of one without room."""


class RuleEnded(LogChange):
    """A change of the shared log: the user ended an instruction."""

    kind: Literal["rule-ended"]
    group: str
    """The one that held it."""


class RuleLeftOut(LogChange):
    """A change of the shared log: there was no room for an instruction."""

    kind: Literal["rule-left-out"]
    left_out: LeftOut


class LeftOutSynced(TypedDict):
    """The thread knows what had no room in the log that it shares."""

    type: Literal["left-out"]
    left_out: list[LeftOut]


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
    return [group for group in groups if group.get("feature") == NAME]


def read_rules(record: MemoryRecord) -> list[StandingInstruction]:
    """Return the standing instructions that are in force, oldest first."""
    items = list_items(record["log"])
    return [_read_item(item) for item in items if item.group.get("feature") == NAME]


def _read_item(item: LogItem) -> StandingInstruction:
    group = item.group
    return StandingInstruction(
        read_words(item.text), _read_day(group["text"]), group["thread_id"], item.id
    )


def end_rules(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take instructions that the user ended out of the log, and note those without room."""
    entries: Sequence[StandingEntry] = event.get("found", {}).get(NAME, [])
    for entry in entries:
        left_out = entry.get("left_out")
        if left_out is not None:
            _set_left_out(record, _add_left_out(list_left_out(record), left_out))
            key = derive_id("left-out", event["cycle_id"], left_out["words"])
            change = {"id": key, "kind": "rule-left-out", "left_out": left_out, "groups": []}
            run_beside("changed", record, change)
        ended = [group for group in record["log"] if group["id"] == entry.get("group")]
        if entry["change"] != "ended" or not ended:
            continue
        record["log"] = [group for group in record["log"] if group not in ended]
        group = ended[0]["id"]
        end = {"id": derive_id("end", event["cycle_id"], group), "kind": "rule-ended"}
        run_beside("changed", record, {**end, "group": group, "groups": []})


def _note_place(record: MemoryRecord, event: Opened) -> None:
    """Note whether the agent is a tool of another one."""
    if "tools" in event.get("place", []):
        _change_state(record, {"is_tasked": True})
    if record["scope"] == "resource" and record["resource_id"] != event["resource_id"]:
        _set_left_out(record, [])


def _forget(record: MemoryRecord, _: ThreadDeleted) -> None:
    """Let go of what had no room in a log that was deleted."""
    if record["scope"] == "resource":
        _set_left_out(record, [])


def _take_left_out(record: MemoryRecord, event: LeftOutSynced) -> None:
    _set_left_out(record, event["left_out"])


def _change_state(record: MemoryRecord, changed: StandingState) -> None:
    known = cast("StandingKeys", record)
    known["standing"] = {**known.get("standing", {}), **changed}


def _set_left_out(record: MemoryRecord, left_out: Sequence[LeftOut]) -> None:
    if [*left_out] != [*cast("StandingKeys", record).get("standing", {}).get("left_out", [])]:
        _change_state(record, {"left_out": [*left_out]})


def list_left_out(record: MemoryRecord) -> list[LeftOut]:
    """Return the instructions for which there was no room, and which are not in force since."""
    noted = cast("StandingKeys", record).get("standing", {}).get("left_out", [])
    held = [rule.words for rule in read_rules(record)] if noted else []
    return [each for each in noted if not any(is_same(each["words"], one) for one in held)]


def _add_left_out(noted: Sequence[LeftOut], new: LeftOut) -> list[LeftOut]:
    others = [each for each in noted if not is_same(each["words"], new["words"])]
    return [*others, new][-MOST_LEFT_OUT:]


def is_tasked(info: CycleInfo) -> bool:
    """Return whether another agent speaks as the user in the messages of a cycle."""
    known = cast("StandingKeys", info.record).get("standing", {})
    is_own = info.operation == "observation" and known.get("is_tasked", False)
    return is_own or runs_in_tool(info.record["thread_id"])


def _apply(log: Log, change: RuleEnded) -> Log:
    """Take an instruction that the user ended in a thread out of the log of all of them."""
    return {**log, "log": [group for group in log["log"] if group["id"] != change["group"]]}


def _apply_left_out(log: Log, change: RuleLeftOut) -> Log:
    """Note an instruction for which there was no room, for all threads."""
    return {**log, "left_out": _add_left_out(log.get("left_out", []), change["left_out"])}


def _erase(log: Log, thread_id: str) -> dict[str, Any]:
    """Return the log without what had no room of a thread, and of what runs within it."""
    if "left_out" not in log:
        return dict(log)
    kept = [each for each in log["left_out"] if not belongs_to(each["thread_id"], thread_id)]
    return {**log, "left_out": kept}


def _advise(record: MemoryRecord, _: datetime) -> Iterator[Advice]:
    left_out = list_left_out(record)
    if left_out:
        yield Advice(
            "no-room",
            f"there was no room for {count(len(left_out), 'standing instruction')}, the newest "
            f"{left_out[-1]['words']!r}: these are ordinary observations, which reflections may "
            f"drop. Forget an older one, and have the user say it again; the room is "
            f"{MOST_TOKENS} tokens, or a quarter of observation_tokens if that is less",
        )


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


class Standing:
    """Keeps standing instructions."""

    name = NAME
    lives_by = NAME
    additions = Additions(
        streamed={"standing": name_fields("cycle_id", "thread_id", "change", "words", "at")},
        keys=StandingKeys,
        reducers={"left-out": _take_left_out},
        beside={"observed": end_rules, "opened": _note_place, "deleted": _forget},
        changes={
            "rule-ended": AddedChange(RuleEnded, _apply),
            "rule-left-out": AddedChange(RuleLeftOut, _apply_left_out),
        },
        erase=_erase,
        advice=_advise,
    )

    def describe_marks(self, held: str) -> str:
        """Return what the Observer is told of the mark, and of its end where it may see one."""
        return "\n".join([load("standing_mark"), *([load("standing_ends")] if held else [])])

    def select_in_force(self, groups: Sequence[Group], ahead: Sequence[Found]) -> Sequence[Group]:
        """Return groups without the instructions that a buffered observation has seen end."""
        entries: list[StandingEntry] = [entry for found in ahead for entry in found.get(NAME, [])]
        ended = {entry.get("group") for entry in entries if entry["change"] == "ended"}
        return [group for group in groups if group["id"] not in ended] if ended else groups

    def list_held(self, groups: Sequence[Group]) -> str:
        """Return the instructions in force, which the Observer may see end."""
        lines = [group["text"].rpartition("\n")[2] for group in select_standing(groups)]
        return fill("standing_held", instructions="\n".join(lines)) if lines else ""

    def sort_notes(
        self,
        info: CycleInfo,
        groups: Sequence[Group],
        known: Sequence[Group],
        said: Sequence[str],
    ) -> tuple[list[Group], list[Any]]:
        """Take the standing instructions out of what was observed."""
        if not any(MARK in group["text"] for group in groups):
            return list(groups), []
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
                        "day": _read_day(text),
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
        return sorted_groups, entries

    def set_apart(self, settings: Settings, record: MemoryRecord) -> Apart | None:
        """Return the instructions in force, with those for which there was no room."""
        groups, left_out = select_standing(record["log"]), list_left_out(record)
        if not groups and not left_out:
            return None
        said = [each["words"] for each in left_out]
        return Apart(NAME, "Standing instructions", groups, _find_room(settings), said)

    def sync(self, record: MemoryRecord, log: Log) -> Sequence[Event]:
        """Take over what had no room in the log that threads share."""
        known = cast("StandingKeys", record).get("standing", {}).get("left_out", [])
        left_out = log.get("left_out", [])
        event: LeftOutSynced = {"type": "left-out", "left_out": left_out}
        return [as_event(event)] if left_out != known else []

    def announce(self, info: CycleInfo, at: datetime, entries: Sequence[Any]) -> list[Event]:
        """Return an event for each instruction that begins, ends, or has no room."""
        return [
            info.event("standing", at, change=entry["change"], words=entry["words"])
            for entry in entries
        ]

    def memory_block(self, record: MemoryRecord) -> str:
        """Return the instructions in force, with their days, for the system message."""
        groups = select_standing(record["log"])
        if not groups:
            return ""
        rules = [*map(_read_item, list_items(groups))]
        days = [f"{rule.day}: " if rule.day else "" for rule in rules]
        lines = [f'* {day}"{rule.words}"' for day, rule in zip(days, rules, strict=True)]
        return fill("standing_rules", rules=escape("\n".join(lines)))


def _build_group(group: Group, text: str, tokens: int, number: int) -> Group:
    """Return the group of one instruction, of the messages of the group that it was noted in."""
    return {
        "id": derive_id(NAME, group["id"], number),
        "kind": "observation",
        "ranges": [],
        "thread_id": group["thread_id"],
        "observed_at": group["observed_at"],
        "text": text,
        "tokens": tokens,
        "sources": group["ranges"],
        "feature": NAME,
    }


def _put_back(reading: Reading, text: str) -> None:
    """Keep an instruction without room as an ordinary fact."""
    fact = text.replace(MARK, FACT, 1)
    heading, _, item = fact.partition("\n")
    if heading and reading.rest.startswith(f"{heading}\n"):
        fact = item
    reading.rest = f"{reading.rest}\n{fact}" if reading.rest else fact


def _read_day(text: str) -> str:
    heading = text.partition("\n")[0]
    return heading.partition(":")[2].strip() if observation_date(heading) is not None else ""
