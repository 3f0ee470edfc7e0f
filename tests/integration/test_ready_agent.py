"""The ready-made agent: steps, failures in the middle of a turn, and what comes in from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import create_memory_agent
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver
from support.agents import (
    READY,
    Agent,
    Part,
    actor,
    make_agent,
    of_kind,
    on_thread,
    outcome,
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

CONFIG = on_thread()
DUE: dict[str, Any] = {"messages": 300, "log": 200}
"""Limits with which memory observes and reflects in the turn after `turns(6)`."""
IDLE: dict[str, Any] = {"messages": 50_000, "log": 50_000}

both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


class Ready(Protocol):
    def __call__(self, saver: BaseCheckpointSaver[Any] | None = None, **options: Any) -> Agent:
        """Build the ready-made agent."""


@pytest.fixture(params=READY)
def ready(request: pytest.FixtureRequest) -> Ready:
    def build(saver: BaseCheckpointSaver[Any] | None = None, **options: Any) -> Agent:
        return make_agent(request.param, saver if saver is not None else InMemorySaver(), **options)

    return build


def failing(*failures: BaseException) -> Callable[[list[BaseMessage]], AIMessage]:
    """An Actor whose provider fails at the answers to this turn, then works again."""
    left = iter(failures)

    def answer(messages: list[BaseMessage]) -> AIMessage:
        if any(message.text.startswith("Now") for message in messages):
            for failure in left:
                raise failure
        return actor(messages)

    return answer


NOW = HumanMessage("Now tell me about the trip to Cork, please.", id="now")


async def run(
    agent: Agent, given: Any, *, config: RunnableConfig = CONFIG, is_async: bool = False, **how: Any
) -> tuple[list[Part], list[dict[str, Any]]]:
    """Run a turn; return the parts of memory, and what each node has written."""
    modes: Any = ["custom", "updates"]
    if is_async:
        stream = agent.graph.astream(given, config, stream_mode=modes, **how)
        items = [item async for item in stream]
    else:
        items = [*agent.graph.stream(given, config, stream_mode=modes, **how)]
    parts = [data for mode, data in items if mode == "custom"]
    return parts, [data for mode, data in items if mode == "updates"]


def nodes_of(updates: list[dict[str, Any]]) -> list[str]:
    return [name for update in updates for name in update]


def nothing_lost(agent: Agent) -> bool:
    return uncovered(agent.memory, values(agent.graph, CONFIG)) == []


# --- Where nothing is due ------------------------------------------------------------------------


@both_ways
async def test_an_answer_is_kept_where_the_last_step_fails(ready: Ready, *, is_async: bool) -> None:
    fails = False

    def tell_time(message: BaseMessage) -> None:
        if fails and message.id == "h2-answer":
            raise ConnectionError

    agent = ready(message_time=tell_time, archive="sqlite://", **IDLE)
    talk(agent.graph, CONFIG, turns(2))
    archive: Any = agent.memory.archive
    fails = True
    with pytest.raises(ConnectionError):
        await run(agent, {"messages": [turn(2)]}, is_async=is_async)
    assert values(agent.graph, CONFIG)["messages"][-1].id == "h2-answer"
    fails = False
    _, updates = await run(agent, None, is_async=is_async)
    assert nodes_of(updates) == ["om_finish"]
    archived = [each.key for each in archive.messages("t", limit=100)]
    assert archived[-2:] == ["h2", "h2-answer"]


def test_an_answer_that_a_person_writes_is_archived_behind_one_of_the_actor(ready: Ready) -> None:
    agent = ready(archive="sqlite://", **IDLE)
    talk(agent.graph, CONFIG, turns(2))
    said = [HumanMessage("Bye.", id="bye"), AIMessage("Good bye.", id="bye-answer")]
    agent.graph.update_state(CONFIG, {"messages": said}, as_node="agent")
    assert agent.graph.get_state(CONFIG).next == ("om_finish",)
    agent.graph.invoke(None, CONFIG)
    archive: Any = agent.memory.archive
    assert archive.find("bye-answer", thread_id="t") is not None


# --- Where something is due ----------------------------------------------------------------------


@both_ways
async def test_due_work_is_done_in_the_nodes_and_the_actor_always_answers(
    ready: Ready, *, is_async: bool
) -> None:
    agent = ready(**DUE, retrieval=False)
    talk(agent.graph, CONFIG, turns(6))
    parts, updates = await run(agent, {"messages": [turn(6, "2,1")]}, is_async=is_async)
    nodes = nodes_of(updates)
    assert nodes[:4] == ["om_status", "om_observe", "om_status", "om_reflect"]
    assert nodes[-1] == "agent"
    answers = [update["agent"]["messages"] for update in updates if "agent" in update]
    assert [message[-1].type for message in answers] == ["ai"] * 3
    assert len(of_kind(parts, "status")) == 3
    usual = make_agent("plain", InMemorySaver(), **DUE)
    talk(usual.graph, CONFIG, turns(6))
    assert parts == say(usual.graph, CONFIG, turn(6, "2,1"))
    assert outcome(values(agent.graph, CONFIG)) == outcome(values(usual.graph, CONFIG))


@both_ways
async def test_a_person_who_grants_each_call_is_asked_once_for_each(
    ready: Ready, *, is_async: bool
) -> None:
    agent = ready(**DUE)
    talk(agent.graph, CONFIG, turns(6))
    given: Any = {"messages": [turn(6, "1")]}
    asked, parts = 0, []
    while given is not None or agent.graph.get_state(CONFIG).next:
        told, _ = await run(agent, given, is_async=is_async, interrupt_before=["agent"])
        given, asked = None, asked + bool(agent.graph.get_state(CONFIG).next)
        parts += told
    assert asked == 2
    assert [status["stepNumber"] for status in of_kind(parts, "status")] == [0, 1]
    assert nothing_lost(agent)


def test_an_aborted_turn_ends_without_the_actor(ready: Ready) -> None:
    observer = [ConnectionError("away")] * 20
    agent = ready(model=scripted(observer=observer), on_error="abort", **DUE)
    parts = talk(agent.graph, CONFIG, turns(4))
    (tripwire,) = of_kind(parts, "tripwire")[:1]
    assert tripwire["operationType"] == "observation"
    asked = len(agent.prompts())
    again = [*agent.graph.stream({"messages": []}, CONFIG, stream_mode=["custom", "updates"])]
    assert nodes_of([data for mode, data in again if mode == "updates"]) == ["om_status"]
    assert of_kind([data for mode, data in again if mode == "custom"], "tripwire")
    assert len(agent.prompts()) == asked


# --- When the Actor's model fails ----------------------------------------------------------------


def undisturbed(ready: Ready, said: list[HumanMessage], **options: Any) -> Mapping[str, Any]:
    agent = ready(**options)
    talk(agent.graph, CONFIG, said)
    return outcome(values(agent.graph, CONFIG))


@both_ways
@pytest.mark.parametrize("limits", [DUE, IDLE], ids=["due", "idle"])
async def test_a_run_that_failed_in_the_model_goes_on(
    ready: Ready, limits: dict[str, Any], *, is_async: bool
) -> None:
    saver = InMemorySaver()
    agent = ready(saver, model=scripted(actor=failing(ConnectionError("down"))), **limits)
    talk(agent.graph, CONFIG, turns(6))
    with pytest.raises(ConnectionError, match="down"):
        await run(agent, {"messages": [NOW]}, is_async=is_async)
    asked = agent.asked("observer") + agent.asked("reflector")
    again = ready(saver, model=agent.model, **limits)
    parts, _ = await run(again, None, is_async=is_async)
    # A step that was stated before it failed is not stated again.
    assert of_kind(parts, "status") == []
    assert of_kind(parts, "observation-start") == []
    assert agent.asked("observer") + agent.asked("reflector") == asked
    assert outcome(values(again.graph, CONFIG)) == undisturbed(ready, [*turns(6), NOW], **limits)
    assert nothing_lost(again)


# --- From outside --------------------------------------------------------------------------------


def test_equal_results_of_a_tool_stay_messages_of_their_own() -> None:
    """Also where the provider repeats ids of calls, and the places of evicted messages recur."""

    @tool
    def save(note: str) -> str:
        """Save a note."""
        return f"Saved. {note}"[:6]

    def act(messages: list[BaseMessage]) -> AIMessage:
        if messages[-1].type == "tool":
            return AIMessage("Okay, that is noted for you now.")
        return AIMessage("", tool_calls=[{"name": "save", "args": {"note": "x"}, "id": "call_0"}])

    archive = SQLAlchemyArchive("sqlite://")
    memory = remembering(ExtractiveObserver(), Clock(), messages=150, archive=archive, evict=True)
    model = scripted(actor=act)
    agent = create_memory_agent(model, [save], memory=memory, checkpointer=InMemorySaver())
    for number in range(14):
        said = HumanMessage(f"Please note item number {number:02d} in the list today.")
        agent.invoke({"messages": [said]}, CONFIG)
    archived = archive.messages("t", limit=1000, visible_only=False)
    assert Counter(row.message.type for row in archived) == {"human": 14, "ai": 28, "tool": 14}
