"""Titles of threads: made after the first answer, renewed by the Observer, or set by a person.

A title is asked for beside the run, from the first user message and the first answer. Nothing that
goes wrong in that counts as a failure of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.config.options import Role, TitleConfig
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import (
    content_digest,
    derive_id,
    is_conversation,
    keyed_messages,
)
from langgraph_om.core.content.text import (
    LABEL_CHARACTERS,
    sanitize,
    truncate_to_tokens,
)
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
from langgraph_om.core.record.record import TITLE, blank_record
from langgraph_om.core.record.window import Entry
from langgraph_om.core.step import Step
from langgraph_om.core.wire import (
    Event,
    JobResult,
    MemoryRecord,
    TitleAsked,
    Titled,
)
from langgraph_om.errors import ConfigurationError, ObserverError
from langgraph_om.features.archive import find_archive
from langgraph_om.runtime.acting import Update, check_text, make_act_id
from langgraph_om.runtime.executors import BackgroundBuffering
from langgraph_om.runtime.flows import drive
from langgraph_om.runtime.runner import StepRunner

MODEL_SETTINGS: Final[Mapping[str, Any]] = {
    "temperature": 0.3,
    "max_output_tokens": 2_000,
    "thinking_budget": 0,
}
"""What is sent with the question for a title."""
MAX_SHOWN_TOKENS: Final = 2000
"""Of the first exchange: what it is about is said at the beginning."""
MAX_TRIES: Final = 3
"""How often a title is asked for until a person takes it up again, or the Observer has one."""
MAX_WORDS: Final = 8
"""Of a title without its tag."""


def set_title(runner: StepRunner, text: str | None) -> Update:
    """Return the update that gives the thread a title, or gives it back."""
    title = None if text is None else " ".join(check_text("text", text).split())
    if title is not None and not 0 < len(title) <= LABEL_CHARACTERS:
        msg = f"`text` is {text!r}; pass a title of 1 to {LABEL_CHARACTERS} characters, or None"
        raise ConfigurationError(msg)
    told = {"id": make_act_id(), "title": title, "at": iso(runner.clock())}
    return [{"type": "titled", "by": "person", **told}]


class Titles:
    """Gives threads titles, keeps them up to date, and tells the stream of them.

    Args:
        config: How a title is asked for after the first answer; `None`: it is not.
    """

    def __init__(self, config: TitleConfig | None = None) -> None:
        self._config = config

    @property
    def are_asked(self) -> bool:
        """Whether a title is asked for after the first answer."""
        return self._config is not None

    @property
    def roles(self) -> list[Role]:
        """The model that is asked, if one is."""
        if self._config is None:
            return []
        return [Role("title", "thread_title.model", self._config.model, MODEL_SETTINGS)]

    def ask(self, step: Step) -> EffectFlow[None]:
        """Take in the thread's title, or have one made: in a thread beside the run, or else now.

        It is no job for another process, which an executor of the user's own may need.
        """
        config, scope = self._config, step.scope
        if config is None or scope is None:
            return
        step.apply((yield from _take_in(step.record, step.now)))
        exchange = _find_due(step.record, step.messages, config.min_messages)
        if not exchange:
            return
        info = _describe_question(step, exchange)
        asked: TitleAsked = {"type": "title-asked", "cycle_id": info.cycle_id, "at": iso(step.now)}
        runner, record = scope.runner, step.record
        if isinstance(runner.buffering, BackgroundBuffering):
            context = runner.context(scope.config)
            is_taken = runner.buffering.submit(
                info.cycle_id,
                f"{record['id']}:title",
                lambda: cast(
                    "JobResult", drive(_ask(info, exchange, config.instructions), context).result
                ),
                thread_id=record["thread_id"],
                resource_id=record["resource_id"],
            )
            step.apply([asked] if is_taken else [])
        else:
            found = yield from _ask(info, exchange, config.instructions)
            step.apply([asked, found])

    def tell(self, step: Step) -> None:
        """Tell the stream, once, of a title, whoever set it."""
        record, state = step.record, step.record.get("title", {})
        old, new = state.get("told"), record["thread_title"]
        is_streamed = step.scope is not None and step.scope.is_streamed
        if is_streamed and new is not None and new != old:
            cycle_id = state.get("id", "")
            info = CycleInfo(step.settings, record, "observation", cycle_id, 0, step.now)
            event = info.event("thread-update", step.now, old_title=old, new_title=new)
            step.apply([event])


# --- The question --------------------------------------------------------------------------------


def _find_due(record: MemoryRecord, messages: Sequence[BaseMessage], count: int) -> list[Entry]:
    """Return what a title is made of, where it is time to ask; nothing where it is not."""
    state = record.get("title", {})
    is_under_way, tries = state.get("cycle_id") is not None, state.get("tries", 0)
    if record["thread_title"] is not None or is_under_way or tries >= MAX_TRIES:
        return []
    return find_exchange(messages, 2 if record.get("evicted") is not None else count)


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


def _describe_question(step: Step, exchange: Sequence[Entry]) -> CycleInfo:
    """Return what hooks are told about a question: it reads messages as an observation does."""
    record, state = step.record, step.record.get("title", {})
    parts = (f"{entry.key}:{entry.digest}" for entry in exchange)
    cycle_id = derive_id("title", record["id"], state.get("tries", 0), state.get("id"), *parts)
    # Only what names the conversation: the job may be at work for a while.
    named = {key: record[key] for key in ("id", "thread_id", "resource_id", "scope")}
    whose = cast("MemoryRecord", {**blank_record(), **named})
    return CycleInfo(step.settings, whose, "observation", cycle_id, 0, step.now, "ahead")


def _ask(info: CycleInfo, exchange: Sequence[Entry], told: Any) -> EffectFlow[Titled]:
    """Ask, and keep the title in the archive; return the event with what came of it."""
    thread_id = info.record["thread_id"]
    try:
        title, error = (yield from guard(info, _ask_model(info, exchange, told))), None
    except ObserverError as failure:
        title, error = None, str(failure)
    tally: Tally = yield ReadTally()
    found: Titled = {
        "type": "titled",
        "by": "memory",
        "id": info.cycle_id,
        "title": title,
        "at": iso(tally.at or info.started),
        "usage": tally.usage(),
    }
    if error is not None:
        found["error"] = error
        yield Warn("thread %r: no title was made: %s", (thread_id, error))
    if title is not None and info.settings.parts.storage is not None and thread_id:
        yield from _archive(info.settings, thread_id, title, tally.at or info.started)
    return found


def _ask_model(info: CycleInfo, exchange: Sequence[Entry], told: Any) -> EffectFlow[str | None]:
    shown = yield from show_messages(info, exchange, [None] * len(exchange))
    if shown is None or not shown.parts:
        return None
    text = "\n".join(part.text for part in shown.parts)
    short = truncate_to_tokens(text, MAX_SHOWN_TOKENS, info.settings.counter.count_text)
    question = fill("title", conversation=short, custom=(yield from _read_instructions(told)))
    reply: ModelReply = yield AskModel("title", [HumanMessage(question)], info.about())
    if reply.error is not None:
        raise build_failure(reply, "title's model") from reply.error
    title = None if reply.cut_off else parse_title(reply.text)
    if title is None or title in list_examples(question):
        msg = "the answer holds no title"
        raise ObserverError(msg)
    said = yield from rewrite_by_hook(info, "after_observation", {TITLE: title})
    return shorten_title(said[TITLE] or "")


def _read_instructions(told: Any) -> EffectFlow[str]:
    """Return what the user wants of titles, which a function of the run may tell."""
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


# --- What came of it -----------------------------------------------------------------------------


def _archive(settings: Settings, thread_id: str, title: str, now: datetime) -> EffectFlow[None]:
    """Let lists show a title at once; where that fails, the next step brings it."""
    reply: CallReply = yield Storage(find_archive(settings).set_title, (thread_id, title, now))
    if reply.error is not None and not isinstance(reply.error, ConfigurationError):
        yield Warn("thread %r: its title is not archived yet: %s", (thread_id, reply.error))


def _take_in(record: MemoryRecord, now: datetime) -> EffectFlow[list[Event]]:
    """Take in what came of the question that is under way; nothing while it is."""
    cycle_id = record.get("title", {}).get("cycle_id")
    if cycle_id is None:
        return []
    states: Mapping[str, Any] = yield PeekJobs({"title": cycle_id})
    found = states["title"]
    if found == "running":
        return []
    if not isinstance(found, Mapping) or found.get("type") != "titled":
        error = "lost: the question is not known here; it ended with its process"
        found = {"type": "titled", "by": "memory", "title": None, "at": iso(now), "error": error}
    return [cast("Titled", {**found, "id": cycle_id})]
