"""What is said to those who pass an option that there is not, or a memory in a wrong place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from langgraph_om.core.config.checks import find_near
from langgraph_om.core.config.options import (
    ObservationConfig,
    ReflectionConfig,
    RetrievalConfig,
    TitleConfig,
)
from langgraph_om.errors import ConfigurationError

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
