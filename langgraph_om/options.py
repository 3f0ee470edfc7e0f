"""The options as a whole, read from what the user set.

Each option has its rule in the table; rules that relate several are checked here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Annotated, Any, Literal, get_type_hints

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from pydantic import AfterValidator, Field, InstanceOf
from typing_extensions import TypedDict

from langgraph_om.core.config import options as core
from langgraph_om.core.config.options import (
    Hint,
    Off,
    Preset,
    Seconds,
    Takes,
    Tokens,
    check_fields,
    find_near,
    is_default,
    one_of,
    presets_of,
)
from langgraph_om.core.config.settings import Settings, Setup
from langgraph_om.core.config.thresholds import (
    SMALL_WINDOW,
    Thresholds,
    as_config,
    resolve_thresholds,
    split_budget,
)
from langgraph_om.core.content.dates import read_zone
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.errors import ConfigurationError
from langgraph_om.features import (
    FeatureOptions,
    ObservationConfig,
    ObservationOptions,
    ReflectionConfig,
    ReflectionOptions,
    choose_parts,
    list_configs,
)
from langgraph_om.models.model_value import ModelValue
from langgraph_om.models.pool import choose_models
from langgraph_om.runtime.executors import BackgroundBuffering, Buffering, Executor
from langgraph_om.runtime.hooks import Hooks, check_hooks
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.server import ServerBuffering


def with_defaults(model: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option of a memory by name; one that was left out has its default.

    Raises:
        ConfigurationError: For an option that there is not; it names the one that was meant.
    """
    presets = presets_of(MemoryOptions)
    for name, value in options.items():
        if name not in presets:
            raise ConfigurationError(_explain_unknown(name, value, ["model", *presets]))
    return {"model": model, **presets, **options}


def signature_of_options() -> inspect.Signature:
    """Return the signature of `ObservationalMemory`: every option by name, with its default."""
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    types = get_type_hints(MemoryOptions)
    return inspect.Signature(
        [
            inspect.Parameter("model", kinds[0], default=None, annotation=ModelValue | None),
            *(
                inspect.Parameter(name, kinds[1], default=value, annotation=types[name])
                for name, value in presets_of(MemoryOptions).items()
            ),
        ]
    )


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
        **list_configs(),
    }
    keys = {owner: [entry.name for entry in fields(kind)] for owner, kind in configs.items()}
    own = find_near(name, known)
    inner = {owner: near for owner, names in keys.items() if (near := find_near(name, names))}
    nearest = find_near(name, [*filter(None, [own]), *inner.values()])
    if nearest is not None and nearest != own:
        ways = [f"{at}={{{key!r}: {value!r}}}" for at, key in inner.items() if key == nearest]
        return f"{said}; pass {' or '.join(ways)}"
    if own:
        return f"{said}; pass {own}={value!r} if that was meant"
    return f"{said}; the options are {', '.join(known)}"


OnError = Literal["continue", "abort", "raise"]


def _refuse_classes(value: object) -> object:
    if isinstance(value, type):  # it has the attributes that its objects have
        raise ValueError  # noqa: TRY004 pydantic reads this one
    return value


def _refuse_own_key(key: str) -> str:
    if key == "om":
        raise ValueError
    return key


