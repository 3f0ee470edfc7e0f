"""The options of a memory as the user gives them, each with its rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from langchain_core.runnables import RunnableConfig
from pydantic import AfterValidator, Field, InstanceOf

from langgraph_om.archive import MessageArchive
from langgraph_om.core.config.checks import Flag, Hint, Seconds, Tokens
from langgraph_om.core.config.mappings import Scope
from langgraph_om.core.config.options import (
    ObservationConfig,
    ReflectionConfig,
    RetrievalConfig,
    one_of,
)
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.runtime.jobs.protocol import Executor
from langgraph_om.working.memory import WorkingMemory

OnError = Literal["continue", "abort", "raise"]


def _refuse_classes(value: object) -> object:
    if isinstance(value, type):  # it has the attributes that its objects have
        raise ValueError  # noqa: TRY004 pydantic reads this one
    return value


def _refuse_own_key(key: str) -> str:
    if key == "om":
        raise ValueError
    return key


def _refuse_non_archives(value: object) -> object:
    if isinstance(value, str | None) or isinstance(_refuse_classes(value), MessageArchive):
        return value
    from sqlalchemy import Engine  # noqa: PLC0415 only who has an archive waits for its import

    if not isinstance(value, Engine):
        raise ValueError  # noqa: TRY004 pydantic reads this one
    return value


def read_zone(zone: str | tzinfo) -> tzinfo:
    """Return the zone of an IANA name.

    Raises:
        ValueError: When there is none of this name.
    """
    if isinstance(zone, tzinfo):
        return zone
    try:
        return ZoneInfo(zone)
    except (OSError, LookupError) as error:
        raise ValueError from error


_Function = Annotated[Callable[..., Any] | None, Hint("a function or None")]


@dataclass(frozen=True, kw_only=True)
class Given:
    """The options as they are given, each with its rule."""

    model: Any
    enabled: Flag
    scope: Annotated[Scope, one_of(Scope)]
    token_budget: Annotated[Tokens | None, Hint("a whole number of tokens, 1 or more, or None")]
    share_token_budget: Annotated[Flag | None, Hint("True, False or None")]
    retrieval: Annotated[
        bool | InstanceOf[RetrievalConfig] | Mapping[Any, Any],
        Hint("True, False, a RetrievalConfig or a mapping"),
    ]
    observation: Annotated[
        InstanceOf[ObservationConfig] | Mapping[Any, Any] | None,
        Hint("an ObservationConfig or a mapping with its keys"),
    ]
    reflection: Annotated[
        InstanceOf[ReflectionConfig] | Mapping[Any, Any] | None,
        Hint("a ReflectionConfig or a mapping with its keys"),
    ]
    archive: Annotated[
        Any,
        AfterValidator(_refuse_non_archives),
        Hint(
            "a URL such as 'sqlite:///memory.db', a SQLAlchemy engine, or an object with the "
            "methods of `MessageArchive`"
        ),
    ]
    evict: Flag
    resource_id: Annotated[
        Annotated[str, Field(min_length=1)] | Callable[[RunnableConfig], str | None] | None,
        Hint("an id, a function of the run's configuration, or None"),
    ]
    messages_key: Annotated[
        str,
        Field(min_length=1),
        AfterValidator(_refuse_own_key),
        Hint("the name of the state's list of messages"),
    ]
    token_counter: Annotated[
        InstanceOf[TokenCounter] | None,
        AfterValidator(_refuse_classes),
        Hint(
            "an object with `identity`, `count_text` and `count_message`, such as "
            "`EstimatingCounter()`"
        ),
    ]
    max_input_tokens: Annotated[Tokens | None, Hint("a whole number of tokens, 1 or more")]
    cache_seconds: Seconds
    gap_markers: Flag
    continuation_hints: Flag
    working_memory: Annotated[InstanceOf[WorkingMemory] | None, Hint("a WorkingMemory(...)")]
    thread_title: Annotated[
        bool | Mapping[Any, Any],
        Hint("True, False, or a mapping with the keys 'model' and 'instructions'"),
    ]
    message_time: _Function
    timezone: Annotated[
        str | InstanceOf[tzinfo],
        AfterValidator(read_zone),
        Hint("an IANA name such as 'Europe/Berlin', or a tzinfo"),
    ]
    on_error: Annotated[OnError, one_of(OnError)]
    deadline: Seconds
    obscure_thread_ids: Annotated[bool | None, Hint("True or False")]
    hooks: Any
    on_debug_event: Any
    buffering: Annotated[
        InstanceOf[Executor] | None,
        AfterValidator(_refuse_classes),
        Hint(
            "BackgroundBuffering(), InlineBuffering(), ParallelBuffering(), ServerBuffering() or "
            "an object with the methods of `Executor`"
        ),
    ]
    clock: _Function
