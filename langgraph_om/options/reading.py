"""The options as a whole, read from what the user set.

The rules of single options are those of `Given`; what relates several is checked here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig

from langgraph_om.archive import MessageArchive
from langgraph_om.core.config.budget import split_budget
from langgraph_om.core.config.checks import check_fields
from langgraph_om.core.config.defaults import is_default
from langgraph_om.core.config.options import (
    ObservationConfig,
    ReflectionConfig,
    RetrievalConfig,
)
from langgraph_om.core.config.reading import (
    as_config,
    resolve_inject,
    resolve_retrieval,
    resolve_titles,
)
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.config.thresholds import resolve_thresholds
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.working.form import Form
from langgraph_om.core.working.merge import WORKING_NAME
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.choose import choose_models
from langgraph_om.models.pool import ModelPool
from langgraph_om.options.given import Given, read_zone
from langgraph_om.recall.tool import build_guide
from langgraph_om.runtime.executors import (
    BackgroundBuffering,
    Buffering,
    InlineBuffering,
    ParallelBuffering,
)
from langgraph_om.runtime.hooks import Hooks, check_hooks
from langgraph_om.runtime.jobs.server import ServerBuffering
from langgraph_om.working.memory import WorkingMemory
from langgraph_om.working.tool import UPDATE_TOOL

logger = logging.getLogger("langgraph_om")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a memory, checked and resolved."""

    enabled: bool
    models: ModelPool
    settings: Settings
    retrieval: RetrievalConfig | None
    """`None`: no recall."""
    archive: MessageArchive | None
    working_memory: WorkingMemory | None
    resource_id: str | Callable[[RunnableConfig], str | None] | None
    messages_key: str
    deadline: float
    """Seconds."""
    hooks: Hooks
    buffering: Buffering
    clock: Callable[[], datetime]
    """Tells the current time, aware."""


def read_options(**options: Any) -> Options:
    """Check and resolve what `ObservationalMemory` was called with.

    Args:
        options: Every parameter by name; what the user left out has its default.

    Raises:
        ConfigurationError: When an option is out of range or contradicts another; the message
            names it, its value and what to pass.
    """
    check_fields(Given, options, "{}")
    given = Given(**options)
    has_archive = given.archive is not None
    retrieval = resolve_retrieval(given.retrieval, has_archive=has_archive)
    if retrieval is not None and not has_archive:
        logger.info(
            "`retrieval` without an `archive`: the tool `recall` reads the current thread alone"
        )
    hooks = check_hooks(given.hooks, given.on_debug_event)
    settings = _read_settings(given, retrieval, hooks)
    models = _choose_models(given, settings)
    if not has_archive:
        _refuse_without_archive(given)
    if settings.observation.buffer_on_idle is not None:
        _refuse_in_place(given, settings.observation.buffer_on_idle)
    return Options(
        enabled=given.enabled,
        models=models,
        settings=settings,
        retrieval=retrieval,
        archive=_open_archive(given.archive),
        working_memory=given.working_memory,
        resource_id=given.resource_id,
        messages_key=given.messages_key,
        deadline=float(given.deadline),
        hooks=hooks,
        buffering=BackgroundBuffering() if given.buffering is None else given.buffering,
        clock=system_clock if given.clock is None else _aware(given.clock),
    )


def _read_settings(given: Given, retrieval: RetrievalConfig | None, hooks: Hooks) -> Settings:
    """Resolve what a turn and its cycles need to know."""
    observation = as_config(ObservationConfig, "observation", given.observation)
    reflection = as_config(ReflectionConfig, "reflection", given.reflection)
    resolve = partial(
        resolve_thresholds,
        share_token_budget=_shares_room(given, observation, reflection),
        cache_seconds=float(given.cache_seconds),
        deadline=float(given.deadline),
    )
    if given.token_budget is not None:
        observation, reflection = split_budget(given.token_budget, observation, reflection, resolve)
    titles = resolve_titles(given.thread_title)
    if titles is not None:  # a title is made once, and kept up by the Observer
        observation = replace(observation, thread_title=True)
    counter = EstimatingCounter() if given.token_counter is None else given.token_counter
    hides_ids = given.obscure_thread_ids
    return Settings(
        thresholds=resolve(observation, reflection),
        counter=counter,
        timezone=read_zone(given.timezone),
        observation=observation,
        reflection=reflection,
        scope=given.scope,
        on_error=given.on_error,
        message_time=given.message_time,
        max_input_tokens=given.max_input_tokens,
        cache_seconds=float(given.cache_seconds),
        gap_markers=given.gap_markers,
        continuation_hints=given.continuation_hints,
        titles=titles,
        transforms=hooks.transforms,
        hides_ids=given.scope == "resource" if hides_ids is None else hides_ids,
        guide=build_guide(retrieval, counter) if retrieval and given.enabled else None,
        inject=resolve_inject(retrieval),
        hidden_tools=frozenset() if given.working_memory is None else frozenset({UPDATE_TOOL}),
        working=_find_observed_form(given.working_memory, observation),
        working_scope="resource" if given.working_memory is None else given.working_memory.scope,
        archives=given.archive is not None,
        evicts=given.evict,
    )


