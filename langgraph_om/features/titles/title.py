"""The title of a thread: what a record knows of it, and the question by which one is made.

`thread_title` is the title; `title` notes where it comes from. A title that a person set is changed
by nobody else. The question is asked beside the run, from the first user message and the first
answer. Nothing that goes wrong in it counts as a failure of memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NotRequired, cast

from langchain_core.messages import BaseMessage, HumanMessage
from typing_extensions import TypedDict

from langgraph_om.core.additions import (
    AddedChange,
    Additions,
    Log,
    LogChange,
    as_event,
    find_removed,
    name_fields,
    run_beside,
)
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import (
    content_digest,
    derive_id,
    is_conversation,
    keyed_messages,
)
from langgraph_om.core.content.text import as_label, sanitize, truncate_to_tokens
from langgraph_om.core.cycles.cycle import CycleInfo, guard
from langgraph_om.core.cycles.questions import rewrite_by_hook, show_messages
from langgraph_om.core.effects import (
    AskModel,
    CallReply,
    CallWithConfig,
    EffectFlow,
    ModelReply,
    PeekJobs,
    ReadTally,
    Storage,
    Tally,
    Warn,
)
from langgraph_om.core.events import iso
from langgraph_om.core.observe.answer_tags import defuse_tags, split_best, tag_of
from langgraph_om.core.observe.observer import build_failure
from langgraph_om.core.observe.parse_answer import (
    list_examples,
    read_hint,
    says_nothing,
    strip_reasoning,
    unwrap_fence,
)
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.window import Entry
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import Event, Hints, MemoryRecord, Usage
from langgraph_om.errors import ConfigurationError, ObserverError
from langgraph_om.features.archive.writer import find_archive

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
    labels=(TITLE, "title.words"),
    reducers={"title-words": _note_words, "title-asked": _ask_title, "titled": _set_title},
    streamed={
        "thread-update": name_fields("cycle_id", "thread_id", "old_title", "new_title", "at")
    },
    changes={"fix": AddedChange(TitleFixed, _fix)},
    told={"title": _note_told},
    beside={
        "observed": _take_over,
        "buffered": _take_buffered,
        "synced": _take_over,
    },
    of_log=(TITLE, "title"),
)


MAX_SHOWN_TOKENS: Final = 2000
"""Of the first exchange: what it is about is said at the beginning."""
_TRIES: Final = 4
"""How often a question is asked that is refused for its length, each time with half of that."""


@dataclass(frozen=True, slots=True)
class TitleJob:
    """A question for a title that can be asked."""

    settings: Settings
    record: MemoryRecord
    cycle_id: str
    exchange: Sequence[Entry]
    """The first user message and the first answer."""
    now: datetime
    instructions: Any
    """The user's: a text, a function of the run's configuration, or `None`."""

    @property
    def key(self) -> str:
        """Of questions with the same key, one is asked at a time."""
        return f"{self.record['id']}:title"

    @property
    def start(self) -> Event:
        """The event that says that a title is asked for."""
        at = iso(self.now)
        asked: TitleAsked = {"type": "title-asked", "cycle_id": self.cycle_id, "at": at}
        return as_event(asked)

    @property
    def info(self) -> CycleInfo:
        """What hooks are told about it: it reads messages as an observation does."""
        return CycleInfo(
            self.settings, self.record, "observation", self.cycle_id, 0, self.now, "ahead"
        )

    def ask(self) -> EffectFlow[Titled]:
        """Ask, and keep the title in the archive; return the event with what came of it."""
        try:
            title, error = (yield from guard(self.info, self._ask())), None
        except ObserverError as failure:
            title, error = None, str(failure)
        tally: Tally = yield ReadTally()
        found: Titled = {
            "type": "titled",
            "by": "memory",
            "id": self.cycle_id,
            "title": title,
            "at": iso(tally.at or self.now),
            "usage": tally.usage(),
        }
        if error is not None:
            found["error"] = error
            yield Warn("thread %r: no title came of it: %s", (self.record["thread_id"], error))
        if title is not None:
            yield from self._archive(title, tally.at or self.now)
        return found

    def _ask(self) -> EffectFlow[str | None]:
        info, settings = self.info, self.settings
        shown = yield from show_messages(info, self.exchange, [None] * len(self.exchange))
        if shown is None or not shown.parts:
            return None
        text = "\n".join(part.text for part in shown.parts)
        custom = yield from self._read_instructions()
        for tokens in (MAX_SHOWN_TOKENS >> times for times in range(_TRIES)):
            short = truncate_to_tokens(text, tokens, settings.counter.count_text)
            question = fill("title", conversation=short, custom=custom)
            reply: ModelReply = yield AskModel("title", [HumanMessage(question)], info.about())
            if not reply.room:
                break
        if reply.error is not None:
            raise build_failure(reply, "title's model") from reply.error
        title = None if reply.cut_off else parse_title(reply.text)
        if title is None or title in list_examples(question):
            msg = "the answer holds no title"
            raise ObserverError(msg)
        said = yield from rewrite_by_hook(info, "after_observation", {TITLE: title})
        return parse_title(said[TITLE] or "")

    def _read_instructions(self) -> EffectFlow[str]:
        """Return what the user wants of titles, which a function of the run may tell."""
        told = self.instructions
        if callable(told):
            reply: CallReply = yield CallWithConfig("thread_title.instructions", told)
            if reply.error is not None:
                msg = f"`thread_title.instructions` failed: {reply.failure}"
                raise ObserverError(msg) from reply.error
            told = reply.value
        if told is not None and not isinstance(told, str):
            msg = f"`thread_title.instructions` returned `{type(told).__name__}`; return a text"
            raise ObserverError(msg)
        return told or ""

    def _archive(self, title: str, now: datetime) -> EffectFlow[None]:
        """Let lists show it at once; where that fails, the next step's messages bring it."""
        thread_id = self.record["thread_id"]
        if self.settings.parts.storage is None or not thread_id:
            return
        archive = yield from find_archive()
        reply: CallReply = yield Storage(archive.set_title, (thread_id, title, now))
        if reply.error is not None and not isinstance(reply.error, ConfigurationError):
            yield Warn("thread %r: its title is not archived yet: %s", (thread_id, reply.error))


