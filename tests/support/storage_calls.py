"""Records, messages and the calls of a flow, for tests of what a step archives or exchanges."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.core.effects import Storage, Warn
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ArchiveError
from support.driving import FlowRun
from support.flows import settings

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SETTINGS = settings()
DOWN = ArchiveError("the disk is full")
PLACE = "sqlite:///talk.db"
SAID_ONCE = f"(at {PLACE}; logged once until it responds)"


def said(*keys: str) -> list[BaseMessage]:
    return [
        (HumanMessage if key.startswith("h") else AIMessage)(f"text of {key}", id=key)
        for key in keys
    ]


def opened(scope: str = "thread", **fields: Any) -> MemoryRecord:
    opening = {
        "type": "opened",
        "id": "om-1",
        "thread_id": "t",
        "resource_id": "ana",
        "scope": scope,
    }
    return cast("MemoryRecord", {**fold(blank_record(), [opening]), **fields})


def calls(run: FlowRun[Any]) -> list[str]:
    return [effect.method for effect in run.effects if isinstance(effect, Storage)]


def warnings(run: FlowRun[Any]) -> list[str]:
    return [each.text % tuple(each.arguments) for each in run.effects if isinstance(each, Warn)]
