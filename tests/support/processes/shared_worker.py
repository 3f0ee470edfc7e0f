"""Workers that serve threads of one user, and are killed.

Run by `test_shared`. Which messages each question to the Observer is
about is written down.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any

from langgraph_om import SQLAlchemyArchive
from support.inside import BackgroundBuffering
from support.processes.workers import EXECUTORS, Place, die, turn_of
from support.savers import open_saver
from support.shared_world import Agent, extractive, sharing

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

USER = "ada"


def agent(place: Place, saver: Any) -> Agent:
    """An agent whose threads know of each other, which writes down what its Observer is asked."""
    archive = SQLAlchemyArchive(place.archive)
    buffering = EXECUTORS[place.buffering]()
    if isinstance(buffering, BackgroundBuffering):
        buffering.share(archive, place.lease)
    model = extractive()
    reply = model._tape.scripts["observer"][0]

    def observe(messages: list[BaseMessage]) -> Any:
        text = messages[-1].text
        asked = text[text.rindex("<conversation>") :] if "<conversation>" in text else text
        place.note("observed", " ".join(sorted(set(re.findall(r"\bt\d-\d{3}\b", asked)))))
        time.sleep(0.002)
        return reply(messages)

    memory = sharing(
        archive,
        extractive(observer=observe),
        observation={"message_tokens": 400, "buffer_tokens": 0.3},
        reflection={"observation_tokens": 1500},
        buffering=buffering,
        evict=place.evict,
    )
    return Agent(memory, saver)


def serve(
    place: Place, threads: list[str], death: tuple[str, int] = ("never", 0), life: int = 0
) -> None:
    """Take turns of some threads, one run per thread at a time, until all are done."""
    with open_saver(place.saver, place.checkpoints) as saver:
        served = agent(place, saver)
        _watch(served.memory.archive, place, death)
        left = list(threads)
        while left:
            thread = left.pop(0)
            with turn_of(place, thread) as number:
                if number >= place.turns:
                    continue
                served.say(thread, number)
                place.note(f"acknowledged-{thread}", str(life))
            left.append(thread)
        served.memory.flush(60)
        served.memory.close(60)


def _watch(archive: Any, place: Place, death: tuple[str, int]) -> None:
    """Die before or after groups are archived."""
    commit, seen = archive.add_groups, 0

    def watched(*args: Any, **options: Any) -> list[str]:
        nonlocal seen
        seen += 1
        if death == ("before", seen):
            place.note("died", f"before {os.getpid()}")
            die()
        done: list[str] = commit(*args, **options)
        if death == ("after", seen):
            place.note("died", f"after {os.getpid()}")
            die()
        return done

    archive.add_groups = watched
