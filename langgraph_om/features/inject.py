"""Search for the live request, once in its turn, for what the Actor is shown with it.

What is found is kept in the record until the next request, so that each call of a turn is shown the
same. A search that fails leaves the turn as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Self

from langchain_core.messages import BaseMessage

from langgraph_om.core.actor.recalled import (
    BlockStyle,
    EarlierMessage,
    limit_tokens,
    write_recalled,
    write_recalled_message,
)
from langgraph_om.core.config.settings import Identity, Settings, Setup, Texts
from langgraph_om.core.config.thresholds import resolve_inject
from langgraph_om.core.content.message_keys import content_digest, key_of
from langgraph_om.core.effects import EffectFlow, Storage, StorageReply, Warn
from langgraph_om.core.events import iso
from langgraph_om.core.record.window import Window
from langgraph_om.core.search import query_words, read_text
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.wire import MemoryRecord, Recalled, RecalledHit


class Injecting(Feature):
    """Shows the Actor earlier messages that may bear on what the user says."""

    name = "inject"

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `retrieval.inject`."""
        return cls() if resolve_inject(setup.retrieval) is not None else None

    def before_actor(self, step: Step) -> EffectFlow[None]:
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
        found: list[EarlierMessage] = []
        error: Exception | None = None
        if words:
            hidden = _list_shown(step)
            found, error = yield from _search(query, step.identity, record, step.messages, hidden)
        text, shown = write_recalled(found, words, _choose_style(step.settings, record))
        recalled: Recalled = {
            "type": "recalled",
            "at": iso(step.now),
            "request": window.request,
            "digest": digest,
            "hits": _list_hits(shown),
            "text": text,
            "tokens": step.settings.counter.count_text(text) if text else 0,
            "error": None if error is None else f"{type(error).__name__}: {error}",
            "record_id": record["id"],
            "thread_id": record["thread_id"],
        }
        step.apply([recalled])

    def aside(
        self, settings: Settings, record: MemoryRecord, request: str | None, texts: Texts
    ) -> BaseMessage | None:
        """Show what was found for the live request."""
        del settings, texts
        return write_recalled_message(record, request)


def _search(
    query: str,
    identity: Identity,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    hidden: Collection[str],
) -> EffectFlow[tuple[list[EarlierMessage], Exception | None]]:
    """Search for earlier messages; a failure is warned of, and returned."""
    asked = (query, identity, record, messages, hidden)
    reply: StorageReply = yield Storage("find_earlier", asked)
    if reply.error is not None:
        said = "thread %r: nothing was recalled for the user's message, the search failed: %s: %s"
        yield Warn(said, (record["thread_id"], type(reply.error).__name__, reply.error))
    return reply.value or [], reply.error


def _find_request(window: Window) -> BaseMessage | None:
    if window.request_message is not None:
        return window.request_message
    entries = reversed(window.entries)
    return next((entry.message for entry in entries if entry.key == window.request), None)


def _list_shown(step: Step) -> Collection[str]:
    """List the keys of the messages that the Actor is shown: these need not be found."""
    shown, request = step.view.shown, step.window.request
    keys = {entry.key for entry in shown.entries} | {key_of(message) for message in shown.lead}
    return keys | ({request} if request is not None else set())


def _choose_style(settings: Settings, record: MemoryRecord) -> BlockStyle:
    return BlockStyle(
        limit_tokens(settings.thresholds.message_tokens),
        settings.counter,
        settings.timezone,
        settings.show_id,
        record["thread_id"],
    )


def _list_hits(shown: Sequence[EarlierMessage]) -> list[RecalledHit]:
    return [
        {"id": each.key, "threadId": each.thread_id, "score": each.score}
        for each in shown
        if each.score is not None
    ]
