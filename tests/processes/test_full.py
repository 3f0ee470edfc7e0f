"""Databases without room: turns go on or say what is full, and all is caught up with later."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from support.agents import Agent, values
from support.processes import workers
from support.processes.checks import ROUNDS, acknowledged, check, check_end, talk
from support.processes.workers import Place, answer, config


class Disk:
    """What a database in SQLite may still grow by; `None`: as much as it likes."""

    def __init__(self) -> None:
        self.pages: int | None = None

    def apply(self, connection: sqlite3.Connection) -> None:
        """Give a connection this much room."""
        (used,) = connection.execute("PRAGMA page_count").fetchone()
        limit = 2**30 if self.pages is None else used + self.pages
        connection.execute(f"PRAGMA max_page_count={limit}").fetchone()


@contextmanager
def archive_on(disk: Disk, agent: Agent) -> Iterator[None]:
    """Keep an agent's archive on a disk."""
    archive: Any = agent.memory.archive
    engine = archive.engine

    def room(connection: Any, *_: Any) -> None:
        disk.apply(connection)

    event.listen(engine, "checkout", room)
    yield
    event.remove(engine, "checkout", room)


@pytest.mark.parametrize("buffering", ["background", "inline"][: 1 + (ROUNDS > 1)])
def test_full_archive_stops_no_turn_and_is_caught_up_with(
    sqlite_place: Place, buffering: str, caplog: pytest.LogCaptureFixture
) -> None:
    place, disk = replace(sqlite_place, turns=22, buffering=buffering), Disk()
    with workers.worker(place) as agent, archive_on(disk, agent):
        talk(agent, place, 0, 7)
        before = values(agent.graph, config())["om"]
        disk.pages = 0
        with caplog.at_level(logging.WARNING, logger="langgraph_om"):
            talk(agent, place, 7, 15)
        assert "could not append messages: database or disk is full" in caplog.text
        full = values(agent.graph, config())
        assert full["om"]["log"] != before["log"]
        assert len(full["messages"]) > 30
        check(place)
        disk.pages = None
        talk(agent, place, 15, 22)
        assert len(values(agent.graph, config())["messages"]) < len(full["messages"])
    check_end(place)


def test_archive_that_is_full_from_the_start_is_made_later(sqlite_place: Place) -> None:
    place, disk = replace(sqlite_place, turns=9), Disk()
    disk.pages = 0
    with workers.worker(place) as agent, archive_on(disk, agent):
        talk(agent, place, 0, 4)
        kept = values(agent.graph, config())["messages"]
        assert len(kept) == len(acknowledged(place))
        disk.pages = None
        talk(agent, place, 4, 9)
    check_end(place)


@pytest.mark.parametrize("buffering", ["background", "inline"][: 1 + (ROUNDS > 1)])
def test_full_checkpointer_says_so_and_nothing_is_lost(sqlite_place: Place, buffering: str) -> None:
    """It is full at any point of a turn, and is given room again.

    Without `durability="sync"`, LangGraph itself goes on from a turn that was not saved wholly.
    """
    place, disk = replace(sqlite_place, turns=12 * ROUNDS, buffering=buffering), Disk()
    refused = 0
    with workers.worker(place) as agent:
        saver: Any = agent.graph.checkpointer
        for number in range(place.turns):
            disk.pages = number * 7 % 16
            disk.apply(saver.conn)
            try:
                answer(agent, number, durability="sync")
            except sqlite3.OperationalError as error:
                assert "database or disk is full" in str(error)  # noqa: PT017
                refused += 1
                check(place)
                disk.pages = None
                disk.apply(saver.conn)
                answer(agent, number, durability="sync")
            place.note("acknowledged", str(number))
        agent.memory.flush(60)
    assert refused > 3
    check_end(place)
