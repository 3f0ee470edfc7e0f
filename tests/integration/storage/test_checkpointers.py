"""Memory and checkpoints: any saver, any moment to die, any point to go back to."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_om import create_memory_agent
from support.agents import (
    Graph,
    any_saver,
    atalk,
    make_agent,
    on_thread,
    outcome,
    refusals,
    remembering,
    say,
    scripted,
    talk,
    turn,
    turns,
    uncovered,
    values,
)
from support.clock import Clock
from support.programs import run_program
from support.savers import SaverKind, open_saver

CONFIG = on_thread()
CHANNELS = ("plain", "agent")
LIMITS: dict[str, Any] = {"messages": 300, "log": 130, "retrieval": False}  # it differs by door
SAID = turns(9, lookups=("", "2,1", "1"))


@cache
def reference() -> dict[str, Any]:
    """What the conversation comes to, kept in memory and never disturbed."""
    agent = make_agent("plain", InMemorySaver(), **LIMITS)
    talk(agent.graph, CONFIG, SAID)
    came_to = outcome(values(agent.graph, CONFIG))
    assert came_to["om"]["generation"] > 0
    assert len(came_to["om"]["log"]) > 0
    return came_to


# --- Every saver ---------------------------------------------------------------------------------


@pytest.mark.parametrize("door", CHANNELS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_every_saver_keeps_the_same(
    door: str, saver_kind: SaverKind, saver_place: str, *, is_async: bool
) -> None:
    async with any_saver(saver_kind, saver_place, is_async=is_async) as saver:
        agent = make_agent(door, saver, **LIMITS)
        if is_async:
            await atalk(agent.graph, CONFIG, SAID)
            state = (await agent.graph.aget_state(CONFIG)).values
        else:
            talk(agent.graph, CONFIG, SAID)
            state = values(agent.graph, CONFIG)
    assert outcome(state) == reference()
    assert refusals(agent.prompts()) == []


_STRICT = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
from support.agents import make_agent, on_thread, record_of, talk, turns
from support.savers import open_saver
for door in ("plain", "agent"):
    with open_saver("sqlite", sys.argv[1] + door) as saver:
        for start in (0, 6):
            agent = make_agent(door, saver, messages=300, log=130)
            talk(agent.graph, on_thread(), turns(6, start=start, lookups=("1",)))
        assert len(list(agent.graph.get_state_history(on_thread()))) > 12
        record = record_of(agent.graph, on_thread())
        print("groups", len(record["log"]), "generation", record["generation"])
"""


def test_strict_deserialisation_has_nothing_to_complain_about(tmp_path: Path) -> None:
    strict = {"LANGGRAPH_STRICT_MSGPACK": "true"}
    done = run_program("-W", "error", "-c", _STRICT, tmp_path / "strict", env=strict)
    assert done.stderr == ""
    said = done.stdout.splitlines()
    lines = [line for line in said if not line.startswith("INFO:langgraph_om:")]
    assert [line for line in lines if not line.startswith("groups ")] == []
    assert len(lines) == 2
    assert not any("generation 0" in line for line in lines)


# --- Dying and coming back -----------------------------------------------------------------------

REQUEST = turn(5, "2,1")
"""A turn that calls tools twice, observes and reflects."""


