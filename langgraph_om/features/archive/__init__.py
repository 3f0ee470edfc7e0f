"""Archive what is new of a conversation in each step.

The storage itself is `langgraph_om.archive`; here is what memory does with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from langgraph_om.archive.types import CLAIM_SECONDS
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import is_conversation, keyed_messages, nest_thread_id
from langgraph_om.core.effects import EffectFlow, call_storage
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.features.archive.writer import (
    ArchiveWriter,
    StepArchive,
    complete_thread,
    write_new,
)
from langgraph_om.runtime.executors import BackgroundBuffering
from langgraph_om.runtime.server import ServerBuffering

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from langgraph_om.archive import SQLAlchemyArchive

    ArchiveValue = str | Engine | SQLAlchemyArchive | None
else:
    ArchiveValue = Any


def refuse_non_archives(value: object) -> object:
    """Return what can be an archive.

    Raises:
        ValueError: For anything else.
    """
    if value is None or isinstance(value, str):
        return value
    from sqlalchemy import Engine  # noqa: PLC0415 only who has an archive waits for its import

    from langgraph_om.archive import SQLAlchemyArchive  # noqa: PLC0415

    if not isinstance(value, Engine | SQLAlchemyArchive):
        raise ValueError  # noqa: TRY004 pydantic reads this one
    return value


class Archiving:
    """Archives messages and observations."""

    def __init__(self, archive: SQLAlchemyArchive) -> None:
        self._archive = archive
        self._writer = ArchiveWriter(archive)

    @property
    def storage(self) -> SQLAlchemyArchive:
        """The archive."""
        return self._archive

    def connect(self, runner: Any) -> Sequence[object]:
        """Share the archive with the executor, so that all workers know of its jobs."""
        self._writer.store_uses = runner.store_uses
        if isinstance(runner.buffering, BackgroundBuffering | ServerBuffering):
            runner.buffering.share(self._archive, max(CLAIM_SECONDS, runner.job_seconds))
        return [self._writer, self._archive]

    def identify(self, who: Identity) -> Identity:
        """Tell a nested conversation from the one around it, which may have the thread's place."""
        return replace(who, thread_id=nest_thread_id(who.thread_id, who.place))

    def write_new(self, step: Step) -> EffectFlow[StepArchive | None]:
        """Archive what is new; return the archive for what asks it next, `None` if it failed.

        Nothing is archived without a thread id: nobody could tell such conversations apart.
        """
        record, request = step.record, step.window.request
        if not record["thread_id"]:
            return None
        archive = StepArchive(step.settings, record, step.now)
        is_begun = request is not None and record["turn"]["request"] == request
        events = yield from write_new(
            archive,
            step.messages,
            {*step.changed, *(key for key, _ in step.edited)},
            is_whole=step.overlooked > 0,  # nobody knows which ones
            is_under_way=is_begun and not step.is_final,
        )
        if events is None:
            return None
        step.apply(events)
        if step.record["cursor"] != record["cursor"]:
            step.open()
        return archive

    def before_tool(self, step: Step) -> EffectFlow[None]:
        """Archive what a tool is about to read."""
        who, record = step.identity, step.record
        if not who.thread_id:
            return
        if record["thread_id"] != who.thread_id:
            record = {**blank_record(), "stamps": record["stamps"]}
        record = {**record, "thread_id": who.thread_id, "resource_id": who.resource_id}
        archive = StepArchive(step.settings, record, step.now)
        yield from complete_thread(archive, step.messages)
        if archive.branch is not None:
            step.record = {**step.record, "branch": archive.branch}

    def kept_until(self, record: MemoryRecord) -> str | None:
        """Return the key of the last message that is archived."""
        return record.get("archived")

    def name_messages(
        self, record: MemoryRecord, messages: Sequence[BaseMessage]
    ) -> list[str] | None:
        """Return the keys of messages; `None` after a deletion, as it has not archived these."""
        if not record["thread_id"] or record.get("floor"):
            return None
        said = [message for message in messages if is_conversation(message)]
        return [key for key, _ in keyed_messages(said)]

    def find_messages(
        self, record: MemoryRecord, thread_id: str, keys: Sequence[str]
    ) -> EffectFlow[Sequence[BaseMessage]]:
        """Read messages of a thread by their keys."""
        branch = record.get("branch")
        archive = self._archive
        return (yield from call_storage(archive.branch, thread_id, keys, branch=branch))

    def erase_thread(
        self, thread_id: str, resource_id: str | None, clock: Callable[[], datetime]
    ) -> str | None:
        """Delete a thread from the archive."""
        return self._writer.delete_thread(thread_id, resource_id, clock)

    def erase_resource(self, resource_id: str) -> None:
        """Delete a resource from the archive, with all of its threads."""
        self._archive.delete_resource(resource_id)
        self._writer.forget()
