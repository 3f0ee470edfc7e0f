"""Read a closed conversation in one go, and return what an observation of it says; keep nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.core.config import options as core
from langgraph_om.core.config.options import DefaultNumber, check_count
from langgraph_om.core.effects import Tally
from langgraph_om.core.record.record import write_log
from langgraph_om.core.wire import MemoryRecord, Usage
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.executors import InlineBuffering
from langgraph_om.runtime.runner import StepRunner

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

_TAKEN_OVER: Final = (
    *("token_counter", "message_time", "timezone", "deadline", "hooks", "on_debug_event", "clock"),
    *("max_input_tokens", "messages_key"),
)
"""Options of the memory that hold for a summary too."""
_QUIET: Final = {"continuation_hints": False}
"""Options of features that a summary has no use for."""
_NEVER: Final = 10**9
"""Tokens of a log that no summary has, so that it is not reflected."""
_USUAL: Final = DefaultNumber(0.5)
_CLOSED: Final = "closed conversation"
"""The thread's name in log lines and traces; nothing is kept of it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a conversation comes to."""

    observations: str
    """The observations, day by day."""
    extracted: Mapping[str, Any]
    """The values that were asked for, by name: JSON objects and texts; `None` for one that was not
    found."""
    errors: Mapping[str, str]
    """Why a value could not be told, by its name."""
    usage: Usage
    """What the questions have cost."""


class Summarizing:
    """The methods of a memory that read a conversation and keep nothing."""

    _runner: StepRunner
    archive: SQLAlchemyArchive | None
    _given: tuple[Any, Mapping[str, Any]]

    def summarize(
        self,
        conversation: Any = None,
        *,
        thread_id: str | None = None,
        extract: Mapping[str, Any] | None = None,
        instruction: str | None = None,
        last_messages: int | None = None,
        config: RunnableConfig | None = None,
    ) -> Summary:
        """Return what a closed conversation says, such as a call after its end; nothing is kept.

        The whole conversation is observed by the Observer's model, whatever was observed before,
        in as many questions as `message_tokens` asks for.

        Args:
            conversation: A list of messages, or a state as for `llm_input_messages`.
            thread_id: In its place, a thread of the archive.
            extract: Values to find, as for `observation={"extract": ...}`.
            instruction: Added at the end of the Observer's system prompt, instead of the memory's.
            last_messages: How many of the newest messages to read; `None`: all.
            config: Configuration with callbacks for the model's calls.

        Raises:
            ConfigurationError: When it is not said what to read, or an argument cannot be meant.
            ObserverError: When the Observer failed.
            ArchiveError: When the archive's storage fails.
        """
        messages = self._read(conversation, thread_id, last_messages)
        memory = self._build_reader(extract, instruction)
        try:
            result = memory.observe_messages(None, messages, **_without_thread(config))
        finally:
            memory.close()
        return _summarize(result.record, extract or {})

    async def asummarize(
        self,
        conversation: Any = None,
        *,
        thread_id: str | None = None,
        extract: Mapping[str, Any] | None = None,
        instruction: str | None = None,
        last_messages: int | None = None,
        config: RunnableConfig | None = None,
    ) -> Summary:
        """Do the same as `summarize` without blocking the event loop."""
        messages = await asyncio.to_thread(self._read, conversation, thread_id, last_messages)
        memory = self._build_reader(extract, instruction)
        try:
            result = await memory.aobserve_messages(None, messages, **_without_thread(config))
        finally:
            await memory.aclose()
        return _summarize(result.record, extract or {})

    def _read(
        self, conversation: Any, thread_id: str | None, last: int | None
    ) -> Sequence[BaseMessage]:
        if last is not None:
            check_count("last_messages", last)
        if (conversation is None) == (thread_id is None):
            msg = "pass what to summarize: a conversation, or the `thread_id` of an archived one"
            raise ConfigurationError(msg)
        if isinstance(conversation, str):
            msg = (
                f"`conversation` is {conversation!r}; pass messages or a state, or an archived "
                f"thread's id as `thread_id`"
            )
            raise ConfigurationError(msg)
        if thread_id is None:
            # A `StateSnapshot` is a tuple, too.
            is_plain = isinstance(conversation, list | tuple) and not hasattr(
                conversation, "values"
            )
            runner = self._runner
            seen = {runner.messages_key: list(conversation)} if is_plain else conversation
            messages = [*runner.conversation(seen)]
            return messages if last is None else messages[-last:]
        if self.archive is None:
            msg = f"`thread_id` is {thread_id!r} and there is no `archive`; pass the conversation"
            raise ConfigurationError(msg)
        most = last or _NEVER
        found = self.archive.messages(thread_id, limit=most, newest_first=True)
        return [each.message for each in found]

    def _build_reader(self, extract: Mapping[str, Any] | None, instruction: str | None) -> Any:
        """Return a memory with the same Observer that keeps nothing."""
        model, options = self._given
        settings = self._runner.settings
        observing, reflecting = settings.configured or (settings.observation, settings.reflection)
        kind: Any = type(self)
        known = signature(kind).parameters
        chosen = {name: options[name] for name in _TAKEN_OVER if name in options}
        changed: dict[str, Any] = {
            **_reset_added(observing, core.ObservationConfig),
            "buffer_tokens": False,
            "block_after": None,
            **({} if instruction is None else {"instruction": instruction}),
            **({} if extract is None else {"extract": extract}),
        }
        reflection = replace(
            cast("Any", reflecting),
            **_reset_added(reflecting, core.ReflectionConfig),
            observation_tokens=_NEVER,
            block_after=None,
            buffer_activation=_USUAL,
        )
        return kind(
            model,
            **chosen,
            observation=replace(cast("Any", observing), **changed),
            reflection=reflection,
            buffering=InlineBuffering(),
            on_error="raise",
            **{name: value for name, value in _QUIET.items() if name in known},
        )


def _reset_added(config: Any, base: type) -> dict[str, Any]:
    """Return the settings that features have added to a config of the core, switched off."""
    own = {each.name for each in fields(cast("Any", base))}
    return {each.name: each.default for each in fields(config) if each.name not in own}


def _without_thread(config: RunnableConfig | None) -> dict[str, Any]:
    """Return arguments that name no thread or user of the archive: nothing is kept for either."""
    if config is None:
        return {"thread_id": _CLOSED}
    named = {"thread_id", "resource_id", "checkpoint_id", "checkpoint_ns"}
    given = config.get("configurable", {})
    left = {name: value for name, value in given.items() if name not in named}
    return {"thread_id": _CLOSED, "config": {**config, "configurable": left}}


def _summarize(record: MemoryRecord, extract: Mapping[str, Any]) -> Summary:
    values = cast("Mapping[str, Any]", record).get("extracted", {})
    return Summary(
        write_log(record["log"]),
        {name: values[name]["value"] if name in values else None for name in extract},
        {name: kept["error"] for name, kept in values.items() if kept["error"]},
        record["usage"].get("observation", Tally().usage()),
    )