@pytest.fixture(scope="module")
def before_the_turn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Per door: the file of a thread that waits for the turn in question."""
    folder = tmp_path_factory.mktemp("threads")
    for door in CHANNELS:
        with open_saver("sqlite", str(folder / door)) as saver:
            talk(make_agent(door, saver, **LIMITS).graph, CONFIG, SAID[:5])
    return {door: folder / door for door in CHANNELS}


@pytest.fixture
def thread_file(before_the_turn: dict[str, Path], tmp_path: Path) -> Callable[[str], str]:
    """Copies the file of a door, as often as it is asked for."""
    copies = iter(range(1000))

    def copy(door: str) -> str:
        return shutil.copy(str(before_the_turn[door]), str(tmp_path / f"{door}-{next(copies)}"))

    return copy


def whole_turn(door: str, place: str) -> tuple[dict[str, Any], int]:
    """What the turn comes to when nothing happens to it, and in how many supersteps."""
    with open_saver("sqlite", place) as saver:
        agent = make_agent(door, saver, **LIMITS)
        steps = list(agent.graph.stream({"messages": [REQUEST]}, CONFIG, stream_mode="updates"))
        nodes = [name for step in steps for name in step]
        assert {"om_observe", "om_reflect", "tools"} <= set(nodes)
        return outcome(values(agent.graph, CONFIG)), len(steps)


def resume(door: str, place: str) -> dict[str, Any]:
    """Go on in a new process: with the run that is there, or else by asking again."""
    with open_saver("sqlite", place) as saver:
        agent = make_agent(door, saver, **LIMITS)
        asked = [m.id for m in values(agent.graph, CONFIG)["messages"]]
        agent.graph.invoke(None if REQUEST.id in asked else {"messages": [REQUEST]}, CONFIG)
        assert uncovered(agent.memory, values(agent.graph, CONFIG)) == []
        assert refusals(agent.prompts()) == []
        return outcome(values(agent.graph, CONFIG))


@pytest.mark.parametrize(
    ("door", "is_async"), [*((door, False) for door in CHANNELS), ("agent", True)]
)
async def test_killed_after_any_superstep(
    door: str, thread_file: Callable[[str], str], *, is_async: bool
) -> None:
    expected, count = whole_turn(door, thread_file(door))
    how: Any = {"config": CONFIG, "stream_mode": "updates", "durability": "sync"}
    for survived in range(1, count):
        place = thread_file(door)
        async with any_saver("sqlite", place, is_async=is_async) as saver:
            graph = make_agent(door, saver, **LIMITS).graph
            stream: Any = graph.astream if is_async else graph.stream
            run = stream({"messages": [REQUEST]}, **how)
            for _ in range(survived):
                await anext(run) if is_async else next(run)
            await run.aclose() if is_async else run.close()
        assert resume(door, place) == expected, f"killed after superstep {survived}"


class PowerCutError(Exception):
    """The process is gone."""


class FailingSaver(SqliteSaver):
    """A saver that fails at one of its writes."""

    def __init__(self, connection: sqlite3.Connection, at: int) -> None:
        super().__init__(connection)
        self.left = at

    def _spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise PowerCutError

    def put(self, *args: Any, **kwargs: Any) -> Any:
        self._spend()
        return super().put(*args, **kwargs)

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        self._spend()
        super().put_writes(*args, **kwargs)


@contextmanager
def failing_saver(place: str, at: int) -> Iterator[FailingSaver]:
    connection = sqlite3.connect(place, check_same_thread=False)
    try:
        yield FailingSaver(connection, at)
    finally:
        connection.close()


@pytest.mark.parametrize("door", CHANNELS)
def test_power_cut_at_any_write(door: str, thread_file: Callable[[str], str]) -> None:
    expected, count = whole_turn(door, thread_file(door))
    died, at = True, 0
    while died:
        place, died = thread_file(door), False
        with failing_saver(place, at) as saver:
            agent = make_agent(door, saver, **LIMITS)
            try:
                agent.graph.invoke({"messages": [REQUEST]}, CONFIG, durability="sync")
            except PowerCutError:
                died = True
        if died:
            assert resume(door, place) == expected, f"power cut at write {at}"
        at += 1
    assert at > count


# --- Another saver, another channel --------------------------------------------------------------


@pytest.mark.parametrize("door", CHANNELS)
def test_reopened_saver_goes_on(door: str, tmp_path: Path) -> None:
    for message in SAID:
        with open_saver("sqlite", str(tmp_path / "db")) as saver:
            agent = make_agent(door, saver, **LIMITS)
            say(agent.graph, CONFIG, message)
            state = values(agent.graph, CONFIG)
    assert outcome(state) == reference()


@pytest.mark.parametrize("order", [("plain", "delta"), ("delta", "plain")], ids="->".join)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_thread_changes_its_kind_of_channel(
    order: tuple[str, str], kind: SaverKind, tmp_path: Path
) -> None:
    with open_saver(kind, str(tmp_path / "db")) as saver:
        for at, message in enumerate(SAID):
            agent = make_agent(order[(at // 2) % 2], saver, **LIMITS)
            say(agent.graph, CONFIG, message)
            assert uncovered(agent.memory, values(agent.graph, CONFIG)) == []
        assert outcome(values(agent.graph, CONFIG)) == reference()


# --- Going back ----------------------------------------------------------------------------------


def answered(graph: Graph) -> dict[str, Any]:
    """The thread's checkpoints at the end of each turn, by the answer they end with."""
    return {
        snapshot.values["messages"][-1].id: snapshot
        for snapshot in graph.get_state_history(CONFIG)
        if not snapshot.next and snapshot.values.get("messages")
    }


@pytest.mark.parametrize("door", CHANNELS)
@pytest.mark.parametrize("back_to", [0, 3, 6])
def test_both_branches_of_a_fork_are_right(door: str, back_to: int) -> None:
    saver = InMemorySaver()
    agent = make_agent(door, saver, **LIMITS)
    talk(agent.graph, CONFIG, SAID)
    tip = agent.graph.get_state(CONFIG).config
    fork = answered(agent.graph)[f"h{back_to}-answer"].config
    other = [HumanMessage(f"Instead: {m.text}", id=f"x{m.id}") for m in SAID[:6]]
    branch = make_agent(door, saver, **LIMITS)
    branch.graph.invoke({"messages": [other[0]]}, fork)
    talk(branch.graph, CONFIG, other[1:])
    straight = make_agent(door, InMemorySaver(), **LIMITS)
    talk(straight.graph, CONFIG, [*SAID[: back_to + 1], *other])
    assert outcome(values(branch.graph, CONFIG)) == outcome(values(straight.graph, CONFIG))
    # The branch that was left goes on from its own tip as if there had been no other.
    assert outcome(values(agent.graph, tip)) == reference()
    again = make_agent(door, saver, **LIMITS)
    again.graph.invoke({"messages": [turn(20)]}, tip)
    assert uncovered(again.memory, values(again.graph, CONFIG)) == []
    assert values(again.graph, CONFIG)["om"]["generation"] >= reference()["om"]["generation"]


def test_checkpoints_of_plain_channels_can_be_pruned(postgres_database: str) -> None:
    model = scripted()
    memory = remembering(model, Clock())
    with open_saver("postgres", postgres_database) as saver:
        graph = create_memory_agent(model, memory=memory, checkpointer=saver, delta=False)
        talk(graph, on_thread(), turns(12))
        before = values(graph, on_thread())
        saver.prune(["t"], strategy="keep_latest")
        assert len(list(saver.list(on_thread()))) == 1
        after = values(graph, on_thread())
        assert outcome(after) == outcome(before)
        talk(graph, on_thread(), turns(12, start=12))
        assert uncovered(memory, values(graph, on_thread())) == []
