"""Whether a thread's title is to be asked for, and what came of asking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Self, cast

from langchain_core.messages import BaseMessage, HumanMessage
from typing_extensions import TypedDict

from langgraph_om.core.config.checks import Hint, Preset, Takes
from langgraph_om.core.config.options import ThreadTitleOptions
from langgraph_om.core.config.settings import Settings, Setup
from langgraph_om.core.config.thresholds import resolve_titles
from langgraph_om.core.content.message_keys import (
    content_digest,
    derive_id,
    is_conversation,
    keyed_messages,
)
from langgraph_om.core.content.text import truncate_to_tokens
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.questions import rewrite_by_hook, show_messages
from langgraph_om.core.effects import (
    AskModel,
    CallWithConfig,
    EffectFlow,
    HookReply,
    ModelReply,
    PeekJobs,
    ReadTally,
    Storage,
    StorageReply,
    Tally,
    Warn,
)
from langgraph_om.core.events import iso
from langgraph_om.core.observe.observer import build_failure
from langgraph_om.core.observe.parse_answer import parse_title
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.span import Entry
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.titles import find_words, read_title_state
from langgraph_om.core.wire import Event, JobResult, MemoryRecord, TitleAsked, Titled
from langgraph_om.errors import ConfigurationError, ObserverError
from langgraph_om.runtime.context import RunFlow
from langgraph_om.runtime.drivers import drive
from langgraph_om.runtime.executors import BackgroundBuffering

# The question for a thread's title, from the first user message and the first answer.
#
# It is asked beside the run. Nothing that goes wrong in it counts as a failure of memory.


MAX_SHOWN_TOKENS: Final = 2000
"""Of the first exchange: what it is about is said at the beginning."""


class TitleOptions(TypedDict, total=False):
    """The option of titles."""

    thread_title: Annotated[
        bool | ThreadTitleOptions,
        Takes(bool | Mapping[Any, Any]),
        Hint("True, False, or a mapping with the keys 'model' and 'instructions'"),
        Preset(value=False),
    ]
    """Whether a thread is given a title after its first answer, which is renewed when the Observer
    suggests another: a flag, or a mapping with `model` (the Observer's where it is left out) and
    `instructions` (a text, or a function of the run's configuration). `set_title` sets one that
    memory never changes."""


@dataclass(frozen=True, slots=True)
class TitleJob:
    """A question for a title that can be asked."""

    settings: Settings
    record: MemoryRecord
    cycle_id: str
    exchange: Sequence[Entry]
    """The first user message and the first answer."""
    now: datetime

    @property
    def key(self) -> str:
        """Of questions with the same key, one is asked at a time."""
        return f"{self.record['id']}:title"

    @property
    def start(self) -> TitleAsked:
        """The event that says that a title is asked for."""
        return {"type": "title-asked", "cycle_id": self.cycle_id, "at": iso(self.now)}

    @property
    def info(self) -> CycleInfo:
        """What hooks are told about it: it reads messages as an observation does."""
        return CycleInfo(
            self.settings, self.record, "observation", self.cycle_id, 0, self.now, "ahead"
        )

    def ask(self) -> EffectFlow[Titled]:
        """Ask, and keep the title in the archive; return the event with what came of it."""
        try:
            title, error = (yield from self._ask()), None
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
        short = truncate_to_tokens(text, MAX_SHOWN_TOKENS, settings.counter.count_text)
        custom = yield from self._read_instructions()
        question = fill("title", conversation=short, custom=custom)
        reply: ModelReply = yield AskModel("title", [HumanMessage(question)], info.about())
        if reply.error is not None:
            raise build_failure(reply.error, "title's model") from reply.error
        title = None if reply.cut_off else parse_title(reply.text)
        if title is None:
            msg = "the answer holds no title"
            raise ObserverError(msg)
        said = yield from rewrite_by_hook(info, "after_observation", {"thread_title": title})
        return parse_title(said["thread_title"] or "")

    def _read_instructions(self) -> EffectFlow[str]:
        """Return what the user wants of titles, which a function of the run may tell.

        Raises:
            ObserverError: When the function fails, or returns something else than a text.
        """
        told = self.settings.titles.instructions if self.settings.titles else None
        if callable(told):
            reply: HookReply = yield CallWithConfig("thread_title.instructions", told)
            if reply.error is not None:
                msg = f"`thread_title.instructions` failed: {type(reply.error).__name__}"
                raise ObserverError(msg) from reply.error
            told = reply.value
        if told is not None and not isinstance(told, str):
            msg = f"`thread_title.instructions` returned `{type(told).__name__}`; return a text"
            raise ObserverError(msg)
        return told or ""

    def _archive(self, title: str, now: datetime) -> EffectFlow[None]:
        """Let lists show it at once; where that fails, the next step's messages bring it."""
        thread_id = self.record["thread_id"]
        if self.settings.features.storage is None or not thread_id:
            return
        reply: StorageReply = yield Storage("set_title", (thread_id, title, now))
        if reply.error is not None and not isinstance(reply.error, ConfigurationError):
            yield Warn("thread %r: its title is not archived yet: %s", (thread_id, reply.error))


MAX_TRIES: Final = 3
"""How often a title is asked for until a person takes it up again, or the Observer has one."""


def note_words(
    settings: Settings, record: MemoryRecord, messages: Sequence[BaseMessage]
) -> list[Event]:
    """Return the event with what lists show until there is a title, once."""
    if settings.titles is None or "words" in read_title_state(record):
        return []
    words = find_words(messages)
    return [{"type": "title-words", "words": words}] if words else []


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
    return tell_title(settings, record, cast("Titled", {**found, "id": cycle_id}), now)


def tell_title(
    settings: Settings, record: MemoryRecord, found: Titled, now: datetime
) -> list[Event]:
    """Return the event with what came of a question, and the one that shows it."""
    before, after = record["thread_title"], fold(record, [found])["thread_title"]
    if after is None or after == before:
        return [found]
    info = CycleInfo(settings, record, "observation", found["id"], 0, now)
    return [found, info.event("thread-update", now, old_title=before, new_title=after)]


def describe_title(
    settings: Settings, record: MemoryRecord, messages: Sequence[BaseMessage], now: datetime
) -> TitleJob | None:
    """Return the question for the title, where it is time to ask it.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        messages: The whole conversation.
        now: The current time.
    """
    state = read_title_state(record)
    is_under_way, tries = state.get("cycle_id") is not None, state.get("tries", 0)
    if settings.titles is None or record["thread_title"] is not None:
        return None
    if is_under_way or tries >= MAX_TRIES:
        return None
    exchange = find_exchange(messages)
    if not exchange:
        return None
    parts = (f"{entry.key}:{entry.digest}" for entry in exchange)
    cycle_id = derive_id("title", record["id"], tries, state.get("id"), *parts)
    # Only what names the conversation: the job may be at work for a while.
    named = {key: record[key] for key in ("id", "thread_id", "resource_id", "scope")}
    whose = cast("MemoryRecord", {**blank_record(), **named})
    return TitleJob(settings, whose, cycle_id, exchange, now)


def find_exchange(messages: Sequence[BaseMessage]) -> list[Entry]:
    """Return the first user message and the first answer to it; nothing before there is one."""
    found: list[Entry] = []
    for key, message in keyed_messages(messages):
        if not is_conversation(message) or message.type != ("ai" if found else "human"):
            continue
        if found and (getattr(message, "tool_calls", None) or not message.text.strip()):
            continue
        found.append(Entry(key, message, content_digest(message), 0))
        if len(found) == len(("user", "assistant")):
            return found
    return []


# --- The feature ---------------------------------------------------------------------------------


class Titles(Feature):
    """Gives each thread a title after its first answer."""

    name = "titles"
    has_last_step = True

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `thread_title`."""
        return cls() if resolve_titles(setup.options["thread_title"]) is not None else None

    def collect(self, step: Step) -> RunFlow[None]:
        """Take in the thread's title, or have one made: in a thread beside the run, or else now.

        It is no job for another process, which an executor of the user's own may need.
        """
        step.apply(note_words(step.settings, step.record, step.messages))
        step.apply((yield from take_in_title(step.settings, step.record, step.now)))
        job = describe_title(step.settings, step.record, step.messages, step.now)
        if job is None:
            return
        runner, record = step.scope.runner, step.record
        if isinstance(runner.buffering, BackgroundBuffering):
            context = runner.context(step.scope.config)
            is_taken = runner.buffering.submit(
                job.cycle_id,
                job.key,
                lambda: cast("JobResult", drive(job.ask(), context).result),
                thread_id=record["thread_id"],
                resource_id=record["resource_id"],
            )
            step.apply([job.start] if is_taken else [])
        else:
            found = yield from job.ask()
            step.apply([job.start])
            step.apply(tell_title(step.settings, step.record, found, step.now))

    def is_due(self, step: Step) -> bool:
        """Tell whether a title is asked for, or to be asked for."""
        if read_title_state(step.record).get("cycle_id") is not None:
            return True
        return describe_title(step.settings, step.record, step.messages, step.now) is not None
