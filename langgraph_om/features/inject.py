"""Search for the live request, once in its turn, for what the Actor is shown with it.

It searches where `recall` does: who asks comes from the run, and what the user may not see is not
there. A search that fails leaves the turn as it is.

The block of what is found stands before the live request, so that the head of the prompt stays the
same, and it is kept in the record, so that it holds still for the whole turn. Its size is bounded:
hits come first, by their rank, then what stands around them, and what does not fit is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.archive import ArchivedHit, ArchivedMessage
from langgraph_om.core.config.options import InjectConfig
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import content_digest, key_of
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.content.text import as_label, escape, escape_attribute, sanitize, show_key
from langgraph_om.core.effects import CallReply, EffectFlow, Storage, Warn
from langgraph_om.core.events import iso
from langgraph_om.core.observe.transcript import format_weekday, to_local
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.window import Window
from langgraph_om.core.search import cut_excerpt, query_words, read_text
from langgraph_om.core.step import Step
from langgraph_om.core.wire import MemoryRecord, Recalled
from langgraph_om.features.recall import Recall
from langgraph_om.reading import SearchRequest, Source, search
from langgraph_om.runtime.tools import find_store

TAG: Final = "recalled-messages"

MAX_TOKENS: Final = 2000
"""No block is larger; this is as much as `recall` answers at most."""
WINDOW_SHARE: Final = 0.5
"""And none takes more than so much of `observation.message_tokens`."""

HIT_CHARACTERS: Final = 1600
"""Of a longer message that was found, the part is shown that holds the words."""
SHORT_CHARACTERS: Final = 240
"""The same, where nothing longer fits, and of messages around it."""


@dataclass(frozen=True, slots=True)
class EarlierMessage:
    """A message of any thread, as it is shown."""

    message: ArchivedMessage
    title: str | None
    """Of its thread."""
    text: str
    score: float | None = None
    """How well it matches; `None` of a message that was not found, but stands near to one."""


def write_recalled(
    found: Sequence[EarlierMessage], words: Sequence[str], settings: Settings, current: str
) -> tuple[str, list[EarlierMessage]]:
    """Return the text of the block, empty where nothing fits, and the messages in it.

    Args:
        found: Hits, the best first, then the messages around them, the most wanted first.
    """
    shown: list[EarlierMessage] = []
    text, room = "", int(settings.thresholds.message_tokens * WINDOW_SHARE)
    for message in found:
        lengths = (
            (SHORT_CHARACTERS,) if message.score is None else (HIT_CHARACTERS, SHORT_CHARACTERS)
        )
        for characters in lengths:
            cut = replace(message, text=cut_excerpt(message.text, words, characters))
            longer = _write([*shown, cut], settings, current)
            if settings.counter.count_text(longer) <= min(MAX_TOKENS, room):
                shown.append(cut)
                text = longer
                break
    return text, shown


def _write(messages: Sequence[EarlierMessage], settings: Settings, current: str) -> str:
    threads: dict[str, list[EarlierMessage]] = {}
    for message in messages:
        threads.setdefault(message.message.thread_id, []).append(message)
    blocks = [_write_thread(key, each, settings, current) for key, each in threads.items()]
    return fill("recalled_messages", messages="\n\n".join(blocks))


def _write_thread(
    thread_id: str, messages: Sequence[EarlierMessage], settings: Settings, current: str
) -> str:
    """Write the messages of a thread in their order, with marks where some are left out."""
    ordered = sorted(messages, key=lambda each: each.message.position)
    lines: list[str] = []
    day: str | None = None
    before: int | None = None
    for each in ordered:
        message = each.message
        if before is not None and message.position > before + 1:
            lines.append("…")
        before = message.position
        moment = to_local(message.at, settings.timezone)
        written = format_weekday(moment.date()) if moment else "unknown"
        if written != day:
            lines.append(f"Date: {written}")
            day = written
        clock = f" ({moment:%H:%M})" if moment else ""
        role = as_label(role_of(message.message) or "") or "someone"
        body = sanitize(each.text).strip().replace("\n", "\n  ")
        lines.append(f"{role[0].upper()}{role[1:]}{clock} [{show_key(message.key)}]: {body}")
    title = as_label(messages[0].title) if messages[0].title else ""
    named = f' title="{escape_attribute(title)}"' if title else ""
    mark = ' current="yes"' if thread_id == current else ""
    shown_id = escape_attribute(settings.show_id(thread_id))
    text = escape("\n".join(lines))
    return f'<{TAG} thread="{shown_id}"{named}{mark}>\n{text}\n</{TAG}>'


QUERY_CHARACTERS: Final = 4000
"""Of a longer message the beginning is searched for, which is as much as an embedding is made of.
"""
SPARE_HITS: Final = 8
"""How many more hits are asked for than are shown: some are observations, or removed messages."""


HEAD_CHARACTERS: Final = 200
"""By so much of its beginning a message is recognised in an excerpt, which cuts long ones."""


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds what is shown before messages of the user; called by flows as storage."""

    recalling: Recall
    config: InjectConfig

    def find_earlier(
        self,
        query: str,
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        hidden: Collection[str],
    ) -> list[EarlierMessage]:
        """Return the hits, the best first, then the messages around them, the nearest first."""
        store = None if self.recalling.near is None else find_store()
        near = None if store is None else self.recalling.near
        source = self.recalling.read(who, record, messages, near, store)
        wanted = 3 * self.config.top_k + SPARE_HITS
        asked = SearchRequest(query[:QUERY_CHARACTERS], wanted, hidden=frozenset(hidden))
        recent = record.get("others", {}).get("recent", [])
        excerpts = {other["thread_id"]: other["text"] for other in recent}
        found = [*islice(self._select(search(source, asked), source, excerpts), self.config.top_k)]
        seen = {(each.message.thread_id, each.message.key) for each in found}
        seen |= {(who.thread_id, key) for key in hidden}
        around: list[tuple[int, EarlierMessage]] = []
        for hit in found:
            for distance, each in self._list_neighbors(source, hit.message):
                name = (each.thread_id, each.key)
                if name not in seen and _has_news(each, excerpts):
                    seen.add(name)
                    text = read_text(each.message)
                    around.append((distance, EarlierMessage(each, hit.title, text)))
        return [*found, *(each for _, each in sorted(around, key=lambda pair: pair[0]))]

    def _select(
        self, hits: Sequence[ArchivedHit], source: Source, excerpts: Mapping[str, str]
    ) -> Iterator[EarlierMessage]:
        """Yield the hits that are messages and match well enough."""
        least = self.config.min_score or 0.0
        for hit in hits:
            if hit.found.kind == "message" and hit.found.score >= least:
                message = source.find(hit.found.cursor, hit.thread_id)
                if message is not None and _has_news(message, excerpts):
                    title, text = source.title(hit.thread_id), read_text(message.message)
                    yield EarlierMessage(message, title, text, round(hit.found.score, 4))

    def _list_neighbors(
        self, source: Source, message: ArchivedMessage
    ) -> Iterator[tuple[int, ArchivedMessage]]:
        """Yield the messages around one, with how far from it they are."""
        reach, thread, at = self.config.message_range, message.thread_id, message.position
        sides = {"before": reach, "after": reach} if isinstance(reach, int) else reach
        most = sides.get("before", 0)
        before = source.messages(thread, stop=at, limit=most, newest_first=True)
        yield from enumerate(reversed(before), start=1)
        after = source.messages(thread, start=at + 1, limit=sides.get("after", 0))
        yield from enumerate(after, start=1)


