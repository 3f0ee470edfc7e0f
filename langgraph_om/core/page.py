"""What people read of a memory, as words and plain values: for its page, a terminal, a notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import groupby
from typing import Any, Final

from langgraph_om.core.content.text import show_key
from langgraph_om.core.items import LogItem, is_protected, list_items, read_head
from langgraph_om.core.record.kept import list_pinned
from langgraph_om.core.record.record import (
    find_label,
    is_shared,
    read_closing,
    write_log,
    write_range,
)
from langgraph_om.core.wire import Group, MemoryRecord, StatusData

OPERATIONS: Final = {
    "observation": "observing messages",
    "reflection": "condensing the log",
    "others": "observing other threads",
}


@dataclass(frozen=True, slots=True)
class Window:
    """How full a window is."""

    name: str
    tokens: int
    threshold: int
    ahead: int
    """Of the tokens, how many were observed in the background."""
    meaning: str

    @property
    def whole(self) -> int:
        """Tokens of a bar that holds all of it."""
        return max(self.threshold, self.tokens, 1)

    @property
    def shares(self) -> tuple[float, float]:
        """How much of the bar is full, in hundredths: of it in the background, and else."""
        return 100 * self.ahead / self.whole, 100 * (self.tokens - self.ahead) / self.whole


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A value that memory or the graph's state holds beside the log, as a person is shown it."""

    name: str
    value: Any
    """A text or a JSON value; `None` where there is none yet."""
    notes: tuple[str, ...] = ()
    """What is to be said of it, such as a failure."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Items of the log that the Actor is shown apart from it, word for word."""

    name: str
    """One word, for programs."""
    title: str
    """What they are, such as `Standing instructions`."""
    groups: Sequence[Group]
    room: int
    """Tokens that they may take together."""

    @property
    def tokens(self) -> int:
        """What they take."""
        return sum(group["tokens"] for group in self.groups)

    @property
    def items(self) -> list[LogItem]:
        """The items, in the order of the log."""
        return list_items(self.groups)

    def describe(self) -> dict[str, Any]:
        """Return all of it as JSON values, for programs."""
        return {
            "tokens": self.tokens,
            "room": self.room,
            "items": [describe_item(item) for item in self.items],
        }


def describe_item(item: LogItem) -> dict[str, Any]:
    """Return an item as JSON values, for programs."""
    day = item.day.isoformat() if item.day is not None else None
    return {"id": item.id, "day": day, "thread": item.group["thread_id"], "text": item.words}


def write_apart(apart: Apart, *, names_threads: bool) -> list[str]:
    """Return lines that say what is shown apart from the log."""
    lines = [f"{apart.title.lower()}: {describe_room(apart)}"]
    for item in apart.items:
        day = f"{item.day.isoformat()} " if item.day is not None else ""
        thread = item.group["thread_id"] if names_threads else None
        said = f", thread {show_key(thread)}" if thread else ""
        lines.append(f"* {day}{item.words} (#{item.id}{said})")
    return lines


def describe_room(apart: Apart) -> str:
    """Say how much of its room is used: `34 of 1,000 tokens`."""
    return f"{apart.tokens:,} of {count(apart.room, 'token')}"


def count(number: int, unit: str) -> str:
    """Write a number with its unit: `1 chunk`, `1,200 tokens`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def list_windows(status: StatusData) -> list[Window]:
    """Return both windows."""
    active = status["windows"]["active"]
    messages, log = active["messages"], active["observations"]
    ahead = min(messages["tokens"], status["windows"]["buffered"]["observations"]["messageTokens"])
    return [
        Window(
            "messages",
            messages["tokens"],
            messages["threshold"],
            ahead,
            "not observed yet, shown to the agent word for word",
        ),
        Window(
            "observations",
            log["tokens"],
            log["threshold"],
            0,
            "the log, shown to the agent before its messages",
        ),
    ]


_SOURCES: Final = {
    "option": "by `max_input_tokens`",
    "profile": "by its profile",
    "refused": "by a prompt that its provider refused",
}


def describe_actor_window(status: StatusData) -> str:
    """Say how long a prompt the Actor's model reads; empty where nobody has said."""
    window = status.get("actorWindow")
    if window is None:
        return ""
    said = f"{count(window['tokens'], 'token')}, {_SOURCES[window['source']]}"
    if "scaledFrom" not in window:
        return said
    sizes = f"from {window['scaledFrom']:,} to {window['scaledTo']:,}"
    return f"{said}; all limits are scaled down, {sizes}"


def describe_sizes(conversation: int, shown: int) -> str:
    """Say how much less than the whole conversation the Actor is sent, in tokens."""
    if not conversation and not shown:
        return "nothing was said yet"
    said = f"({count(conversation, 'token')} of conversation, {shown:,} shown)"
    if shown >= conversation:
        return f"none yet {said}"
    return f"{conversation / max(1, shown):.1f} to 1 {said}"


