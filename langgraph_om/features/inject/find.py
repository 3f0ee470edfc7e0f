"""Find earlier messages for a message of the user, with what stands around them.

It searches where `recall` does: who asks comes from the run, and what the user may not see is not
there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Features, Identity
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.content.text import escape, sanitize
from langgraph_om.core.search import read_text
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.features.inject.block import EarlierMessage
from langgraph_om.features.inject.config import InjectConfig
from langgraph_om.features.recall.recall import Recall
from langgraph_om.runtime.tools import find_store
from langgraph_om.search.source import RecallHit, RecallMessage, RecallSource, SearchRequest

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
    features: Features
    """Those that are on, some of which show excerpts of other threads."""

    def find_earlier(
        self,
        query: str,
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        hidden: Collection[str],
    ) -> list[EarlierMessage]:
        """Return the best hits, the best first, then the messages around them, the nearest first.

        Args:
            query: The text of the user's message.
            who: The current thread, and whose it is.
            record: The memory of the thread.
            messages: Its conversation, which the archive has too.
            hidden: Keys of the thread's messages that the Actor is shown anyway.

        Raises:
            ArchiveError: When the archive's storage fails.
        """
        store = find_store() if self.recalling.near is not None else None
        source = self.recalling.build_source(who, record, messages, store, finds_messages=True)
        wanted = 3 * self.config.top_k + SPARE_HITS
        asked = SearchRequest(query[:QUERY_CHARACTERS], wanted, hidden=frozenset(hidden))
        shown = self.features.having("excerpts")
        excerpts = {key: text for show in shown for key, text in show(record).items()}
        hits = [*self._select(source.search(asked), source, excerpts)]
        found = [_describe(message, hit, hit.score) for hit, message in hits]
        seen = {(message.thread_id, message.key) for message in found}
        seen |= {(who.thread_id, key) for key in hidden}
        near: list[tuple[int, EarlierMessage]] = []
        for hit, message in hits:
            for distance, each in self._list_neighbours(source, message):
                name = (each.thread_id, each.key)
                if name not in seen and _has_news(each, excerpts):
                    seen.add(name)
                    near.append((distance, _describe(each, hit, None)))
        return [*found, *(each for _, each in sorted(near, key=lambda pair: pair[0]))]

    def _select(
        self, hits: Sequence[RecallHit], source: RecallSource, excerpts: Mapping[str, str]
    ) -> Iterator[tuple[RecallHit, RecallMessage]]:
        """Yield the hits that are messages and match well enough, with these."""
        least, count = self.config.min_score, 0
        for hit in hits:
            if hit.kind != "message" or (least is not None and hit.score < least):
                continue
            message = source.find(hit.cursor, hit.thread.id)
            if message is not None and _has_news(message, excerpts):
                yield hit, message
                count += 1
            if count == self.config.top_k:
                return

    def _list_neighbours(
        self, source: RecallSource, message: RecallMessage
    ) -> Iterator[tuple[int, RecallMessage]]:
        """Yield the messages around one, with how far from it they are."""
        limit, thread, at = self.config.message_range, message.thread_id, message.position
        if not limit:
            return
        before = source.messages(thread, start=None, stop=at, limit=limit, newest_first=True)
        after = source.messages(thread, start=at + 1, stop=None, limit=limit, newest_first=False)
        yield from enumerate(reversed(before), start=1)
        yield from enumerate(after, start=1)


def _has_news(message: RecallMessage, excerpts: Mapping[str, str]) -> bool:
    """Return whether a message has a text, which no excerpt of its thread shows already.

    Args:
        message: The message.
        excerpts: By thread id, what the Actor is shown of other threads.
    """
    text = sanitize(read_text(message.message)).strip()
    head = escape(text.partition("\n")[0][:HEAD_CHARACTERS])
    return bool(text) and head not in excerpts.get(message.thread_id, "")


def _describe(message: RecallMessage, hit: RecallHit, score: float | None) -> EarlierMessage:
    return EarlierMessage(
        message.thread_id,
        hit.thread.title,
        message.key,
        message.position,
        role_of(message.message) or "",
        message.at,
        read_text(message.message),
        None if score is None else round(score, 4),
    )
