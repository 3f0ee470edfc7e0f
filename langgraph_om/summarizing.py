"""Read a closed conversation in one go, and return what an observation of it says; keep nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.adoption import observe_messages
from langgraph_om.core.config.options import check_count
from langgraph_om.core.effects import Requests, Tally, call_function
from langgraph_om.core.record.record import write_log
from langgraph_om.core.wire import Usage
from langgraph_om.errors import ConfigurationError
from langgraph_om.options import MemoryOptions, read_options
from langgraph_om.runtime.executors import InlineBuffering
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.state import as_state

_NEVER: Final = 10**9
"""Tokens of a log that no summary has, so that it is not reflected."""
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
    """Why a value could not be extracted, by its name."""
    usage: Usage
    """What the questions have cost."""


def summarize(
    runner: StepRunner,
    options: MemoryOptions,
    conversation: Any,
    *,
    thread_id: str | None,
    extract: Mapping[str, Any] | None,
    instruction: str | None,
    last_messages: int | None,
    config: RunnableConfig | None,
) -> Requests[Summary]:
    """Observe a conversation with a memory that keeps nothing.

    Args:
        options: Those of the memory that is asked.
    """
    read = partial(_read_conversation, runner, conversation, thread_id, last_messages)
    messages = yield from call_function(read, "om_read")
    reader = _build_reader(runner, options, extract, instruction)
    try:
        observed = observe_messages(reader, None, messages, _CLOSED, _without_thread(config))
        record = (yield from observed).record
    finally:
        reader.close(0)
    values = record.get("extracted", {})
    return Summary(
        write_log(record["log"]),
        {name: values[name]["value"] if name in values else None for name in extract or {}},
        {name: kept["error"] for name, kept in values.items() if kept["error"]},
        record["usage"].get("observation", Tally().usage()),
    )


def _read_conversation(
    runner: StepRunner, conversation: Any, thread_id: str | None, last: int | None
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
        messages = runner.conversation(as_state(conversation, runner.messages_key))
        return messages if last is None else messages[-last:]
    if runner.archive is None:
        msg = f"`thread_id` is {thread_id!r} and there is no `archive`; pass the conversation"
        raise ConfigurationError(msg)
    found = runner.archive.messages(thread_id, limit=last or _NEVER, newest_first=True)
    return [each.message for each in found]


def _build_reader(
    runner: StepRunner,
    options: MemoryOptions,
    extract: Mapping[str, Any] | None,
    instruction: str | None,
) -> StepRunner:
    """Return a runner with the same Observer that keeps nothing."""
    settings = runner.settings
    observing, reflecting = settings.configured or (settings.observation, settings.reflection)
    observation: dict[str, Any] = {
        **{name: value for name, value in observing if name in observing.model_fields_set},
        "extract": extract,
        "thread_title": False,
        "buffer_tokens": False,
        "block_after": None,
        **({} if instruction is None else {"instruction": instruction}),
    }
    return read_options(
        MemoryOptions(
            options.model,
            token_counter=options.token_counter,
            message_time=options.message_time,
            timezone=options.timezone,
            deadline=options.deadline,
            hooks=options.hooks,
            on_debug_event=options.on_debug_event,
            clock=options.clock,
            max_input_tokens=options.max_input_tokens,
            messages_key=options.messages_key,
            observation=observation,
            reflection={"model": reflecting.model, "observation_tokens": _NEVER},
            continuation_hints=False,
            buffering=InlineBuffering(),
            on_error="raise",
        )
    )


def _without_thread(config: RunnableConfig | None) -> RunnableConfig | None:
    """Return a configuration that names no thread or user of the archive: nothing is kept."""
    if config is None:
        return None
    named = {"thread_id", "resource_id", "checkpoint_id", "checkpoint_ns"}
    given = config.get("configurable", {})
    left = {name: value for name, value in given.items() if name not in named}
    return {**config, "configurable": left}
