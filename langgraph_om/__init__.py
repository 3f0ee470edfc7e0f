"""Observational Memory for LangGraph and LangChain agents."""

from __future__ import annotations

from importlib.metadata import version as _version

from langgraph_om.agent import create_memory_agent
from langgraph_om.buffering import BackgroundBuffering, InlineBuffering, ParallelBuffering
from langgraph_om.core.config import (
    ObservationConfig,
    ReflectionConfig,
    RetrievalConfig,
    Thresholds,
)
from langgraph_om.core.counters import TiktokenCounter, TokenxCounter
from langgraph_om.core.record import MemoryRecord
from langgraph_om.core.tokens import TokenCounter
from langgraph_om.core.view import MemoryView
from langgraph_om.errors import (
    ConfigurationError,
    ModelTierError,
    ObservationalMemoryError,
    ObserverError,
)
from langgraph_om.graph import ObservationalMemoryState, add_observational_memory
from langgraph_om.memory import ObservationalMemory, StepResult

__all__ = [
    "BackgroundBuffering",
    "ConfigurationError",
    "InlineBuffering",
    "MemoryRecord",
    "MemoryView",
    "ModelTierError",
    "ObservationConfig",
    "ObservationalMemory",
    "ObservationalMemoryError",
    "ObservationalMemoryState",
    "ObserverError",
    "ParallelBuffering",
    "ReflectionConfig",
    "RetrievalConfig",
    "StepResult",
    "Thresholds",
    "TiktokenCounter",
    "TokenCounter",
    "TokenxCounter",
    "add_observational_memory",
    "create_memory_agent",
]

__version__ = _version("langgraph-om")
