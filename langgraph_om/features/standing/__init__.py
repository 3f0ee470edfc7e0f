"""Keep the user's standing instructions: in their words, before the observations, until they end.

Each is a group of the log of its own. So it follows forks, restarts and shared logs as every group
does, a person can forget it, and no reflection is asked about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NotRequired, Self, cast

from typing_extensions import TypedDict

from langgraph_om.core.additions import AddedChange, Additions, Log, run_beside
from langgraph_om.core.config.options import Hint, Preset, Takes, Tokens
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import derive_id, runs_in_tool
from langgraph_om.core.content.text import escape
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.items import LogItem, list_items
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.step.step import Feature
from langgraph_om.core.wire import CycleEvent, Event, Group, Hints, MemoryRecord, Opened
from langgraph_om.features.standing.words import FACT, MARK, Reading, read_marks, read_words
from langgraph_om.runtime.runner import StepRunner

NAME: Final = "standing"
"""The feature's name, which its groups have."""
MOST_OF_LOG: Final = 4
"""Instructions take a quarter of the log's threshold at most, since no reflection shortens them."""


class StandingOptions(TypedDict, total=False):
    """The option of standing instructions."""

    standing_tokens: Annotated[
        int | None,
        Takes(Tokens | None),
        Hint("a whole number of tokens, 1 or more, or None"),
        Preset(1000),
    ]
    """Tokens that the user's standing instructions may take together ("never touch production").
    They are kept word for word and shown before the observations until the user ends them; beyond
    this room, or a quarter of `observation_tokens`, they are ordinary observations. `None`: none
    are kept."""


class StandingKeys(TypedDict, total=False):
    """The keys of a record."""

    is_tasked: bool
    """Whether the agent runs within a tool of another agent, which speaks in the user's place."""


class _Record(MemoryRecord, StandingKeys, total=False):
    pass


class StandingEntry(TypedDict):
    """An entry of an observation: an instruction that begins, ends, or has no room."""

    change: Literal["began", "ended", "no-room"]
    words: str
    """The user's."""
    group: NotRequired[str]
    """Id of the group that holds it."""


class RuleEnded(TypedDict):
    """A change of the shared log: the user ended an instruction."""

    id: str
    kind: Literal["rule-ended"]
    group: str
    """The one that held it."""
    groups: list[Group]
    """None."""
    cursor: list[str]
    hints: Hints


class StandingEvent(CycleEvent):
    """An instruction begins, ends, or has no room."""

    type: Literal["standing"]
    change: Literal["began", "ended", "no-room"]
    words: str


class StandingData(TypedDict):
    """The `data` of a part about a standing instruction."""

    cycleId: str
    threadId: str
    change: Literal["began", "ended", "no-room"]
    words: str
    timestamp: str


class StandingPart(TypedDict):
    """A standing instruction begins, ends, or has no room."""

    type: Literal["data-om-standing"]
    data: StandingData


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
    return StandingInstruction(read_words(item.text), _read_day(group), group["thread_id"], item.id)


def end_rules(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take instructions that the user ended out of the log."""
    entries: Sequence[StandingEntry] = event.get("found", {}).get(NAME, [])
    for entry in entries:
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
        cast("_Record", record)["is_tasked"] = True


def is_tasked(info: CycleInfo) -> bool:
    """Return whether another agent speaks as the user in the messages of a cycle."""
    record = cast("_Record", info.record)
    is_own = info.operation == "observation" and record.get("is_tasked", False)
    return is_own or runs_in_tool(record["thread_id"])


def _apply(log: Log, change: RuleEnded) -> Log:
    """Take an instruction that the user ended in a thread out of the log of all of them."""
    return {**log, "log": [group for group in log["log"] if group["id"] != change["group"]]}


class Standing(Feature):
    """Keeps standing instructions.

    Args:
        tokens: The room of all of them together.
    """

    name = NAME
    prompts = __name__
    additions = Additions(
        streamed={
            "standing": {
                "cycle_id": "cycleId",
                "thread_id": "threadId",
                "change": "change",
                "words": "words",
                "at": "timestamp",
            }
        },
        keys=StandingKeys,
        beside={"observed": end_rules, "opened": _note_place},
        changes={"rule-ended": AddedChange(RuleEnded, _apply)},
    )

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `standing_tokens`."""
        tokens = setup.options["standing_tokens"]
        return cls(tokens) if tokens is not None else None

    def describe_marks(self) -> str:
        """Return what the Observer is told of the mark."""
        return load("standing_mark")

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
        said = () if is_tasked(info) else said
        count = info.settings.counter.count_text
        held = {read_words(group["text"]): group for group in select_standing(known)}
        most = min(self._tokens, info.settings.thresholds.observation_tokens // MOST_OF_LOG)
        room = most - sum(group["tokens"] for group in held.values())
        whole = "after_observation" not in info.settings.transforms
        sorted_groups: list[Group] = []
        entries: list[StandingEntry] = []
        for group in groups:
            reading = read_marks(group["text"], said, list(held), whole=whole)
            entries += [
                {"change": "ended", "words": words, "group": held.pop(words)["id"]}
                for words in reading.ended
            ]
            own: list[Group] = []
            for text in reading.found:
                words, tokens = read_words(text), count(text)
                if tokens > room:
                    _put_back(reading, text)
                    entries.append({"change": "no-room", "words": words})
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

    def announce(self, info: CycleInfo, at: datetime, entries: Sequence[Any]) -> list[Event]:
        """Return an event for each instruction that begins, ends, or has no room."""
        return [
            info.event("standing", at, change=entry["change"], words=entry["words"])
            for entry in entries
        ]

    def memory_block(self, record: MemoryRecord) -> str:
        """Return the instructions in force, with their days, for the system message."""
        rules = [*map(_read_item, list_items(select_standing(record["log"])))]
        if not rules:
            return ""
        days = [f"{rule.day}: " if rule.day else "" for rule in rules]
        lines = [f'* {day}"{rule.words}"' for day, rule in zip(days, rules, strict=True)]
        return fill("standing_rules", rules=escape("\n".join(lines)))


class WithRules:
    """The method of a memory that lists standing instructions."""

    _runner: StepRunner

    def rules(self, state: Any) -> list[StandingInstruction]:
        """Return the user's standing instructions that are in force, oldest first; asks no model.

        The user ends one by saying so; `forget` with its words ends it as well.

        Args:
            state: As for `llm_input_messages`; blank for a thread that never ran.
        """
        return read_rules(self._runner.record(state))


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


def _read_day(group: Group) -> str:
    heading = group["text"].partition("\n")[0]
    return heading.partition(":")[2].strip() if observation_date(heading) is not None else ""


__all__ = [
    "Standing",
    "StandingInstruction",
    "StandingOptions",
    "WithRules",
    "read_rules",
]
