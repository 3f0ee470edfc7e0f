"""The host's options of a memory: read from what the user wrote, with the environment's say."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any, cast
from zoneinfo import ZoneInfo

from langchain_core.runnables import RunnableConfig

from langgraph_om.archive import MessageArchive
from langgraph_om.core.config.checks import check_flag
from langgraph_om.core.config.options import ObservationConfig
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.executors import (
    BackgroundBuffering,
    Buffering,
    InlineBuffering,
    ParallelBuffering,
)

_PROMPT_SWITCHES = {
    "OM_USE_CONDENSED_PROMPT": "condensed",
    "OM_USE_LEGACY_PROMPT": "legacy",
}
"""Environment variables that choose the Observer's prompt when the setting is left at its default.
"""


def system_clock() -> datetime:
    """Tell the current time."""
    return datetime.now(UTC)


def check_scope(scope: str, *, has_archive: bool) -> None:
    """Read over what a log goes.

    Raises:
        ConfigurationError: When several threads shall share one and nothing keeps it.
    """
    if scope == "resource" and not has_archive:
        msg = (
            '`scope` is "resource" and there is no `archive` to keep what the threads share; set '
            '`archive` too, such as archive="sqlite:///memory.db"'
        )
        raise ConfigurationError(msg)


def with_prompt_switch(config: ObservationConfig) -> ObservationConfig:
    """Let the environment choose the prompt where the setting is left at its default."""
    if config.prompt != "default":
        return config
    for variable, prompt in _PROMPT_SWITCHES.items():
        if os.environ.get(variable) == "1":
            values = {**vars(config), "prompt": prompt}
            return ObservationConfig(**values)
    return config


def check_resource(value: Any) -> str | Callable[[RunnableConfig], str | None] | None:
    """Read who a thread belongs to.

    Raises:
        ConfigurationError: When it is no id, function or nothing.
    """
    if value is None or callable(value) or (isinstance(value, str) and value):
        return cast("str | None", value)
    msg = f"`resource_id` is {value!r}; write an id, a function of the run's configuration, or None"
    raise ConfigurationError(msg)


def check_counter(value: object) -> TokenCounter:
    """Read a token counter; nothing is the default one.

    Raises:
        ConfigurationError: When it does not count.
    """
    if value is None:
        return EstimatingCounter()
    if isinstance(value, type) or not isinstance(value, TokenCounter):
        msg = (
            f"`token_counter` is {value!r}; write an object with `identity`, `count_text` and "
            f"`count_message`, such as `EstimatingCounter()`"
        )
        raise ConfigurationError(msg)
    return value


def check_archive(value: object) -> MessageArchive | None:
    """Read an archive: one, or where SQLAlchemy finds its database.

    Raises:
        ConfigurationError: When it is something else.
    """
    if value is None:
        return None
    if not isinstance(value, type) and isinstance(value, MessageArchive):
        return value
    from sqlalchemy import Engine  # noqa: PLC0415 only who has an archive waits for its import

    from langgraph_om.archive import SQLAlchemyArchive  # noqa: PLC0415 the same

    if not isinstance(value, str | Engine):
        msg = (
            f"`archive` is {value!r}; write a URL such as 'sqlite:///memory.db', a SQLAlchemy "
            f"engine, or an object with the methods of `MessageArchive`"
        )
        raise ConfigurationError(msg)
    return SQLAlchemyArchive(value)


def check_evict(*, evict: object, has_archive: bool) -> bool:
    """Read whether observed messages leave the conversation.

    Raises:
        ConfigurationError: When there is no archive to keep them.
    """
    if check_flag("evict", evict) and not has_archive:
        msg = "`evict` is True and there is no `archive` to keep the messages; set `archive` too"
        raise ConfigurationError(msg)
    return bool(evict)


def check_hides_ids(value: object, scope: str) -> bool:
    """Read whether models are shown thread ids in a hashed form only.

    Raises:
        ConfigurationError: When it is no flag.
    """
    return scope == "resource" if value is None else check_flag("obscure_thread_ids", value)


def check_buffering(value: object) -> Buffering:
    """Read an executor; nothing is the default one.

    Raises:
        ConfigurationError: When it is something else.
    """
    if value is None:
        return BackgroundBuffering()
    if not isinstance(value, BackgroundBuffering | InlineBuffering | ParallelBuffering):
        msg = (
            f"`buffering` is {value!r}; write BackgroundBuffering(), InlineBuffering() or "
            f"ParallelBuffering()"
        )
        raise ConfigurationError(msg)
    return value


def check_zone(value: object) -> tzinfo:
    """Read a time zone.

    Raises:
        ConfigurationError: When there is none of this name.
    """
    if isinstance(value, tzinfo):
        return value
    try:
        return ZoneInfo(str(value))
    except (OSError, ValueError, LookupError) as error:
        msg = f"`timezone` is {value!r}; write an IANA name such as 'Europe/Berlin', or a tzinfo"
        raise ConfigurationError(msg) from error
