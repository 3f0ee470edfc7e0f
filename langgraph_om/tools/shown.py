"""Texts and plain values that people read about a memory, and the renderer of all HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import unified_diff
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from langgraph_om.core.content.dates import read_zone
from langgraph_om.core.content.text import show_key
from langgraph_om.core.items import LogItem, is_protected, list_items, read_head
from langgraph_om.core.record.kept import list_pinned, name_pinned
from langgraph_om.core.record.record import (
    log_tokens,
    read_closing,
    write_log,
    write_range,
)
from langgraph_om.core.record.users_log import is_of_user
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.parts import StatusData

if TYPE_CHECKING:
    from jinja2 import Environment

OPERATIONS: Final = {
    "observation": "observing messages",
    "reflection": "condensing observations",
    "others": "observing other threads",
}


def count(number: int, unit: str) -> str:
    """Write a number with its unit: `1 chunk`, `1,200 tokens`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def write_moment(at: str) -> str:
    """Write an ISO time to the minute, in its own zone."""
    return at[:16].replace("T", " ")


# --- How full memory is --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Meter:
    """How close messages or observations are to their threshold."""

    name: str
    tokens: int
    threshold: int
    ahead: int
    """Tokens of these messages that were already observed in the background."""
    meaning: str

    @property
    def whole(self) -> int:
        """Tokens that the full width of a bar stands for."""
        return max(self.threshold, self.tokens, 1)

    @property
    def is_over(self) -> bool:
        """Whether the threshold is exceeded."""
        return self.tokens > self.threshold

    @property
    def words(self) -> str:
        """Such as `1,200 of 30,000 tokens`."""
        over = f" ({self.tokens - self.threshold:,} over the threshold)" if self.is_over else ""
        return f"{self.tokens:,} of {count(self.threshold, 'token')}{over}"


def list_meters(status: StatusData) -> list[Meter]:
    """Return both meters."""
    active = status["windows"]["active"]
    messages, log = active["messages"], active["observations"]
    ahead = min(messages["tokens"], status["windows"]["buffered"]["observations"]["messageTokens"])
    raw, noted = "shown to the agent word for word", "shown to the agent before its messages"
    return [
        Meter("unobserved messages", messages["tokens"], messages["threshold"], ahead, raw),
        Meter("observations", log["tokens"], log["threshold"], 0, noted),
    ]


_SOURCES: Final = {
    "option": "set by `max_input_tokens`",
    "profile": "from its profile",
    "refused": "learned from a prompt that its provider rejected",
}


def describe_actor_window(status: StatusData) -> str:
    """Return how long a prompt the Actor's model can read; empty if it is unknown."""
    window = status.get("actorWindow")
    if window is None:
        return ""
    known = f"{count(window['tokens'], 'token')}, {_SOURCES[window['source']]}"
    if "scaledFrom" not in window:
        return known
    sizes = f"from {window['scaledFrom']:,} to {window['scaledTo']:,}"
    return f"{known}; all limits are scaled down, {sizes}"


def describe_sizes(conversation: int, shown: int) -> str:
    """Return how much shorter than the conversation the Actor's input is."""
    if not conversation and not shown:
        return "no messages yet"
    sizes = f"({count(conversation, 'token')} of conversation, {shown:,} shown)"
    return (
        f"{conversation / shown:.1f} to 1 {sizes}" if 0 < shown < conversation else f"none {sizes}"
    )


def list_background(record: MemoryRecord, status: StatusData, *, is_closed: bool) -> list[str]:
    """Return sentences on finished and running background work."""
    found: list[str] = []
    chunks = status["windows"]["buffered"]["observations"]
    if chunks["chunks"]:
        threshold = status["windows"]["active"]["messages"]["threshold"]
        read, written = chunks["messageTokens"], count(chunks["observationTokens"], "token")
        found.append(
            f"{count(chunks['chunks'], 'chunk')}: {count(read, 'token')} of messages were observed "
            f"in advance, as {written}. They replace their messages when "
            f"{count(threshold, 'token')} are unobserved."
        )
    ahead = record["reflection"]
    if ahead:
        found.append(
            f"A reflection: {count(ahead['input_tokens'], 'token')} of observations were condensed "
            f"in advance to {ahead['tokens']:,}. It replaces them when they reach their "
            f"threshold."
        )
    if record["pending"]:
        working = [OPERATIONS[name] for name in record["pending"]]
        found.append(f"Running in the background: {' and '.join(working)}.")
    if is_closed:
        found.append("The memory is closed, so no more background work is done.")
    return found


# --- What went wrong -----------------------------------------------------------------------------


