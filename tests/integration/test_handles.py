"""`memory.of(graph, config)`: the memory of one thread, to see it and to change it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_om import (
    ConfigurationError,
    ItemError,
    ObservationalMemory,
    ThreadBusyError,
    ThreadMemory,
    create_memory_agent,
)
from langgraph_om.testing import ScriptedChatModel
from support.agents import DOORS, make_agent, on_thread, talk, turn, turns
from support.inside import write_log

FACT = "User is allergic to walnuts"


def log_of(thread: ThreadMemory) -> str:
    return write_log(thread.view().record["log"])


# --- What is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
async def test_a_thread_is_seen_as_its_state_is(door: Any) -> None:
    agent = make_agent(door, InMemorySaver())
    talk(agent.graph, on_thread(), turns(8))
    thread, state = agent.memory.of(agent.graph, on_thread()), agent.graph.get_state(on_thread())
    assert repr(thread) == "ThreadMemory('t')"
    assert thread.view() == await thread.aview() == agent.memory.view(state)
    assert thread.status() == await thread.astatus() == agent.memory.status(state)
    states = agent.graph.get_state_history(on_thread())
    assert thread.history(2) == await thread.ahistory(2) == agent.memory.history(states, 2)
    states = agent.graph.get_state_history(on_thread())
    assert thread.view(history=True) == agent.memory.view(state, history=states)


# --- What is searched ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"archive": "sqlite:///:memory:", "evict": True}])
async def test_a_search_finds_messages_wherever_they_are_kept(options: Any) -> None:
    agent = make_agent("agent", InMemorySaver(), **options)
    said = HumanMessage("The lighthouse of Piran", id="first")
    talk(agent.graph, on_thread(), [said, *turns(12)])
    thread = agent.memory.of(agent.graph, on_thread())
    ids = [message.id for message in agent.graph.get_state(on_thread()).values["messages"]]
    assert ("first" in ids) is not options.get("evict", False)
    found = thread.search("lighthouse Piran", role="user")
    assert [hit.id for hit in found] == ["first"]
    assert await thread.asearch("lighthouse Piran", role="user") == found
    assert thread.search("zebra") == []


@pytest.mark.parametrize("archive", [None, "sqlite:///:memory:"])
async def test_the_thread_of_another_user_is_refused(archive: Any) -> None:
    agent = make_agent("agent", InMemorySaver(), archive=archive)
    theirs = on_thread("b1", resource_id="bob")
    talk(agent.graph, theirs, [HumanMessage("The gate code is OSPREY", id="m1")])
    before = agent.graph.get_state(theirs)
    wrong = agent.memory.of(agent.graph, on_thread("b1", resource_id="ana"))
    said = "`resource_id` is 'ana', and the thread 'b1' belongs to another resource"
    for read in (
        lambda: wrong.search("OSPREY"),
        wrong.view,
        wrong.history,
        lambda: wrong.remember(FACT),
        lambda: wrong.correct("gate", FACT),
    ):
        with pytest.raises(ConfigurationError, match=said) as refused:
            read()
        assert "bob" not in str(refused.value)
    with pytest.raises(ConfigurationError, match=said):
        await wrong.asearch("OSPREY")
    with pytest.raises(ConfigurationError, match=said):
        agent.memory.search("OSPREY", state=before, resource_id="ana")
    assert agent.graph.get_state(theirs).config == before.config
    assert agent.memory.search("OSPREY", state=before, resource_id="bob")
    for config in (theirs, on_thread("b1")):
        found = agent.memory.of(agent.graph, config).search("OSPREY")
        assert found[0].id == "m1"


@pytest.mark.parametrize("archive", [None, "sqlite:///:memory:"])
def test_a_thread_that_was_copied_for_another_user_is_theirs(archive: Any) -> None:
    agent = make_agent("agent", InMemorySaver(), archive=archive)
    talk(agent.graph, on_thread("t", resource_id="ana"), turns(2))
    copied = on_thread("u", resource_id="ben")
    agent.graph.update_state(copied, agent.graph.get_state(on_thread("t")).values)
    assert agent.memory.of(agent.graph, copied).search("Lisbon")
    talk(agent.graph, copied, [turn(3)])
    assert agent.memory.of(agent.graph, copied).search("Lisbon")
    with pytest.raises(ConfigurationError, match="belongs to another resource"):
        agent.memory.of(agent.graph, on_thread("u", resource_id="ana")).search("Lisbon")


# --- What is changed -----------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_a_thread_that_does_not_exist_yet_is_blank_and_can_be_changed(door: Any) -> None:
    agent = make_agent(door, InMemorySaver())
    thread = agent.memory.of(agent.graph, on_thread())
    assert "(no observations yet)" in str(thread.view())
    assert thread.history() == []
    with pytest.raises(ItemError):
        thread.forget("walnuts")
    assert agent.graph.get_state(on_thread()).created_at is None  # nothing was written
    thread.remember(FACT)
    thread.pin("walnuts")  # at once: nothing runs
    talk(agent.graph, on_thread(), turns(1))
    assert FACT in log_of(thread)


def test_a_change_with_a_checkpoint_begins_a_fork_there() -> None:
    agent = make_agent("agent", InMemorySaver())
    talk(agent.graph, on_thread(), turns(2))
    past = agent.graph.get_state(on_thread()).config
    agent.memory.of(agent.graph, on_thread()).remember("Only here")
    agent.memory.of(agent.graph, past).remember("Only there")
    log = log_of(agent.memory.of(agent.graph, on_thread()))
    assert "Only there" in log
    assert "Only here" not in log


def test_the_memory_of_a_subgraph_is_reached_by_its_namespace() -> None:
    inner = make_agent("plain", checkpointer=True)
    builder = StateGraph(MessagesState)
    builder.add_node("inner", inner.graph)
    builder.add_edge(START, "inner")
    outer = builder.compile(checkpointer=InMemorySaver())
    talk(outer, on_thread(), turns(3))
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "inner"}}
    thread = inner.memory.of(outer, config)
    assert thread.status()["threadId"] == "t"
    with pytest.raises(ConfigurationError, match="has no 'om'"):
        inner.memory.of(outer, on_thread()).remember(FACT)


# --- A run that is under way ---------------------------------------------------------------------


class Held:
    """An agent whose model waits in its second turn until it is let go."""

    def __init__(self) -> None:
        self.at_work, self.may_end = threading.Event(), threading.Event()
        self.is_held = False

        def act(_: Any) -> AIMessage:
            if self.is_held:
                self.at_work.set()
                self.may_end.wait()
            return AIMessage("Noted")

        self.memory = ObservationalMemory(ScriptedChatModel(act))
        self.graph = create_memory_agent(
            ScriptedChatModel(act), memory=self.memory, checkpointer=InMemorySaver()
        )
        self.graph.invoke({"messages": [turn(0)]}, on_thread())

    def begin(self) -> threading.Thread:
        self.is_held = True
        asked = {"messages": [turn(1)]}
        run = threading.Thread(
            target=lambda: self.graph.invoke(asked, on_thread(), durability="sync")
        )
        run.start()
        self.at_work.wait()
        return run


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_change_waits_for_the_run_under_way_and_is_kept(*, is_async: bool) -> None:
    held = Held()
    run = held.begin()
    thread = held.memory.of(held.graph, on_thread(), wait=3600)
    work: Callable[[], Any] = lambda: asyncio.to_thread(thread.remember, FACT)  # noqa: E731
    change = asyncio.ensure_future(thread.aremember(FACT) if is_async else work())
    await asyncio.sleep(0.1)
    assert not change.done()
    held.may_end.set()
    await change
    await asyncio.to_thread(run.join)
    assert FACT in log_of(thread)


def test_a_run_that_does_not_end_is_told_and_nothing_is_written() -> None:
    held = Held()
    run = held.begin()
    before = held.graph.get_state(on_thread())
    with pytest.raises(ThreadBusyError, match=r"'t' is in the middle of a run, before 'agent'"):
        held.memory.of(held.graph, on_thread(), wait=0.01).remember(FACT)
    assert held.graph.get_state(on_thread()) == before
    held.may_end.set()
    run.join()


def test_a_tool_that_changes_its_own_thread_is_told_at_once() -> None:
    own: list[Any] = []

    @tool
    def note(text: str) -> str:
        """Note something about the user."""
        try:
            return own[0].of(own[1], on_thread(), wait=1e9).remember(text)
        except ThreadBusyError as error:
            return str(error)

    call: Any = {"name": "note", "args": {"text": FACT}, "id": "c1"}
    answers = iter([AIMessage("", tool_calls=[call]), AIMessage("Done")])
    memory = ObservationalMemory(ScriptedChatModel())
    graph = create_memory_agent(
        ScriptedChatModel(lambda _: next(answers)),
        [note],
        memory=memory,
        checkpointer=InMemorySaver(),
    )
    own += [memory, graph]
    answer = graph.invoke({"messages": [turn(0)]}, on_thread())
    assert "return the update from `memory.updates`" in answer["messages"][-2].text


# --- What cannot be meant ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "`config` names no thread"),
        ({"configurable": {"thread_id": ""}}, "names no thread"),
        (None, "`config` is None; pass"),
        ("t-1", "`config` is 't-1'; pass .*thread_id"),
    ],
)
def test_a_configuration_without_a_thread_is_refused(config: Any, said: str) -> None:
    agent = make_agent("agent", InMemorySaver())
    with pytest.raises(ConfigurationError, match=said):
        agent.memory.of(agent.graph, config)
