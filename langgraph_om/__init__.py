"""Observational Memory for LangGraph and LangChain agents."""

from __future__ import annotations

import re as _re
import typing as _typing
from importlib import import_module as _import_module
from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version
from importlib.util import find_spec as _find_spec

if _typing.TYPE_CHECKING:
    from langgraph_om.adoption import AdoptProgress, AdoptReport
    from langgraph_om.archive import ArchivedThread, SQLAlchemyArchive
    from langgraph_om.core.config.options import (
        ObservationConfig,
        ReflectionConfig,
        RetrievalConfig,
    )
    from langgraph_om.core.config.thresholds import Thresholds
    from langgraph_om.core.tokens import EstimatingCounter, TokenCounter
    from langgraph_om.core.wire import JobRequest, MemoryRecord
    from langgraph_om.deletion import PruneReport
    from langgraph_om.errors import (
        ArchiveError,
        ConfigurationError,
        ItemError,
        ModelTierError,
        ObservationalMemoryError,
        ObserverError,
        ThreadBusyError,
    )
    from langgraph_om.features.extract import Extractor
    from langgraph_om.features.working_memory import WorkingMemory
    from langgraph_om.handle import ThreadMemory
    from langgraph_om.integrations.middleware import (
        ObservationalMemoryAgentState,
        ObservationalMemoryMiddleware,
    )
    from langgraph_om.integrations.nodes import MemoryTransformer
    from langgraph_om.integrations.redaction import redactor
    from langgraph_om.integrations.state_graph import (
        ObservationalMemoryState,
        add_observational_memory,
        create_memory_agent,
    )
    from langgraph_om.integrations.worker_graph import worker_graph
    from langgraph_om.memory import ObservationalMemory
    from langgraph_om.models.model_value import ModelByInputTokens
    from langgraph_om.options import MemoryOptions
    from langgraph_om.runtime.executors import BackgroundBuffering, Executor, InlineBuffering
    from langgraph_om.runtime.jobs import ServerBuffering
    from langgraph_om.runtime.run import MemoryContext
    from langgraph_om.runtime.turn import StepResult
    from langgraph_om.searching import SearchHit
    from langgraph_om.tools.view import MemoryView

__all__ = [
    "AdoptProgress",
    "AdoptReport",
    "ArchiveError",
    "ArchivedThread",
    "BackgroundBuffering",
    "ConfigurationError",
    "EstimatingCounter",
    "Executor",
    "Extractor",
    "InlineBuffering",
    "ItemError",
    "JobRequest",
    "MemoryContext",
    "MemoryOptions",
    "MemoryRecord",
    "MemoryTransformer",
    "MemoryView",
    "ModelByInputTokens",
    "ModelTierError",
    "ObservationConfig",
    "ObservationalMemory",
    "ObservationalMemoryAgentState",
    "ObservationalMemoryError",
    "ObservationalMemoryMiddleware",
    "ObservationalMemoryState",
    "ObserverError",
    "PruneReport",
    "ReflectionConfig",
    "RetrievalConfig",
    "SQLAlchemyArchive",
    "SearchHit",
    "ServerBuffering",
    "StepResult",
    "ThreadBusyError",
    "ThreadMemory",
    "Thresholds",
    "TokenCounter",
    "WorkingMemory",
    "add_observational_memory",
    "create_memory_agent",
    "redactor",
    "worker_graph",
]

__version__ = _version("langgraph-om")

_NAMES = {
    "adoption": ("AdoptProgress", "AdoptReport"),
    "deletion": ("PruneReport",),
    "archive": ("ArchivedThread", "SQLAlchemyArchive"),
    "core.config.options": ("ObservationConfig", "ReflectionConfig", "RetrievalConfig"),
    "core.config.thresholds": ("Thresholds",),
    "core.tokens": ("EstimatingCounter", "TokenCounter"),
    "core.wire": ("JobRequest", "MemoryRecord"),
    "errors": (
        *("ArchiveError", "ConfigurationError", "ItemError", "ModelTierError"),
        *("ObservationalMemoryError", "ObserverError", "ThreadBusyError"),
    ),
    "features.extract": ("Extractor",),
    "features.working_memory": ("WorkingMemory",),
    "handle": ("ThreadMemory",),
    "tools.view": ("MemoryView",),
    "integrations.middleware": ("ObservationalMemoryAgentState", "ObservationalMemoryMiddleware"),
    "integrations.nodes": ("MemoryTransformer",),
    "integrations.redaction": ("redactor",),
    "integrations.state_graph": (
        "ObservationalMemoryState",
        "add_observational_memory",
        "create_memory_agent",
    ),
    "integrations.worker_graph": ("worker_graph",),
    "memory": ("ObservationalMemory",),
    "models.model_value": ("ModelByInputTokens",),
    "options": ("MemoryOptions",),
    "runtime.executors": (*("BackgroundBuffering", "Executor", "InlineBuffering"),),
    "runtime.run": ("MemoryContext",),
    "runtime.jobs": ("ServerBuffering",),
    "runtime.turn": ("StepResult",),
    "searching": ("SearchHit",),
}
"""The public names, by module. Each is imported on first use: all together take a third of a
second, and code that handles errors or reads records needs none of the others."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

_MIDDLEWARE = ("integrations.middleware",)
"""What needs langchain."""

if _find_spec("langchain") is None:  # a star import takes what can be imported
    __all__ = [name for name in __all__ if _HOMES.get(name) not in _MIDDLEWARE]


def __dir__() -> list[str]:
    """List what is public, also what is imported only when it is asked for."""
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> _typing.Any:
    """Import what is asked for.

    Raises:
        ImportError: When langchain, which the middleware needs, is not installed or is too old.
    """
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        module = _import_module(f"{__name__}.{_HOMES[name]}")
    except ImportError as error:
        problem = _describe_missing_langchain() if _HOMES[name] in _MIDDLEWARE else None
        if problem is None or (error.name or "").partition(".")[0] != "langchain":
            raise
        msg = (
            f"{name} needs the package 'langchain' {_LANGCHAIN_FLOOR} or newer, and {problem}; "
            f"install it with `pip install --upgrade 'langgraph-om[agents]'`"
        )
        raise ImportError(msg) from error
    return getattr(module, name)


_LANGCHAIN_FLOOR = "1.3.15"
"""The first version of langchain that has all that the middleware is built on."""


def _describe_missing_langchain() -> str | None:
    """Say what is wrong with the langchain that is installed; `None` when it is recent enough."""
    try:
        installed = _version("langchain")
    except _PackageNotFoundError:
        return "it is not installed"
    if _read_release(installed) < _read_release(_LANGCHAIN_FLOOR):
        return f"{installed} is installed"
    return None


def _read_release(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: (1, 3, 15) of 1.3.15rc1."""
    release = _re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()
