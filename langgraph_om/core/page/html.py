"""Write HTML so that text cannot become markup: what is no `Html` is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any, Final

from langgraph_om.core.additions import added_operations, read_closing
from langgraph_om.core.content.text import show_key
from langgraph_om.core.items import LogItem, list_items
from langgraph_om.core.wire import Group, MemoryRecord, StatusData

_VOID: Final = frozenset({"br", "hr", "meta", "input"})
_UNSHOWABLE: Final = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), 65534, 65535], "�"
)


class Html(str):
    """Text that is HTML already; made by `element` and `join` alone."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return it as it is, for template engines, which escape all other text."""
        return self


Child = str | Html | None


def element(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """Write an element.

    Args:
        children: What is in it; `None` for nothing.
        attributes: By name; `class_` for `class`, `_` for `-`. `None` and `False` are left out,
            `True` has no value.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        parts.append(f" {label}" if value is True else f' {label}="{write_text(str(value))}"')
    inner = join(children)
    parts.append(">" if name in _VOID else f">{inner}</{name}>")
    return Html("".join(parts))


def join(children: Iterable[Child]) -> Html:
    """Put elements and texts side by side."""
    return Html(
        "".join(
            child if isinstance(child, Html) else write_text(child) for child in children if child
        )
    )


def write_text(text: str) -> Html:
    """Escape a text; characters that no page may hold become a replacement character."""
    plain = text.encode("utf-8", "replace").decode("utf-8").translate(_UNSHOWABLE)
    return Html(escape(plain, quote=True))


STYLE: Final = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
"""How a memory looks, light and dark, on a screen of any width, without a script or a font file.

Everything stands below the class `om`, so that it changes nothing else in a notebook.
"""

BODY_STYLE: Final = (
    "html{background:#fff}body{margin:0}@media(prefers-color-scheme:dark){html{background:#14181c}}"
)
"""Of a page of its own."""


OPERATIONS: Final = {
    "observation": "observing messages",
    "reflection": "condensing the log",
}


def name_operation(operation: str) -> str:
    """Return in words what an operation does."""
    added = added_operations.get(operation)
    return added.label if added is not None else OPERATIONS[operation]


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
class Sizes:
    """What the Actor is sent in place of the conversation, in tokens."""

    conversation: int
    """Of all messages, with those that were removed."""
    shown: int
    """Of observations and unobserved messages."""


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
    left_out: Sequence[str] = ()
    """Texts for which there was no room, oldest first."""

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
            "left_out": [*self.left_out],
        }


def describe_item(item: LogItem) -> dict[str, Any]:
    """Return an item as JSON values, for programs."""
    day = item.day.isoformat() if item.day is not None else None
    return {"id": item.id, "day": day, "thread": item.group["thread_id"], "text": item.words}


def write_apart(apart: Apart, *, names_threads: bool) -> list[str]:
    """Return lines that say what is shown apart from the log, and what had no room."""
    lines = [f"{apart.title.lower()}: {describe_room(apart)}"]
    for item in apart.items:
        day = f"{item.day.isoformat()} " if item.day is not None else ""
        thread = item.group["thread_id"] if names_threads else None
        said = f", thread {show_key(thread)}" if thread else ""
        lines.append(f"* {day}{item.words} (#{item.id}{said})")
    return [*lines, *(f"* no room for: {text}" for text in apart.left_out)]


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


def describe_sizes(sizes: Sizes) -> str:
    """Say how much less than the whole conversation the Actor is sent."""
    if not sizes.conversation and not sizes.shown:
        return "nothing was said yet"
    said = f"({count(sizes.conversation, 'token')} of conversation, {sizes.shown:,} shown)"
    if sizes.shown >= sizes.conversation:
        return f"none yet {said}"
    return f"{sizes.conversation / max(1, sizes.shown):.1f} to 1 {said}"


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
    working = [name_operation(name) for name in record["pending"]]
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
        (name_operation(name), f"{last['error']} ({last['failures']} in a row)")
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
    tokens = sum(spent.get("leftOutTokens", 0) for spent in usage)
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
            name_operation(name),
            int(usage.get("calls", 0)),
            int(usage.get("inputTokens", 0)),
            int(usage.get("outputTokens", 0)),
        )
        for name, usage in spent
        if usage
    ]


def write_moment(at: str) -> str:
    """Write an ISO time to the minute, in its own zone."""
    return at[:16].replace("T", " ")
