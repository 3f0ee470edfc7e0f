"""The Actor's input for tests, made of settings that a test says as options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.core.actor import prompt
from support import inside
from support.flows import setup
from support.inside import NO_PARTS, MemoryRecord, Parts, Recall, RetrievalConfig, Window

_ARCHIVING = inside.Archiving(SQLAlchemyArchive("sqlite:///:memory:"))
SHARED = Parts(sharing=inside.Sharing(_ARCHIVING))


def assemble(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    *,
    today: date,
    system: Any = None,
    max_input_tokens: int | None = None,
    recall: Any = None,
    parts: Parts = NO_PARTS,
    with_reasoning: bool = True,
) -> list[BaseMessage]:
    """Assemble the Actor's input as of a day."""
    settings = replace(
        setup(),
        max_input_tokens=max_input_tokens,
        parts=replace(parts, recall=recall),
    )
    now = datetime.combine(today, time(), UTC)
    view = prompt.make_view(settings, record, messages, window, now, day=today)
    return prompt.assemble(view, record, system=system, with_reasoning=with_reasoning)


def recall_of(scope: str) -> Any:
    """What tells the Actor of recall."""
    config: Any = RetrievalConfig(scope=scope)  # type: ignore[arg-type]
    return Recall(config, None)