class CoreOptions(TypedDict, total=False):
    """The options of every memory; those of a feature stand with the feature.

    An option stands once: its type for editors, the type it is checked by, the end of its error,
    its value where it is left out, and its sentence. The constructor's signature, the checks and
    the table in the documentation follow from it.
    """

    enabled: Annotated[bool, Hint("True or False"), Preset(value=True)]
    """Whether memory does anything; an agent with `enabled=False` works as without it."""
    token_budget: Annotated[
        int | tuple[Literal["fraction"], float] | None,
        Takes(
            Annotated[int, Field(ge=200)]
            | tuple[Literal["fraction"], Annotated[float, Field(gt=0, le=1)]]
            | None
        ),
        Hint(
            "a whole number of tokens, 200 or more, a part of the Actor's window, such as "
            '("fraction", 0.6), or None'
        ),
        Preset(None),
    ]
    """Most tokens that messages and observations take together in the Actor's prompt, or a part of
    the Actor's window, such as `("fraction", 0.6)`. For a while they may take 1.2 times as many,
    never more. Both thresholds follow from it; one that is given stays, and the other gets the
    rest. While the window is not known, a fraction counts as `None`."""
    share_token_budget: Annotated[bool | None, Hint("True, False or None"), Preset(None)]
    """Whether messages may use room that observations leave, and the other way round. `None`:
    with a `token_budget` and no threshold beside it."""
    observation: Annotated[
        ObservationConfig | ObservationOptions | Literal[False] | None,
        Takes(InstanceOf[ObservationConfig] | Mapping[Any, Any] | Off | None),
        Hint("an ObservationConfig, a mapping with its keys, or False"),
        Preset(None),
    ]
    """Settings of the Observer, an `ObservationConfig` or a mapping. `False`: nothing is observed
    or reflected, and the rest of memory works."""
    reflection: Annotated[
        ReflectionConfig | ReflectionOptions | None,
        Takes(InstanceOf[ReflectionConfig] | Mapping[Any, Any] | None),
        Hint("a ReflectionConfig or a mapping with its keys"),
        Preset(None),
    ]
    """Settings of the Reflector, a `ReflectionConfig` or a mapping."""
    resource_id: Annotated[
        str | Callable[[RunnableConfig], str | None] | None,
        Takes(Annotated[str, Field(min_length=1)] | Callable[..., Any] | None),
        Hint("an id, a function of the run's configuration, or None"),
        Preset(None),
    ]
    """The user or entity a thread belongs to; `None`: the run's `resource_id`, in `context` or
    `configurable`."""
    messages_key: Annotated[
        str,
        Field(min_length=1),
        AfterValidator(_refuse_own_key),
        Hint("the name of the state's list of messages"),
        Preset("messages"),
    ]
    """The state's key of the conversation."""
    token_counter: Annotated[
        TokenCounter | None,
        Takes(InstanceOf[TokenCounter] | None),
        AfterValidator(_refuse_classes),
        Hint(
            "an object with `identity`, `count_text` and `count_message`, such as "
            "`EstimatingCounter()`"
        ),
        Preset(None),
    ]
    """Counter of tokens; `None`: `EstimatingCounter()`."""
    max_input_tokens: Annotated[
        int | None,
        Takes(Tokens | None),
        Hint("a whole number of tokens, 1 or more"),
        Preset(None),
    ]
    """The most tokens that the Actor's model reads, in place of its profile. Thresholds are
    scaled down to fit into four fifths of it. Messages and observations beyond it are left out
    of the view, oldest messages first. `None`: the profile, or the first prompt that is
    refused, tells it."""
    message_time: Annotated[
        Callable[[BaseMessage], datetime | None] | None,
        Takes(Callable[..., Any] | None),
        Hint("a function or None"),
        Preset(None),
    ]
    """Function that tells the time of a message."""
    timezone: Annotated[
        str | tzinfo,
        Takes(str | InstanceOf[tzinfo]),
        AfterValidator(read_zone),
        Hint("an IANA name such as 'Europe/Berlin', or a tzinfo"),
        Preset("UTC"),
    ]
    """IANA name or `tzinfo` of users' zone, unless a run's `context={"timezone": ...}` or the
    offset of their newest message names another."""
    on_error: Annotated[OnError, one_of(OnError), Preset("continue")]
    """Reaction to a failure of the Observer or Reflector: `"continue"` with raw messages, `"abort"`
    the turn without an answer, or `"raise"`."""
    deadline: Annotated[float, Takes(Seconds), Hint("a number of seconds above 0"), Preset(60.0)]
    """Seconds that all cycles before one call of the Actor may take together, retries
    included."""
    obscure_thread_ids: Annotated[bool | None, Hint("True or False"), Preset(None)]
    """Whether thread ids are hashed before a model sees them; `None`: with `scope="resource"`."""
    hooks: Annotated[Mapping[str, Callable[..., Any]] | None, Takes(Any), Preset(None)]
    """Functions by name, sync or async, that are told of cycles or change what is read and
    noted. `on_observation_start`, `on_observation_end`, `on_reflection_start` and
    `on_reflection_end` are told of a cycle (a mapping) and change nothing. `before_observation`
    gets copies of the messages and returns those to show the Observer. `after_observation`,
    `before_reflection` and `after_reflection` get a text and return one. Each is also given a
    mapping about the cycle, and `None` keeps what was given. When one of these four fails, so
    does the cycle: nothing unredacted is kept."""
    on_debug_event: Annotated[Callable[[dict[str, Any]], Any] | None, Takes(Any), Preset(None)]
    """Function called with a mapping for each internal event. Its `type` is
    `observation_triggered`, `observation_complete`, `reflection_triggered`,
    `reflection_complete` or `step_progress`. What the function raises is logged."""
    buffering: Annotated[
        Buffering | None,
        Takes(InstanceOf[Executor] | None),
        AfterValidator(_refuse_classes),
        Hint(
            "BackgroundBuffering(), InlineBuffering(), ServerBuffering() or an object with the "
            "methods of `Executor`"
        ),
        Preset(None),
    ]
    """Executor of background work: `BackgroundBuffering()` (the default), `InlineBuffering()`,
    `ServerBuffering()` or an `Executor` of your own."""
    clock: Annotated[
        Callable[[], datetime] | None,
        Takes(Callable[..., Any] | None),
        Hint("a function or None"),
        Preset(None),
    ]
    """Function that tells the current time, aware; `None`: the system's clock."""


