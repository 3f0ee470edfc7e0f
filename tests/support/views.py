"""The Actor's input for tests, made of settings that a test says as options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.actor import prompt
from langgraph_om.core.config.settings import NO_FEATURES, Features
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import MemoryRecord
from support.flows import setup


def assemble(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    *,
    today: date,
    system: Any = None,
    max_input_tokens: int | None = None,
    guide: Any = None,
    features: Features = NO_FEATURES,
    with_reasoning: bool = True,
) -> list[BaseMessage]:
    """Assemble the Actor's input as of a day."""
    settings = replace(
        setup(),
        guide=guide,
        max_input_tokens=max_input_tokens,
        features=features,
    )
    view = prompt.make_view(settings, record, messages, window, today)
    return prompt.assemble(view, record, messages, system=system, with_reasoning=with_reasoning)
