"""The options as a whole, read from what the user set.

Each option's rule is in its field; rules that relate several options are checked here.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Literal, ParamSpec, get_type_hints

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from pydantic import AfterValidator, Field, InstanceOf, SkipValidation

from langgraph_om.core.config.options import (
    Group,
    Hint,
    InjectConfig,
    ObservationConfig,
    Off,
    ReflectionConfig,
    RetrievalConfig,
    TitleConfig,
    Tokens,
)
from langgraph_om.core.config.settings import Parts, Settings
from langgraph_om.core.config.thresholds import Thresholds, resolve_thresholds, split_budget
from langgraph_om.core.content.dates import read_zone
from langgraph_om.core.observe.transcript import SHORTEST
from langgraph_om.core.record.record import RESPONSE, TASK, TITLE
from langgraph_om.core.tokens import EstimatingCounter, FunctionCounter, TokenCounter
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.archive import ArchiveValue, Archiving, refuse_non_archives
from langgraph_om.features.evict import Evicting
from langgraph_om.features.extract import Extract, read_wanted
from langgraph_om.features.inject import Finder, Injecting
from langgraph_om.features.meaning import Meaning
from langgraph_om.features.previews import PreviewRule, Previews
from langgraph_om.features.recall import Recall
from langgraph_om.features.sharing import Sharing
from langgraph_om.features.titles import Titles
from langgraph_om.features.working_memory import KnownOfUser, WorkingMemory
from langgraph_om.models.model_value import ModelValue
from langgraph_om.models.pool import choose_models
from langgraph_om.parts import Scope
from langgraph_om.runtime.actor import Actor
from langgraph_om.runtime.executors import BackgroundBuffering, Executor
from langgraph_om.runtime.hooks import Hooks, check_hooks
from langgraph_om.runtime.jobs import ServerBuffering
from langgraph_om.runtime.run import Runs
from langgraph_om.runtime.runner import StepRunner

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

P = ParamSpec("P")

logger = logging.getLogger("langgraph_om")


def signature_of_options() -> inspect.Signature:
    """Return the signature of `ObservationalMemory`: every option by name, with its default."""
    types, only = get_type_hints(MemoryOptions), inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, only, default=field.default, annotation=types[name])
        for name, field in MemoryOptions.model_fields.items()
    ]
    model = options[0].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature([model, *options[1:]])


class NoMiddleware(type):
    """The metaclass of a class that raises an error when passed to `create_agent` by mistake.

    `create_agent` looks this attribute up on the class first; its objects do not have it.
    """

    @property
    def wrap_tool_call(cls) -> Any:
        """Not there.

        Raises:
            AttributeError: Always.
        """
        msg = (
            f"{cls.__name__} is not middleware; pass "
            f"middleware=[{cls.__name__}Middleware(memory)] to `create_agent`"
        )
        raise AttributeError(msg)


OnError = Literal["continue", "abort", "raise"]


def _refuse_classes(value: object) -> object:
    if isinstance(value, type):  # it has the attributes that its objects have
        raise ValueError  # noqa: TRY004 pydantic reads this one
    return value


def _refuse_own_key(key: str) -> str:
    if key == "om":
        raise ValueError
    return key


class MemoryOptions(Group):
    """The options of `ObservationalMemory`."""

    model: SkipValidation[ModelValue | None] = Field(default=None, kw_only=False)
    """The model of the Observer and the Reflector; `None`: the agent's own."""
    enabled: bool = True
    """Turns memory on or off; with `False`, the agent works as if it had none."""
    token_budget: Annotated[
        Annotated[int, Field(ge=200)]
        | tuple[Literal["fraction"], Annotated[float, Field(gt=0, le=1)]]
        | None,
        Hint(
            "a whole number of tokens (200 or more), a part of the Actor's window such as "
            '("fraction", 0.6), or None'
        ),
    ] = None
    """The most tokens that recent messages and observations take up in the prompt together: a
    number, or a part of the agent's context window such as `("fraction", 0.6)`. For a short time
    they may take 1.2 times as many, never more. Both thresholds follow from it; if you set one of
    them, the other gets the rest. A fraction has no effect until the context window is known."""
    share_token_budget: bool | None = None
    """Lets recent messages use tokens that observations leave free, and vice versa; `None` does so
    if you set `token_budget` but neither `message_tokens` nor `observation_tokens`."""
    observation: Annotated[
        InstanceOf[ObservationConfig] | Mapping[str, Any] | Off | None,
        Hint("an ObservationConfig, a mapping with its keys, or False"),
    ] = None
    """Settings of the Observer: an `ObservationConfig` or a mapping. With `False`, nothing is
    observed or reflected; the rest of memory works."""
    reflection: Annotated[
        InstanceOf[ReflectionConfig] | Mapping[str, Any] | None,
        Hint("a ReflectionConfig or a mapping with its keys"),
    ] = None
    """Settings of the Reflector: a `ReflectionConfig` or a mapping."""
    resource_id: (
        Annotated[str, Field(min_length=1)] | Callable[[RunnableConfig], str | None] | None
    ) = None
    """The id of the user that a thread belongs to, or a function that returns it from the run's
    configuration; `None` uses the `resource_id` in the run's `context` or `configurable`."""
    messages_key: Annotated[
        Annotated[str, Field(min_length=1)],
        AfterValidator(_refuse_own_key),
        Hint("the name of the state's list of messages"),
    ] = "messages"
    """The key of the graph's state that holds the conversation."""
    token_counter: Annotated[
        InstanceOf[TokenCounter] | Callable[[str], int] | None,
        AfterValidator(_refuse_classes),
        Hint(
            "a function that returns a text's token count, or an object with `identity`, "
            "`count_text` and `count_message`, such as `EstimatingCounter()`"
        ),
    ] = None
    """The function or object that counts tokens; the default estimates them without a tokenizer."""
    max_input_tokens: Tokens | None = None
    """The context window of the agent's model, in tokens, if the model's profile lacks it or is
    wrong. Thresholds are scaled down to four fifths of it. What does not fit is left out of the
    prompt, oldest messages first. With `None`, the profile supplies it, or the first prompt that is
    rejected as too long."""
    message_time: Callable[[BaseMessage], datetime | None] | None = None
    """A function that returns the time a message was written; `None` uses its `created_at`, or else
    the time memory first saw it."""
    timezone: Annotated[
        str | tzinfo,
        AfterValidator(read_zone),
        Hint("an IANA name such as 'Europe/Berlin', or a tzinfo"),
    ] = "UTC"
    """The time zone of your users: an IANA name or a `tzinfo`. A run's `context={"timezone": ...}`,
    or the offset of the user's newest message, overrides it."""
    on_error: OnError = "continue"
    """What to do if the Observer or the Reflector fails: `"continue"` with the messages as they
    are, `"abort"` the turn without an answer, or `"raise"` the error."""
    deadline: Annotated[float, Field(gt=0)] = 60.0
    """The most seconds that one call of the agent's model waits for memory, including retries."""
    obscure_thread_ids: bool | None = None
    """Replaces thread ids with hashes in what models read; `None` does so with
    `scope="resource"`."""
    hooks: SkipValidation[Mapping[str, Callable[..., Any]] | None] = None
    """Your functions by name, sync or async, that are notified of observations and reflections or
    change what is read and kept. `on_observation_start`, `on_observation_end`,
    `on_reflection_start` and `on_reflection_end` get a mapping about the cycle and change nothing.
    `before_observation` gets copies of the messages and returns those to show the Observer.
    `after_observation`, `before_reflection` and `after_reflection` get a text and return one. Each
    of these four also gets the mapping about the cycle; return `None` for no change. If one of them
    fails, so does the cycle: nothing unredacted is kept."""
    on_debug_event: SkipValidation[Callable[[dict[str, Any]], Any] | None] = None
    """A function that receives a mapping for each internal event. Its `type` is
    `observation_triggered`, `observation_complete`, `reflection_triggered`, `reflection_complete`
    or `step_progress`. Errors that it raises are logged."""
    buffering: Annotated[
        InstanceOf[Executor] | None,
        AfterValidator(_refuse_classes),
        Hint(
            "BackgroundBuffering(), InlineBuffering(), ServerBuffering() or an object with the "
            "methods of `Executor`"
        ),
    ] = None
    """Where background work runs: in threads (`BackgroundBuffering()`), within the turn
    (`InlineBuffering()`), on a LangGraph server (`ServerBuffering()`), or in your own
    `Executor`."""
    clock: Callable[[], datetime] | None = None
    """A function that returns the current time with its time zone; `None` uses the system clock."""
    archive: Annotated[
        SkipValidation[ArchiveValue],
        AfterValidator(refuse_non_archives),
        Hint(
            "a URL such as 'sqlite:///memory.db', a SQLAlchemy engine, or a SQLAlchemyArchive(...)"
        ),
    ] = None
    """A database that keeps messages and observations besides the checkpointer: a URL such as
    `"sqlite:///memory.db"` or `"postgresql://..."`, a SQLAlchemy engine, or a
    `SQLAlchemyArchive`."""
    evict: bool = False
    """Removes observed messages from the graph's state once the archive has them, which keeps
    checkpoints small."""
    retention: Annotated[
        Annotated[timedelta, Field(gt=timedelta(0))] | None,
        Hint("a timedelta above 0, such as timedelta(days=90), or None"),
    ] = None
    """How long `memory.prune()` keeps messages and their observations. Call it daily; otherwise,
    nothing is deleted."""
    retrieval: Annotated[
        bool | Literal["auto"] | InstanceOf[RetrievalConfig] | Mapping[str, Any],
        Hint("'auto', True, False, a RetrievalConfig or a mapping"),
    ] = "auto"
    """Gives the agent the tool `recall`, which reads and searches earlier messages; `"auto"` does
    so in `create_memory_agent` and the middleware. In your own graph, pass `True` and bind the
    tool. Without an archive it reads the current thread; with one, all threads of the user. A
    mapping or a `RetrievalConfig` turns it on with settings: with `{"inject": True}`, memory
    searches with each new user message and shows the agent the hits."""
    gap_markers: Annotated[
        bool | Annotated[int | float, Field(ge=60)],
        Hint("True, False, or the shortest pause in seconds, 60 or more"),
    ] = False
    """Tells the agent and the Observer about pauses of ten minutes or more: `True`, or the shortest
    pause in seconds. Before the next user message comes a line such as `[2 days later: Mon, May 4,
    2026, 09:12]`."""
    continuation_hints: Annotated[
        bool | Mapping[Literal["current_task", "suggested_response"], bool],
        Hint('True, False, or a mapping such as {"suggested_response": False}'),
    ] = True
    """Has the Observer note the current task and suggest a reply, and shows both to the agent:
    `True` or `False`, or a mapping that sets each, such as `{"suggested_response": False}`."""
    working_memory: InstanceOf[WorkingMemory] | None = None
    """A `WorkingMemory`: a short text or JSON object about the user that the agent always sees and
    keeps up to date with a tool."""
    thread_title: Annotated[
        bool | InstanceOf[TitleConfig] | Mapping[str, Any],
        Hint("True, False, or a mapping with keys 'model', 'instructions' and 'min_messages'"),
    ] = False
    """Gives each thread a title after its first answer: `True`, or a mapping with `model`,
    `instructions` and `min_messages`. `model` defaults to the Observer's. `instructions` is a text,
    or a function of the run's configuration. `min_messages` is how many messages it waits for (2).
    The title is renewed when the Observer suggests another. `set_title` sets one that memory never
    changes."""
    scope: Scope = "thread"
    """What the agent is shown: its own thread (`"thread"`), or also the observations and most
    recent messages of the user's other threads (`"resource"`, which needs an `archive`)."""

    if not TYPE_CHECKING:  # type checkers and editors should see the options

        def __init__(self, model: Any = None, **given: Any) -> None:
            super().__init__(model=model, **given)


