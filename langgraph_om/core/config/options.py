"""The groups of options, one class each: each option's meaning, allowed values and default.

A group is passed as an object or as a mapping with the same keys. pydantic checks its values
strictly (`True` is not a number). The memory's own options are in `langgraph_om/options.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NoReturn,
    Self,
    get_args,
    get_type_hints,
)

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, ValidationError
from typing_extensions import TypedDict, is_typeddict

from langgraph_om.errors import ConfigurationError
from langgraph_om.parts import Scope

_MAX_SHOWN = 600
"""How many characters of a wrong value its error shows."""


# --- How a group is read, and what is said of a mistake ------------------------------------------


@dataclass(frozen=True, slots=True)
class Hint:
    """What to pass instead, the end of an option's error; without one, pydantic's own words."""

    text: str


class Group(BaseModel):
    """The base of all groups of options."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        defer_build=True,
        protected_namespaces=(),
    )
    path: ClassVar[str] = ""
    """The option that takes the group, such as `retrieval.inject`."""

    if not TYPE_CHECKING:  # type checkers and editors are to see the options

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                raise _explain(type(self), given, error) from None

    @classmethod
    def read(cls, given: object) -> Self:
        """Return a group that is given as such or as a mapping; its defaults for anything else.

        Raises:
            ConfigurationError: When it has an unknown key, or a value that is not allowed.
        """
        if isinstance(given, cls):
            return given
        return cls(**(given if isinstance(given, Mapping) else {}))

    def has(self, option: str) -> bool:
        """Return whether an option was set, even to its default."""
        return option in self.model_fields_set

    def change(self, **options: Any) -> Self:
        """Return the group with other values, which are not checked."""
        return self.model_copy(update=options)


def _explain(
    kind: type[Group], given: Mapping[str, Any], error: ValidationError
) -> ConfigurationError:
    """Return the error that names an option, its value and what to pass."""
    problems = error.errors(include_url=False, include_input=False)
    problem = next((each for each in problems if each["type"] == "extra_forbidden"), problems[0])
    known, hints = list(kind.model_fields), get_type_hints(kind, include_extras=True)
    names, hint = list[str](), ""
    value: Any = given
    for name in map(str, problem["loc"]):
        value = value.get(name)
        if name not in known:
            place = ".".join(filter(None, [kind.path, *names]))
            return _explain_unknown(place, name, value, known)
        names.append(name)
        hint = next((each.text for each in get_args(hints[name]) if isinstance(each, Hint)), hint)
        if not is_typeddict(hints[name]) or not isinstance(value, Mapping):
            break
        hints = get_type_hints(hints[name], include_extras=True)
        known = list(hints)
    option = ".".join(filter(None, [kind.path, *names]))
    if not hint:
        own = [each["msg"] for each in problems if each["loc"][0] == problem["loc"][0]]
        wanted = " or ".join(dict.fromkeys(own)).replace("Input should be", "it should be")
        return ConfigurationError(f"`{option}` is {_shorten(value)}; {wanted}")
    # The text of a `ValueError` that a rule of ours raises.
    reasons = [str(each.get("ctx", {}).get("error", "")) for each in problems]
    because = next((f", {reason}" for reason in reasons if reason), "")
    return _write(option, value, hint, because)


def _explain_unknown(place: str, name: str, value: object, own: list[str]) -> ConfigurationError:
    """Return the error of an option that does not exist, with the one that was probably meant.

    Args:
        place: The group that it was given in; empty for the memory itself.
        own: The names of that group.
    """
    said = f"`{name}` is not an option of ObservationalMemory; pass"
    if place:
        said = f"`{place}` has the unknown key {name!r}; pass"
    if "extra" in own and find_near(name, own) is None:
        way = _write_call([*place.split("."), "extra", name], value)
        return ConfigurationError(f"{said} {way} to send it to the model's client")
    near = {at: found for at, names in _list_names().items() if (found := find_near(name, names))}
    best = find_near(name, near.values())
    places = (
        [place] if best and near.get(place) == best else [at for at in near if near[at] == best]
    )
    ways = " or ".join(
        _write_call([*filter(None, at.split(".")), near[at]], value) for at in places
    )
    return ConfigurationError(f"{said} {ways or 'one of ' + ', '.join(own)}")


def _list_names() -> dict[str, list[str]]:
    """Return the options of each group that is defined, by the group's path."""
    names: dict[str, list[str]] = {}
    for kind in Group.__subclasses__():
        names[kind.path] = list(kind.model_fields)
        if "model_settings" in names[kind.path]:
            names[f"{kind.path}.model_settings"] = list(ModelSettings.__annotations__)
    return names


def _write_call(path: list[str], value: object) -> str:
    """Write an option as an argument: `deadline=5`, or `observation={'message_tokens': 5}`."""
    written = _shorten(value)
    for name in reversed(path[1:]):
        written = f"{{{name!r}: {written}}}"
    return f"{path[0]}={written}"


