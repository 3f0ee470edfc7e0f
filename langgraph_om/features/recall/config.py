"""The option `retrieval`: its own settings, and those of the features that need recall.

To remove one of these, delete the lines here that name it, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import InstanceOf
from typing_extensions import TypedDict

from langgraph_om.core.config.options import (
    DefaultText,
    Hint,
    Preset,
    Takes,
    Text,
    is_default,
    one_of,
)
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.config.thresholds import as_config, check_config
from langgraph_om.core.wire import Scope
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.inject.config import InjectField, InjectKeys
from langgraph_om.features.meaning.config import VectorConfig, VectorOptions

logger = logging.getLogger("langgraph_om")

_WIDEST: Final[Any] = DefaultText("resource")


class RecallKeys(TypedDict, total=False):
    """The keys of the option `retrieval` for the tool."""

    scope: Annotated[Scope, one_of(Scope)]
    """Whether the tool reaches other threads of the resource, or only its own thread. Left out, and
    without an archive, it is its own thread."""
    instructions: Text
    """Added to the guidance the Actor gets about recall."""


class RetrievalOptions(
    InjectKeys,
    VectorOptions,
    RecallKeys,
    total=False,
):
    """The option `retrieval` as a mapping; `RetrievalConfig` is the same as a class."""


@dataclass(frozen=True, kw_only=True)
class RecallConfig:
    """The same as fields of `RetrievalConfig`."""

    scope: Scope = _WIDEST
    instructions: str | None = None


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig(
    InjectField,
    VectorConfig,
    RecallConfig,
):
    """How the recall tool reaches back to raw messages; `{}` switches it on with defaults.

    `RetrievalOptions` says what each of its settings means.
    """

    keys = RetrievalOptions


class RecallOptions(TypedDict, total=False):
    """The option of recall."""

    retrieval: Annotated[
        bool | RetrievalConfig | RetrievalOptions,
        Takes(bool | InstanceOf[RetrievalConfig] | Mapping[Any, Any]),
        Hint("True, False, a RetrievalConfig or a mapping"),
        Preset(value=False),
    ]
    """Whether the Actor gets the tool `recall`, which reads the messages behind observations: a
    flag, a `RetrievalConfig` or a mapping. Without an archive it reads the current thread; with
    one, all threads of the resource. With `{"inject": True}` each new message of the user is
    searched for, and shown with the hits."""


def read_retrieval(setup: Setup) -> RetrievalConfig | None:
    """Read the option `retrieval`: nothing when it is off.

    Raises:
        ConfigurationError: When a setting of it cannot be meant, or it reaches further than what
            is kept.
    """
    value = setup.options["retrieval"]
    if value is False:
        return None
    config = as_config(RetrievalConfig, "retrieval", None if value is True else value)
    check_config("retrieval", config)
    if config.scope == "thread" or setup.options.get("archive") is not None:
        return config
    if not is_default(config.scope):
        msg = (
            "`retrieval.scope` is 'resource' and there is no `archive`, which keeps the messages "
            "of other threads; set `archive`, or pass 'thread'"
        )
        raise ConfigurationError(msg)
    return replace(config, scope="thread")
