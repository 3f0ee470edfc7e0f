"""All that is dated is dated in the user's time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ScriptedChatModel
from support.agents import on_thread

LATE = datetime(2026, 6, 2, 2, 5, tzinfo=UTC)
"""June 1, 21:05 in Bogota, and June 2, 11:05 in Tokyo."""


@pytest.mark.parametrize(
    ("context", "created", "option", "day", "zone"),
    [
        ({"timezone": "America/Bogota"}, None, "UTC", "Jun 1, 2026", "America/Bogota"),
        ({"timezone": "Asia/Tokyo"}, "2026-06-01T21:05:00-05:00", "UTC", "Jun 2", "Asia/Tokyo"),
        (None, "2026-06-01T21:05:00-05:00", "Asia/Tokyo", "Jun 1, 2026", "UTC-05:00"),
        (None, "2026-06-02T02:05:00+00:00", "America/Bogota", "Jun 1, 2026", "America/Bogota"),
        (None, None, "UTC", "Jun 2, 2026", "UTC"),
    ],
)
def test_both_prompts_are_in_the_users_zone(
    context: Any, created: str | None, option: str, day: str, zone: str
) -> None:
    asked: list[str] = []
    shown: list[str] = []

    def observe(messages: list[BaseMessage]) -> str:
        asked.append(messages[-1].text)
        return (
            "<observations>\nDate: Jun 1, 2026\n* 🔴 (21:05) Flies home tomorrow\n</observations>"
        )

    def act(messages: list[BaseMessage]) -> str:
        shown.append("\n".join(message.text for message in messages))
        return "Fine."

    memory = ObservationalMemory(
        ScriptedChatModel(observer=observe),
        observation={"message_tokens": 40, "buffer_tokens": False},
        buffering=InlineBuffering(),
        timezone=option,
        clock=lambda: LATE,
    )
    graph = create_memory_agent(
        ScriptedChatModel(act), [], memory=memory, checkpointer=InMemorySaver()
    )
    extra = {"created_at": created} if created else {}
    for at in range(3):
        message = HumanMessage(f"I fly home tomorrow, {at}. " * 8, additional_kwargs=extra)
        graph.invoke({"messages": [message]}, on_thread(), context=context)
    assert f"Date: {day}" in asked[0]
    assert f"zone, {zone}." in asked[0]
    assert f"{day}" in shown[-1].rpartition("as of ")[2]
    assert f"times in {zone}]" in shown[-1]
