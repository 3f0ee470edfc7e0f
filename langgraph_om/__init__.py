"""Observational Memory for LangGraph and LangChain agents."""

from __future__ import annotations

import typing as _typing
from importlib.metadata import version as _version
from importlib.util import find_spec as _find_spec

from langgraph_om.archive import MessageArchive
from langgraph_om.core.config.options import (
    ObservationConfig,
    ObservationOptions,
    ReflectionConfig,
    ReflectionOptions,
    RetrievalConfig,
    RetrievalOptions,
)
from langgraph_om.core.config.thresholds import Thresholds
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.tokens.counters import (
    CalibratedCounter,
    TiktokenCounter,
    TokenxCounter,
    calibration_of,
)
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import (
    ArchiveError,
    ConfigurationError,
    ModelTierError,
    ObservationalMemoryError,
    ObserverError,
)
from langgraph_om.inspection import MemoryView
from langgraph_om.integrations.agent import create_memory_agent
from langgraph_om.integrations.state_graph import ObservationalMemoryState, add_observational_memory
from langgraph_om.integrations.stream import MemoryTransformer
from langgraph_om.memory import ObservationalMemory, StepResult
from langgraph_om.models.model_value import ModelByInputTokens
from langgraph_om.runtime.executors import BackgroundBuffering, InlineBuffering, ParallelBuffering
from langgraph_om.runtime.run import MemoryContext

if _typing.TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive
    from langgraph_om.integrations.middleware import (
        ObservationalMemoryAgentState,
        ObservationalMemoryMiddleware,
    )

__all__ = [
    "ArchiveError",
    "BackgroundBuffering",
    "CalibratedCounter",
    "ConfigurationError",
    "EstimatingCounter",
    "InlineBuffering",
    "MemoryContext",
    "MemoryRecord",
    "MemoryTransformer",
    "MemoryView",
    "MessageArchive",
    "ModelByInputTokens",
    "ModelTierError",
    "ObservationConfig",
    "ObservationOptions",
    "ObservationalMemory",
    "ObservationalMemoryAgentState",
    "ObservationalMemoryError",
    "ObservationalMemoryMiddleware",
    "ObservationalMemoryState",
    "ObserverError",
    "ParallelBuffering",
    "ReflectionConfig",
    "ReflectionOptions",
    "RetrievalConfig",
    "RetrievalOptions",
    "SQLAlchemyArchive",
    "StepResult",
    "Thresholds",
    "TiktokenCounter",
    "TokenCounter",
    "TokenxCounter",
    "add_observational_memory",
    "calibration_of",
    "create_memory_agent",
]

__version__ = _version("langgraph-om")

_OF_THE_MIDDLEWARE = ("ObservationalMemoryAgentState", "ObservationalMemoryMiddleware")

if _find_spec("langchain") is None:  # a star import takes what can be imported
    __all__ = [name for name in __all__ if name not in _OF_THE_MIDDLEWARE]


def __dir__() -> list[str]:
    """List what is public, also what is imported only when it is asked for."""
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> _typing.Any:
    """Import what is heavy or optional when it is asked for: the middleware, the SQL archive.

    Raises:
        ImportError: When langchain is not installed, which the middleware needs.
    """
    if name == "SQLAlchemyArchive":
        from langgraph_om import archive  # noqa: PLC0415 SQLAlchemy takes a while to import

        return archive.SQLAlchemyArchive
    if name not in _OF_THE_MIDDLEWARE:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        from langgraph_om.integrations import middleware  # noqa: PLC0415 langchain takes a second to import
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "langchain":
            raise
        msg = (
            f"{name} needs the package 'langchain'; install it with "
            f"`pip install 'langgraph-om[agents]'`"
        )
        raise ImportError(msg) from error
    return getattr(middleware, name)