def list_trouble(record: MemoryRecord) -> Iterator[tuple[str, str]]:
    """Yield problems to report about a memory, each with one word for programs."""
    trip = record.get("tripwire")
    if trip:
        yield "tripwire", f"The last turn ended without an answer: {trip['reason']}"
    for name, last in record["attempts"].items():
        # A restart of the process leaves an error, but is no failure.
        if last.get("error") and last["failures"]:
            times = f"{last['failures']} in a row"
            yield "failures", f"{OPERATIONS[name].capitalize()} failed: {last['error']} ({times})"
    for name, kept in record.get("extracted", {}).items():
        if kept["error"]:
            yield "extract", f"The value {name!r} is unchanged: {kept['error']}"
    usage: Iterable[Mapping[str, Any]] = record["usage"].values()
    unread = sum(spent.get("left_out_tokens", 0) for spent in usage)
    if unread:
        yield "unread", f"About {unread:,} tokens inside enormous messages were not read"
    observed = record["observed"]
    overlooked = observed.get("overlooked", 0) if observed is not None else 0
    if overlooked:
        were = "was" if overlooked == 1 else "were"
        among = f"{count(overlooked, 'message')} among the observed ones"
        yield "overlooked", f"{among} {were} not read"
    head = record.get("head")
    messages, observations = head.get("left_out", [0, 0]) if head else [0, 0]
    if messages or observations:
        oldest = f"{count(messages, 'unobserved message')} and {count(observations, 'observation')}"
        yield "left-out", f"The last prompt had no room for the oldest {oldest}; memory keeps them"


def list_hints(record: MemoryRecord) -> list[tuple[str, str]]:
    """Return the hints that the log ends with, by their titles."""
    return [
        (name.replace("_", " ").capitalize(), text) for name, text in read_closing(record).items()
    ]


def list_usage(record: MemoryRecord) -> list[tuple[str, int, int, int]]:
    """Return calls, input tokens and output tokens of memory's own models, by operation."""
    spent: Iterable[tuple[str, Mapping[str, Any]]] = record["usage"].items()
    return [
        (
            OPERATIONS[name],
            int(used.get("calls", 0)),
            int(used.get("input_tokens", 0)),
            int(used.get("output_tokens", 0)),
        )
        for name, used in spent
        if used
    ]


# --- The log -------------------------------------------------------------------------------------


def diff_logs(before: MemoryRecord, after: MemoryRecord) -> list[str]:
    """Return the lines that differ, each after ` `, `-` or `+`; `@@` where some are left out."""
    old, new = (write_log(record["log"]).split("\n") for record in (before, after))
    lines = [*unified_diff(old, new, lineterm="", n=1)][2:]
    return ["@@" if line.startswith("@@") else line for line in lines]


_BY_PERSON: Final = re.compile(r" \((?P<said>[a-z]+ by a person)\)$")
"""The end of the first line of an observation that a person wrote."""


def write_words(line: str) -> str:
    """Return an observation's first line without bullet, mark, time and author."""
    return _BY_PERSON.sub("", line[read_head(line).end :].lstrip("*-+• "))


def list_values(record: MemoryRecord) -> list[tuple[str, str]]:
    """Return the name and text of each value kept beside the log."""
    found: list[tuple[str, str]] = []
    for name, kept in record.get("extracted", {}).items():
        value = kept["value"]
        is_text = isinstance(value, str) or not value
        text = str(value or "") if is_text else json.dumps(value, ensure_ascii=False, indent=2)
        found.append((name, text.strip()))
    pinned = list_pinned(record)
    found += [(f"pinned message {name_pinned(each)}", each["text"]) for each in pinned]
    return [(name, text) for name, text in found if text]


# --- What a person changed -----------------------------------------------------------------------


_MOST_ACTS: Final = 20


@dataclass(frozen=True, slots=True)
class ShownAct:
    """A change that a person made, or an instruction that the user ended."""

    id: str
    action: str
    """Such as `Correct`."""
    at: datetime
    is_undone: bool
    words: str
    """The observation before the change and after it, or what the user said that ended it."""


def list_acts(record: MemoryRecord) -> list[ShownAct]:
    """Return what a person changed, newest first, at the user's time."""
    zone = read_zone(record.get("timezone", "UTC"))
    found: list[ShownAct] = []
    for act in reversed(record.get("steered", [])[-_MOST_ACTS:]):
        words = (_write_changed(act["before"]), act.get("by") or _write_changed(act["after"]))
        found.append(
            ShownAct(
                act["id"],
                _write_action(act["action"]),
                datetime.fromisoformat(act["at"]).astimezone(zone),
                act["undone"],
                " → ".join(dict.fromkeys(filter(None, words))),
            )
        )
    return found


