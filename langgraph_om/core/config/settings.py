"""What the user set, resolved, in the form in which gate and cycles are handed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.content.message_keys import hidden_id
from langgraph_om.core.content.message_time import message_time
from langgraph_om.core.tokens.counter import TokenCounter


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that gate and cycles need to know."""

    thresholds: Thresholds
    counter: TokenCounter
    timezone: tzinfo
    observation: ObservationConfig = field(default_factory=ObservationConfig)
    reflection: ReflectionConfig = field(default_factory=ReflectionConfig)
    scope: str = "thread"
    on_error: Literal["continue", "abort", "raise"] = "continue"
    message_time: Callable[[BaseMessage], datetime | None] | None = None
    max_input_tokens: int | None = None
    transforms: frozenset[str] = frozenset()
    """The transform hooks that the user has set."""
    hides_ids: bool = False
    """Whether models are shown thread ids in a hashed form only."""
    guide: RecallGuide | None = None
    """With recall, what the Actor is told about it."""
    archives: bool = False
    """Whether messages and observations are archived."""
    evicts: bool = False
    """Whether observed messages leave the conversation once the archive has them."""

    @property
    def question_tokens(self) -> int:
        """About how many tokens of messages one question to the Observer holds."""
        return max(self.thresholds.message_tokens, self.observation.max_tokens_per_batch)

    def show_id(self, thread_id: str) -> str:
        """Write a thread id as models are shown it."""
        return hidden_id(thread_id) if self.hides_ids else thread_id

    def marker(self) -> dict[str, Any]:
        """Describe the limits in force, for start and activation parts."""
        return {
            "messageTokens": self.thresholds.message_tokens,
            "observationTokens": self.thresholds.observation_tokens,
            "scope": self.scope,
        }

    def time_of(self, key: str, message: BaseMessage, stamps: Mapping[str, str]) -> datetime | None:
        """Return when a message was written, as far as anything knows."""
        return message_time(message, key, stamps, timezone=self.timezone, custom=self.message_time)


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose conversation it is, as the run's configuration says."""

    thread_id: str = ""
    resource_id: str | None = None
    place: tuple[str, ...] = ()
    """The nodes of other graphs within which the agent runs: none, or such as `("tools",)`."""


@dataclass(frozen=True, slots=True)
class RecallGuide:
    """What the Actor is told about recall, the same in every call."""

    text: str
    tokens: int
