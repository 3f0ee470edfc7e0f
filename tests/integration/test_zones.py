"""All that is dated is dated in the user's time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ScriptedChatModel
from langgraph_om.tools.inspector import memory_app
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


USERS = {"America/Bogota": "Jun 1, 2026", "Asia/Tokyo": "Jun 2, 2026"}
"""The day it is for each, at the same moment."""


class Desk:
    """One memory for users on both sides of midnight."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.memory = ObservationalMemory(ScriptedChatModel(), clock=lambda: LATE)
        model = ScriptedChatModel(self.answer)
        self.graph = create_memory_agent(
            model, [], memory=self.memory, checkpointer=InMemorySaver()
        )

    def answer(self, messages: list[BaseMessage]) -> str:
        self.shown.append("\n".join(message.text for message in messages))
        return "Fine."

    def say(self, zone: str, said: str, **run: Any) -> Any:
        """Say something at that moment, in a thread of the user, whose zone the run tells."""
        config = on_thread(zone)
        config["configurable"].update(run)
        sent = HumanMessage(said, additional_kwargs={"created_at": LATE.isoformat()})
        return self.graph.invoke({"messages": [sent]}, config, context={"timezone": zone})

    def of(self, zone: str) -> Any:
        return self.memory.of(self.graph, on_thread(zone))


@pytest.mark.parametrize("zone", USERS)
def test_what_a_person_notes_is_of_the_users_day(zone: str) -> None:
    desk = Desk()
    for each in USERS:
        desk.say(each, "Hello")
    desk.of(zone).remember("Likes tea")
    assert f"Date: {USERS[zone]}\n" in str(desk.of(zone).view())
    hour = {"America/Bogota": "2026-06-01 21:05", "Asia/Tokyo": "2026-06-02 11:05"}[zone]
    assert hour in desk.of(zone).view().to_html()


@pytest.mark.parametrize("zone", USERS)
async def test_the_inspector_shows_the_users_times(zone: str) -> None:
    desk = Desk()
    for each in USERS:
        desk.say(each, "The gate code is 4711.")
    transport = httpx.ASGITransport(app=memory_app(desk.memory, graph=desk.graph))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        page = (await web.get(f"/memory/{quote(zone, safe='')}")).text
    assert ("2026-06-01 21:05" if zone == "America/Bogota" else "2026-06-02 11:05") in page
