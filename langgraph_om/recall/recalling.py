"""What recall is set up with: who may read what, from which source, and by which ids.

Who asks comes from the run's configuration. What a storage fails at is answered like anything else
that can not be shown: memory failing is not the product failing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore

from langgraph_om.archive import MessageArchive
from langgraph_om.core.actor.prompt import RecallGuide
from langgraph_om.core.config.options import RetrievalConfig
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.observe.thread_sections import hidden_id
from langgraph_om.core.record.record import MemoryRecord
from langgraph_om.core.record.window import keyed_messages, message_time
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.errors import ArchiveError
from langgraph_om.recall.answer import guidance, recall
from langgraph_om.recall.archive_source import ArchiveSource, IndexedStateSource, read_hidden_id
from langgraph_om.recall.search import SearchError, StoreIndex
from langgraph_om.recall.source import RecallHit, RecallScope

logger = logging.getLogger("langgraph_om")

_UNREADABLE = "Earlier messages can not be read at the moment; go on without them, or try again."


def recall_guide(config: RetrievalConfig, counter: TokenCounter) -> RecallGuide:
    """Write what the Actor is told about recall."""
    text = guidance(config.scope, config.vector, config.instructions)
    return RecallGuide(text, counter.count_text(text))


@dataclass(frozen=True)
class Recalling:
    """Answers the recall calls of one memory."""

    config: RetrievalConfig
    settings: Settings
    archive: MessageArchive | None
    hides_ids: bool
    """Whether a model is shown no thread id as it is."""
    index: StoreIndex | None
    """What is searched; `None` without search."""

    def answer(
        self,
        arguments: Mapping[str, Any],
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: BaseStore | None,
    ) -> dict[str, Any]:
        """Answer one call.

        Args:
            arguments: What the model wrote.
            who: The current thread, and whose it is.
            record: The memory of the thread.
            messages: Its conversation, which the archive has too.
            store: The run's store.

        Raises:
            ConfigurationError: When there is a search and no store for it.
        """
        source = self._source(who, record, messages, store)

        def read_id(written: str) -> str | None:
            return read_hidden_id(written, source, who.thread_id) if self.hides_ids else written

        scope = RecallScope(
            scope=self.config.scope,
            current_thread=who.thread_id,
            has_search=self.index is not None,
            timezone=self.settings.timezone,
            show_id=hidden_id if self.hides_ids else str,
            read_id=read_id,
        )
        try:
            return recall(arguments, source, scope, self.settings.counter)
        except (ArchiveError, SearchError) as error:
            return self.unreadable(who, error)

    def unreadable(self, who: Identity, error: Exception) -> dict[str, Any]:
        """Answer that a storage failed, and log what it said."""
        logger.warning("thread %r: recall failed: %s", who.thread_id, error)
        return {"error": _UNREADABLE}

    def _source(
        self,
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: BaseStore | None,
    ) -> ArchiveSource | IndexedStateSource:
        def time_of(key: str, message: BaseMessage) -> datetime | None:
            return message_time(
                message,
                key,
                record["stamps"],
                timezone=self.settings.timezone,
                custom=self.settings.message_time,
            )

        def find_groups(query: str, limit: int) -> list[RecallHit]:
            if self.index is None:
                return []
            in_resource = self.config.scope == "resource"
            return self.index.search(store, query, limit, who, in_resource=in_resource)

        # Without a thread id nothing is archived.
        if self.archive is not None and who.thread_id:
            return ArchiveSource(self.archive, who, self.config.scope, time_of, find_groups)
        entries = [(key, each, time_of(key, each)) for key, each in keyed_messages(messages)]
        return IndexedStateSource(who.thread_id, entries, record["thread_title"], find_groups)
