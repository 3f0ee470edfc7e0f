"""The stored and streamed forms: the record, the shared log, events and stream parts.

JSON values only, and types only: nothing here computes.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Event = dict[str, Any]
"""A memory event."""

Part = dict[str, Any]
"""A `data-om-*` part: `{"type": ..., "data": {...}}`."""


class Group(TypedDict):
    """One immutable entry of the observation log."""

    id: str
    """The cycle that wrote it."""
    kind: Literal["observation", "reflection"]
    ranges: list[list[str]]
    """First and last message id of each covered run of messages, inclusive, in message order."""
    thread_id: str | None
    observed_at: str
    """ISO time at which the model answered."""
    text: str
    """Dated items; empty when the messages held nothing worth noting."""
    tokens: int


class MemoryRecord(TypedDict, total=False):
    """All that is remembered of one thread; the value of the `om` channel."""

    version: int
    id: str
    thread_id: str
    resource_id: str | None
    scope: str
    generation: int
    """How many reflections have replaced the log."""
    log: list[Group]
    cursor: list[str]
    """Ids of the newest observed messages, newest last."""
    observed: dict[str, Any] | None
    """What stands before the window: the key of the `last` message, its `index`, how many messages
    of the conversation there are up to it (`count`), and of these the `strays`, keys of messages
    that were put there later and are not observed; `None` while nothing is."""
    chunks: list[dict[str, Any]]
    reflection: dict[str, Any] | None
    pending: dict[str, Any]
    current_task: str | None
    suggested_response: str | None
    thread_title: str | None
    stamps: dict[str, str]
    """First-seen ISO times of window messages that carry no time themselves."""
    token_cache: dict[str, Any]
    """`counter` (identity) and `counts` (`{message id: [content digest, tokens]}`) of the window.
    """
    turn: dict[str, Any]
    """`request` (id of the newest human message) and `step` (0-based since that message)."""
    attempts: dict[str, Any]
    """Per operation: `failures` in a row, the size `at_tokens` and the size `retry_at_tokens` to
    reach before the next attempt, of the last failure `cycle_id` and `error`, and how often in a
    row a reflection left the log `still_large`."""
    usage: dict[str, Any]
    """Per operation: `calls`, `inputTokens`, `outputTokens` so far."""
    others: list[dict[str, Any]]
    """With a shared log, the other threads of the resource that have unobserved messages."""
    revision: int
    """The revision of the shared log that `log` is a copy of; 0 in thread scope."""
    outbox: list[dict[str, Any]]
    """Changes of the log that the shared one does not have yet, oldest first."""
    tripwire: NotRequired[dict[str, Any] | None]
    """Why the turn was ended, and the last message id then; `None` in normal operation."""
    archived: str | None
    """The last message that the archive has; `None` without an archive."""
    evicted: str | None
    """The last message that was removed from the conversation because the archive has it."""


class SharedThread(TypedDict):
    """What the shared log knows of one thread."""

    cursor: list[str]
    """Ids of its newest observed messages, newest last."""
    hints: dict[str, str | None]
    """`current_task`, `suggested_response` and `thread_title` of its newest observation."""


class SharedLog(TypedDict):
    """The memory of a resource, as the archive keeps it."""

    generation: int
    log: list[Group]
    threads: dict[str, SharedThread]
