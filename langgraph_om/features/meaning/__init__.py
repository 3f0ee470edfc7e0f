"""Search by meaning: observations and messages, indexed in the run's LangGraph store."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import TypedDict

from langgraph_om.core.config.options import Flag


class VectorOptions(TypedDict, total=False):
    """The key of the option `retrieval` for search by meaning."""

    vector: Flag
    """Whether search is by meaning too, in the graph's store, beside the search by words."""


@dataclass(frozen=True, kw_only=True)
class VectorConfig:
    """The same as a field of `RetrievalConfig`."""

    vector: bool = False
