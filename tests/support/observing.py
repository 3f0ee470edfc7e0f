"""A memory that observes once for `SAID`, and models that answer or fail."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om import ObservationalMemory, StepResult
from langgraph_om.testing import ScriptedChatModel
from support.clock import Clock

NOTED = "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User goes to Lisbon\n</observations>"
SAID = [HumanMessage("We are planning a trip to Lisbon. " * 20, id=f"h{at}") for at in range(2)]
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def answering(text: str = NOTED) -> ScriptedChatModel:
    return ScriptedChatModel(observer=text)


def remembering(model: Any, **options: Any) -> ObservationalMemory:
    return ObservationalMemory(
        model,
        observation={
            "message_tokens": 300,
            "buffer_tokens": False,
            "previous_observer_tokens": 0,
            **options.pop("observation", {}),
        },
        clock=Clock(),
        **options,
    )


async def observe(
    memory: ObservationalMemory, *, is_async: bool = False, config: RunnableConfig | None = None
) -> StepResult:
    if is_async:
        return await memory.astep(None, SAID, thread_id="t", config=config)
    return memory.step(None, SAID, thread_id="t", config=config)


def failure(result: StepResult) -> str:
    assert result.record["log"] == []
    (part,) = [part for part in result.events if part["type"] == "data-om-observation-failed"]
    return str(part["data"]["error"])
