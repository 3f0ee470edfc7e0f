"""What a client may rely on, whatever happened to the workers and the databases."""

from __future__ import annotations

import os
import re
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import check_message_sequence
from support.agents import Agent, dumped, times_covered, values
from support.processes import workers
from support.processes.workers import Place, answer, asked, config

ROUNDS = int(os.environ.get("OM_ROUNDS", "1"))
"""How many times as many conversations are had as by default."""


def talk(agent: Agent, place: Place, first: int, stop: int) -> None:
    """Take turns, each with the work beside it done."""
    for number in range(first, stop):
        answer(agent, number)
        place.note("acknowledged", str(number))
        agent.memory.flush(60)


def acknowledged(place: Place, thread: str = "t") -> list[str]:
    """Ids of all messages of the turns that were answered, without the life they were said in."""
    ids = []
    name = "acknowledged" if thread == "t" else f"acknowledged-{thread}"
    for number in map(int, place.noted(name)):
        request = asked(number, thread, looks_up=not place.moves_on)
        ids.append(str(request.id))
        rounds = re.search(r"look up ([\d,]+)", request.text)
        for at, count in enumerate(rounds[1].split(",") if rounds else ()):
            ids.append(f"{request.id}-calls-{at}")
            ids += [f"{request.id}.{at}.{n}-result" for n in range(int(count))]
        ids.append(f"{request.id}-answer")
    return ids


def plain(key: str | None) -> str:
    """An id without the life in which it was made."""
    return str(key).partition("@")[0]


def archived(archive: SQLAlchemyArchive, thread: str = "t") -> list[BaseMessage]:
    rows = archive.messages(thread, limit=10_000, visible_only=False)
    assert [row.position for row in rows] == list(range(len(rows)))
    return [row.message for row in rows]


def check(place: Place, thread: str = "t") -> tuple[dict[str, Any], list[BaseMessage]]:
    """Check what a client may rely on, whatever happened.

    Returns:
        The thread's state, and its whole conversation.
    """
    with workers.worker(place) as agent:
        state = values(agent.graph, config(thread))
        archive: Any = agent.memory.archive
        kept = archived(archive, thread)
        present = state.get("messages", [])
        prompt = agent.memory.llm_input_messages(state) if state.get("om") else present
    ids = [message.id for message in kept]
    first = ids.index(present[0].id) if present and present[0].id in ids else 0
    whole = [*kept[:first], *present]
    order = [message.id for message in whole]
    assert len(ids) == len(set(ids))
    assert len(order) == len(set(order))
    spoken, wanted = [plain(key) for key in order], acknowledged(place, thread)
    assert [key for key in spoken if key in {*wanted}] == wanted
    shown = {message.id for message in prompt}
    covered = times_covered(state.get("om", {}), order)
    lost = [
        (key, times)
        for key, times in zip(order, covered, strict=True)
        if times > 1 or (times == 0 and key not in shown)
    ]
    assert lost == []
    assert place.noted("problems") == []
    return state, whole


def check_end(place: Place, thread: str = "t") -> None:
    """Check a conversation that is done."""
    state, whole = check(place, thread)
    archive = SQLAlchemyArchive(place.archive)
    kept = archived(archive, thread)
    groups = {group["id"]: group for group in archive.groups(thread_id=thread, limit=1000)}
    archive.close()
    assert dumped(kept) == dumped(whole)
    if not place.moves_on:
        assert [plain(message.id) for message in kept] == acknowledged(place, thread)
        assert len(acknowledged(place, thread)) > place.turns * 2
        assert check_message_sequence(kept, "openai") == []
    assert plain(kept[-1].id) == f"{thread}{place.turns - 1}-answer"
    log = state["om"]["log"]
    assert log
    assert [groups[group["id"]]["text"] for group in log] == [group["text"] for group in log]
    most = 45 if place.evict else len(kept)
    assert len(state["messages"]) == len(kept) or place.evict
    assert len(state["messages"]) <= most