def describe_ahead(record: MemoryRecord, status: StatusData, *, is_closed: bool) -> str:
    """Say what was done in the background, in one line."""
    buffered = status["windows"]["buffered"]
    chunks, reflection = buffered["observations"], buffered["reflection"]
    number = chunks["chunks"]
    parts = [
        f"{count(number, 'chunk')} for {count(chunks['messageTokens'], 'token')} of messages"
        if number
        else "nothing",
        "a reflection" if reflection["inputObservationTokens"] else "",
    ]
    working = [OPERATIONS[name] for name in record["pending"]]
    lines = [
        ", ".join(filter(None, parts)),
        f"at work: {' and '.join(working)}" if working else "",
        "the memory is closed, no more is buffered" if is_closed else "",
    ]
    return "; ".join(filter(None, lines))


def explain_chunks(status: StatusData) -> str | None:
    """Explain the chunks, and when they become a part of the log; `None` without any."""
    chunks = status["windows"]["buffered"]["observations"]
    if not chunks["chunks"]:
        return None
    threshold = status["windows"]["active"]["messages"]["threshold"]
    number = count(chunks["chunks"], "chunk")
    read, written = chunks["messageTokens"], chunks["observationTokens"]
    return (
        f"{number}: {count(read, 'token')} of messages were observed in the background, in "
        f"{count(written, 'token')}. When the window reaches {count(threshold, 'token')}, the log "
        f"takes these in, and their messages leave the window. Nobody waits for a model then."
    )


def list_failures(record: MemoryRecord) -> list[tuple[str, str]]:
    """Return what failed last and why, by operation; a restart of the process is no failure."""
    return [
        (OPERATIONS[name], f"{last['error']} ({last['failures']} in a row)")
        for name, last in record["attempts"].items()
        if last.get("error") and last["failures"]
    ]


def list_trouble(record: MemoryRecord) -> list[tuple[str, str]]:
    """Return what somebody who looks at a memory is warned of, and why it is so."""
    trip = record.get("tripwire")
    ended = [("The last turn ended", trip["reason"])] if trip else []
    return ended + [(f"{name.capitalize()} failed", why) for name, why in list_failures(record)]


def describe_unread(record: MemoryRecord) -> str:
    """Return a sentence on what no question had room for; empty where all was read."""
    usage: Iterable[Mapping[str, Any]] = record["usage"].values()
    tokens = sum(spent.get("left_out_tokens", 0) for spent in usage)
    return f"about {tokens:,} tokens inside enormous messages were not read" if tokens else ""


def describe_overlooked(record: MemoryRecord) -> str:
    """Return a sentence on messages that were put among observed ones; empty without any."""
    observed = record["observed"]
    number = observed.get("overlooked", 0) if observed is not None else 0
    stands, was = ("stands", "was") if number == 1 else ("stand", "were")
    said = f"{count(number, 'message')} {stands} among observed ones and {was} not read"
    return said if number else ""


def list_unread(record: MemoryRecord) -> list[str]:
    """Return sentences on what the Observer was never shown; none where it read all."""
    return [said for said in (describe_unread(record), describe_overlooked(record)) if said]


def list_hints(record: MemoryRecord) -> list[tuple[str, str]]:
    """Return the hints that the log ends with."""
    return [(name.replace("_", " "), text) for name, text in read_closing(record).items()]


def list_usage(record: MemoryRecord) -> list[tuple[str, int, int, int]]:
    """Return calls, input and output tokens of memory's own models, by operation."""
    spent: Iterable[tuple[str, Mapping[str, Any]]] = record["usage"].items()
    return [
        (
            OPERATIONS[name],
            int(usage.get("calls", 0)),
            int(usage.get("input_tokens", 0)),
            int(usage.get("output_tokens", 0)),
        )
        for name, usage in spent
        if usage
    ]


def write_moment(at: str) -> str:
    """Write an ISO time to the minute, in its own zone."""
    return at[:16].replace("T", " ")


# The log.


def diff_logs(before: MemoryRecord, after: MemoryRecord) -> list[str]:
    """Return the lines that differ, each behind ` `, `-` or `+`; `@@` where some are left out."""
    old, new = (write_log(record["log"]).split("\n") for record in (before, after))
    lines = [*unified_diff(old, new, lineterm="", n=1)][2:]
    return ["@@" if line.startswith("@@") else line for line in lines]


_DOTS: Final = {
    "🔴": ("red", "a fact, a decision, or what matters"),
    "🟡": ("amber", "a question or a request"),
    "🟢": ("green", "minor"),
    "✅": ("done", "done"),
    "📌": ("pin", "kept word for word"),
    "": ("", "no mark"),
}
_BY_PERSON: Final = re.compile(r" \((?P<said>[a-z]+ by a person)\)$")
"""How the first line of an item ends that a person wrote."""

_BULLET: Final = re.compile(r"^(\s*)(?:[-*+•][ \t]+(?:->[ \t]*)?|->[ \t]*)")


@dataclass(frozen=True, slots=True)
class DayGroup:
    """Items of a group below one heading."""

    group: Group
    items: list[LogItem]
    is_first: bool
    """Whether no other heading above has items of the same group."""


