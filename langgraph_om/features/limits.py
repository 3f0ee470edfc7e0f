"""Give one thread thresholds of its own, in place of the memory's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions
from langgraph_om.core.config.options import check_tokens
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.effects import Requests
from langgraph_om.core.step.step import Feature
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.runtime.acting import Handle, Update, Updates, awaited, make_act_id, waited


class ThreadLimits(TypedDict):
    """What a person set for a thread."""

    id: str
    """Of the act."""
    message_tokens: NotRequired[int]
    observation_tokens: NotRequired[int]


class LimitKeys(TypedDict, total=False):
    """The key of a record."""

    limits: ThreadLimits
    """Thresholds of the thread's own; missing before the first act."""


def _set_limits(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take over the thresholds of an event, which replace all earlier ones."""
    kept = {name: event[name] for name in ThreadLimits.__annotations__ if event.get(name)}
    cast("dict[str, Any]", record)["limits"] = kept


class LimitUpdates(Updates):
    """The update with which a person gives a thread thresholds of its own."""

    def set_limits(
        self, *, message_tokens: int | None = None, observation_tokens: int | None = None
    ) -> Update:
        """Return the update of `om` that gives the thread thresholds of its own.

        What follows from a threshold, such as `buffer_tokens` and `block_after`, follows in the
        memory's proportions. Without either, the memory's hold again.

        Args:
            message_tokens: Tokens of unobserved messages at which they are observed; `None`: as in
                the memory.
            observation_tokens: Tokens of the log at which it is reflected; `None`: as there.

        Raises:
            ConfigurationError: When one of them is no whole number of tokens.
        """
        given = {"message_tokens": message_tokens, "observation_tokens": observation_tokens}
        kept = {name: tokens for name, tokens in given.items() if tokens is not None}
        for name, tokens in kept.items():
            check_tokens(name, tokens)
        return [{"type": "limited", "id": make_act_id(), **kept}]


class LimitActs(Handle):
    """The method of a thread's memory about its thresholds."""

    @waited
    def set_limits(
        self, *, message_tokens: int | None = None, observation_tokens: int | None = None
    ) -> Requests[str]:
        """Give the thread thresholds of its own, in tokens; without either, the memory's again.

        Returns:
            The id of the act.
        """
        updates = LimitUpdates(self._runner)
        return self._act(
            lambda _: updates.set_limits(
                message_tokens=message_tokens, observation_tokens=observation_tokens
            )
        )

    aset_limits = awaited(set_limits)


class OwnLimits(Feature):
    """Reads the thresholds of a thread's own; a person may always set some."""

    name = "limits"
    lives_by = "limits"
    additions = Additions(keys=LimitKeys, reducers={"limited": _set_limits})

    def limit(self, limits: Thresholds, record: MemoryRecord) -> Thresholds:
        """Return the limits of a thread; what the Actor's window asks for is never exceeded."""
        names = ("message_tokens", "observation_tokens")
        known: dict[str, int] = {name: getattr(limits, name) for name in names}
        kept: Mapping[str, Any] = cast("Mapping[str, Any]", record).get("limits") or {}
        own = {name: kept[name] for name in names if kept.get(name)}
        if not own:
            return limits
        if limits.scaled_from is not None:
            own = {name: min(tokens, known[name]) for name, tokens in own.items()}
        return limits.resize(*[own.get(name, known[name]) for name in names])
