"""The stored forms of a shared log: what a record has beside its own, changes, and events.

JSON values only, and types only, as in `core/wire.py`.
"""

# Without `from __future__ import annotations`: at run time, the classes must know which of their
# keys are required. So what a type is made of stands above it.

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from langgraph_om.core.wire import (
    Attempt,
    CycleEnd,
    Found,
    Group,
    Hints,
    MemoryRecord,
    Observed,
)

# --- What a record has ---------------------------------------------------------------------------


class Excerpt(TypedDict):
    """What is unobserved in another thread of the resource."""

    thread_id: str
    messages: int
    """Its unobserved messages."""
    rest: int
    """How many of these were not read, because there are too many."""
    tokens: int
    """Of all that were read."""
    observable: int
    """How many messages would be observed now."""
    text: str
    """The block that the Actor is shown: the newest messages, or nothing where no room is left."""


class Section(TypedDict):
    """What was observed of one thread, as the shared log takes it in."""

    thread_id: str
    after: str | None
    """The newest message that was observed before; another one in the log, and it is dropped."""
    cursor: list[str]
    """The newest observed messages then, newest last."""
    groups: list[Group]
    hints: Hints


class Extension(Section):
    """A change of the shared log: observations of a thread's messages."""

    id: str
    """The cycle, or the group for another thread's messages."""
    kind: Literal["extend"]


class Joining(TypedDict):
    """A change of the shared log: a thread takes part in it from now on."""

    id: str
    """The record."""
    kind: Literal["join"]
    thread_id: str
    cursor: list[str]
    groups: list[Group]
    """What was observed of it so far."""
    hints: Hints
    is_newer: NotRequired[bool]
    """Whether it goes before what the log has of the thread, because the log lost something."""


class Replacement(TypedDict):
    """A change of the shared log: a reflection."""

    id: str
    """The cycle."""
    kind: Literal["replace"]
    group_ids: list[str]
    """The groups that it read; where the log has them no more, it is dropped."""
    groups: list[Group]
    """What takes their place."""
    cursor: list[str]
    hints: Hints
    rest: NotRequired[Attempt]
    """What the next reflection waits for, where this one left the log as large as it was."""


LogChange = Extension | Joining | Replacement
"""A change of the log that the shared one does not have yet."""


class SharingKeys(TypedDict, total=False):
    """What the record of a thread has that shares its log."""

    others: list[Excerpt]
    """The other threads of the resource that have unobserved messages."""
    revision: int
    """The revision of the shared log that `log` is a copy of."""
    outbox: list[LogChange]
    """Changes of the log that the shared one does not have yet, oldest first."""


class SharingRecord(MemoryRecord, SharingKeys, total=False):
    """The record of a thread that shares its log."""


# --- The shared log, as the archive keeps it -----------------------------------------------------


class SharedThread(TypedDict):
    """What the shared log knows of one thread."""

    cursor: list[str]
    """Ids of its newest observed messages, newest last."""
    hints: Hints
    """Those of its newest observation."""
    is_own: NotRequired[bool]
    """Whether the thread itself set the cursor, to what stood before in its conversation, observed
    or not; otherwise it ends with what was observed last."""


class SharedLog(TypedDict):
    """The memory of a resource."""

    version: int
    """Of the record's form."""
    generation: int
    """How many reflections have replaced groups of it."""
    log: list[Group]
    threads: dict[str, SharedThread]
    """By thread id."""
    fixed: NotRequired[dict[str, Hints]]
    """Hints that persons set, by thread id, which no observation replaces; missing where nobody set
    one."""
    rest: NotRequired[Attempt]
    """What the next reflection waits for, in any thread; missing where it waits for nothing."""


# --- Events --------------------------------------------------------------------------------------


class OthersEnd(CycleEnd, Observed):
    """Messages of other threads are observed."""

    type: Literal["observation-end"]
    operation: Literal["others"]
    sections: list[Section]
    found: NotRequired[Found]


class OthersBuffered(CycleEnd, Observed):
    """A job observed messages of other threads, for the shared log."""

    type: Literal["buffering-end"]
    operation: Literal["others"]
    sections: list[Section]
    found: NotRequired[Found]


class Synced(TypedDict):
    """The thread's copy of the shared log is brought up to date."""

    type: Literal["synced"]
    revision: int
    generation: int
    order: list[str]
    """Ids of all groups of the log."""
    groups: list[Group]
    """Those that the copy has not, or otherwise."""
    cursor: list[str]
    sent: list[str]
    """Ids of the changes in the outbox that the log took in or refused."""
    rest: Attempt | None
    """What the log's next reflection waits for."""
    hints: NotRequired[Hints]
    """Only where another thread observed messages of this one."""


class OthersDescribed(TypedDict):
    """What is unobserved in the other threads of the resource."""

    type: Literal["others"]
    others: list[Excerpt]
