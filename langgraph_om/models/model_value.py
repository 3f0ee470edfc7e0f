"""Check and read model values: a model, or a list, tiers or a function of such values.

Nothing here calls a value. A leaf is a name, a chat model or a runnable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig

from langgraph_om.errors import ConfigurationError, ModelTierError

Leaf = str | Runnable[Any, Any]
"""A model by name, or as an object."""

EXAMPLE: Final = "openai:gpt-6-luna"
"""A name as errors show it."""


class ModelByInputTokens:
    """Choose a model by the tokens of its input: the smallest tier that covers it.

        >>> tiers = ModelByInputTokens({10_000: "openai/small", 200_000: "openai/large"})
        >>> tiers.resolve(10_000), tiers.resolve(10_001)
        ('openai/small', 'openai/large')

    All tokens of the question count: prompt, earlier observations and messages.

    Args:
        up_to: The model value of each tier by its largest input in tokens, in any order.

    Raises:
        ConfigurationError: When there is no tier, a limit is not a whole number above 0, or a value
            is not a model value.
    """

    def __init__(self, up_to: Mapping[int, ModelValue]) -> None:
        if not isinstance(up_to, Mapping) or not up_to:
            msg = f"`up_to` is {up_to!r}; pass a mapping such as {{100_000: {EXAMPLE!r}}}"
            raise ConfigurationError(msg)
        for limit in up_to:
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
                msg = f"`up_to` has the key {limit!r}; pass a whole number of tokens, 1 or more"
                raise ConfigurationError(msg)
        self._tiers: dict[int, ModelValue] = {limit: up_to[limit] for limit in sorted(up_to)}
        for limit, target in self._tiers.items():
            for _ in leaves_of(f"up_to[{limit}]", target):
                pass

    @property
    def thresholds(self) -> list[int]:
        """The limits of the tiers, ascending."""
        return list(self._tiers)

    def resolve(self, input_tokens: int) -> ModelValue:
        """Return the model value for an input.

        Raises:
            ModelTierError: When the input is larger than the largest limit.
        """
        limits = self.thresholds
        at = bisect_left(limits, input_tokens)
        if at == len(limits):
            msg = (
                f"the input has {input_tokens} tokens, and the tiers of ModelByInputTokens reach "
                f"up to {', '.join(map(str, limits))}; add a tier for larger inputs"
            )
            raise ModelTierError(msg)
        return self._tiers[limits[at]]

    def __repr__(self) -> str:
        return f"ModelByInputTokens({self._tiers!r})"


ModelValue = (
    str
    | BaseChatModel
    | Runnable[Any, Any]
    | ModelByInputTokens
    | Sequence[Any]
    | Callable[[RunnableConfig], Any]
)
"""A name (`"provider/model"`), a chat model, a runnable from messages to a message, tiers, a
function of the run's configuration that returns one of these, or a list of fallbacks, whose entries
are model values or `{"model": ..., "max_retries": n}`."""


def is_leaf(value: object) -> TypeGuard[Leaf]:
    """Return whether a value is a single model."""
    return isinstance(value, str | Runnable)


def name_object(model: object) -> str:
    """Name a model that is an object: its class, and the model behind it if it says."""
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    kind = type(model).__name__
    return f"{kind}({name})" if isinstance(name, str) else kind


def show_model(value: object) -> str:
    """Write a model value into an error: a model as an object by its name, all else as code."""
    return name_object(value) if isinstance(value, Runnable) else repr(value)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list of fallbacks."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def is_choice(value: object) -> TypeGuard[Callable[[RunnableConfig], Any]]:
    """Return whether a value is a function that chooses a model value."""
    return callable(value) and not isinstance(value, type | str | Runnable | ModelByInputTokens)


def entries_of(value: Sequence[Any], retries: int | None) -> list[tuple[Any, int | None]]:
    """Return the model values of a list, each with its retries.

    Args:
        retries: Retries of entries that do not set any.
    """
    return [
        (entry["model"], entry.get("max_retries", retries))
        if isinstance(entry, Mapping)
        else (entry, retries)
        for entry in value
    ]


def leaves_of(option: str, value: object, within: tuple[int, ...] = ()) -> Iterator[_Named]:
    """Yield every model in a value that is known without calling anything.

    Args:
        within: The values that it stands in, by `id`.

    Yields:
        The beginning of an error about a model, and the model.

    Raises:
        ConfigurationError: For anything that is not a model value, and for a list that contains
            itself.
    """
    if is_leaf(value):
        yield f"`{option}` is {show_model(value)}", value
        return
    if is_choice(value):
        return
    inside: list[tuple[object, object]] = []
    if isinstance(value, ModelByInputTokens):
        inside = [(limit, value.resolve(limit)) for limit in value.thresholds]
    elif is_list(value):
        inside = [(at, _read_entry(f"{option}[{at}]", entry)) for at, entry in enumerate(value)]
    if not inside or id(value) in within:
        msg = f"`{option}` is {show_model(value)}; {_HINT}"
        raise ConfigurationError(msg)
    for step, entry in inside:
        yield from leaves_of(f"{option}[{step!r}]", entry, (*within, id(value)))


_Named = tuple[str, Leaf]
_HINT = (
    f"pass a name such as {EXAMPLE!r}, a chat model, a runnable over messages, a function "
    "of the run's configuration, a list of fallbacks that does not contain itself, or a "
    "ModelByInputTokens"
)


def _read_entry(option: str, entry: object) -> object:
    """Return the model value of an entry of a list, whose retries are checked."""
    if not isinstance(entry, Mapping):
        return entry
    retries = entry.get("max_retries", 0)
    is_count = isinstance(retries, int) and not isinstance(retries, bool) and retries >= 0
    if "model" not in entry or not entry.keys() <= {"model", "max_retries"} or not is_count:
        wanted = {"model": EXAMPLE, "max_retries": 2}
        msg = f"`{option}` is {entry!r}; pass a model, or {wanted}"
        raise ConfigurationError(msg)
    return entry["model"]
