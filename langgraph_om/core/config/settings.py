"""What the user set, resolved, in the form in which inspection and cycles are handed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.content.dates import (
    find_own_time,
    message_time,
    name_zone,
    read_zone,
    times_of,
)
from langgraph_om.core.content.message_keys import Keyed, hidden_id, key_of
from langgraph_om.core.record.record import read_closing
from langgraph_om.core.tokens import EstimatingCounter, TokenCounter, ViewCounter, base_of
from langgraph_om.core.wire import MemoryRecord, Operation
from langgraph_om.parts import Limits, Scope

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive
    from langgraph_om.core.record.window import Window
    from langgraph_om.features.archive import Archiving
    from langgraph_om.features.evict import Evicting
    from langgraph_om.features.extract import Extract
    from langgraph_om.features.inject import Injecting
    from langgraph_om.features.meaning import Meaning
    from langgraph_om.features.previews import Previews
    from langgraph_om.features.recall import Recall
    from langgraph_om.features.sharing import Sharing
    from langgraph_om.features.titles import Titles
    from langgraph_om.features.working_memory import KnownOfUser


@dataclass(frozen=True, slots=True)
class InState:
    """What the Actor is shown that a graph's state holds, and no record."""

    working: str = ""
    """The block of the working memory."""
    channels: Mapping[str, Any] = field(default_factory=dict)
    """Other channels by name, JSON values."""


