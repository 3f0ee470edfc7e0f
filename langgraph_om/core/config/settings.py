"""What the user set, resolved, in the form in which inspection and cycles are handed it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.additions import read_closing
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
from langgraph_om.core.tokens.counter import TokenCounter, ViewCounter, base_of
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.wire import Group, Limits, MemoryRecord, Scope

Texts = Mapping[str, str]
"""By the name of a feature, what it shows that no record holds."""

NO_TEXTS: Texts = {}


@dataclass(frozen=True)
class Features:
    """The optional behaviours that are on, in the order in which they take part in a step."""

    all: tuple[Any, ...] = ()
    """Instances of subclasses of `core.step.feature.Feature`."""

    def of(self, hook: str, held: Container[str]) -> list[Any]:
        """Return a hook of those that have it, but for those that live by what is not there.

        Args:
            held: What is there, such as the keys of a record as it is now.
        """
        found: list[Any] = []
        for call in self.having(hook):
            key = call.__self__.lives_by
            if not key or key in held:
                found.append(call)
        return found

    def first(self, hook: str) -> Any:
        """Return a hook of the first feature that has it; `None` where none has."""
        return next(iter(self.having(hook)), None)

    def show(self, message: BaseMessage, key: str) -> BaseMessage:
        """Return what stands for a message in the Actor's view; mostly the message itself."""
        for shorten in self.shorteners:
            message = shorten(message, key)
        return message

    @cached_property
    def shorteners(self) -> tuple[Callable[[BaseMessage, str], BaseMessage], ...]:
        """The hooks `shorten` of features that shorten anything."""
        hooks = self.having("shorten")
        return tuple(shorten for shorten in hooks if shorten.__self__.view_rule)

    def cut(self, message: BaseMessage, key: str, tokens: int) -> BaseMessage:
        """Return what stands for a message of more tokens in a view that has to be shorter."""
        for cut in self.having("cut"):
            message = cut(message, key, tokens)
        return message

    def select_log(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups of a log but for those that a feature shows apart from it."""
        return [group for group in groups if group.get("feature") not in self._names]

    def fit(self, room: int) -> Features:
        """Return the features for an Actor with so many tokens for messages and observations."""
        fitted = {fit.__self__.name: fit(room) for fit in self.having("fit")}
        return Features(tuple(fitted.get(feature.name, feature) for feature in self.all))

    def count_as_shown(self, counter: TokenCounter) -> TokenCounter:
        """Return a counter that counts of each message what the Actor is shown of it."""
        rules = ", ".join(filter(None, self.having("view_rule")))
        base = base_of(counter)
        return ViewCounter(base, lambda m: self.show(m, key_of(m)), rules) if rules else base

    def join_texts(self, hook: str, *arguments: Any) -> str:
        """Return the texts that a hook of features returns, a line for each that is not empty."""
        return "\n".join(filter(None, (tell(*arguments) for tell in self.having(hook))))

    def join(self, hook: str) -> dict[str, Any]:
        """Return as one the mappings that a property of features is."""
        return {key: value for mapping in self.having(hook) for key, value in mapping.items()}

    def list_hints(self) -> list[str]:
        """Return the names of the hints that the Observer is asked for."""
        return [name for names in self.having("hints") for name in names]

    def list_closing(self, record: MemoryRecord) -> dict[str, str]:
        """Return the hints that are shown behind the log of a record, by name."""
        asked = self.list_hints()
        return {name: text for name, text in read_closing(record).items() if name in asked}

    def find(self, name: str) -> Any:
        """Return the one with a name; `None` where it is off."""
        return next((feature for feature in self.all if feature.name == name), None)

    def find_worker(self, operation: str) -> Any:
        """Return the one that brings an operation; `None` for those of the core."""
        return next((feature for feature in self.all if operation in feature.operations), None)

    @property
    def storage(self) -> Any:
        """The archive that keeps conversations outside of the state; `None`: nothing."""
        return self.first("storage")

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(feature.name for feature in self.all)

    @cached_property
    def having(self) -> Callable[[str], tuple[Any, ...]]:
        """Returns a hook of those that have it; one that is not defined is never entered."""
        found: defaultdict[str, tuple[Any, ...]] = defaultdict(tuple)
        for feature in self.all:
            kinds = [kind for kind in type(feature).__mro__[:-1] if "is_base" not in vars(kind)]
            for hook in dict.fromkeys(name for kind in kinds for name in vars(kind)):
                if not hook.startswith("_"):
                    found[hook] = (*found[hook], getattr(feature, hook))
        return found.__getitem__


NO_FEATURES = Features()


@dataclass(frozen=True, slots=True)
class Setup:
    """The options of a memory, from which features choose their own."""

    options: Mapping[str, Any]
    """Each option by name, checked; of one that was left out its default."""
    observation: ObservationConfig
    reflection: ReflectionConfig
    counter: TokenCounter
    built: list[Any] = field(default_factory=list)
    """The features that are on and stand before in the table."""


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
    features: Features = field(default_factory=Features)
    """What takes part in steps beside the core."""
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
        features = self.features.fit(room)
        return replace(
            self,
            thresholds=self.thresholds.fit(room),
            features=features,
            counter=features.count_as_shown(self.counter),
        )

    def count_with(self, counter: TokenCounter) -> Settings:
        """Return the settings with another counter."""
        return replace(self, counter=self.features.count_as_shown(counter))

    def count_like(self, record: MemoryRecord) -> Settings:
        """Return settings that count images as whoever met a thread's Actor did.

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
        """Return the settings with something more that the Reflector is told.

        Args:
            instruction: Added behind the user's own; nothing where it is empty.
        """
        if not instruction:
            return self
        said = "\n\n".join(filter(None, (self.reflection.instruction, instruction)))
        return replace(self, reflection=replace(self.reflection, instruction=said))

    @property
    def scope(self) -> Scope:
        """Whose log it is: the thread's own, where no feature says otherwise."""
        return next(iter(self.features.having("scope")), "thread")

    @property
    def writing_tools(self) -> frozenset[str]:
        """Names of tools by which the Actor changes what features keep.

        The Observer is not shown their calls and results, and they are not offered in a run in
        which nothing is written.
        """
        return frozenset(name for names in self.features.having("writing_tools") for name in names)

    @property
    def question_tokens(self) -> int:
        """About how many tokens of messages one question to the Observer holds."""
        return max(self.thresholds.message_tokens, self.observation.max_tokens_per_batch)

    def show_id(self, thread_id: str) -> str:
        """Write a thread id as models are shown it."""
        return hidden_id(thread_id) if self.hides_ids else thread_id

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
