"""Processes that are killed while they work on a shared log: another takes over, not before."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from typing import Any

import pytest

from langgraph_om import SQLAlchemyArchive
from langgraph_om.features.shared_log import threads as log_claim
from support.processes.forks import start
from support.processes.shared_worker import USER, hang, lease_agent
from support.processes.workers import Place
from support.savers import open_saver
from support.shared_world import Agent, append, check_thread, extractive, sharing
from support.waiting import eventually

LEASE = 10


def prepare(archive: SQLAlchemyArchive, saver: Any, operation: str) -> None:
    """Have something to do."""
    if operation == "others":
        append(archive, "noisy", 0, 70)
        return
    agent = Agent(sharing(archive, observation={"message_tokens": 100}), saver)
    for number in range(4):
        for _ in range(4):
            agent.say(f"t{number}")


def is_done(archive: SQLAlchemyArchive, operation: str) -> bool:
    log, _ = archive.load_record(USER)
    if operation == "reflection":
        return log is not None and log["generation"] == 1
    return log is not None and "noisy" in {group["thread_id"] for group in log["log"]}


@pytest.mark.parametrize(
    ("place", "operation", "buffering"),
    [
        ("sqlite", "others", "inline"),
        ("postgres", "reflection", "inline"),
        ("postgres", "others", "background"),
    ],
    indirect=["place"],
)
def test_work_on_a_shared_log_is_taken_over_from_who_was_killed(
    place: Place, operation: str, buffering: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_claim, "CLAIM_SECONDS", LEASE)  # `lease_agent` sets it, in processes
    place = replace(place, lease=LEASE, buffering=buffering)
    role = "observer" if operation == "others" else "reflector"
    with open_saver(place.saver, place.checkpoints) as saver:
        model = extractive()
        agent = lease_agent(place, saver, operation, model)
        archive: Any = agent.memory.archive
        prepare(archive, saver, operation)
        worker = start(hang, place, operation)
        eventually(lambda: place.noted("asked"))

        def turn(thread: str) -> int:
            agent.say(thread)
            agent.memory.flush(30)
            return sum(call["role"] == role for call in model.calls)

        assert turn("second") == 0, "who has the claim keeps it until that ends"
        assert worker.is_alive()
        worker.kill()
        worker.join(120)
        assert worker.exitcode == -signal.SIGKILL
        assert place.noted("asked") == [role]
        time.sleep(1.25 * LEASE)
        assert turn("third") > 0, "nobody holds it any more"
        agent.say("third")
        assert is_done(archive, operation)
        for thread in ("second", "third"):
            agent.say(thread)
            check_thread(agent, thread)
        agent.memory.close()
        archive.close()
