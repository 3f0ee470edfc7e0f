"""Say in calm words how a memory is: what the text and the page have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from langgraph_om.core.wire import MemoryRecord, StatusData

OPERATIONS: Final = {
    "observation": "observing messages",
    "reflection": "condensing the log",
    "others": "observing other threads",
}

ACTIONS: Final = {
    "remember": "remembered",
    "forget": "forgot",
    "correct": "corrected",
    "pin": "pinned",
    "unpin": "unpinned",
    "undo": "took back",
}


@dataclass(frozen=True, slots=True)
class Window:
    """How full a window is."""

    name: str
    tokens: int
    threshold: int
    ahead: int
    """Of the tokens, how many are observed ahead of need."""
    meaning: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the Actor is sent in place of the conversation, in tokens."""

    conversation: int
    """Of all messages, with those that were removed."""
    shown: int
    """Of observations and unobserved messages."""


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


def describe_sizes(sizes: Sizes) -> str:
    """Say how much less than the whole conversation the Actor is sent."""
    if not sizes.conversation and not sizes.shown:
        return "nothing was said yet"
    said = f"({count(sizes.conversation, 'token')} of conversation, {sizes.shown:,} shown)"
    if sizes.shown >= sizes.conversation:
        return f"none yet {said}"
    return f"{sizes.conversation / max(1, sizes.shown):.1f} to 1 {said}"


def describe_ahead(record: MemoryRecord, status: StatusData, *, is_closed: bool) -> str:
    """Say what was made ahead of need, in one line."""
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
        f"{number}: {count(read, 'token')} of messages are observed ahead of need, in "
        f"{count(written, 'token')}. They join the log, and their messages leave the window, when "
        f"it reaches {count(threshold, 'token')}; no model is asked then, and nobody waits."
    )


def list_failures(record: MemoryRecord) -> list[tuple[str, str]]:
    """Return what failed last and why, by operation; a restart of the process is no failure."""
    return [
        (OPERATIONS[name], f"{last['error']} ({last['failures']} in a row)")
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


def list_hints(record: MemoryRecord) -> list[tuple[str, str]]:
    """Return the hints that the log ends with."""
    names = {"current_task": "current task", "suggested_response": "suggested response"}
    values: Mapping[str, Any] = record
    return [(title, str(values[key])) for key, title in names.items() if values[key]]


def list_usage(record: MemoryRecord) -> list[tuple[str, int, int, int]]:
    """Return calls, input and output tokens of memory's own models, by operation."""
    spent: Iterable[tuple[str, Mapping[str, Any]]] = record["usage"].items()
    return [
        (
            OPERATIONS[name],
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
