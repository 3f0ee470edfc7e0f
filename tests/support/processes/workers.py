"""Workers in the tests that are killed at a point: processes that import this by name.

Each talks for a client that takes a turn as done only when it has its answer, and that goes on,
after a crash, with what the checkpoint says is left to do.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

from langgraph_om import BackgroundBuffering, InlineBuffering
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver
from support.agents import (
    Agent,
    Part,
    actor,
    make_agent,
    of_kind,
    on_thread,
    refusals,
    scripted,
    turn,
)
from support.savers import SaverKind, open_async_saver, open_saver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from langgraph.types import StateSnapshot

EXECUTORS: dict[str, Callable[[], Any]] = {
    "background": lambda: BackgroundBuffering(exit_timeout=0),
    "inline": InlineBuffering,
}


@dataclass(frozen=True)
class Place:
    """What the workers share."""

    saver: SaverKind
    checkpoints: str
    archive: str
    folder: str
    """Where clients and models write down what they saw, a file each."""
    buffering: str = "background"
    evict: bool = True
    lease: float = 0.5
    slowness: float = 0.0
    """Seconds that an Observer takes, of the workers of one thread."""
    turns: int = 14
    is_async: bool = False
    moves_on: bool = False
    """Whether the user says something else after a crash, instead of waiting for an answer."""

    def note(self, name: str, line: str) -> None:
        """Write a line down; a kill leaves it whole."""
        with Path(self.folder, name).open("a") as file:
            file.write(f"{line}\n")

    def noted(self, name: str) -> list[str]:
        """What was written down."""
        file = Path(self.folder, name)
        return file.read_text().splitlines() if file.exists() else []


@dataclass(frozen=True)
class Death:
    """When a worker is killed: the `count`th time that it comes to a point, or after a time."""

    point: str = "never"
    count: int = 1
    seconds: float | None = None

    def watch(self, place: Place) -> Callable[[str], None]:
        """What is told each point, and does not return from the one."""
        seen: Counter[str] = Counter()
        if self.seconds is not None:
            timer = threading.Timer(self.seconds, die)
            timer.daemon = True
            timer.start()

        def come_to(point: str) -> None:
            seen[point] += 1
            if (point, seen[point]) == (self.point, self.count):
                place.note("died", point)
                die()

        return come_to


POINTS = (
    *("actor", "observer", "reflector", "before put", "after put", "before put_writes"),
    *("after put_writes", "before commit", "after archive", "before acknowledged"),
)
"""Where a worker can be killed."""


def die() -> None:
    """End at once, as by the kernel that is out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def config(thread: str = "t") -> Any:
    """A run on one of the user's threads."""
    return on_thread(thread, resource_id="ana")


LOOKUPS = ("", "2,1", "", "1")


def asked(number: int, thread: str = "t", *, looks_up: bool = True) -> HumanMessage:
    """What the user says on a thread, now and then something to look up."""
    said = turn(number, LOOKUPS[number % len(LOOKUPS)] if looks_up else "")
    return said.model_copy(update={"id": f"{thread}{number}"})


# --- A worker ------------------------------------------------------------------------------------


@contextmanager
def worker(
    place: Place, come_to: Callable[[str], None] = lambda _: None, life: int = 0
) -> Iterator[Agent]:
    """An agent over the shared databases."""
    with open_saver(place.saver, place.checkpoints) as saver:
        agent = over(saver, place, come_to, life)
        yield agent
        agent.memory.archive.close()  # type: ignore[union-attr]


def over(saver: Any, place: Place, come_to: Callable[[str], None], life: int) -> Agent:
    """An agent over a checkpointer; what its models say differs from life to life."""

    asks = itertools.count()

    def act(messages: list[BaseMessage]) -> AIMessage:
        come_to("actor")
        for problem in refusals([messages]):
            place.note("problems", problem)
        answer = actor(messages)
        # A model that is asked again writes another answer.
        return answer.model_copy(update={"id": f"{answer.id}@{life}.{next(asks)}"})

    def observe(messages: list[BaseMessage]) -> str:
        place.note("observed", str(life))
        come_to("observer")
        return ExtractiveObserver().reply(messages).replace("User: ", f"User in life {life}: ")

    def reflect(messages: list[BaseMessage]) -> Any:
        come_to("reflector")
        return reflector(messages)

    reflector: Any = scripted()._tape.scripts["reflector"][0]
    archive = SQLAlchemyArchive(place.archive)
    engine = archive.engine
    event.listen(engine, "commit", lambda _: come_to("before commit"))
    event.listen(engine, "checkin", lambda *_: come_to("after archive"))
    buffering = _executor(place)
    if not isinstance(buffering, InlineBuffering):
        buffering.share(archive, place.lease)
    for name in ("put", "put_writes"):
        setattr(saver, name, _watched(getattr(saver, name), name, come_to))
        setattr(saver, f"a{name}", _awatched(getattr(saver, f"a{name}"), name, come_to))
    return make_agent(
        "agent",
        saver,
        model=scripted(actor=act, observer=observe, reflector=reflect),
        observation={"buffer_tokens": 0.3},
        messages=500,
        log=400,
        archive=archive,
        evict=place.evict,
        buffering=buffering,
    )