_TITLE_MARKS = re.compile(r"(?i)^\W*title\W*[:：]\s*|^#+\s*|^\*+\s*")
_MAX_TITLE_WORDS = 12
"""Of a title without its tag; more is an answer to the conversation."""


def parse_title(text: str) -> str | None:
    """Read an answer that shall be a title and nothing else; `None` where it holds none."""
    text = strip_reasoning(sanitize(text), may_be_open=True)
    split = split_best(text)
    if tag_of(TITLE) in split.hints:
        return shorten_title(read_hint(split, TITLE) or "")
    if split.tagged:
        return None
    lines = [line for line in unwrap_fence(text).strip().split("\n") if line.strip()]
    if len(lines) != 1:
        return None
    bare = _TITLE_MARKS.sub("", lines[0]).strip().strip("*_").strip()
    return shorten_title(bare) if len(bare.split()) <= _MAX_TITLE_WORDS else None


MAX_TRIES: Final = 3
"""How often a title is asked for until a person takes it up again, or the Observer has one."""


MAX_WORDS: Final = 8
"""Of a user message, shown until there is a title."""
MAX_WORDS_CHARACTERS: Final = 60


def note_words(record: MemoryRecord, messages: Sequence[BaseMessage]) -> list[Event]:
    """Return the event with what lists show until there is a title, once.

    These are the first words of the first user message with text, shortened at a word.
    """
    if "words" in read_title_state(record):
        return []
    said = (as_label(each.text).split() for each in messages if each.type == "human")
    words = next(filter(None, said), None)
    if words is None:
        return []
    text = " ".join(words[:MAX_WORDS])
    if len(words) > MAX_WORDS or len(text) > MAX_WORDS_CHARACTERS:
        head = text[:MAX_WORDS_CHARACTERS]
        text = text if head == text else head.rpartition(" ")[0] or head
        text = f"{text.rstrip(' .,;:!?…')}…"
    noted: TitleWords = {"type": "title-words", "words": text}
    return [as_event(noted)]


def take_in_title(
    settings: Settings, record: MemoryRecord, now: datetime
) -> EffectFlow[list[Event]]:
    """Take in what came of the question that is under way; nothing while it is."""
    cycle_id = read_title_state(record).get("cycle_id")
    if cycle_id is None:
        return []
    states: Mapping[str, Any] = yield PeekJobs({"title": cycle_id})
    found = states["title"]
    if found == "running":
        return []
    if not isinstance(found, Mapping) or found.get("type") != "titled":
        error = "lost: the question is not known here, it ended with its process"
        found = {"type": "titled", "by": "memory", "title": None, "at": iso(now), "error": error}
    return tell_found(settings, record, cast("Titled", {**found, "id": cycle_id}), now)


def tell_found(
    settings: Settings, record: MemoryRecord, found: Titled, now: datetime
) -> list[Event]:
    """Return the event with what came of a question, and the one that shows it."""
    event = as_event(found)
    before, after = read_title(record), read_title(fold(record, [event]))
    if after is None or after == before:
        return [event]
    info = CycleInfo(settings, record, "observation", found["id"], 0, now)
    return [event, tell_title(info, now, before, after)]


def describe_title(step: Step, instructions: Any, *, min_messages: int) -> TitleJob | None:
    """Return the question for the title, where it is time to ask it.

    Args:
        min_messages: How many texts of the user and answers there have to be, and are shown.
    """
    record = step.record
    state = read_title_state(record)
    is_under_way, tries = state.get("cycle_id") is not None, state.get("tries", 0)
    if read_title(record) is not None or is_under_way or tries >= MAX_TRIES:
        return None
    is_cut = find_removed(record).last is not None
    exchange = find_exchange(step.messages, 2 if is_cut else min_messages)
    if not exchange:
        return None
    parts = (f"{entry.key}:{entry.digest}" for entry in exchange)
    cycle_id = derive_id("title", record["id"], tries, state.get("id"), *parts)
    # Only what names the conversation: the job may be at work for a while.
    named = {key: record[key] for key in ("id", "thread_id", "resource_id", "scope")}
    whose = cast("MemoryRecord", {**blank_record(), **named})
    return TitleJob(step.settings, whose, cycle_id, exchange, step.now, instructions)


def find_exchange(messages: Sequence[BaseMessage], count: int) -> list[Entry]:
    """Return the first user message and the first answers to it; nothing before there is one.

    Args:
        count: How many messages are wanted, if there is to be anything; 2: one and its answer.
    """
    found: list[Entry] = []
    for key, message in keyed_messages(messages):
        wanted = [{"human"}, {"ai"}, {"human", "ai"}][min(len(found), 2)]
        if not is_conversation(message) or message.type not in wanted:
            continue
        if found and (getattr(message, "tool_calls", None) or not message.text.strip()):
            continue
        found.append(Entry(key, message, content_digest(message), 0))
        if len(found) >= max(2, count):
            return found
    return []
