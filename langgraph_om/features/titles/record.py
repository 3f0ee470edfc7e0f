"""What a record knows of its thread's title: keys, events, and their effects.

`thread_title` is the title; `title` notes where it comes from. A title that a person set is changed
by nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, NotRequired, cast

from typing_extensions import TypedDict

from langgraph_om.core.additions import (
    AddedChange,
    Additions,
    Log,
    LogChange,
    name_fields,
    run_beside,
)
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.observe.answer_tags import defuse_tags, tag_of
from langgraph_om.core.observe.parse_answer import says_nothing
from langgraph_om.core.wire import Event, Hints, MemoryRecord, Opened, Usage

TITLE: Final = "thread_title"
"""The key of a record with the title, and the hint by which the Observer suggests one."""

# --- Keys ----------------------------------------------------------------------------------------


class TitleState(TypedDict, total=False):
    """Where the thread's title comes from."""

    by: Literal["memory", "person"] | None
    """Who set it; a person's is changed by nobody else."""
    words: str
    """The first words of the first user message, which lists show until there is a title."""
    cycle_id: str | None
    """Of the question for a title that is under way."""
    tries: int
    """How often a title was asked for."""
    id: str
    """Of the act of a person who set it last."""
    at: str
    """When it was set."""
    before: str | None
    """What it was before a person set it."""
    is_new: bool
    """Whether a person set it and no part of the stream has told of it yet."""
    usage: Usage
    """What asking for it has cost."""


class TitleKeys(TypedDict, total=False):
    """The keys of a record that are about its title."""

    thread_title: str | None
    title: TitleState
    """Where `thread_title` comes from; missing where nobody asked for one or set one."""


def _read(record: Mapping[str, Any]) -> TitleKeys:
    return cast("TitleKeys", record)


def read_title(record: Mapping[str, Any]) -> str | None:
    """Return the thread's title; `None` while it has none."""
    title: str | None = record.get("thread_title")
    return title


def read_title_state(record: Mapping[str, Any]) -> TitleState:
    """Return what a record knows of where its title comes from."""
    state: TitleState = record.get("title", {})
    return state


def is_named(record: Mapping[str, Any]) -> bool:
    """Return whether a person set the thread's title."""
    return read_title_state(record).get("by") == "person"


_MIN_CHARACTERS: Final = 3
_MAX_CHARACTERS: Final = 100
_QUOTES: Final = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "*": "*"}


def shorten_title(text: str) -> str | None:
    """Return the first line of a text without quotes, as long as it can be shown as a title."""
    title, before = text.split("\n", 1)[0], None
    while title != before:
        before = title
        title = defuse_tags(title[:_MAX_CHARACTERS].strip(), tag_of(TITLE))
        if len(title) > 1 and _QUOTES.get(title[0]) == title[-1]:
            title = title[1:-1]
    return title if len(title) >= _MIN_CHARACTERS and not says_nothing(title) else None


# --- Events --------------------------------------------------------------------------------------


class TitleWords(TypedDict):
    """The words that lists show until the thread has a title."""

    type: Literal["title-words"]
    words: str


class TitleAsked(TypedDict):
    """A title is asked for."""

    type: Literal["title-asked"]
    cycle_id: str
    at: str


class Titled(TypedDict):
    """What came of a question for a title, or what a person set."""

    type: Literal["titled"]
    by: Literal["memory", "person"]
    id: str
    """Of the question, or of the act; one that was folded already changes nothing."""
    title: str | None
    """`None` where nothing came of the question, or a person gives the title back to memory."""
    at: str
    error: NotRequired[str]
    usage: NotRequired[Usage]


def tell_title(info: CycleInfo, at: datetime, old: str | None, new: str) -> Event:
    """Return the event that shows a new title; it is only streamed."""
    return info.event("thread-update", at, old_title=old, new_title=new)


# --- Effects -------------------------------------------------------------------------------------


def _note_words(record: MemoryRecord, event: TitleWords) -> None:
    """Note what lists show until there is a title."""
    _read(record)["title"] = {**read_title_state(record), "words": event["words"]}


def _ask_title(record: MemoryRecord, event: TitleAsked) -> None:
    """Note that a title is asked for."""
    state = read_title_state(record)
    tries = state.get("tries", 0) + (state.get("cycle_id") != event["cycle_id"])
    _read(record)["title"] = {**state, "cycle_id": event["cycle_id"], "tries": tries}