def _shares_room(
    given: Given, observation: ObservationConfig, reflection: ReflectionConfig
) -> bool:
    """Return whether log and window share their room: where said so, or else with one budget.

    A threshold that is given stays, where nothing else is said.
    """
    if given.share_token_budget is not None:
        return given.share_token_budget
    limits = (observation.message_tokens, reflection.observation_tokens)
    return given.token_budget is not None and all(map(is_default, limits))


def _find_observed_form(
    working: WorkingMemory | None, observation: ObservationConfig
) -> Form | None:
    """Return the form of a working memory that the Observer keeps; `None` for any other."""
    if working is None or working.managed_by != "observer":
        return None
    if WORKING_NAME in (observation.extract or {}):
        msg = (
            f"`observation.extract` has the name {WORKING_NAME!r}, which is that of the working "
            f"memory where the Observer keeps it; call the value something else"
        )
        raise ConfigurationError(msg)
    return working.form


def _choose_models(given: Given, settings: Settings) -> ModelPool:
    """Choose and check both models; options that set memory up ask for one to be named."""
    return choose_models(
        given.model,
        settings.observation,
        settings.reflection,
        is_checked=given.enabled,
        given={
            "scope": given.scope == "resource",
            "token_budget": given.token_budget is not None,
            "share_token_budget": given.share_token_budget is True,
            "retrieval": given.retrieval is not False,
            "observation": given.observation is not None,
            "reflection": given.reflection is not None,
            "thread_title": given.thread_title is not False,
        },
        thresholds=settings.thresholds,
        counter=settings.counter,
        titles=settings.titles,
    )


def _refuse_in_place(given: Given, seconds: float) -> None:
    """Refuse to work in pauses where nothing runs beside the turns."""
    if isinstance(given.buffering, InlineBuffering | ParallelBuffering):
        msg = (
            f"`observation.buffer_on_idle` is {seconds!r} and `buffering` is "
            f"{type(given.buffering).__name__}(), which does nothing between turns; pass "
            f"BackgroundBuffering(), or call `memory.observe` when a session ends"
        )
        raise ConfigurationError(msg)


def _refuse_without_archive(given: Given) -> None:
    """Refuse options that need an archive; there is none."""
    if given.scope == "resource":
        msg = (
            '`scope` is "resource" and there is no `archive` to keep what the threads share; set '
            '`archive` too, such as archive="sqlite:///memory.db"'
        )
        raise ConfigurationError(msg)
    if given.evict:
        msg = "`evict` is True and there is no `archive` to keep the messages; set `archive` too"
        raise ConfigurationError(msg)
    if isinstance(given.buffering, ServerBuffering):
        msg = (
            "`buffering` is ServerBuffering() and there is no `archive`, by which the agent and "
            "the worker know each other's jobs; set `archive` too, for both"
        )
        raise ConfigurationError(msg)


def _open_archive(archive: Any) -> MessageArchive | None:
    """Return an archive: the one that is given, or one in the database of a URL or an engine."""
    if archive is None or isinstance(archive, MessageArchive):
        return archive
    from langgraph_om.archive import SQLAlchemyArchive  # noqa: PLC0415 it imports SQLAlchemy

    return SQLAlchemyArchive(archive)


def system_clock() -> datetime:
    """Tell the current time."""
    return datetime.now(UTC)


def _aware(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Wrap a clock so that a time without a zone is an error where it is told."""

    def tell() -> datetime:
        now: object = clock()
        if not isinstance(now, datetime) or now.tzinfo is None:
            msg = f"`clock` returned {now!r}; return an aware datetime"
            raise ConfigurationError(msg)
        return now

    return tell
