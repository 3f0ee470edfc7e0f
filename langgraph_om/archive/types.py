"""What an archive returns. Times are aware `datetime`s, in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from langchain_core.messages import BaseMessage, RemoveMessage

from langgraph_om.core.search import FoundText
from langgraph_om.errors import ConfigurationError

Claim: TypeAlias = Literal["mine", "taken", "done"]
"""The answer to a worker that asks for a job."""

Deleted: TypeAlias = Literal["thread", "resource", "pruned"]
"""What can be deleted: a thread, all of a resource, old messages of a thread."""

PRUNED: Final = "pruned"

CLAIM_SECONDS: Final = 300.0
"""How long a claim lasts: a job of a worker that was killed begins again after that."""

StoreUse: TypeAlias = Literal["index", "working"]
"""What a LangGraph store holds about threads or a user."""

IN_STORE: Final[Mapping[StoreUse, str]] = {
    "index": "the texts that search by meaning has put into the graph's store",
    "working": "the working memory in the graph's store",
}
"""What that is, for an error."""


@dataclass(frozen=True, slots=True)
class ArchivedThread:
    """One conversation."""

    id: str
    resource_id: str | None
    """The owner; `None` until a write names one."""
    title: str | None
    created: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class UnobservedThread:
    """A conversation that goes on after its newest observed message."""

    thread: ArchivedThread
    observed: str | None
    """The key of that message, as the archive was told last; `None` for none."""
    start: int
    """The position of the first message that is not observed."""
    stop: int
    """The position after the last message."""


@dataclass(frozen=True, slots=True)
class ArchivedMessage:
    """One message and its place."""

    key: str
    thread_id: str
    position: int
    """0-based, from the start of its branch."""
    message: BaseMessage
    """A `RemoveMessage` where it was pruned."""
    is_visible: bool
    is_current: bool
    """Whether it is on the branch that was asked about, or else on the thread's current one."""
    at: datetime | None = None
    """When it was written or first seen, as passed to `append`; `None` if unknown."""

    @property
    def is_pruned(self) -> bool:
        """Whether only its key and its place are left."""
        return isinstance(self.message, RemoveMessage)


@dataclass(frozen=True, slots=True)
class Aged:
    """What of a thread is older than is kept."""

    messages: Sequence[str]
    """Keys."""
    groups: Sequence[str]
    """Ids of the observations of them."""


@dataclass(frozen=True, slots=True)
class JobView:
    """What is known of a job."""

    state: Literal["running", "expired", "done"]
    owner: str
    """Who holds it, held it last, or finished it; nobody, `""`, where it was released."""
    result: dict[str, Any] | None
    expires_in: float
    """Seconds until the claim ends; negative when it has ended, 0 for a job that is done."""


@dataclass(frozen=True, slots=True)
class ListedThread:
    """A conversation as a list of all of them has it."""

    thread: ArchivedThread
    messages: int
    """How many the current branch has."""


@dataclass(frozen=True, slots=True)
class ArchivedHit:
    """A message or a group of observations that a search found."""

    thread_id: str
    found: FoundText


def sum_deletions(found: Mapping[tuple[Deleted, str], int]) -> int:
    """Return how often a thread and its resource were deleted, of what `deletions` returned."""
    return sum(number for (kind, _), number in found.items() if kind != PRUNED)


def check_scope(thread_id: str | None, resource_id: str | None) -> None:
    """Refuse to look everywhere."""
    if thread_id is None and resource_id is None:
        msg = "`thread_id` and `resource_id` are None; pass at least one of them"
        raise ConfigurationError(msg)


def check_name(option: str, value: object) -> None:
    """Refuse a name that is no text or empty; pydantic would refuse lone surrogates too.

    Raises:
        ConfigurationError: When it cannot name anything.
    """
    if not isinstance(value, str) or not value:
        msg = f"`{option}` is {value!r}; pass a text that is not empty"
        raise ConfigurationError(msg)


def check_time(option: str, value: datetime | None) -> None:
    """Refuse a time that could mean any of several moments.

    Raises:
        ConfigurationError: When it has no timezone.
    """
    if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
        msg = f"`{option}` is {value!r}; pass a datetime with a timezone: `datetime.now(UTC)`"
        raise ConfigurationError(msg)