def takes_options(
    kind: Callable[P, MemoryOptions],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Return a decorator that gives a method the signature of `MemoryOptions`, for editors."""
    del kind
    return lambda method: method


def read_options(options: MemoryOptions) -> StepRunner:
    """Return what runs the steps of a memory with these options.

    Raises:
        ConfigurationError: When an option is out of range or contradicts another; the message
            names it, its value and what to pass.
    """
    clock = system_clock if options.clock is None else _aware(options.clock)
    runs = Runs(options.resource_id, options.enabled)
    hooks = check_hooks(options.hooks, options.on_debug_event)
    settings = _read_settings(options, hooks)
    budget = _read_budget(options, settings)
    if budget is not None and options.max_input_tokens is not None:
        budget(options.max_input_tokens)  # refused here rather than in a turn
    models = choose_models(
        options.model,
        settings.observation,
        settings.reflection,
        is_checked=options.enabled,
        parts=settings.parts,
    )
    return StepRunner(
        runs,
        Actor(settings, runs, clock, budget),
        models,
        hooks,
        BackgroundBuffering() if options.buffering is None else options.buffering,
        clock,
        float(options.deadline),
        options.messages_key,
    )


def _read_settings(options: MemoryOptions, hooks: Hooks) -> Settings:
    """Resolve what a turn and its cycles need to know."""
    budget = options.token_budget if isinstance(options.token_budget, int) else None
    observation, reflection, thresholds = _resolve_limits(options, budget)
    counter = EstimatingCounter() if options.token_counter is None else options.token_counter
    if not isinstance(counter, TokenCounter):
        counter = FunctionCounter(counter)
    parts = choose_parts(options, observation, counter)
    counter = parts.count_as_shown(counter)
    hides_ids = options.obscure_thread_ids
    return Settings(
        thresholds=thresholds,
        counter=counter,
        counts_as_actor=options.token_counter is None,
        timezone=read_zone(options.timezone),
        observation=observation,
        reflection=reflection,
        on_error=options.on_error,
        message_time=options.message_time,
        max_input_tokens=options.max_input_tokens,
        transforms=hooks.transforms,
        hides_ids=parts.sharing is not None if hides_ids is None else hides_ids,
        hints=_list_hints(options, observation),
        shortest_gap=_read_gap(options),
        parts=parts,
    )


def choose_parts(
    options: MemoryOptions, observation: ObservationConfig, counter: TokenCounter
) -> Parts:
    """Return the parts of memory that the options switch on."""
    archive = _open_archive(options)
    archiving = Archiving(archive) if archive is not None else None
    working, makes_titles = options.working_memory, options.thread_title is not False
    wanted = read_wanted(observation.extract)
    retrieval, meaning, recall, inject = _read_retrieval(options), None, None, None
    if retrieval is not None:
        meaning = Meaning(archive) if retrieval.vector else None
        recall = Recall(retrieval, meaning)
        if retrieval.inject is not False:
            inject = Injecting(Finder(recall, InjectConfig.read(retrieval.inject)))
    return Parts(
        titles=Titles(TitleConfig.read(options.thread_title) if makes_titles else None),
        archive=archiving,
        evict=Evicting(archiving) if archiving and options.evict else None,
        sharing=Sharing(archiving) if archiving and options.scope == "resource" else None,
        meaning=meaning,
        recall=recall,
        working=KnownOfUser(working) if working is not None else None,
        extract=Extract(wanted) if wanted else None,
        previews=Previews(PreviewRule.choose(counter.count_text, reads_on=recall is not None)),
        inject=inject,
    )


def _list_hints(options: MemoryOptions, observation: ObservationConfig) -> list[str]:
    """Return the names of the hints that the Observer is asked for."""
    given = options.continuation_hints
    choice = given if isinstance(given, Mapping) else dict.fromkeys((TASK, RESPONSE), given)
    names = [name for name in (TASK, RESPONSE) if choice.get(name, True)]
    # If memory makes titles, the Observer also keeps them current.
    keeps_titles = options.thread_title is not False or observation.thread_title
    return [*names, TITLE] if keeps_titles else names


def _read_gap(options: MemoryOptions) -> timedelta | None:
    given = options.gap_markers
    if given is False:
        return None
    return SHORTEST if given is True else timedelta(seconds=given)


def _open_archive(options: MemoryOptions) -> SQLAlchemyArchive | None:
    """Return the archive, if there is one; refuse options that need one."""
    if options.archive is not None:
        from langgraph_om.archive import SQLAlchemyArchive  # noqa: PLC0415 it imports SQLAlchemy

        given = options.archive
        return given if isinstance(given, SQLAlchemyArchive) else SQLAlchemyArchive(given)
    needs = {
        '`scope` is "resource"': options.scope == "resource",
        "`evict` is True": options.evict,
        "`buffering` is ServerBuffering()": isinstance(options.buffering, ServerBuffering),
    }
    for said, is_set in needs.items():
        if is_set:
            msg = f'{said} and there is no `archive`; set one, such as "sqlite:///memory.db"'
            raise ConfigurationError(msg)
    return None


def _read_retrieval(options: MemoryOptions) -> RetrievalConfig | None:
    """Return the settings of recall; `None` if it is off."""
    if options.retrieval is False or options.retrieval == "auto":
        return None  # entry points that bind the tool turn "auto" into True
    config = RetrievalConfig.read(options.retrieval)
    if options.archive is not None:
        return config
    logger.info("`retrieval` without an `archive`: the tool `recall` reads only the current thread")
    if config.has("scope") and config.scope == "resource":
        msg = (
            "`retrieval.scope` is 'resource' and there is no `archive`, which keeps the messages "
            "of other threads; set `archive`, or pass 'thread'"
        )
        raise ConfigurationError(msg)
    return config.change(scope="thread")


def _resolve_limits(
    options: MemoryOptions, budget: int | None
) -> tuple[ObservationConfig, ReflectionConfig, Thresholds]:
    """Resolve the settings of both agents, and the limits, within a token budget if any."""
    observation = ObservationConfig.read(options.observation)
    reflection = ReflectionConfig.read(options.reflection)
    resolve = partial(
        resolve_thresholds,
        share_token_budget=_shares_room(options, budget, observation, reflection),
        budget=budget,
        deadline=float(options.deadline),
    )
    if budget is not None:
        observation, reflection = split_budget(budget, observation, reflection, resolve)
    limits = replace(
        resolve(observation, reflection),
        observes=options.observation is not False,
    )
    return observation, reflection, limits


def _read_budget(options: MemoryOptions, settings: Settings) -> Callable[[int], Settings] | None:
    """Read a budget that is a fraction of the Actor's window; `None` for any other."""
    if not isinstance(options.token_budget, tuple):
        return None
    _, part = options.token_budget

    def fit(window: int) -> Settings:
        budget = max(1, int(window * part))
        observation, reflection, thresholds = _resolve_limits(options, budget)
        return replace(
            settings,
            observation=observation,
            reflection=reflection,
            thresholds=thresholds,
            configured=(settings.observation, settings.reflection),
        )

    return fit


def _shares_room(
    options: MemoryOptions,
    budget: int | None,
    observation: ObservationConfig,
    reflection: ReflectionConfig,
) -> bool:
    """Return whether log and window share their room: as set, or else if there is one budget.

    Without the option, a threshold that is set stays as it is.
    """
    if options.share_token_budget is not None:
        return options.share_token_budget
    is_set = observation.has("message_tokens") or reflection.has("observation_tokens")
    return budget is not None and not is_set


def system_clock() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def _aware(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Wrap a clock so that a time without a zone raises an error."""

    def tell() -> datetime:
        now: object = clock()
        if not isinstance(now, datetime) or now.tzinfo is None:
            msg = f"`clock` returned {now!r}; return an aware datetime"
            raise ConfigurationError(msg)
        return now

    return tell
