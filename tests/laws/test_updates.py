"""What `update_state` writes into memory is kept, at any place of any run.

It is in the next checkpoint and in the Actor's next prompt: before the first run, between any two
nodes, after a failure, at an interrupt, and on a fork from each of these places.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite, StateSnapshot

from langgraph_om import InlineBuffering, ObservationalMemory
from support.agents import MIDDLEWARE, Graph
from support.clock import Clock
from support.laws.cast import Actor, ActorDownError, Oracle, request
from support.laws.doors import DOORS, actor_node, build
from support.real_ids import Naming
from support.words import Words

WAYS = [door for door in DOORS if door != "step"]
ON_THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
FACT = "User is allergic to walnuts"
START = "__start__"


class Run:
    """An agent behind one door, and the prompts of its Actor."""

    def __init__(self, door: str) -> None:
        self.door, self.clock = door, Clock()
        self.actor = Actor(naming=Naming(), clock=self.clock)
        self.memory = ObservationalMemory(
            Oracle().model(),
            observation={"message_tokens": 60, "buffer_tokens": False},
            token_counter=Words(),
            buffering=InlineBuffering(),
            clock=self.clock,
        )
        self.graph: Graph = build(door, self.memory, self.actor, InMemorySaver())

    def ask(self, number: int, config: RunnableConfig = ON_THREAD, **plan: Any) -> None:
        said = request(number, 40, Naming(), self.clock(), **plan)
        with suppress(ActorDownError):
            self.graph.invoke({"messages": [said]}, config)

    def talk(self) -> None:
        """Two turns with tools, and a third one in which the Actor's provider fails."""
        self.ask(0, rounds=[[10]])
        self.ask(1, rounds=[[10, 20]])
        self.ask(2, rounds=[[5]], falls_at=0)

    def go_on(self, place: RunnableConfig) -> None:
        """Resume where the run stands, or take another turn where it is over."""
        state = self.graph.get_state(place)
        if state.next and state.values.get("messages"):
            self.graph.invoke(None, place)
        else:
            self.ask(7, place)


@pytest.fixture(params=WAYS)
def run(request: pytest.FixtureRequest) -> Run:
    made = Run(request.param)
    made.talk()
    return made


def last_node(state: StateSnapshot, graph: Graph) -> str:
    """The node for which LangGraph takes an update of this state; empty where it cannot tell."""
    seen = graph.checkpointer.get_tuple(state.config).checkpoint["versions_seen"]  # type: ignore[union-attr]
    return str(graph._infer_as_node(seen) or "")  # type: ignore[attr-defined]


def is_kept(om: Mapping[str, Any]) -> bool:
    return any(FACT in group["text"] for group in om["log"])


def places(run: Run) -> list[StateSnapshot]:
    """All checkpoints of which LangGraph can tell whose update this would be.

    `create_agent` has LangChain's rule for state that is left out of its input: an update that
    stands for the input drops it. There `as_node` is needed, as `memory.of(...)` sets it.
    """
    found = []
    for state in run.graph.get_state_history(ON_THREAD):
        node = last_node(state, run.graph)
        if node and not (run.door in MIDDLEWARE and node == START):
            found.append(state)
    return found


@pytest.mark.parametrize("is_async", [False, True])
def test_an_update_is_kept_wherever_the_run_stands(run: Run, *, is_async: bool) -> None:
    before = run.graph.get_state(ON_THREAD)
    assert before.next  # the third turn failed
    every = places(run)
    assert len(every) > 6
    for state in every:
        update = {"om": run.memory.updates.remember(FACT)}
        if is_async:
            fork = asyncio.run(run.graph.aupdate_state(state.config, update))
        else:
            fork = run.graph.update_state(state.config, update)
        assert is_kept(run.graph.get_state(fork).values["om"]), state.next
        run.go_on(fork)
        assert FACT in run.actor.prompts[-1][0].text, state.next
        assert is_kept(run.graph.get_state(ON_THREAD).values["om"]), state.next


def test_memory_may_be_put_aside_wherever_the_run_stands(run: Run) -> None:
    for state in places(run):
        fork = run.graph.update_state(state.config, {"om": Overwrite({})})
        assert run.graph.get_state(fork).values["om"] == {}, state.next


@pytest.mark.parametrize("door", [door for door in WAYS if door not in MIDDLEWARE])
def test_an_update_before_the_first_run_is_kept(door: str) -> None:
    run = Run(door)
    run.graph.update_state(ON_THREAD, {"om": run.memory.updates.remember(FACT)})
    assert is_kept(run.graph.get_state(ON_THREAD).values["om"])
    run.ask(0)
    assert FACT in run.actor.prompts[-1][0].text


@pytest.mark.parametrize("door", WAYS)
def test_an_update_at_an_interrupt_is_kept(door: str) -> None:
    run = Run(door)
    run.ask(0)
    said = request(1, 40, Naming(), run.clock())
    run.graph.invoke({"messages": [said]}, ON_THREAD, interrupt_before=[actor_node(door)])
    assert run.graph.get_state(ON_THREAD).next == (actor_node(door),)
    run.graph.update_state(ON_THREAD, {"om": run.memory.updates.remember(FACT)})
    assert is_kept(run.graph.get_state(ON_THREAD).values["om"])
    asked = len(run.actor.prompts)
    run.graph.invoke(None, ON_THREAD)
    assert len(run.actor.prompts) > asked
    assert FACT in run.actor.prompts[-1][0].text


@pytest.mark.parametrize("door", WAYS)
def test_a_client_that_sends_the_state_back_changes_no_memory(door: str) -> None:
    run = Run(door)
    run.ask(0)
    run.ask(1)
    old = run.graph.get_state(ON_THREAD).values
    said = request(2, 40, Naming(), run.clock())
    stale = {**old["om"], "log": [], "cursor": [], "current_task": "hijacked"}
    run.graph.invoke({"messages": [said], "om": stale}, ON_THREAD)
    now = run.graph.get_state(ON_THREAD).values["om"]
    assert now["log"][: len(old["om"]["log"])] == old["om"]["log"]
    assert now["current_task"] != "hijacked"
    assert "om" not in run.graph.get_input_jsonschema()["properties"]