def _write_action(action: str) -> str:
    return "The user ended" if action == "end" else action.replace("-", " ").capitalize()


def _write_changed(group: Group | None) -> str:
    items = list_items([group]) if group is not None else []
    return write_words(items[0].words.split("\n")[0]) if items else ""


def write_title(record: MemoryRecord) -> str:
    """Return the title of a memory: the thread's title or id, or the user."""
    named = record["thread_title"] or record["thread_id"] or record["resource_id"]
    return f"Memory of {show_key(named) if named else 'a thread'}"


# --- The log in HTML -----------------------------------------------------------------------------


def split_threads(
    record: MemoryRecord, groups: Sequence[Group]
) -> list[tuple[str | None, list[Group]]]:
    """Return groups that have text by thread.

    The thread is empty for groups of several, and `None` if the log is about one.
    """
    shown = [group for group in groups if group["text"]]
    if not is_of_user(record):
        return [(None, shown)] if shown else []
    parts = groupby(shown, key=lambda group: group["thread_id"])
    return [(show_key(thread) if thread else "", [*own]) for thread, own in parts]


@dataclass
class Day:
    """The observations below one heading."""

    heading: str
    groups: list[tuple[Group, list[LogItem], bool]] = field(default_factory=list)
    """Observations by group, and whether this is the group's first heading."""

    @property
    def title(self) -> str:
        """The heading as people read it."""
        text = self.heading.strip(" \t#*_")
        return text.partition(":")[2].strip(" *_") or text or "Undated"


def split_days(groups: Sequence[Group]) -> list[Day]:
    """Return a log by its headings; groups that continue a day stay below the same one."""
    days: list[Day] = []
    seen: set[str] = set()
    for item in list_items(groups):
        heading, group = item.span.heading.strip(), item.group
        if not days or days[-1].heading != heading:
            days.append(Day(heading))
        own = days[-1].groups
        if not own or own[-1][0] is not group:
            own.append((group, [], group["id"] not in seen))
            seen.add(group["id"])
        own[-1][1].append(item)
    return days


_MARKS: Final = {
    "🔴": ("red", "a fact, a decision, or something important"),
    "🟡": ("amber", "a question or a request"),
    "🟢": ("green", "minor"),
    "✅": ("done", "done"),
    "📌": ("pin", "kept word for word"),
    "": ("", "no mark"),
}
_BULLET: Final = re.compile(r"^(\s*)(?:[-*+•][ \t]+(?:->[ \t]*)?|->[ \t]*)")


def show_item(item: LogItem) -> dict[str, Any]:
    """Return an observation as people read it."""
    kind, meaning = _MARKS.get(item.head.mark, _MARKS[""])
    first, _, rest = item.words.partition("\n")
    by_person = _BY_PERSON.search(first)
    lines = [line for line in rest.split("\n") if line.strip()]
    depth = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return {
        "kind": kind,
        "meaning": meaning,
        "mark": "✓" if kind == "done" else item.head.mark,
        "time": item.head.time,
        "words": write_words(first),
        # Why reflections do not change it.
        "badge": by_person["said"] if by_person else "pinned" if is_protected(item.group) else "",
        "below": [_BULLET.sub(r"\1→ ", line[depth:]) for line in lines],
    }


def name_range(group: Group) -> str:
    """Return the ids of the messages that a group was written from; empty for none."""
    return write_range(group).strip("_").replace("`", "").removeprefix("range:").strip()


# --- The renderer --------------------------------------------------------------------------------

STATIC: Final = Path(__file__).parent / "static"
_UNSHOWABLE: Final = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), 65534, 65535], "�"
)


def _clean(value: Any) -> Any:
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return value.encode("utf-8", "replace").decode("utf-8").translate(_UNSHOWABLE)


@cache
def _open_templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader  # noqa: PLC0415 optional

    templates = Environment(
        loader=FileSystemLoader([STATIC.parent / "templates", STATIC]),  # a view holds its CSS
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean,
    )
    templates.filters.update(
        number="{:,}".format,
        count=count,
        moment=lambda at: write_moment(at.isoformat()),
        tokens=log_tokens,
        diff=lambda pair: diff_logs(pair[1], pair[0]),
        quoted=lambda text: quote(text, safe=""),
        days=split_days,
        shown=show_item,
        ids=name_range,
        key=show_key,
    )
    return templates


def render(template: str, **values: Any) -> str:
    """Return the text of a page.

    All text is escaped, and a character that no page may hold becomes a replacement character.
    """
    return _open_templates().get_template(template).render(values)
