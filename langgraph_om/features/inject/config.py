"""The option `retrieval.inject`: how many earlier messages are shown, and which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from langgraph_om.core.config.options import Hint


class InjectOptions(TypedDict, total=False):
    """The option `retrieval.inject` as a mapping; `InjectConfig` says what its keys mean."""

    top_k: int
    """How many messages at most."""
    message_range: int
    """How many messages before and after each of them are shown with it."""
    min_score: float | None
    """How well a message has to match; `None`: whatever is found."""


@dataclass(frozen=True, kw_only=True)
class InjectConfig:
    """What is found for a message of the user, and shown with it; `{}` means the defaults.

    Args:
        top_k: How many messages at most.
        message_range: How many messages before and after each of them are shown with it.
        min_score: How well a message has to match; `None`: whatever is found.
    """

    top_k: Annotated[int, Field(ge=1, le=50), Hint("a whole number from 1 to 50")] = 4
    message_range: Annotated[int, Field(ge=0, le=20), Hint("a whole number from 0 to 20")] = 2
    min_score: Annotated[
        float | None, Field(ge=0, le=1, allow_inf_nan=False), Hint("a number from 0 to 1, or None")
    ] = None


class InjectKeys(TypedDict, total=False):
    """The key of the option `retrieval` for what is shown without asking."""

    inject: bool | InjectOptions
    """Whether each new message of the user is searched for, and what is found shown before it: a
    flag, or a mapping with `top_k`, `message_range` and `min_score`, see `InjectConfig`."""


@dataclass(frozen=True, kw_only=True)
class InjectField:
    """The same as a field of `RetrievalConfig`.

    Args:
        inject: Whether each new message of the user is searched for, and what is found shown before
            it: a flag, or a mapping with `top_k`, `message_range` and `min_score`, see
            `InjectConfig`.
    """

    inject: Annotated[
        bool | InjectOptions,
        Hint(
            'True, False, or a mapping such as {"top_k": 4, "message_range": 2, "min_score": 0.2}'
        ),
    ] = False