def _executor(place: Place) -> Any:
    if place.buffering == "server":
        from support.processes.queued import NotedBuffering  # noqa: PLC0415 it imports this

        return NotedBuffering(place)
    return EXECUTORS[place.buffering]()


def _watched(method: Any, name: str, come_to: Callable[[str], None]) -> Any:
    def call(*args: Any, **options: Any) -> Any:
        come_to(f"before {name}")
        result = method(*args, **options)
        come_to(f"after {name}")
        return result

    return call


def _awatched(method: Any, name: str, come_to: Callable[[str], None]) -> Any:
    async def call(*args: Any, **options: Any) -> Any:
        come_to(f"before {name}")
        result = await method(*args, **options)
        come_to(f"after {name}")
        return result

    return call


# --- A client ------------------------------------------------------------------------------------


def live(place: Place, death: Death, life: int) -> None:
    """Go on with the conversation until it is done, or until death."""
    come_to = death.watch(place)
    if place.is_async:
        asyncio.run(alive(place, come_to, life))
        return
    with worker(place, come_to, life) as agent:
        while (number := next_turn(place)) < place.turns:
            place.note("said", str(number))
            answer(agent, number, is_new=place.moves_on)
            come_to("before acknowledged")
            place.note("acknowledged", str(number))
        agent.memory.flush(30)


async def alive(place: Place, come_to: Callable[[str], None], life: int) -> None:
    """Go on with the conversation in an event loop."""
    async with open_async_saver(place.saver, place.checkpoints) as saver:
        agent = over(saver, place, come_to, life)
        while (number := next_turn(place)) < place.turns:
            place.note("said", str(number))
            begun = await agent.graph.aget_state(config())
            said, is_over = to_say(begun, number, is_new=place.moves_on)
            if not is_over:
                await agent.graph.ainvoke(said, config())
            come_to("before acknowledged")
            place.note("acknowledged", str(number))
        await agent.memory.aflush(30)


def next_turn(place: Place) -> int:
    """The first turn without an answer, or, for a user who moves on, one that was never begun."""
    return len(place.noted("said" if place.moves_on else "acknowledged"))


def answer(
    agent: Agent, number: int, thread: str = "t", *, is_new: bool = False, **options: Any
) -> list[Part]:
    """Take a turn, or what is left of one that was begun."""
    said, is_over = to_say(agent.graph.get_state(config(thread)), number, thread, is_new=is_new)
    if is_over:
        return []
    return list(agent.graph.stream(said, config(thread), stream_mode="custom", **options))


def to_say(
    begun: StateSnapshot, number: int, thread: str = "t", *, is_new: bool
) -> tuple[dict[str, Any] | None, bool]:
    """What a graph is run with for a turn, and whether there is nothing left to run."""
    request = asked(number, thread, looks_up=not is_new)
    known = [str(message.id).partition("@")[0] for message in begun.values.get("messages", ())]
    if is_new or request.id not in known:
        return {"messages": [request]}, False
    return None, f"{request.id}-answer" in known and not begun.tasks


# --- Many workers --------------------------------------------------------------------------------


@contextmanager
def turn_of(place: Place, thread: str) -> Iterator[int]:
    """The next turn of a thread, which one worker at a time takes."""
    with Path(place.folder, f"lock-{thread}").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield len(place.noted(f"acknowledged-{thread}"))


def serve(place: Place, threads: list[str], life: int) -> None:
    """Take turns of some threads, each as soon as no other worker has it, until all are done."""
    with worker(place, life=life) as agent:
        executor: Any = agent.memory.buffering
        left = list(threads)
        while left:
            thread = left.pop(0)
            with turn_of(place, thread) as number:
                if number == place.turns:
                    continue
                for part in answer(agent, number, thread):
                    if part["type"] == "data-om-buffering-start":
                        place.note("started", part["data"]["cycleId"])
                    elif of_kind([part], "observation-start"):
                        place.note("waited", part["data"]["cycleId"])
                    elif of_kind([part], "buffering-failed"):
                        place.note("failed", part["data"]["error"])
                while getattr(
                    executor, "_asked", ()
                ):  # a real turn takes longer than to ask for a job
                    time.sleep(0.005)
                place.note(f"acknowledged-{thread}", str(number))
                place.note(f"server-{thread}", str(life))
            left.append(thread)
        agent.memory.flush(30)
