"""When the Observer or Reflector fails, the turn goes on, nothing is lost, and the user is told."""

from __future__ import annotations

import logging
import operator
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from langgraph_om import EstimatingCounter, ObserverError, add_observational_memory
from langgraph_om.core.content.message_keys import CONTINUATION_ID
from langgraph_om.testing import ExtractiveObserver
from support.agents import (
    DOORS,
    Agent,
    Part,
    make_agent,
    of_kind,
    on_thread,
    record_of,
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


useless = pytest.mark.parametrize("answer", USELESS.values(), ids=USELESS)


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


@useless
def test_useless_observer_costs_nothing_but_its_calls(answer: Any) -> None:
    agent = make_agent("agent", InMemorySaver(), model=scripted(observer=answer))
    told = conversation(agent, turns(10))
    parts = [part for turn_parts in told for part in turn_parts]
    assert len(of_kind(parts, "observation-start")) == len(of_kind(parts, "observation-failed")) > 1
    assert of_kind(parts, "observation-end") == []
    assert len(of_kind(parts, "status")) == 10
    record = record_of(agent.graph, CONFIG)
    assert (record["log"], record["cursor"]) == ([], [])
    assert [m.id for m in agent.prompts()[-1][1:]] == [
        m.id for m in values(agent.graph, CONFIG)["messages"][:-1]
    ]
    assert refusals(agent.prompts()) == []


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


def test_small_talk_may_need_no_note() -> None:
    nothing = "<observations>(none)</observations>"
    agent = make_agent("agent", InMemorySaver(), model=scripted(observer=nothing))
    agent.graph.invoke({"messages": [HumanMessage("Hi there! How are you?")]}, CONFIG)
    report = agent.memory.of(agent.graph, CONFIG).observe()
    assert report.remaining_tokens == 0
    (group,) = record_of(agent.graph, CONFIG)["log"]
    assert group["text"] == ""
    assert agent.asked("observer") == 1


def test_who_noted_nothing_of_much_talk_is_asked_for_an_item() -> None:
    asked: list[str] = []
    noted = "<observations>\n* 🔴 (09:00) User goes to Lisbon\n</observations>"

    def observe(messages: list[BaseMessage]) -> str:
        asked.append(messages[-1].text)
        return "<observations>(none)</observations>" if len(asked) == 1 else noted

    agent = make_agent("agent", InMemorySaver(), model=scripted(observer=observe))
    conversation(agent, turns(6))
    assert "(none)" not in asked[1]
    assert "at least one item" in asked[1]
    assert record_of(agent.graph, CONFIG)["log"][0]["text"]


def test_reflector_that_fails_leaves_the_log() -> None:
    model = scripted(reflector=ConnectionError("away"))
    agent = make_agent("agent", InMemorySaver(), model=model, log=300)
    told = conversation(agent, turns(40))
    parts = [part for turn_parts in told for part in turn_parts]
    failed = [d for d in of_kind(parts, "observation-failed") if d["operationType"] == "reflection"]
    observed = [d for d in of_kind(parts, "observation-end") if d["operationType"] == "observation"]
    record = record_of(agent.graph, CONFIG)
    assert len(failed) > 1
    assert len(failed) < len(observed)
    assert record["generation"] == 0
    assert [group["id"] for group in record["log"]] == [end["cycleId"] for end in observed]


# --- A model that hangs --------------------------------------------------------------------------


def hanging(gate: threading.Event) -> Callable[[list[BaseMessage]], str]:
    def answer(messages: list[BaseMessage]) -> str:
        gate.wait()  # whoever waits for it outlasts the test
        return ExtractiveObserver().reply(messages)

    return answer


def test_hanging_observer_does_not_hold_the_turn(gate: threading.Event) -> None:
    agent = make_agent(
        "agent", InMemorySaver(), model=scripted(observer=hanging(gate)), deadline=0.3
    )
    talk(agent.graph, CONFIG, turns(4))
    began = time.monotonic()
    parts = say(agent.graph, CONFIG, turn(4), turn(5))
    assert time.monotonic() - began >= 0.3
    (failed,) = of_kind(parts, "observation-failed")
    assert "deadline of 0.3 seconds" in failed["error"]
    assert values(agent.graph, CONFIG)["messages"][-1].id == "h5-answer"
    assert uncovered(agent.memory, values(agent.graph, CONFIG)) == []
    # An answer that comes after all changes nothing.
    before = record_of(agent.graph, CONFIG)
    gate.set()
    time.sleep(0.1)
    assert record_of(agent.graph, CONFIG) == before
    assert before["log"] == []


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


@pytest.mark.parametrize("door", ["agent", "middleware"])
def test_request_larger_than_a_cycle_is_answered_before_it_is_observed(door: str) -> None:
    agent = make_agent(door, InMemorySaver())
    talk(agent.graph, CONFIG, turns(1))
    paste = HumanMessage("word " * 4000, id="paste")
    assert of_kind(say(agent.graph, CONFIG, paste), "observation-start") == []
    say(agent.graph, CONFIG, turn(2))
    ranges = [group["ranges"] for group in record_of(agent.graph, CONFIG)["log"]]
    assert any("paste" in ends for each in ranges for ends in each)


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


@pytest.mark.parametrize("door", CHANNELS)
def test_actor_that_fails_after_an_observation_costs_no_second_one(door: str) -> None:
    saver = InMemorySaver()
    dying = make_agent(door, saver, model=scripted(actor=ConnectionError("away")))
    with pytest.raises(ConnectionError):
        say(dying.graph, CONFIG, *turns(8))
    assert dying.asked("observer") == 1
    again = make_agent(door, saver)
    again.graph.invoke(None, CONFIG)
    assert again.asked("observer") == 0
    assert values(again.graph, CONFIG)["messages"][-1].id == "h7-answer"
    assert uncovered(again.memory, values(again.graph, CONFIG)) == []


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


class Appending(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


@pytest.mark.parametrize("ids", ["none", "doubled"])
def test_messages_that_ids_do_not_tell_apart(ids: str) -> None:
    key = None if ids == "none" else "same"
    model = scripted(actor=lambda messages: AIMessage(f"Noted: {messages[-1].text[:50]}", id=key))
    memory = remembering(model, Clock())
    builder = StateGraph(Appending)
    builder.add_node(
        "agent", lambda state: {"messages": [model.invoke(memory.llm_input_messages(state))]}
    )
    builder.add_edge(START, add_observational_memory(builder, memory))
    graph = builder.compile(checkpointer=InMemorySaver())
    said = [HumanMessage(turn(at).text, id=key) for at in range(20)]
    for message in said:
        graph.invoke({"messages": [message]}, CONFIG)
        state = values(graph, CONFIG)
        observed = "\n".join(
            call["messages"][-1].text for call in model.calls if call["role"] == "observer"
        )
        shown = {m.text for m in memory.llm_input_messages(state)}
        lost = [m.text for m in state["messages"] if m.text not in shown and m.text not in observed]
        assert lost == []
    assert len(values(graph, CONFIG)["messages"]) == 40
    assert sum(call["role"] == "observer" for call in model.calls) > 2
    told = [call["messages"][-1].text for call in model.calls if call["role"] == "observer"]
    blocks = [text.partition("<conversation>")[2] for text in told]
    assert all(sum(turn(at).text in block for block in blocks) <= 1 for at in range(20))
    assert len([c for c in model.calls if c["role"] == "actor"][-1]["messages"]) < 16


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
