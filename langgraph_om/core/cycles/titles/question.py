"""The question for a thread's title, from the first user message and the first answer.

It is asked beside the run. Nothing that goes wrong in it counts as a failure of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from langchain_core.messages import HumanMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.text import truncate_to_tokens
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.hooks import rewrite_by_hook, show_messages
from langgraph_om.core.effects import (
    AskModel,
    CallWithConfig,
    EffectFlow,
    HookReply,
    ModelReply,
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
from langgraph_om.core.record.span import Entry
from langgraph_om.core.wire import MemoryRecord, TitleAsked, Titled
from langgraph_om.errors import ConfigurationError, ObserverError

MAX_SHOWN_TOKENS: Final = 2000
"""Of the first exchange: what it is about is said at the beginning."""


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
        if not self.settings.archives or not thread_id:
            return
        reply: StorageReply = yield Storage("set_title", (thread_id, title, now))
        if reply.error is not None and not isinstance(reply.error, ConfigurationError):
            yield Warn("thread %r: its title is not archived yet: %s", (thread_id, reply.error))
