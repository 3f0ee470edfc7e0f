"""An archive that somebody else has locked: turns go on, and nothing but a look waits for it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import event

from langgraph_om.archive import SQLAlchemyArchive
from support.agents import Agent, dumped, make_agent, uncovered, values
from support.processes import workers
from support.processes.workers import Place, answer, asked, config

PATIENCE = 1.0
"""Seconds that the archive waits for a lock in these tests."""


@pytest.fixture
def impatient(place: Place) -> Place:
    """An archive that does not wait long."""
    if place.saver == "sqlite":
        return replace(place, archive=f"{place.archive}?timeout={PATIENCE}")
    options = f"-c%20lock_timeout={round(PATIENCE * 1000)}"
    joint = "&" if "?" in place.archive else "?"
    return replace(place, archive=f"{place.archive}{joint}options={options}")


@contextmanager
def locked(place: Place) -> Iterator[None]:
    """Keep all others from writing."""
    if place.saver == "sqlite":
        path = place.archive.removeprefix("sqlite:///").partition("?")[0]
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
        connection.close()
        return
    with psycopg.connect(place.checkpoints) as server:
        for table in ("om_threads", "om_jobs"):
            server.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        yield
        server.rollback()


@contextmanager
def watched(archive: SQLAlchemyArchive) -> Iterator[tuple[list[str], list[str]]]:
    """The threads in which the database is asked, and those in which it was asked in vain."""
    asking: list[str] = []
    refused: list[str] = []

    def ask(*_: Any) -> None:
        asking.append(threading.current_thread().name)

    def refuse(_: Any) -> None:
        refused.append(threading.current_thread().name)

    engine = archive.engine
    event.listen(engine, "before_cursor_execute", ask)
    event.listen(engine, "handle_error", refuse)
    yield asking, refused
    event.remove(engine, "before_cursor_execute", ask)
    event.remove(engine, "handle_error", refuse)


def ready(place: Place) -> tuple[Agent, SQLAlchemyArchive]:
    archive = SQLAlchemyArchive(place.archive)
    agent = make_agent(
        "agent",
        InMemorySaver(),
        observation={"buffer_tokens": 0.3},
        messages=500,
        archive=archive,
        evict=True,
    )
    return agent, archive


async def ask(agent: Agent, number: int) -> None:
    """Take a turn."""
    await agent.graph.ainvoke({"messages": [asked(number)]}, config())


async def test_turns_go_on_beside_a_locked_archive_and_it_is_caught_up_with(
    impatient: Place, caplog: pytest.LogCaptureFixture
) -> None:
    agent, archive = ready(impatient)
    for number in range(8):
        await ask(agent, number)
    with locked(impatient), caplog.at_level(logging.WARNING, logger="langgraph_om"):
        for number in (8, 9):
            with watched(archive) as (asking, refused):
                await ask(agent, number)
            assert threading.current_thread().name not in asking, "the event loop does not wait"
            assert refused
    assert "the archive could not append messages" in caplog.text
    state = values(agent.graph, config())
    kept: Any = archive.messages("t", limit=1000, visible_only=False)
    order = [row.key for row in kept]
    order += [m.id for m in state["messages"] if m.id not in order]
    assert uncovered(agent.memory, state, order) == []
    for number in range(10, 16):
        await ask(agent, number)
        await agent.memory.aflush(60)
    state = values(agent.graph, config())
    kept = archive.messages("t", limit=1000, visible_only=False)
    messages = [row.message for row in kept]
    assert dumped(messages[-len(state["messages"]) :]) == dumped(state["messages"])
    asked_ids = [message.id for message in messages if message.type == "human"]
    assert asked_ids == [asked(number).id for number in range(16)]
    assert len(state["messages"]) < len(messages)
    archive.close()


def test_edit_that_is_made_meanwhile_is_archived_later(sqlite_place: Place) -> None:
    place = replace(sqlite_place, archive=f"{sqlite_place.archive}?timeout=0.1", evict=False)
    with workers.worker(place) as agent:
        for number in range(3):
            answer(agent, number)
        edited = values(agent.graph, config())["messages"][-1].model_copy(
            update={"content": "I was wrong."}
        )
        agent.graph.update_state(config(), {"messages": [edited]}, as_node="om_finish")
        archive: Any = agent.memory.archive
        with locked(place):
            answer(agent, 3)
        assert archive.find(edited.id, thread_id="t").message.text != "I was wrong."
        answer(agent, 4)
        assert archive.find(edited.id, thread_id="t").message.text == "I was wrong."
        kept = [row.key for row in archive.messages("t", limit=100)]
    assert len(kept) == len(set(kept)) > 10


def test_writer_of_an_archive_on_a_server_does_not_wait_for_ever(
    postgres_sqlalchemy_url: str,
) -> None:
    archive = SQLAlchemyArchive(postgres_sqlalchemy_url)
    with archive._writing("look") as connection:
        shown = connection.exec_driver_sql("SHOW lock_timeout").scalar()
    assert shown == "30s"
    archive.close()
