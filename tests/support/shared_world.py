"""Several threads of one user over one archive, and what must hold of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.clock import START, Clock
from support.inside import MemoryRecord, open_window, runner_of

USER = "ada"
SMALL = {"message_tokens": 300}


def config(thread: str, user: str = USER) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "resource_id": user}}


def said(thread: str, number: int) -> HumanMessage:
    """What the user says; the code in it is found nowhere else."""
    text = (
        f"In {thread} I note the code {thread}-{number:03d}: the museum opens at {number % 12 + 1} "
        "and the hotel by the river has a room for my sister Ana and me."
    )
    return HumanMessage(text, id=f"{thread}.h{number}")


def answer(messages: list[BaseMessage]) -> AIMessage:
    """The Actor's answer; its id follows from the question."""
    question = [m for m in messages if isinstance(m, HumanMessage)][-1]
    return AIMessage("Noted, I will keep that in mind for your trip.", id=f"{question.id}.a")


def append(
    archive: SQLAlchemyArchive, thread: str, first: int, count: int, now: datetime = START
) -> None:
    """Write turns of a thread as another worker does, which has not observed any of it."""
    for number in range(first, first + count):
        asked = said(thread, number)
        after = f"{thread}.h{number - 1}.a" if number else None
        rows = [(str(each.id), each, True) for each in (asked, answer([asked]))]
        archive.append(thread, USER, rows, after=after, now=now)


def extractive(**replies: Any) -> ScriptedChatModel:
    roles = {"observer": ExtractiveObserver().reply, "reflector": ExtractiveReflector().reply}
    return ScriptedChatModel(**{**roles, **replies})


def sharing(
    archive: str | SQLAlchemyArchive, model: Any = None, **options: Any
) -> ObservationalMemory:
    """A memory with a log over all threads of a user, small enough to be used in a few turns.

    Without buffering, unless the options say otherwise.
    """
    given: dict[str, Any] = {
        "observation": SMALL,
        "reflection": {"observation_tokens": 100_000},
        "buffering": InlineBuffering(),
        "clock": Clock(),
        **options,
    }
    given["observation"] = {"buffer_tokens": False, **given["observation"]}
    return ObservationalMemory(model or extractive(), scope="resource", archive=archive, **given)


class Agent:
    """An agent with shared memory; `say` is a turn in one of its threads."""

    def __init__(
        self, memory: ObservationalMemory, saver: BaseCheckpointSaver[Any], user: str = USER
    ) -> None:
        self.memory, self.user = memory, user
        self.actor = ScriptedChatModel(actor=answer)
        self.graph = create_memory_agent(self.actor, memory=memory, checkpointer=saver)
        self.numbers: Counter[str] = Counter()

    def say(self, thread: str, number: int | None = None) -> list[dict[str, Any]]:
        """Say the next thing in a thread; return the parts that memory showed."""
        if number is None:
            number = self.numbers[thread]
            self.numbers[thread] += 1
        message = {"messages": [said(thread, number)]}
        return list(self.graph.stream(message, config(thread, self.user), stream_mode="custom"))

    def prompt(self) -> str:
        """The text of the Actor's last prompt."""
        return "\n".join(message.text for message in self.actor.calls[-1]["messages"])

    def system(self) -> str:
        return str(self.actor.calls[-1]["messages"][0].text)

    def state(self, thread: str) -> tuple[MemoryRecord, list[BaseMessage]]:
        values = self.graph.get_state(config(thread, self.user)).values
        return values["om"], values["messages"]


def covered(record: MemoryRecord, thread: str, keys: Sequence[str]) -> Counter[str]:
    """Count how often each message of a thread is covered by the log."""
    places = {key: at for at, key in enumerate(keys)}
    found: Counter[str] = Counter()
    for group in record["log"]:
        if group["thread_id"] == thread:
            for first, last in group["ranges"]:
                found.update(keys[places[first] : places[last] + 1])
    return found


def check_thread(agent: Agent, thread: str, *, archive: SQLAlchemyArchive | None = None) -> None:
    """Every message of a thread is in its window, or covered by exactly one range."""
    record, messages = agent.state(thread)
    if archive is None:
        keys = [str(message.id) for message in messages]
    else:
        archived = archive.messages(thread, limit=10_000, visible_only=False)
        keys = [each.key for each in archived]
    counts = covered(record, thread, keys)
    window = open_window(record, messages, runner_of(agent.memory).settings.counter)
    shown = {entry.key for entry in window.entries}
    for key in keys:
        assert counts[key] + (key in shown) == 1, (thread, key, counts[key], key in shown)
