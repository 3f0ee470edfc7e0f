"""The options as a whole, read from what the user set.

The rules of single options are those of `Given`; what relates several is checked here.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, tzinfo
from functools import partial, wraps
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar
from zoneinfo import ZoneInfo

from langchain_core.runnables import RunnableConfig
from pydantic import AfterValidator, Field, InstanceOf

from langgraph_om.archive import MessageArchive
from langgraph_om.core.actor.preview import LEAST_PREVIEWED, NEVER, PreviewRule
from langgraph_om.core.config.checks import Flag, Hint, Seconds, Tokens, check_fields, find_near
from langgraph_om.core.config.options import (
    ObservationConfig,
    ReflectionConfig,
    RetrievalConfig,
    Scope,
    TitleConfig,
    is_default,
    one_of,
)
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.config.thresholds import (
    Thresholds,
    as_config,
    resolve_inject,
    resolve_retrieval,
    resolve_thresholds,
    resolve_titles,
    split_budget,
)
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.working import WORKING_NAME, Form
from langgraph_om.errors import ConfigurationError
from langgraph_om.features import choose_features
from langgraph_om.models.pool import ModelPool, choose_models
from langgraph_om.recall.tool import build_guide
from langgraph_om.runtime.executors import (
    BackgroundBuffering,
    Buffering,
    InlineBuffering,
    ParallelBuffering,
)
from langgraph_om.runtime.hooks import Hooks, check_hooks
from langgraph_om.runtime.jobs.protocol import Executor
from langgraph_om.runtime.jobs.server import ServerBuffering
from langgraph_om.working.memory import WorkingMemory
from langgraph_om.working.tool import UPDATE_TOOL

__all__ = ["NoMiddleware", "Options", "read_options", "refuse_unknown_options"]

# What is said to those who pass an option that there is not, or a memory in a wrong place.


P = ParamSpec("P")
SelfT = TypeVar("SelfT")


def refuse_unknown_options(
    construct: Callable[Concatenate[SelfT, P], None],
) -> Callable[Concatenate[SelfT, P], None]:
    """Make a constructor say which option was meant when it is given one that there is not."""
    known = [name for name in inspect.signature(construct).parameters if name != "self"]

    @wraps(construct)
    def checked(self: SelfT, /, *args: P.args, **options: P.kwargs) -> None:
        for name, value in options.items():
            if name not in known:
                raise ConfigurationError(_explain_unknown(name, value, known))
        construct(self, *args, **options)

    return checked


class NoMiddleware(type):
    """The kind of a class that `create_agent` may be given by mistake, and that says so.

    What `create_agent` looks for first, it looks for on the class; on the objects there is nothing.
    """

    @property
    def wrap_tool_call(cls) -> Any:
        """Not there.

        Raises:
            AttributeError: Always.
        """
        msg = (
            f"{cls.__name__} is no middleware; pass "
            f"middleware=[{cls.__name__}Middleware(memory)] to `create_agent`"
        )
        raise AttributeError(msg)


def _explain_unknown(name: str, value: object, known: list[str]) -> str:
    """Say that there is no such option, and what was probably meant."""
    said = f"`{name}` is no option of ObservationalMemory"
    configs = {
        "observation": ObservationConfig,
        "reflection": ReflectionConfig,
        "retrieval": RetrievalConfig,
        "thread_title": TitleConfig,
    }
    keys = {owner: [entry.name for entry in fields(kind)] for owner, kind in configs.items()}
    own = find_near(name, known)
    inner = {owner: near for owner, names in keys.items() if (near := find_near(name, names))}
    exact = {owner: near for owner, near in inner.items() if near == name}
    if exact or (not own and inner):
        ways = [f"{owner}={{{key!r}: {value!r}}}" for owner, key in (exact or inner).items()]
        return f"{said}; pass {' or '.join(ways)}"
    if own:
        return f"{said}; pass {own}={value!r} if that was meant"
    return f"{said}; the options are {', '.join(known)}"


# The options of a memory as the user gives them, each with its rule.


OnError = Literal["continue", "abort", "raise"]


def _refuse_classes(value: object) -> object:
    if isinstance(value, type):  # it has the attributes that its objects have
        raise ValueError  # noqa: TRY004 pydantic reads this one
    return value


def _refuse_own_key(key: str) -> str:
    if key == "om":
        raise ValueError
    return key


def _check_previews(tokens: int | tuple[int, int] | None) -> int | tuple[int, int] | None:
    given = () if tokens is None else (tokens,) if isinstance(tokens, int) else tokens
    if any(each < LEAST_PREVIEWED for each in given):
        raise ValueError
    return tokens


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
    token_budget: Annotated[
        Tokens | tuple[Literal["fraction"], Annotated[float, Field(gt=0, le=1)]] | None,
        Hint(
            "a whole number of tokens, 1 or more, a part of the Actor's window, such as "
            '("fraction", 0.6), or None'
        ),
    ]
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
    preview_tokens: Annotated[
        Tokens | tuple[Tokens, Tokens] | None,
        Hint("tokens, 100 or more, two such numbers (tools, other texts), or None"),
        AfterValidator(_check_previews),
    ]
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


logger = logging.getLogger("langgraph_om")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a memory, checked and resolved."""

    enabled: bool
    models: ModelPool
    settings: Settings
    budget: Callable[[int], Settings] | None
    """Returns the settings for the Actor's window, in tokens, where the budget is a part of it."""
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
    budget = _read_budget(given, settings)
    if budget is not None and given.max_input_tokens is not None:
        budget(given.max_input_tokens)  # it is refused here, and not in a turn
    models = _choose_models(given, settings)
    if not has_archive:
        _refuse_without_archive(given)
    if settings.observation.buffer_on_idle is not None:
        _refuse_in_place(given, settings.observation.buffer_on_idle)
    return Options(
        enabled=given.enabled,
        models=models,
        settings=settings,
        budget=budget,
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
    tokens = given.token_budget if isinstance(given.token_budget, int) else None
    observation, reflection, thresholds = _resolve_limits(given, tokens)
    titles = resolve_titles(given.thread_title)
    counter = EstimatingCounter() if given.token_counter is None else given.token_counter
    hides_ids = given.obscure_thread_ids
    features = choose_features(
        archives=given.archive is not None,
        shares=given.scope == "resource",
        pause_seconds=observation.buffer_on_idle,
        knows=given.working_memory is not None,
        injects=resolve_inject(retrieval) is not None,
        titles=titles is not None,
        previews=_read_previews(given, counter, reads_on=retrieval is not None),
    )
    counter = features.count_as_shown(counter)
    return Settings(
        thresholds=thresholds,
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
        features=features,
    )


def _resolve_limits(
    given: Given, budget: int | None
) -> tuple[ObservationConfig, ReflectionConfig, Thresholds]:
    """Resolve the settings of both agents, and the limits, within a budget of tokens if any.

    Raises:
        ConfigurationError: When an option is out of range or contradicts another.
    """
    observation = as_config(ObservationConfig, "observation", given.observation)
    reflection = as_config(ReflectionConfig, "reflection", given.reflection)
    resolve = partial(
        resolve_thresholds,
        share_token_budget=_shares_room(given, budget, observation, reflection),
        cache_seconds=float(given.cache_seconds),
        deadline=float(given.deadline),
    )
    if budget is not None:
        observation, reflection = split_budget(budget, observation, reflection, resolve)
    if given.thread_title is not False:  # a title is made once, and kept up by the Observer
        observation = replace(observation, thread_title=True)
    return observation, reflection, resolve(observation, reflection)


def _read_budget(given: Given, settings: Settings) -> Callable[[int], Settings] | None:
    """Read a budget that is a part of the Actor's window: `None` for any other."""
    if not isinstance(given.token_budget, tuple):
        return None
    _, part = given.token_budget

    def fit(window: int) -> Settings:
        budget = max(1, int(window * part))
        observation, reflection, thresholds = _resolve_limits(given, budget)
        return replace(
            settings,
            observation=observation,
            reflection=reflection,
            thresholds=thresholds,
            configured=(settings.observation, settings.reflection),
        )

    return fit


def _read_previews(given: Given, counter: TokenCounter, *, reads_on: bool) -> PreviewRule | None:
    """Read the option `preview_tokens`: nothing when it is off."""
    tokens = given.preview_tokens
    if tokens is None:
        return None
    if not reads_on:  # nothing is cut until the Actor's window is known
        tokens = NEVER
    tools, texts = (tokens, tokens) if isinstance(tokens, int) else tokens
    return PreviewRule(tools, texts, counter.count_text, reads_on=reads_on)


def _shares_room(
    given: Given, budget: int | None, observation: ObservationConfig, reflection: ReflectionConfig
) -> bool:
    """Return whether log and window share their room: where said so, or else with one budget.

    A threshold that is given stays, where nothing else is said.
    """
    if given.share_token_budget is not None:
        return given.share_token_budget
    limits = (observation.message_tokens, reflection.observation_tokens)
    return budget is not None and all(map(is_default, limits))


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