@dataclass
class Day:
    """The items below one heading."""

    heading: str
    groups: list[DayGroup] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The heading as it is read; undated items have none."""
        text = self.heading.strip(" \t#*_")
        return text.partition(":")[2].strip(" *_") or text or "Undated"


def split_threads(
    record: MemoryRecord, groups: Sequence[Group]
) -> list[tuple[str | None, list[Group]]]:
    """Return groups that say something by thread, where the log is about several.

    Its name is empty for groups of several threads, and `None` where the log is about one.
    """
    shown = [group for group in groups if group["text"]]
    if not is_shared(record):
        return [(None, shown)] if shown else []
    parts = groupby(shown, key=lambda group: group["thread_id"])
    return [(show_key(thread) if thread else "", [*own]) for thread, own in parts]


def split_days(groups: Sequence[Group]) -> list[Day]:
    """Return a log by its headings; groups that go on with a day stand below the same one."""
    days: list[Day] = []
    seen: set[str] = set()
    for item in list_items(groups):
        heading, group = item.span.heading.strip(), item.group
        if not days or days[-1].heading != heading:
            days.append(Day(heading))
        own = days[-1].groups
        if not own or own[-1].group is not group:
            own.append(DayGroup(group, [], group["id"] not in seen))
            seen.add(group["id"])
        own[-1].items.append(item)
    return days


def name_range(group: Group) -> str:
    """Return the ids of the messages that a group was written from; empty for none."""
    return write_range(group).strip("_").replace("`", "").removeprefix("range:").strip()


@dataclass(frozen=True, slots=True)
class ShownItem:
    """What of an item people read."""

    kind: str
    """Names the mark, such as `red`; empty for none."""
    meaning: str
    """What the mark says."""
    mark: str
    time: str
    """Such as `09:00`; empty for none."""
    words: str
    """Its first line."""
    badge: str
    """What says that nobody else changes it; empty for other items."""
    below: Sequence[str]
    """The lines below."""


def show_item(item: LogItem) -> ShownItem:
    """Return what of an item people read."""
    head = item.head
    kind, meaning = _DOTS.get(head.mark, _DOTS[""])
    first, _, below = item.words.partition("\n")
    by_person = _BY_PERSON.search(first)
    badge = by_person["said"] if by_person else "pinned"
    mark = "✓" if kind == "done" else head.mark
    is_kept = is_protected(item.group)
    lines = _list_below(below)
    return ShownItem(
        kind, meaning, mark, head.time, write_words(first), badge if is_kept else "", lines
    )


def write_words(line: str) -> str:
    """Return an item's first line without bullet, mark and time, and what says who wrote it."""
    return _BY_PERSON.sub("", line[read_head(line).end :].lstrip("*-+• "))


def _list_below(text: str) -> list[str]:
    lines = [line for line in text.split("\n") if line.strip()]
    depth = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return [_BULLET.sub(r"\1→ ", line[depth:]) for line in lines]


def list_values(record: MemoryRecord) -> list[ShownValue]:
    """Return the values as texts, those of which there is something to say."""
    shown: list[ShownValue] = []
    for name, kept in record.get("extracted", {}).items():
        error = kept["error"]
        notes = (f"the newest question about it found nothing: {error}",) if error else ()
        shown.append(ShownValue(name, _write(kept["value"]), notes))
    for message in list_pinned(record):
        notes = () if message["is_whole"] else ("shown in part: no room",)
        shown.append(ShownValue(f"pinned message {message['id']}", message["text"], notes))
    return [value for value in shown if value.value or value.notes]


def _write(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""


def write_title(record: MemoryRecord) -> str:
    """Return what a memory is of: the thread's title or id, or the resource."""
    named = find_label(record) or record["thread_id"]
    if not named and is_shared(record):
        named = record["resource_id"] or ""
    return f"Memory of {show_key(named) if named else 'a thread'}"


def select_log(record: MemoryRecord, apart: Sequence[Apart]) -> MemoryRecord:
    """Return a record whose log is without what the Actor is shown apart from it."""
    shown = {group["id"] for each in apart for group in each.groups}
    return {**record, "log": [group for group in record["log"] if group["id"] not in shown]}


def describe_memory(
    record: MemoryRecord, status: StatusData, apart: Sequence[Apart]
) -> dict[str, Any]:
    """Return what each page of a memory shows, by the names that templates have for it."""
    waiting = [group for chunk in record["chunks"] for group in chunk["groups"]]
    return {
        "title": write_title(record),
        "record": record,
        "windows": list_windows(status),
        "reads": describe_actor_window(status),
        "trouble": list_trouble(record),
        "unread": list_unread(record),
        "hints": list_hints(record),
        "apart": [(each, split_threads(record, each.groups)) for each in apart],
        "notes": split_threads(record, select_log(record, apart)["log"]),
        "values": list_values(record),
        "waiting": split_threads(record, waiting),
        "explained": explain_chunks(status),
        "usage": list_usage(record),
    }
