"""When the Observer or Reflector fails, the turn goes on, nothing is lost, and the user is told."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langgraph_om import EstimatingCounter, ObserverError
from langgraph_om.testing import ExtractiveObserver
from support.agents import (
    DOORS,
    Agent,
    Part,
    make_agent,
    of_kind,
    on_thread,
    record_of,
    say,
    scripted,
    talk,
    turn,
    turns,
    uncovered,
    values,
)
from support.clock import Clock
from support.inside import CONTINUATION_ID

CONFIG = on_thread()
CHANNELS = ("plain", "agent")

HALF = AIMessage(
    "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User goes to Lisbon</observations>",
    response_metadata={"finish_reason": "length"},
)

LOOP = "<observations>\n" + "* 🔴 (09:00) User goes to Lisbon again\n" * 3000 + "</observations>"

USELESS: dict[str, Any] = {
    "raises": ConnectionError("the provider is away"),
    "says nothing": "",
    "chats": "Sure! It sounds like a wonderful trip. Anything else I can do for you?",
    "empty block": "<observations>\n\n</observations>",
    "notes nothing": "<observations>(none)</observations>",
    "says so elsewhere": "<observations>\n* 特になし\n</observations>",
    "loops": LOOP,
    "is cut off": HALF,
    "refuses": AIMessage([{"type": "refusal", "refusal": "I can not."}]),
}
"""Answers of an Observer that are no observations."""


def conversation(agent: Agent, said: list[HumanMessage]) -> list[list[Part]]:
    """Talk, and check after each turn that it was answered and that nothing is lost."""
    told = []
    for message in said:
        told.append(say(agent.graph, CONFIG, message))
        state = values(agent.graph, CONFIG)
        assert state["messages"][-1].id == f"{message.id}-answer"
        assert uncovered(agent.memory, state) == []
    return told


# --- on_error="continue" -------------------------------------------------------------------------


@pytest.mark.parametrize("door", CHANNELS)
@pytest.mark.parametrize("answer", [USELESS["raises"], LOOP], ids=["raises", "loops"])
def test_recovers_when_the_observer_does(door: str, answer: Any) -> None:
    model = scripted(observer=[answer] * 4 + [ExtractiveObserver().reply])
    agent = make_agent(door, InMemorySaver(), model=model)
    told = conversation(agent, turns(26))
    failed = [at for at, parts in enumerate(told) if of_kind(parts, "observation-failed")]
    ended = [at for at, parts in enumerate(told) if of_kind(parts, "observation-end")]
    assert 0 < len(failed) <= 4
    assert max(failed) < min(ended)
    record = record_of(agent.graph, CONFIG)
    assert "observation" not in record["attempts"]
    assert len(ended) > 1  # the back-off is over with the first success
    assert len(agent.prompts()[-1]) < 15


# --- A model that hangs --------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["agent", "middleware"])
def test_deadline_is_for_all_cycles_before_one_call_of_the_actor(door: str) -> None:
    clock, observe = Clock(), ExtractiveObserver()

    def take_time(messages: list[BaseMessage]) -> str:
        clock.advance(seconds=25)
        return observe.reply(messages)

    model = scripted(observer=take_time)
    agent = make_agent(door, InMemorySaver(), model=model, clock=clock, deadline=60)
    messages = [m for at in range(30) for m in (turn(at), AIMessage("ok " * 40, id=f"a{at}"))]
    parts = say(agent.graph, CONFIG, *messages, turn(30))
    assert len(of_kind(parts, "observation-end")) == 2, "behind half of it no cycle begins"
    assert of_kind(parts, "observation-failed") == []
    assert len(of_kind(say(agent.graph, CONFIG, turn(31)), "observation-end")) == 2


# --- on_error="abort" and "raise" ----------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_abort_ends_the_turn_without_an_answer(door: str) -> None:
    model = scripted(observer=[ConnectionError("away"), ExtractiveObserver().reply])
    agent = make_agent(door, InMemorySaver(), model=model, on_error="abort")
    talk(agent.graph, CONFIG, turns(4))
    asked = len(agent.prompts())
    parts = say(agent.graph, CONFIG, turn(4), turn(5))
    kinds = [part["type"].removeprefix("data-om-") for part in parts]
    assert kinds == ["observation-start", "observation-failed", "tripwire"]
    (tripwire,) = of_kind(parts, "tripwire")
    assert set(tripwire) == {"reason", "operationType", "recordId", "threadId", "timestamp"}
    assert (tripwire["operationType"], tripwire["threadId"]) == ("observation", "t")
    assert "away" in tripwire["reason"]
    assert len(agent.prompts()) == asked
    assert agent.graph.get_state(CONFIG).next == ()
    assert values(agent.graph, CONFIG)["messages"][-1].id == "h5"
    # Nothing more happens until the conversation goes on; then it does.
    assert agent.graph.invoke(None, CONFIG) is None or len(agent.prompts()) == asked
    later = talk(agent.graph, CONFIG, turns(4, start=6))
    assert values(agent.graph, CONFIG)["messages"][-1].id == "h9-answer"
    assert len(of_kind(later, "observation-end")) > 0
    assert uncovered(agent.memory, values(agent.graph, CONFIG)) == []
    assert record_of(agent.graph, CONFIG)["tripwire"] is None


@pytest.mark.parametrize("door", DOORS)
def test_raise_raises_and_keeps_nothing(door: str) -> None:
    model = scripted(observer=[ConnectionError("away"), ExtractiveObserver().reply])
    agent = make_agent(door, InMemorySaver(), model=model, on_error="raise")
    talk(agent.graph, CONFIG, turns(4))
    before = record_of(agent.graph, CONFIG)
    with pytest.raises(ObserverError, match="ConnectionError: away"):
        say(agent.graph, CONFIG, turn(4), turn(5))
    record = record_of(agent.graph, CONFIG)
    assert (record["log"], record["attempts"]) == ([], {}) == (before["log"], before["attempts"])
    agent.graph.invoke(None, CONFIG)
    assert values(agent.graph, CONFIG)["messages"][-1].id == "h5-answer"
    assert len(record_of(agent.graph, CONFIG)["log"]) == 1
    assert uncovered(agent.memory, values(agent.graph, CONFIG)) == []


# --- An error that is not the model's ------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_interrupt_of_a_hook_stops_the_run_until_it_is_answered(door: str) -> None:
    answers = []

    def ask(messages: list[BaseMessage], _: Any) -> list[BaseMessage]:
        answers.append(interrupt("may this be observed?"))
        return messages

    agent = make_agent(door, InMemorySaver(), hooks={"before_observation": ask})
    result = agent.graph.invoke({"messages": turns(9)}, CONFIG)
    assert result["__interrupt__"][0].value == "may this be observed?"
    agent.graph.invoke(Command(resume="yes"), CONFIG)
    assert answers == ["yes"]
    assert len(record_of(agent.graph, CONFIG)["log"]) == 1


# --- A prompt that grows too large ---------------------------------------------------------------


@pytest.mark.parametrize("door", CHANNELS)
def test_view_is_trimmed_while_memory_is_down(door: str) -> None:
    agent = make_agent(
        door,
        InMemorySaver(),
        model=scripted(observer=ConnectionError("away")),
        max_input_tokens=1000,
    )
    parts = talk(agent.graph, CONFIG, turns(16, lookups=("", "2")))
    trimmed = of_kind(parts, "view-trimmed")
    assert trimmed[-1]["limit"] == 1000
    assert (trimmed[-1]["limit"], trimmed[-1]["threadId"]) == (1000, "t")
    state = values(agent.graph, CONFIG)
    shown = [[m for m in prompt[1:] if m.id != CONTINUATION_ID] for prompt in agent.prompts()]
    assert len(state["messages"]) - 1 - len(shown[-1]) == trimmed[-1]["droppedMessages"] > 0
    counter = EstimatingCounter()
    assert max(sum(map(counter.count_message, messages)) for messages in shown) <= 1000
    assert sum(map(counter.count_message, state["messages"])) > 1500
    assert shown[-1][-1].id == state["messages"][-2].id
    assert uncovered(agent.memory, state) != []  # only here something is missing, and it is told


# --- Odd states ----------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["agent", "middleware"])
def test_no_thread_id_is_one_warning(door: str, caplog: pytest.LogCaptureFixture) -> None:
    agent = make_agent(door)
    with caplog.at_level(logging.WARNING):
        results = [agent.graph.invoke({"messages": turns(8)}) for _ in range(3)]
    assert [record.name for record in caplog.records] == ["langgraph_om"]
    assert "thread_id" in caplog.records[0].getMessage()
    for result in results:
        assert result["om"]["thread_id"] == ""
        assert len(result["om"]["log"]) == 1
        assert uncovered(agent.memory, result) == []
