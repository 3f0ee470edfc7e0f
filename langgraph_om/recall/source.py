"""Define where recall reads from: the protocol of a source, its values, and a source over a state.

A source shows only what the user of the current thread may see.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Literal, Protocol

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.parts import is_visible


@dataclass(frozen=True, slots=True)
class RecallThread:
    """A conversation, as a list of conversations shows it."""

    id: str
    title: str | None = None
    created: datetime | None = None
    updated: datetime | None = None


def is_created_within(
    thread: RecallThread, before: datetime | None, after: datetime | None
) -> bool:
    """Return whether a thread passes the filters; one of unknown age passes no filter."""
    created = thread.created
    if created is None:
        return before is None and after is None
    created = created if created.tzinfo is not None else created.replace(tzinfo=UTC)
    return (before is None or created < before) and (after is None or created >= after)


@dataclass(frozen=True, slots=True)
class RecallMessage:
    """A message and its place in its conversation."""

    key: str
    """The id that the observation log uses for it."""

    thread_id: str
    position: int
    """Grows along the conversation; numbers may be missing."""

    message: BaseMessage
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RecallHit:
    """An observation group that a search found."""

    thread: RecallThread
    group_id: str
    score: float
    text: str
    cursor: str
    """The id of the first message it was written from."""

    updated: datetime | None = None


class RecallSource(Protocol):
    """What recall reads from."""

    def thread(self, thread_id: str) -> RecallThread | None:
        """Return a thread; None for one that does not exist and for one of another user."""
        ...

    def threads(
        self, *, page: int, limit: int, before: datetime | None, after: datetime | None
    ) -> tuple[list[RecallThread], bool]:
        """Return a page of the user's threads, the last updated first, and whether more follow.

        Args:
            page: Counted from 0, after the filters.
            limit: The size of a page.
            before: Only threads created before this time.
            after: Only threads created at this time or later.
        """
        ...

    def find(self, key: str, thread_id: str | None) -> RecallMessage | None:
        """Return the message of this key, visible or not, without a thread from any of them."""
        ...

    def messages(
        self,
        thread_id: str,
        *,
        start: int | None,
        stop: int | None,
        limit: int,
        newest_first: bool,
    ) -> list[RecallMessage]:
        """Return visible messages, always in the order of the conversation.

        Args:
            thread_id: The thread of the messages.
            start: The first position; None for the beginning.
            stop: The position to stop before; None for the end.
            limit: The most messages to return.
            newest_first: Whether the last ones of the span are returned instead of the first.
        """
        ...

    def search(self, query: str, limit: int) -> list[RecallHit]:
        """Return the groups nearest in meaning, the best first."""
        ...


def _keep_id(thread_id: str) -> str:
    return thread_id


@dataclass(frozen=True, slots=True)
class RecallLimits:
    """How many tokens an answer, and each kind of part in an overview, may take."""

    answer_tokens: int = 2000
    text_tokens: int = 100
    result_tokens: int = 20
    other_tokens: int = 30


@dataclass(frozen=True, slots=True)
class RecallScope:
    """What recall may read, and how it writes times and thread ids."""

    scope: Literal["thread", "resource"]
    current_thread: str
    has_search: bool
    timezone: tzinfo
    limits: RecallLimits = field(default_factory=RecallLimits)
    show_id: Callable[[str], str] = _keep_id
    """Writes a thread id for the model."""

    read_id: Callable[[str], str | None] = _keep_id
    """Reads a thread id that the model wrote; None when there is no such id."""


@dataclass(frozen=True)
class StateSource:
    """The messages of one thread's state; there are no other threads and no search."""

    thread_id: str
    entries: Sequence[tuple[str, BaseMessage, datetime | None]]
    """The key of each message, the message, and when it was written."""

    title: str | None = None

    def thread(self, thread_id: str) -> RecallThread | None:
        """Return the thread, if it is this one."""
        return self._thread if thread_id == self.thread_id else None

    def threads(
        self, *, page: int, limit: int, before: datetime | None, after: datetime | None
    ) -> tuple[list[RecallThread], bool]:
        """Return this thread, on the first page and when it passes the filters."""
        passes = page == 0 and limit > 0 and is_created_within(self._thread, before, after)
        return ([self._thread] if passes else []), False

    def find(self, key: str, thread_id: str | None) -> RecallMessage | None:
        """Return the message of this key."""
        at = self._places.get(key)
        if at is None or thread_id not in {None, self.thread_id}:
            return None
        return self._to_recall_message(at)

    def messages(
        self,
        thread_id: str,
        *,
        start: int | None,
        stop: int | None,
        limit: int,
        newest_first: bool,
    ) -> list[RecallMessage]:
        """Return visible messages of the span, in the order of the conversation."""
        if thread_id != self.thread_id or limit <= 0:
            return []
        visible = self._visible
        first = 0 if start is None else bisect_left(visible, start)
        last = len(visible) if stop is None else bisect_left(visible, stop)
        if newest_first:
            first = max(first, last - limit)
        return [self._to_recall_message(at) for at in visible[first : min(last, first + limit)]]

    def search(self, query: str, limit: int) -> list[RecallHit]:  # noqa: ARG002
        """Return nothing: there is no index."""
        return []

    def _to_recall_message(self, at: int) -> RecallMessage:
        key, message, written_at = self.entries[at]
        return RecallMessage(key, self.thread_id, at, message, written_at)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {key: at for at, (key, _, _) in enumerate(self.entries)}

    @cached_property
    def _visible(self) -> list[int]:
        return [at for at, (_, message, _) in enumerate(self.entries) if is_visible(message)]

    @cached_property
    def _thread(self) -> RecallThread:
        times = [at for _, _, at in self.entries if at is not None]
        created, updated = (times[0], times[-1]) if times else (None, None)
        return RecallThread(self.thread_id, self.title, created, updated)
