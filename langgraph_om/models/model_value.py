"""Check and read model values: a model, or a list, tiers or a function of such values.

Nothing here calls a value. A leaf is a name, a chat model or a runnable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
            if not covers(target, limit):
                shown = show_model(target)
                msg = f"`up_to[{limit}]` is {shown}, which does not reach up to {limit} tokens"
                raise ConfigurationError(msg)

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


def show_model(value: object, parents: tuple[int, ...] = ()) -> str:
    """Write a model value into an error: objects by class and name, all else as code.

    Args:
        parents: Lists that it stands in, by `id`; one of them is not written again.
    """
    if id(value) in parents:
        return "[...]"
    inside = (*parents, id(value))
    if isinstance(value, Runnable):
        return name_object(value)
    if isinstance(value, ModelByInputTokens):
        tiers = {limit: value.resolve(limit) for limit in value.thresholds}
        return f"ModelByInputTokens({show_model(tiers, inside)})"
    if isinstance(value, dict):
        pairs = (f"{key!r}: {show_model(entry, inside)}" for key, entry in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        entries = ", ".join(show_model(entry, inside) for entry in value)
        return f"[{entries}]" if isinstance(value, list) else f"({entries})"
    return repr(value)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list of fallbacks."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def is_choice(value: object) -> TypeGuard[Callable[[RunnableConfig], Any]]:
    """Return whether a value is a function that chooses a model value."""
    return callable(value) and not isinstance(value, type | str | Runnable | ModelByInputTokens)


def has_choice(value: object) -> bool:
    """Return whether a checked value contains a function."""
    if isinstance(value, ModelByInputTokens):
        return any(has_choice(value.resolve(limit)) for limit in value.thresholds)
    if is_list(value):
        return any(has_choice(entry) for entry, _ in entries_of(value, None))
    return is_choice(value)


def covers(value: object, input_tokens: int) -> bool:
    """Return whether a checked value has a model for an input; a function may have one."""
    if isinstance(value, ModelByInputTokens):
        return input_tokens <= value.thresholds[-1] and covers(
            value.resolve(input_tokens), input_tokens
        )
    if is_list(value):
        return any(covers(entry, input_tokens) for entry, _ in entries_of(value, None))
    return True


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


def leaves_of(option: str, value: object) -> Iterator[tuple[str, Leaf]]:
    """Yield every model in a value that is known without calling anything.

    Yields:
        The beginning of an error about a model, and the model.

    Raises:
        ConfigurationError: For anything that is not a model value, and for a list that contains
            itself.
    """
    for place, leaf in _walk_leaves(_Place(option, value), value, ()):
        yield str(place), leaf


_HINT = (
    f"pass a name such as {EXAMPLE!r}, a chat model, a runnable over messages, a function "
    "of the run's configuration, a list of fallbacks, or a ModelByInputTokens"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value is in a setting."""

    option: str
    root: object
    steps: str = ""
    value: object = None

    def at(self, step: object, value: object) -> _Place:
        return replace(self, steps=f"{self.steps}[{step!r}]", value=value)

    def __str__(self) -> str:
        setting = f"`{self.option}` is {show_model(self.root)}"
        if not self.steps:
            return setting
        return f"{setting}, where `{self.option}{self.steps}` is {show_model(self.value)}"

    def refuse(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"{self}; {why}")


def _walk_leaves(
    place: _Place, value: object, path: tuple[int, ...]
) -> Iterator[tuple[_Place, Leaf]]:
    if is_leaf(value):
        yield place, value
        return
    if is_choice(value):
        return
    if id(value) in path:
        why = "that is a list that contains itself; pass one that ends"
        raise place.refuse(why)
    inside: Iterator[tuple[object, object]]
    if isinstance(value, ModelByInputTokens):
        inside = iter([(limit, value.resolve(limit)) for limit in value.thresholds])
    elif is_list(value) and value:
        inside = enumerate(value)
    else:
        raise place.refuse(_HINT)
    for step, entry in inside:
        there = place.at(step, entry)
        target = _read_entry(there, entry) if is_list(value) else entry
        yield from _walk_leaves(there, target, (*path, id(value)))


def _read_entry(place: _Place, entry: object) -> object:
    """Return the model value of an entry of a list, whose retries are checked."""
    if not isinstance(entry, Mapping):
        return entry
    retries = entry.get("max_retries", 0)
    is_count = isinstance(retries, int) and not isinstance(retries, bool) and retries >= 0
    if "model" not in entry or not entry.keys() <= {"model", "max_retries"} or not is_count:
        why = f"pass a model, or {{'model': {EXAMPLE!r}, 'max_retries': 2}}"
        raise place.refuse(why)
    return entry["model"]
