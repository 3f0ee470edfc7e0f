"""An archive that is set back: another one, an older copy, or one that lost what it had."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.agents import Agent
from support.inside import Evicting, runner_of
from support.processes import workers
from support.processes.checks import acknowledged, archived, check, check_end, plain, talk
from support.processes.workers import Place


def set_evicts(agent: Agent, *, to: bool) -> None:
    runner = runner_of(agent.memory)
    parts = runner.settings.parts
    evict = Evicting(parts.archive) if to and parts.archive else None
    runner.actor.settings = replace(runner.settings, parts=replace(parts, evict=evict))


def test_message_that_the_archive_lost_comes_back_before_it_is_evicted(sqlite_place: Place) -> None:
    place, lost = sqlite_place, "t4"
    with workers.worker(place) as agent:
        set_evicts(agent, to=False)
        talk(agent, place, 0, 9)
        archive: Any = agent.memory.archive
        with archive._writing("lose a message") as connection:
            connection.exec_driver_sql("DELETE FROM om_messages WHERE key = ?", (lost,))
        set_evicts(agent, to=True)
        talk(agent, place, 9, 14)
        assert [plain(m.id) for m in archived(archive)] == acknowledged(place)
    check(place)
    check_end(place)


def test_what_is_archived_outlasts_a_loss_of_power(sqlite_place: Place) -> None:
    with workers.worker(sqlite_place) as agent:
        archive: Any = agent.memory.archive
        with archive._reading("look") as connection:
            full = 2
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == full