def find_near(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant."""
    known = list(known)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    near = [found for said in (snake, name) for found in get_close_matches(said, known, 1, 0.75)]
    return near[0] if near else None


def refuse(option: str, value: object, hint: str, because: str = "") -> NoReturn:
    """Raise the error that names an option, its value and what to pass.

    Raises:
        ConfigurationError: Always.
    """
    raise _write(option, value, hint, because)


def _write(option: str, value: object, hint: str, because: str) -> ConfigurationError:
    return ConfigurationError(f"`{option}` is {_shorten(value)}{because}; pass {hint}")


def _shorten(value: object) -> str:
    whole = repr(value)
    return whole if len(whole) <= _MAX_SHOWN else f"{whole[:_MAX_SHOWN]}..."


# --- Arguments of methods ------------------------------------------------------------------------


def check_number(option: str, value: int, least: int = 0) -> int:
    """Refuse what is not a whole number, or too small; return it.

    Raises:
        ConfigurationError: For anything else.
    """
    if type(value) is not int or value < least:
        refuse(option, value, f"a whole number, {least} or more")
    return value


def check_count(option: str, value: int) -> int:
    """Refuse what is not a whole number of 1 or more; return it.

    Raises:
        ConfigurationError: For anything else.
    """
    return check_number(option, value, 1)


def check_seconds(option: str, value: float, *, allows_zero: bool = False) -> float:
    """Refuse what is not a number of seconds; return it.

    Raises:
        ConfigurationError: For anything else.
    """
    is_number = type(value) in (int, float) and math.isfinite(value)
    if not is_number or value < 0 or (value == 0 and not allows_zero):
        refuse(option, value, "0 seconds or more" if allows_zero else "more than 0 seconds")
    return value


def check_flag(option: str, value: bool) -> bool:  # noqa: FBT001 it is what is checked
    """Refuse what is neither True nor False; return it.

    Raises:
        ConfigurationError: For anything else.
    """
    if not isinstance(value, bool):
        refuse(option, value, "True or False")
    return value


# --- Types of options ----------------------------------------------------------------------------


def _refuse_numbers(value: object) -> object:
    if value is not False:  # 0 equals it
        raise ValueError
    return value


Off = Annotated[Literal[False], BeforeValidator(_refuse_numbers)]
"""`False`, and not 0."""
Tokens = Annotated[int, Field(ge=1)]
_Count = Annotated[int, Field(ge=0, le=20)]

EXTRACTORS: Final = (
    "a mapping from names to schemas (pydantic models, TypedDicts, JSON Schemas), instructions or "
    "Extractor(...), or None"
)

ACTORS_OWN = "default"
"""A placeholder for memory's model if none is named: the Actor's own."""
DEFAULT_MODEL = "google/gemini-flash-lite-latest"
"""The model of memory when none is named and no Actor is known: an alias, which does not age."""


@dataclass(frozen=True, slots=True)
class Role:
    """A model that a feature asks, beside those of the Observer and the Reflector."""

    name: str
    """Of the role, in traces and in the metadata of calls."""
    option: str
    """The option that names the model, for errors."""
    model: Any
    """What the option names; `None`: the Observer's model."""
    settings: Mapping[str, Any]
    """What is sent with each call, as `model_settings`."""


# --- The groups ----------------------------------------------------------------------------------


class ModelSettings(TypedDict, total=False):
    """The option `model_settings`; a setting that is `None` is not sent."""

    temperature: Annotated[float, Field(ge=0)] | None
    """How freely the model chooses its words."""
    max_output_tokens: Tokens | None
    """The longest answer, in tokens; capped at what the model is known to support."""
    thinking_budget: Annotated[int, Field(ge=-1)] | None
    """Thinking tokens of a Google model: 0 for none, -1 for no limit."""
    extra: Mapping[str, Any] | None
    """Keyword arguments for the model's client, sent as they are."""


ModelSettings.__pydantic_config__ = Group.model_config  # type: ignore[attr-defined]

OBSERVER_SETTINGS: Final[ModelSettings] = {"temperature": 0.3, "max_output_tokens": 100_000}
"""What the Observer's model is sent if the user sets nothing and its profile supports it."""
REFLECTOR_SETTINGS: Final[ModelSettings] = {"temperature": 0, "max_output_tokens": 100_000}
"""The same for the Reflector's model."""


class ObservationConfig(Group):
    """Settings of the Observer; a mapping with the same keys works as well."""

    path: ClassVar[str] = "observation"

    model: Any = None
    """The Observer's model, if it differs from the Reflector's; to use one for both, pass
    `model` to the memory."""
    instruction: str | None = None
    """Your instructions, added to the end of the Observer's system prompt."""
    message_tokens: Tokens = 30_000
    """The size of the recent messages, in tokens, at which the Observer turns them into
    observations."""
    max_tokens_per_batch: Tokens = 10_000
    """The most tokens of other threads' messages in one Observer call, with `scope="resource"`."""
    model_settings: ModelSettings = Field(default_factory=OBSERVER_SETTINGS.copy)
    """Settings for each call of the model: `temperature`, `max_output_tokens`, `thinking_budget`
    (Google), and `extra`, a mapping for the model's client. A setting that you leave out has
    its default, and `None` sends nothing. A chat model that you pass as an object is sent only the
    settings you pass."""
    buffer_tokens: Annotated[
        int | float | Off,
        Hint("a fraction in (0, 1), a number of tokens below `message_tokens`, or False"),
    ] = 0.2
    """How often the Observer works ahead in the background: a number of new tokens, or a fraction
    of `message_tokens`; `False` turns background work off, including the Reflector's."""
    buffer_activation: Annotated[
        int | float,
        Hint("a ratio in (0, 1] to remove, or a number of tokens to keep, 1000 or more"),
    ] = 0.8
    """How much of the recent messages is replaced by observations at the threshold: a ratio, or
    the number of tokens to keep (1,000 or more)."""
    block_after: Annotated[
        int | float | None,
        Hint("a multiplier in (1, 2), or a token count greater than the threshold"),
    ] = None
    """The size of the recent messages at which a turn waits for the Observer: a multiplier of
    `message_tokens` between 1 and 2, or tokens; `None` means 1.2."""
    previous_observer_tokens: Annotated[
        Annotated[int, Field(ge=0)] | Off | None,
        Hint("a whole number of tokens, 0 or more, False for all, or None for a share"),
    ] = None
    """The most tokens of earlier observations that the Observer sees: 0 for none, `False` for all,
    `None` for a tenth of `message_tokens` (500 to 1,500). Half of them go to observations that
    share words with the messages."""
    activate_after_idle: Annotated[
        Annotated[int | float, Field(gt=0)] | Literal["auto"] | None,
        Hint("a number of seconds above 0, 'auto' for the provider's cache, or None"),
    ] = None
    """The pause, in seconds or `"auto"`, after which the next turn uses prepared observations
    before the threshold is reached. The provider's cache of the prompt is gone by then, so the
    change costs nothing. `"auto"`: as long as the last provider's cache keeps a prompt.
    Observations are also used as soon as another provider answers. `None`: only at the
    threshold."""
    extract: Annotated[Mapping[str, Any] | None, Hint(EXTRACTORS)] = None
    """Values to extract from the conversation with a second model call, by name: a schema,
    instructions for a text, or an `Extractor` with both."""
    thread_title: bool = False
    """Has the Observer suggest a title for the thread with each observation. The memory's own
    `thread_title` also asks for one after the first answer."""


class ReflectionConfig(Group):
    """Settings of the Reflector; a mapping with the same keys works as well."""

    path: ClassVar[str] = "reflection"

    model: Any = None
    """The Reflector's model, if it differs from the Observer's; to use one for both, pass
    `model` to the memory."""
    instruction: str | None = None
    """Your instructions, added to the end of the Reflector's system prompt."""
    observation_tokens: Tokens = 40_000
    """The size of the observations, in tokens, at which the Reflector condenses them."""
    model_settings: ModelSettings = Field(default_factory=REFLECTOR_SETTINGS.copy)
    """Settings for each call of the model, as in `observation`."""
    buffer_activation: Annotated[int | float, Field(gt=0, le=1)] = 0.5
    """The fraction of `observation_tokens` at which the Reflector starts in the background."""
    block_after: Annotated[
        int | float | None,
        Hint("a multiplier in (1, 2), or a token count greater than the threshold"),
    ] = None
    """The size of the observations at which a turn waits for the Reflector: a multiplier of
    `observation_tokens` between 1 and 2, or tokens; `None` means 1.2."""


class RetrievalConfig(Group):
    """Settings of the tool `recall`; a mapping with the same keys works as well."""

    path: ClassVar[str] = "retrieval"

    scope: Scope = "resource"
    """Whether the tool reads all threads of the user or only its own. Without an archive, only its
    own."""
    instructions: str | None = None
    """Your text, added after the agent's guidance about `recall`."""
    vector: bool = False
    """Whether to search by meaning too, in the graph's store."""
    inject: Annotated[
        bool | InstanceOf[InjectConfig] | Mapping[str, Any],
        Hint(
            'True, False, or a mapping such as {"top_k": 4, "message_range": 2, "min_score": 0.2}'
        ),
    ] = False
    """Whether to search with each new user message and show the agent hits: a flag, or a mapping
    with `top_k`, `message_range` and `min_score`."""


class InjectConfig(Group):
    """Settings of the search with each user message."""

    path: ClassVar[str] = "retrieval.inject"

    top_k: Annotated[int, Field(ge=1, le=50)] = 4
    """How many messages to show at most."""
    message_range: Annotated[
        _Count | Mapping[Literal["before", "after"], _Count],
        Hint('a whole number from 0 to 20, or a mapping such as {"before": 4, "after": 1}'),
    ] = 2
    """How many messages to show before and after each: one number, or one for each side."""
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """How well a message has to match; `None`: any match."""


class TitleConfig(Group):
    """How titles of threads are made."""

    path: ClassVar[str] = "thread_title"

    model: Any = None
    """The model that writes titles; `None`: the Observer's."""
    instructions: str | Callable[..., Any] | None = None
    """Your text, added after the question, or a function of the run's configuration."""
    min_messages: Annotated[int, Field(ge=2)] = 2
    """How many user messages and answers must exist before a title is requested."""
