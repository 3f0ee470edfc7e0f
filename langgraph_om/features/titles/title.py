"""The question by which a title of a thread is made.

It is asked beside the run, from the first user message and the first answer. Nothing that goes
wrong in it counts as a failure of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from langchain_core.messages import BaseMessage, HumanMessage

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
from langgraph_om.core.observe.observer import build_failure
from langgraph_om.core.observe.parse_answer import (
    UnreadableError,
    list_examples,
    says_none,
    shorten_title,
    split_blocks,
    strip_reasoning,
    tag_of,
)
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import TITLE, blank_record
from langgraph_om.core.record.window import Entry
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import Event, MemoryRecord, TitleAsked, Titled, TitleWords
from langgraph_om.errors import ConfigurationError, ObserverError
from langgraph_om.features.archive.writer import find_archive


def tell_title(info: CycleInfo, at: datetime, old: str | None, new: str) -> Event:
    """Return the event that shows a new title."""
    return info.event("thread-update", at, old_title=old, new_title=new)


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
        return asked

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
        return shorten_title(said[TITLE] or "")

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


MAX_WORDS: Final = 8
"""Of a title without its tag, and of a user message that is shown until there is a title."""


def parse_title(text: str) -> str | None:
    """Read an answer that is a title in its tag, or a few bare words; `None` for anything else."""
    answer = strip_reasoning(sanitize(text))
    if "<" not in answer and "\n" not in answer and len(answer.split()) <= MAX_WORDS:
        return None if says_none(answer) else shorten_title(answer)
    try:
        blocks = split_blocks(answer)
    except UnreadableError:
        return None
    return shorten_title(blocks[tag_of(TITLE)]) if [*blocks] == [tag_of(TITLE)] else None


MAX_TRIES: Final = 3
"""How often a title is asked for until a person takes it up again, or the Observer has one."""


MAX_WORDS_CHARACTERS: Final = 60


def note_words(record: MemoryRecord, messages: Sequence[BaseMessage]) -> list[Event]:
    """Return the event with what lists show until there is a title, once.

    These are the first words of the first user message with text, shortened at a word.
    """
    if "words" in record.get("title", {}):
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
    return [noted]


def take_in_title(
    settings: Settings, record: MemoryRecord, now: datetime
) -> EffectFlow[list[Event]]:
    """Take in what came of the question that is under way; nothing while it is."""
    cycle_id = record.get("title", {}).get("cycle_id")
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
    event = found
    before, after = record["thread_title"], fold(record, [event])["thread_title"]
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
    state = record.get("title", {})
    is_under_way, tries = state.get("cycle_id") is not None, state.get("tries", 0)
    if record["thread_title"] is not None or is_under_way or tries >= MAX_TRIES:
        return None
    is_cut = record.get("evicted") is not None
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
