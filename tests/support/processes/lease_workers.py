"""Workers of one thread in the tests: processes that are spawned and import this by name.

Each builds its own memory over the same checkpointer and archive, and notes whenever its Observer
is asked.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

from langgraph_om import BackgroundBuffering
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver
from support.agents import Agent, Part, make_agent, of_kind, on_thread, say, scripted, turn
from support.processes.workers import Place
from support.savers import open_saver

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

CONFIG = on_thread(resource_id="ana")


@cache
def worker(place: Place) -> Agent:
    """This process's agent."""
    opened = ExitStack()
    saver = opened.enter_context(open_saver(place.saver, place.checkpoints))
    archive = SQLAlchemyArchive(place.archive)
    buffering = BackgroundBuffering(exit_timeout=0)
    buffering.share(archive, place.lease)

    def observer(messages: list[BaseMessage]) -> str:
        place.note("observed", str(os.getpid()))
        time.sleep(place.slowness)
        return ExtractiveObserver().reply(messages)

    agent = make_agent(
        "agent",
        saver,
        model=scripted(observer=observer),
        observation={"buffer_tokens": 0.2},
        messages=800,
        log=5000,
        archive=archive,
        buffering=buffering,
    )
    _KEPT_OPEN.append(opened)
    return agent


_KEPT_OPEN: list[ExitStack] = []


def asked(place: Place) -> int:
    """How often any Observer was asked."""
    return len(place.noted("observed"))


def take_turn(place: Place, number: int) -> list[Part]:
    """One turn of the conversation; its job goes on beside it."""
    return say(worker(place).graph, CONFIG, turn(number))


def finish_jobs(place: Place) -> bool:
    """Wait for what is at work in this process."""
    return worker(place).memory.flush(60)


def start_job(place: Place) -> str:
    """Talk until a job is at work; its cycle id."""
    for number in range(20):
        if started := of_kind(take_turn(place, number), "buffering-start"):
            return str(started[0]["cycleId"])
    msg = "no job was started"
    raise AssertionError(msg)


def start_job_and_die(place: Place) -> None:
    """Be killed in the middle of a job."""
    start_job(place)
    while not asked(place):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def run_out(place: Place) -> None:
    """End in the middle of a job, as a program does that has nothing left to do."""
    start_job(place)


def do_job(place: Place) -> None:
    """End when the job is done, before any step took in its result."""
    start_job(place)
    assert finish_jobs(place)