NOTHING_IN_STATE = InState()


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The optional parts of memory that are on; `None` for each that is off."""

    titles: Titles | None = None
    archive: Archiving | None = None
    evict: Evicting | None = None
    sharing: Sharing | None = None
    meaning: Meaning | None = None
    recall: Recall | None = None
    working: KnownOfUser | None = None
    extract: Extract | None = None
    previews: Previews | None = None
    inject: Injecting | None = None

    @property
    def storage(self) -> SQLAlchemyArchive | None:
        """The archive that keeps conversations outside of the state; `None`: nothing."""
        return None if self.archive is None else self.archive.storage

    @property
    def shortens(self) -> bool:
        """Whether the Actor is shown less of enormous messages."""
        return self.previews is not None and bool(self.previews.view_rule)

    def show(self, message: BaseMessage, key: str) -> BaseMessage:
        """Return a message as the Actor sees it; mostly unchanged."""
        return message if self.previews is None else self.previews.shorten(message, key)

    def cut(self, message: BaseMessage, key: str, tokens: int) -> BaseMessage:
        """Return a shorter form of a message that has more tokens than may be shown."""
        return message if self.previews is None else self.previews.cut(message, key, tokens)

    def fit(self, room: int) -> Parts:
        """Return the parts for an Actor with so many tokens for messages and observations."""
        return self if self.previews is None else replace(self, previews=self.previews.fit(room))

    def count_as_shown(self, counter: TokenCounter) -> TokenCounter:
        """Return a counter that counts of each message what the Actor is shown of it."""
        base = base_of(counter)
        if self.previews is None or not self.shortens:
            return base
        return ViewCounter(base, lambda m: self.show(m, key_of(m)), self.previews.view_rule)

    def find_due(self, record: MemoryRecord, window: Window) -> Operation | None:
        """Return the work on other threads that is due; `None` for none."""
        return None if self.sharing is None else self.sharing.find_due(record, window)


NO_PARTS = Parts()


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that inspection and cycles need to know."""

    thresholds: Thresholds
    counter: TokenCounter
    timezone: tzinfo
    observation: ObservationConfig = field(default_factory=ObservationConfig)
    reflection: ReflectionConfig = field(default_factory=ReflectionConfig)
    on_error: Literal["continue", "abort", "raise"] = "continue"
    message_time: Callable[[BaseMessage], datetime | None] | None = None
    max_input_tokens: int | None = None
    transforms: frozenset[str] = frozenset()
    """The transform hooks that the user has set."""
    hides_ids: bool = False
    """Whether models are shown thread ids in a hashed form only."""
    hints: Sequence[str] = ()
    """Names of the hints that the Observer is asked for."""
    shortest_gap: timedelta | None = None
    """The shortest pause shown to the Actor and the Observer; `None`: none is shown."""
    parts: Parts = NO_PARTS
    """The optional parts that are on."""
    counts_as_actor: bool = False
    """Whether images count as the Actor's model counts them, once it is known: nobody has said
    otherwise."""
    configured: tuple[ObservationConfig, ReflectionConfig] | None = None
    """`observation` and `reflection` as they were before a budget that is a part of the Actor's
    window was known; `None`: as they are."""

    def fit(self, room: int) -> Settings:
        """Return the settings for an Actor that has so many tokens for messages and observations.

        Args:
            room: Tokens; what fits already stays.
        """
        parts = self.parts.fit(room)
        return replace(
            self,
            thresholds=self.thresholds.fit(room),
            parts=parts,
            counter=parts.count_as_shown(self.counter),
        )

    def count_with(self, counter: TokenCounter) -> Settings:
        """Return the settings with another counter."""
        return replace(self, counter=self.parts.count_as_shown(counter))

    def count_like(self, record: MemoryRecord) -> Settings:
        """Return settings that count images for the provider of a thread's Actor.

        The settings themselves where this process has met it, or a person chose the counter.
        """
        counted_by = record["token_cache"]["counter"]
        if not self.counts_as_actor or counted_by == self.counter.identity:
            return self
        if base_of(self.counter).identity != EstimatingCounter.identity:
            return self
        known = EstimatingCounter.named(counted_by)
        return self if known is None else self.count_with(known)

    def choose_zone(
        self, messages: Sequence[BaseMessage], said: tzinfo | None, now: datetime
    ) -> str:
        """Return the name of the user's zone: all that a step dates, it dates in this one.

        It is the one that the run says, else the offset of the newest message of the user, else the
        zone so far, which begins as the memory's `timezone`. A time in UTC says when something was
        written, not where.
        """
        if said is not None:
            return name_zone(said, now)
        newest = next((each for each in reversed(messages) if isinstance(each, HumanMessage)), None)
        if newest is not None:
            time = find_own_time(newest, self.timezone, self.message_time)
            if time is not None and time.utcoffset() and time.tzinfo is not self.timezone:
                return name_zone(time.tzinfo or UTC, time)
        return name_zone(self.timezone, now)

    def in_zone(self, name: str | None) -> Settings:
        """Return the settings with the zone of a user, if it is known."""
        return self if name is None else replace(self, timezone=read_zone(name))

    def instruct(self, instruction: str) -> Settings:
        """Return the settings with an addition to the Reflector's instructions.

        Args:
            instruction: Added behind the user's own; nothing where it is empty.
        """
        if not instruction:
            return self
        said = "\n\n".join(filter(None, (self.reflection.instruction, instruction)))
        return replace(self, reflection=self.reflection.change(instruction=said))

    @property
    def scope(self) -> Scope:
        """Whether the Actor is shown its own thread alone, or what the user's others know too."""
        return "thread" if self.parts.sharing is None else "resource"

    @property
    def writing_tools(self) -> frozenset[str]:
        """Names of tools by which the Actor changes the working memory.

        The Observer is not shown their calls and results, and they are not offered in a run in
        which nothing is written.
        """
        working = self.parts.working
        return frozenset() if working is None else frozenset(working.writing_tools)

    @property
    def question_tokens(self) -> int:
        """About how many tokens of messages one question to the Observer holds."""
        return max(self.thresholds.message_tokens, self.observation.max_tokens_per_batch)

    def show_id(self, thread_id: str) -> str:
        """Write a thread id as models are shown it."""
        return hidden_id(thread_id) if self.hides_ids else thread_id

    def list_closing(self, record: MemoryRecord) -> dict[str, str]:
        """Return the hints that are shown behind the log of a record, by name."""
        return {name: text for name, text in read_closing(record).items() if name in self.hints}

    def marker(self) -> Limits:
        """Describe the limits in force, for start and activation parts."""
        return {
            "messageTokens": self.thresholds.message_tokens,
            "observationTokens": self.thresholds.observation_tokens,
            "scope": self.scope,
        }

    def time_of(self, key: str, message: BaseMessage, stamps: Mapping[str, str]) -> datetime | None:
        """Return the time of a message of its own, or else when it was first seen."""
        return message_time(message, key, stamps, timezone=self.timezone, custom=self.message_time)

    def times_of(self, messages: Keyed, stamps: Mapping[str, str]) -> list[datetime | None]:
        """Return when each message of a stretch was written; see `content.message_time`."""
        return times_of(messages, stamps, timezone=self.timezone, custom=self.message_time)


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose conversation it is, as the run's configuration says."""

    thread_id: str = ""
    resource_id: str | None = None
    timezone: tzinfo | None = None
    """The user's, where the run says it."""
    place: tuple[str, ...] = ()
    """The nodes of other graphs within which the agent runs: none, or such as `("tools",)`."""