def _has_news(message: ArchivedMessage, excerpts: Mapping[str, str]) -> bool:
    """Return whether a message has a text, which no excerpt of its thread shows already.

    Args:
        excerpts: By thread id, what the Actor is shown of other threads.
    """
    text = sanitize(read_text(message.message)).strip()
    head = escape(text.partition("\n")[0][:HEAD_CHARACTERS])
    return bool(text) and head not in excerpts.get(message.thread_id, "")


@dataclass(frozen=True)
class Injecting:
    """Shows the Actor earlier messages that may bear on what the user says."""

    finder: Finder

    def search(self, step: Step) -> EffectFlow[None]:
        """Search for the live request, unless that was done."""
        record, window = step.record, step.window
        request = _find_request(window)
        if request is None or window.request is None:
            return
        digest, known = content_digest(request), record.get("recalled")
        if known is not None and (known["request"], known["digest"]) == (window.request, digest):
            return
        query = read_text(request)
        words = query_words(query)
        found, error = (yield from _search(self.finder, query, step)) if words else ([], None)
        text, shown = write_recalled(found, words, step.settings, record["thread_id"])
        recalled: Recalled = {
            "type": "recalled",
            "at": iso(step.now),
            "request": window.request,
            "digest": digest,
            "hits": [
                {"id": each.message.key, "thread_id": each.message.thread_id, "score": each.score}
                for each in shown
                if each.score is not None
            ],
            "text": text,
            "tokens": step.settings.counter.count_text(text) if text else 0,
            "error": None if error is None else f"{type(error).__name__}: {error}",
            "record_id": record["id"],
            "thread_id": record["thread_id"],
        }
        step.apply([recalled])


def _search(
    finder: Finder, query: str, step: Step
) -> EffectFlow[tuple[list[EarlierMessage], Exception | None]]:
    """Search for earlier messages; a failure is warned of, and returned."""
    shown, request, record = step.view.shown, step.window.request, step.record
    # What the Actor is shown need not be found.
    hidden = {entry.key for entry in shown.entries} | {key_of(message) for message in shown.lead}
    hidden |= {request} if request is not None else set()
    asked = (query, step.identity, record, step.messages, hidden)
    reply: CallReply = yield Storage(finder.find_earlier, asked)
    if reply.error is not None:
        said = "thread %r: nothing was recalled for the user's message; the search failed: %s: %s"
        yield Warn(said, (record["thread_id"], type(reply.error).__name__, reply.error))
    return reply.value or [], reply.error


def _find_request(window: Window) -> BaseMessage | None:
    if window.request_message is not None:
        return window.request_message
    entries = reversed(window.entries)
    return next((entry.message for entry in entries if entry.key == window.request), None)
