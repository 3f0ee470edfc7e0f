"""Write HTML so that text cannot become markup: what is no `Html` is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
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
        name: Its name.
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


# How a memory looks: light and dark, on a screen of any width, without a script or a font file.


STYLE: Final = """
.om {
  color-scheme: light dark; --ink: #1d2329; --soft: #5b6570; --faint: #646e79; --paper: #fff;
  --card: #f6f7f9; --line: #e3e6ea; --accent: #2b67d1; --ahead: #a9c5f6; --red: #d6453d;
  --amber: #c98a06; --green: #2b7a48; --warn: #fdf3e1; --warn-ink: #7a4d00; --add: #e3f5e9;
  --add-ink: #16633a; --cut: #fdeaea; --cut-ink: #97282a; --pin: #efe9fd; --pin-ink: #5a3ea8;
  color: var(--ink); background: var(--paper);
  font: 15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,Arial,"Noto Sans",sans-serif;
  max-width: 50rem; margin: 0 auto; padding: 1.75rem 1.25rem 3rem; overflow-wrap: break-word;
  -webkit-text-size-adjust: 100%; text-size-adjust: 100%;
}
@media (prefers-color-scheme:dark) {
  .om {
    --ink: #e4e8ec; --soft: #a3adb8; --faint: #8b96a2; --paper: #14181c; --card: #1c2228;
    --line: #2d353d; --accent: #6ea2ff; --ahead: #33507f; --red: #ff7b72; --amber: #e0b04a;
    --green: #6fcf97; --warn: #33290f; --warn-ink: #f0cf8a; --add: #12331f; --add-ink: #8fdcae;
    --cut: #3a1a1c; --cut-ink: #f5a3a3; --pin: #2a2344; --pin-ink: #c3b1f7;
  }
}
.om * { box-sizing: border-box; }
.om h1 {
  font-size: 1.55rem; line-height: 1.25; letter-spacing: -.012em; margin: 0 0 .3rem;
  font-weight: 650; text-wrap: balance; color: inherit;
}
.om h2 {
  font-size: .78rem; letter-spacing: .07em; text-transform: uppercase; color: var(--soft);
  font-weight: 650; margin: 0 0 .8rem;
}
.om section { margin-top: 2.4rem; }
.om h3 { font-size: 1rem; font-weight: 650; margin: 1.7rem 0 .45rem; color: inherit; }
.om h3 small { font-weight: 400; color: var(--faint); margin-left: .5em; font-size: .86em; }
.om p { margin: .35rem 0; max-width: 42rem; }
.om a { color: var(--accent); }
.om .sub, .om .note { color: var(--soft); font-size: .92rem; }
.om .meters { display: grid; gap: 1.1rem; margin: 1.5rem 0 .9rem; }
.om .meter-head {
  display: flex; justify-content: space-between; gap: 1rem; flex-wrap: wrap; font-size: .92rem;
  margin-bottom: .35rem;
}
.om .meter-head b { font-weight: 600; }
.om .meter-head span { color: var(--soft); font-variant-numeric: tabular-nums; }
.om .bar {
  display: flex; height: .6rem; border-radius: 99px; background: var(--line); overflow: hidden;
}
.om .bar i { display: block; background: var(--accent); }
.om .bar i+i, .om .bar .ahead { background: var(--ahead); }
.om .card {
  background: var(--card); border: 1px solid var(--line); border-radius: .7rem;
  padding: .85rem 1rem; margin: .7rem 0;
}
.om .card>:first-child { margin-top: 0; }
.om .card>:last-child { margin-bottom: 0; }
.om .card b { font-weight: 600; }
.om #done { scroll-margin-top: 6rem; }
.om .warn { background: var(--warn); color: var(--warn-ink); border-color: transparent; }
.om ul.items { list-style: none; margin: 0; padding: 0; }
.om ul.items li {
  display: grid; grid-template-columns: 1.1rem 3.1rem minmax(0,1fr); gap: 0 .35rem;
  padding: .24rem 0; align-items: baseline;
}
.om .dot {
  font-size: 0; width: .55rem; height: .55rem; border-radius: 50%; background: var(--faint);
  display: inline-block; align-self: center; justify-self: center; margin-top: .42rem;
  align-self: start;
}
.om .red { background: var(--red); }
.om .amber { background: var(--amber); }
.om .green { background: var(--green); }
.om .pin { background: var(--pin-ink); }
.om .done {
  font-size: inherit; background: none; color: var(--green); font-weight: 700; width: auto;
  height: auto; margin: 0; line-height: 1.55;
}
.om time { color: var(--faint); font-size: .86rem; font-variant-numeric: tabular-nums; }
.om .value { white-space: pre-wrap; }
.om .below {
  white-space: pre-wrap; color: var(--soft); font-size: .94rem; padding-left: .1rem;
  margin-top: .1rem;
}
.om .id {
  font: .76rem/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace; color: var(--faint);
  white-space: nowrap; margin-left: .1em;
}
.om .badge {
  font-size: .72rem; font-weight: 600; background: var(--pin); color: var(--pin-ink);
  border-radius: 99px; padding: .1rem .5rem; margin-left: .15em; white-space: nowrap;
}
.om .range {
  font: .76rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace; color: var(--faint);
  margin: .15rem 0 .6rem 4.9rem;
}
.om .thread {
  margin: 2rem 0 0; padding: .2rem 0 0; border-top: 1px solid var(--line); color: var(--soft);
  font-size: .92rem;
}
.om table {
  border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums;
}
.om th, .om td {
  text-align: right; padding: .34rem .2rem .34rem .9rem; border-bottom: 1px solid var(--line);
  background: none;
}
.om th:first-child, .om td:first-child { text-align: left; padding-left: 0; }
.om th { font-weight: 500; color: var(--soft); }
.om .wide { overflow-x: auto; }
.om details { border-bottom: 1px solid var(--line); padding: .5rem 0; }
.om summary { cursor: pointer; font-weight: 500; }
.om summary span { color: var(--soft); font-weight: 400; margin-left: .6em; font-size: .92rem; }
.om pre {
  white-space: pre-wrap; margin: .6rem 0 .3rem; padding: 0; background: none; border: 0;
  color: inherit; font: .8rem/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;
}
.om pre span { display: block; padding: 0 .45rem; border-radius: .2rem; }
.om .add { background: var(--add); color: var(--add-ink); }
.om .cut { background: var(--cut); color: var(--cut-ink); }
.om .gap { color: var(--faint); }
.om dl {
  margin: 0; display: grid; grid-template-columns: max-content minmax(0,1fr); gap: .3rem 1rem;
}
.om dt { color: var(--soft); }
.om dt, .om dd { display: block; float: none; width: auto; margin: 0; font-weight: 400; }
.om form { display: inline; }
.om button, .om input[type=text] {
  font: inherit; font-size: .86rem; color: inherit; border: 1px solid var(--line);
  border-radius: .45rem; background: var(--paper); padding: .22rem .6rem;
}
.om button { cursor: pointer; white-space: nowrap; }
.om button:hover { border-color: var(--accent); color: var(--accent); }
.om input[type=text] { width: min(100%,26rem); }
.om .acts { display: flex; flex-wrap: wrap; gap: .4rem; margin: .35rem 0 .3rem; }
.om ul.acts-done { list-style: none; margin: 0; padding: 0; }
.om ul.acts-done li { padding: .35rem 0; border-bottom: 1px solid var(--line); }
.om ul.acts-done .id { margin: 0; }
.om s { color: var(--faint); }
.om .acts form { display: flex; gap: .4rem; flex: 0 1 auto; }
.om details.change { border: 0; padding: 0; font-size: .86rem; }
.om details.change summary span { margin: 0; }
.om ul.threads { list-style: none; padding: 0; margin: 1rem 0; }
.om ul.threads li { border-bottom: 1px solid var(--line); padding: .7rem 0; }
@media (max-width:34rem) {
  .om { padding: 1.1rem .95rem 2.5rem; }
  .om h1 { font-size: 1.32rem; }
  .om ul.items li { grid-template-columns: 1rem minmax(0,1fr); }
  .om ul.items time { grid-column: 2; font-size: .78rem; }
  .om ul.items li>div { grid-column: 2; }
  .om .range { margin-left: 1.35rem; }
  .om dl { grid-template-columns: 1fr; }
  .om dd { margin-bottom: .4rem; }
}
@media print {
  .om { max-width: none; }
  .om details:not([open]) { display: none; }
}
"""
"""Everything stands below the class `om`, so that it changes nothing else in a notebook."""

BODY_STYLE: Final = (
    "html{background:#fff}body{margin:0}@media(prefers-color-scheme:dark){html{background:#14181c}}"
)
"""Of a page of its own."""


# Say in calm words how a memory is: what the text and the page have in common.


OPERATIONS: Final = {
    "observation": "observing messages",
    "reflection": "condensing the log",
}


def name_operation(operation: str) -> str:
    """Return in words what an operation does."""
    added = added_operations().get(operation)
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