class MemoryOptions(CoreOptions, FeatureOptions, total=False):
    """The options of `ObservationalMemory`, by name."""


def read_options(given: Mapping[str, Any]) -> StepRunner:
    """Check and resolve what `ObservationalMemory` was called with; return what runs its steps.

    Args:
        given: Every parameter by name; what the user left out has its default.

    Raises:
        ConfigurationError: When an option is out of range or contradicts another; the message
            names it, its value and what to pass.
    """
    check_fields(MemoryOptions, {name: given[name] for name in presets_of(MemoryOptions)}, "{}")
    clock = given["clock"]
    hooks = check_hooks(given["hooks"], given["on_debug_event"])
    settings = _read_settings(given, hooks)
    budget = _read_budget(given, settings)
    if budget is not None and given["max_input_tokens"] is not None:
        budget(given["max_input_tokens"])  # it is refused here, and not in a turn
    models = choose_models(
        given["model"],
        settings.observation,
        settings.reflection,
        is_checked=given["enabled"],
        parts=settings.parts,
    )
    if settings.parts.storage is None and isinstance(given["buffering"], ServerBuffering):
        msg = (
            "`buffering` is ServerBuffering() and there is no `archive`, by which the agent and "
            "the worker know each other's jobs; set `archive` too, for both"
        )
        raise ConfigurationError(msg)
    return StepRunner(
        settings,
        models,
        hooks,
        BackgroundBuffering() if given["buffering"] is None else given["buffering"],
        system_clock if clock is None else _aware(clock),
        float(given["deadline"]),
        messages_key=given["messages_key"],
        resource_id=given["resource_id"],
        enabled=given["enabled"],
        budget=budget,
    )


def _read_settings(given: Mapping[str, Any], hooks: Hooks) -> Settings:
    """Resolve what a turn and its cycles need to know."""
    budget = given["token_budget"] if isinstance(given["token_budget"], int) else None
    observation, reflection, thresholds = _resolve_limits(given, budget)
    counter = EstimatingCounter() if given["token_counter"] is None else given["token_counter"]
    parts = choose_parts(Setup(given, observation, reflection, counter))
    counter = parts.count_as_shown(counter)
    hides_ids = given["obscure_thread_ids"]
    return Settings(
        thresholds=thresholds,
        counter=counter,
        counts_as_actor=given["token_counter"] is None,
        timezone=read_zone(given["timezone"]),
        observation=observation,
        reflection=reflection,
        on_error=given["on_error"],
        message_time=given["message_time"],
        max_input_tokens=given["max_input_tokens"],
        transforms=hooks.transforms,
        hides_ids=parts.sharing is not None if hides_ids is None else hides_ids,
        parts=parts,
    )


def _resolve_limits(
    given: Mapping[str, Any], budget: int | None
) -> tuple[core.ObservationConfig, core.ReflectionConfig, Thresholds]:
    """Resolve the settings of both agents, and the limits, within a budget of tokens if any."""
    observation: core.ObservationConfig
    observation = as_config(ObservationConfig, "observation", given["observation"])
    reflection: core.ReflectionConfig
    reflection = as_config(ReflectionConfig, "reflection", given["reflection"])
    resolve = partial(
        resolve_thresholds,
        share_token_budget=_shares_room(given, budget, observation, reflection),
        budget=budget,
        deadline=float(given["deadline"]),
    )
    if budget is not None:
        observation, reflection = split_budget(budget, observation, reflection, resolve)
    is_small = budget is not None and observation.message_tokens < SMALL_WINDOW
    limits = replace(
        resolve(observation, reflection),
        observer_prompt="condensed" if is_small else "default",
        observes=given["observation"] is not False,
    )
    return observation, reflection, limits


def _read_budget(given: Mapping[str, Any], settings: Settings) -> Callable[[int], Settings] | None:
    """Read a budget that is a part of the Actor's window: `None` for any other."""
    if not isinstance(given["token_budget"], tuple):
        return None
    _, part = given["token_budget"]

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


def _shares_room(
    given: Mapping[str, Any],
    budget: int | None,
    observation: core.ObservationConfig,
    reflection: core.ReflectionConfig,
) -> bool:
    """Return whether log and window share their room: where said so, or else with one budget.

    A threshold that is given stays, where nothing else is said.
    """
    if given["share_token_budget"] is not None:
        return bool(given["share_token_budget"])
    limits = (observation.message_tokens, reflection.observation_tokens)
    return budget is not None and all(map(is_default, limits))


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
