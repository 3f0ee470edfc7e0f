"""Search for the live request, once in its turn, for what the Actor is shown with it.

What is found is kept in the record until the next request, so that each call of a turn is shown the
same. A search that fails leaves the turn as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, Self, cast

from langchain_core.messages import BaseMessage, HumanMessage
from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions, as_event
from langgraph_om.core.config.settings import Identity, Settings, Setup, Texts
from langgraph_om.core.config.thresholds import as_config, check_config
from langgraph_om.core.content.message_keys import content_digest, key_of
from langgraph_om.core.effects import EffectFlow, Storage, StorageReply, Warn
from langgraph_om.core.events import iso
from langgraph_om.core.record.window import Window
from langgraph_om.core.search import query_words, read_text
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.wire import MemoryRecord, Opened, ThreadDeleted
from langgraph_om.features.inject.block import (
    TAG,
    BlockStyle,
    EarlierMessage,
    limit_tokens,
    write_recalled,
)
from langgraph_om.features.inject.config import InjectConfig
from langgraph_om.features.inject.find import Finder
from langgraph_om.features.recall.config import read_retrieval

RECALLED_ID = "om-recalled"
"""Id of what shows the Actor earlier messages that a search for its request has found."""


class RecalledHit(TypedDict):
    """An earlier message that a search for the live request found."""

    id: str
    threadId: str
    score: float
    """How well it matches, from 0 to 1."""


class RecalledBlock(TypedDict):
    """What was found for the live request, the same in each call of its turn."""

    request: str
    """Id of the live request; for the next one memory searches anew."""
    digest: str
    """Of the request's content."""
    text: str
    """What the Actor is shown; empty where nothing was found."""
    tokens: int
    """Of the text."""


class RecalledKeys(TypedDict, total=False):
    """What a record has of it."""

    recalled: RecalledBlock
    """Missing before the first search."""


class RecalledRecord(MemoryRecord, RecalledKeys, total=False):
    """A record that may have it."""


class Recalled(TypedDict):
    """Memory searched for the live request, once in its turn."""

    type: Literal["recalled"]
    at: str
    request: str
    digest: str
    """Of the request's content."""
    hits: list[RecalledHit]
    """What is shown of what was found, the best first."""
    text: str
    tokens: int
    error: str | None
    """Why the search failed; `None` where it did not."""
    record_id: str
    thread_id: str


def set_recalled(record: RecalledRecord, event: Recalled) -> None:
    """Keep what was found for the live request, in the place of what was found before."""
    record["recalled"] = {
        "request": event["request"],
        "digest": event["digest"],
        "text": event["text"],
        "tokens": event["tokens"],
    }


def forget_recalled(record: RecalledRecord, event: ThreadDeleted) -> None:
    """Let go of what was found: it may be deleted."""
    del event
    record.pop("recalled", None)


def leave_recalled(record: RecalledRecord, event: Opened) -> None:
    """Let go of what was found for another thread or user."""
    if (record["thread_id"], record["resource_id"]) != (event["thread_id"], event["resource_id"]):
        record.pop("recalled", None)


class Injecting(Feature):
    """Shows the Actor earlier messages that may bear on what the user says."""

    name = "inject"
    needs = ("recall",)
    prompts = __package__
    shows_other_threads = True
    additions = Additions(
        keys=RecalledKeys,
        reducers={"recalled": set_recalled},
        streamed={
            "recalled": {
                "request": "messageId",
                "hits": "hits",
                "tokens": "tokens",
                "error": "error",
                "record_id": "recordId",
                "thread_id": "threadId",
                "at": "timestamp",
            }
        },
        beside={"opened": leave_recalled, "deleted": forget_recalled},
        message_ids=(RECALLED_ID,),
        tags=(TAG,),
    )

    def __init__(self, config: InjectConfig) -> None:
        self._config = config

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `retrieval.inject`."""
        retrieval = read_retrieval(setup)
        given = False if retrieval is None else retrieval.inject
        if given is False:
            return None
        config = as_config(InjectConfig, "retrieval.inject", None if given is True else given)
        check_config("retrieval.inject", config)
        return cls(config)

    def connect(self, runner: Any) -> Sequence[object]:
        """Return what searches where `recall` does."""
        features = runner.settings.features
        return [Finder(features.find("recall"), self._config, features)]

    def before_actor(self, step: Step) -> EffectFlow[None]:
        """Search for the live request, unless that was done."""
        record, window = step.record, step.window
        request = _find_request(window)
        if request is None or window.request is None:
            return
        digest, known = content_digest(request), cast("RecalledRecord", record).get("recalled")
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
        step.apply([as_event(recalled)])

    def aside(
        self, settings: Settings, record: MemoryRecord, window: Window, texts: Texts
    ) -> BaseMessage | None:
        """Show what was found for the live request."""
        del settings, texts
        block = cast("RecalledRecord", record).get("recalled")
        if block is None or block["request"] != window.request or not block["text"]:
            return None
        return HumanMessage(block["text"], id=RECALLED_ID)


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
