"""An archive that fails: one warning an outage, with its place, and nothing that grows."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ScriptedChatModel
from support.agents import make_agent, on_thread, scripted, turn


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize("scope", ["thread", "resource"])
def test_an_outage_is_warned_of_once_with_its_place(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, scope: str
) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    memory = ObservationalMemory(
        ScriptedChatModel(),
        observation={"buffer_tokens": False},
        archive=f"sqlite:///{folder / 'x.db'}",
        scope=scope,
    )
    folder.rmdir()  # which is not mounted when the first turns are spoken
    config = {"configurable": {"thread_id": "t", "resource_id": "ana"}}
    messages, record = [], None

    def talk(turns: int) -> None:
        nonlocal record
        for _ in range(turns):
            messages.append(HumanMessage("hello", id=f"h{len(messages)}"))
            record = memory.step(record, messages, config=config).record

    talk(4)
    (first,) = said(caplog)
    assert "the archive" in first
    assert f"sqlite:///{folder / 'x.db'}" in first
    folder.mkdir()
    talk(2)
    assert len(said(caplog)) == 1
    archive = memory.archive
    assert archive is not None
    kept = [each.key for each in archive.messages("t", start=0, limit=99)]
    assert kept == [message.id for message in messages]


def test_the_place_of_an_archive_shows_no_password() -> None:
    archive = SQLAlchemyArchive("postgresql://ana:secret@host/db?password=secret")
    assert "secret" not in archive.place
    assert "host/db" in archive.place


class HangingArchive(SQLAlchemyArchive):
    """Lets whoever appends wait, once it hangs."""

    def __init__(self) -> None:
        super().__init__("sqlite://")
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def append(self, *arguments: Any, **options: Any) -> str | None:
        assert self.may_go_on.wait(60)
        return super().append(*arguments, **options)


@pytest.mark.parametrize("door", ["agent", "middleware"])
async def test_a_cancelled_run_whose_archive_hangs_keeps_its_question(
    door: str,
) -> None:
    archive = HangingArchive()
    agent = make_agent(door, InMemorySaver(), archive=archive)
    await agent.graph.ainvoke({"messages": [turn(0)]}, on_thread())
    archive.may_go_on.clear()
    try:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await agent.graph.ainvoke({"messages": [turn(1)]}, on_thread())
        assert time.monotonic() - began < 90
        state = await agent.graph.aget_state(on_thread())
        said = [message.id for message in state.values["messages"]]
        assert said == ["h0", "h0-answer", "h1"]
    finally:
        archive.may_go_on.set()
    await agent.graph.ainvoke(None, on_thread())
    kept = [each.key for each in archive.messages("t", limit=9)]
    assert kept == ["h0", "h0-answer", "h1", "h1-answer"]


@pytest.mark.parametrize("door", ["agent", "middleware"])
def test_runs_whose_archive_hangs_leave_the_loop_its_threads(door: str) -> None:
    archive = HangingArchive()
    agent = make_agent(door, InMemorySaver(), archive=archive)

    async def talk() -> None:
        threads = [on_thread(f"t{number}") for number in range(40)]
        for thread in threads:
            await agent.graph.ainvoke({"messages": [turn(0)]}, thread)
        archive.may_go_on.clear()
        runs = [
            asyncio.create_task(agent.graph.ainvoke({"messages": [turn(1)]}, thread))
            for thread in threads
        ]
        await asyncio.sleep(2)
        await asyncio.wait_for(asyncio.to_thread(time.monotonic), 60)
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    try:
        began = time.monotonic()
        asyncio.run(talk())
        assert time.monotonic() - began < 90
    finally:
        archive.may_go_on.set()


async def test_answers_with_one_id_in_several_threads_are_noted_in_their_own() -> None:
    """A model may number its answers in each conversation anew."""
    archive, threads = HangingArchive(), range(12)
    answers = (AIMessage("Noted.", id=f"answer-{n // len(threads)}") for n in count())
    graph = create_memory_agent(
        GenericFakeChatModel(messages=answers),
        memory=ObservationalMemory(scripted(), archive=archive),
        checkpointer=InMemorySaver(),
    )

    def say(thread: int) -> asyncio.Task[Any]:
        said = HumanMessage(f"I am {thread}.")
        run = graph.ainvoke({"messages": [said]}, on_thread(f"t{thread}"))
        return asyncio.create_task(run)

    await asyncio.gather(*map(say, threads))
    archive.may_go_on.clear()
    runs = [*map(say, threads)]
    await asyncio.sleep(3)
    archive.may_go_on.set()
    states = await asyncio.gather(*runs)
    assert len({state["om"]["branch"] for state in states}) == len(threads)