def _set_title(record: MemoryRecord, event: Titled) -> None:
    """Set the title, which a model's answer never does over one that is there."""
    state = read_title_state(record)
    if event["by"] == "person":
        if state.get("id") != event["id"]:
            _set_by_person(record, state, event)
        return
    if state.get("cycle_id") != event["id"]:
        return
    state = {**state, "cycle_id": None}
    if "usage" in event:
        before = cast("Mapping[str, int]", state.get("usage", {}))
        spent = cast("Mapping[str, int]", event["usage"])
        total = {key: before.get(key, 0) + value for key, value in spent.items()}
        state["usage"] = cast("Usage", total)
    if event["title"] is not None and read_title(record) is None and not is_named(record):
        _read(record)["thread_title"] = event["title"]
        state = {**state, "by": "memory", "at": event["at"]}
    _read(record)["title"] = state


def _set_by_person(record: MemoryRecord, state: TitleState, event: Titled) -> None:
    before, title = read_title(record), event["title"]
    _read(record)["thread_title"] = title
    _read(record)["title"] = {
        **state,
        "by": "person" if title is not None else None,
        "id": event["id"],
        "at": event["at"],
        "before": before,
        "is_new": title != before,
        "cycle_id": None,
        "tries": 0,
    }
    fixed: dict[str, Any] = {"thread_id": record["thread_id"], "fixed": {TITLE: title}}
    run_beside("changed", record, {"id": event["id"], "kind": "fix", "groups": [], **fixed})


def _name_by_hand(record: MemoryRecord, edit: Mapping[str, Any]) -> None:
    """Take an edited title for a person's, which memory never changes; `None` gives it back."""
    title = edit.get("thread_title")
    if "thread_title" in edit and "title" not in edit and title != read_title(record):
        by: Literal["person"] | None = "person" if title is not None else None
        state = read_title_state(record)
        _read(record)["title"] = {**state, "by": by, "cycle_id": None, "tries": 0}


def _take_over(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take over what the Observer suggests; a person's title stays."""
    title = event.get("hints", {}).get(TITLE)
    if title and not is_named(record):
        _read(record)["thread_title"] = title


def _take_buffered(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Do the same before its observations take effect, which need not tell of it again."""
    _take_over(record, event["chunk"])
    *others, chunk = record["chunks"]
    left = {name: hint for name, hint in chunk["hints"].items() if name != TITLE}
    record["chunks"] = [*others, {**chunk, "hints": left}]


def _note_told(state: TitleState) -> TitleState:
    """Return the state of a title of which the stream knows."""
    return {**state, "is_new": False} if state.get("is_new") else state


def _leave(record: MemoryRecord, event: Opened) -> None:
    """Drop the title where the thread goes over to the shared log of another resource."""
    if event["scope"] == "resource" and record["resource_id"] != event["resource_id"]:
        _forget(record, event)


def _forget(record: MemoryRecord, _: Any) -> None:
    """Drop the title with what a shared log had of the thread."""
    if record["scope"] == "resource":
        _read(record)["thread_title"] = None
        _read(record).pop("title", None)


# The log that threads share.


class TitleFixed(LogChange):
    """A change of that log: a person sets the title of a thread, or gives it back."""

    kind: Literal["fix"]
    thread_id: str
    fixed: Hints
    """The title by its name; `None` where observations may change it again."""


def _fix(log: Log, change: TitleFixed) -> Log:
    """Keep the title, so that what other threads observe never replaces it."""
    fixed = log.get("fixed", {})
    own = {**fixed.get(change["thread_id"], {}), **change["fixed"]}
    kept = {name: hint for name, hint in own.items() if hint is not None}
    return {**log, "fixed": {**fixed, change["thread_id"]: kept}}


ADDITIONS: Final = Additions(
    keys=TitleKeys,
    blank={TITLE: None},
    hints={TITLE: shorten_title},
    tags=(tag_of(TITLE),),
    labels=(TITLE, "title.words"),
    reducers={"title-words": _note_words, "title-asked": _ask_title, "titled": _set_title},
    streamed={
        "thread-update": name_fields("cycle_id", "thread_id", "old_title", "new_title", "at")
    },
    changes={"fix": AddedChange(TitleFixed, _fix)},
    told={"title": _note_told},
    beside={
        "edited": _name_by_hand,
        "observed": _take_over,
        "buffered": _take_buffered,
        "synced": _take_over,
        "opened": _leave,
        "deleted": _forget,
    },
)
