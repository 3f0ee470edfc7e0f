"""Earlier messages that may bear on what the user says, shown without being asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from langgraph_om.core.config.options import Hint, Takes

_Count = Annotated[int, Field(ge=0, le=20)]


class MessageRange(TypedDict, total=False):
    """How many messages around one that was found are shown."""

    before: int
    """Those before it."""
    after: int
    """Those after it."""


class InjectOptions(TypedDict, total=False):
    """The option `retrieval.inject` as a mapping."""

    top_k: Annotated[int, Field(ge=1, le=50), Hint("a whole number from 1 to 50")]
    """How many messages at most."""
    message_range: Annotated[
        int | MessageRange,
        Takes(_Count | Mapping[Literal["before", "after"], _Count]),
        Hint('a whole number from 0 to 20, or a mapping such as {"before": 4, "after": 1}'),
    ]
    """How many messages before and after each of them are shown with it: one number, or one for
    each side (0 where it is left out)."""
    min_score: Annotated[
        float | None, Field(ge=0, le=1, allow_inf_nan=False), Hint("a number from 0 to 1, or None")
    ]
    """How well a message has to match; `None`: whatever is found."""


@dataclass(frozen=True, kw_only=True)
class InjectConfig:
    """What is found for a message of the user, and shown with it; `{}` means the defaults."""

    keys = InjectOptions

    top_k: int = 4
    message_range: int | MessageRange = 2
    min_score: float | None = None


class InjectKeys(TypedDict, total=False):
    """The key of the option `retrieval` for what is shown without asking."""

    inject: Annotated[
        bool | InjectOptions,
        Takes(bool | Mapping[Any, Any]),
        Hint(
            'True, False, or a mapping such as {"top_k": 4, "message_range": 2, "min_score": 0.2}'
        ),
    ]
    """Whether each new message of the user is searched for, and what is found shown before it: a
    flag, or a mapping with `top_k`, `message_range` and `min_score`, see `InjectConfig`."""


@dataclass(frozen=True, kw_only=True)
class InjectField:
    """The same as a field of `RetrievalConfig`."""

    inject: bool | InjectOptions = False
