"""Long conversations through a graph: nothing is lost, the prompt stays small and valid.

Threads are also adopted, copied, edited and cut by others, and memory is switched off and on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langgraph_om import ConfigurationError
from support.agents import (
    MIDDLEWARE,
    SYSTEM,
    Agent,
    Part,
    actor,
    bare_agent,
    make_agent,
    of_kind,
    on_thread,
    record_of,
    refusals,
    say,
    scripted,
    talk,
    turn,
    turns,
    uncovered,
    values,
)
from support.clock import START
from support.inside import CONTINUATION_ID

CONFIG = on_thread()
LOOKUPS = ("", "2,1", "", "3", "1")
CHANNELS = ("plain", "agent")
"""One door for each kind of channel: kept whole, and kept as deltas."""


# --- Sixty turns ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """What was seen of one turn, once it was over."""

    parts: list[Part]
    prompts: list[list[BaseMessage]]


@dataclass(frozen=True)
class Conversation:
    """A conversation that is over."""

    agent: Agent
    turns: list[Turn]
    state: dict[str, Any]


@pytest.fixture(scope="module", params=CHANNELS)
def conversation(request: pytest.FixtureRequest) -> Conversation:
    agent = make_agent(request.param, InMemorySaver())
    told: list[Turn] = []
    for message in turns(60, lookups=LOOKUPS):
        before = len(agent.prompts())
        parts = say(agent.graph, CONFIG, message)
        told.append(Turn(parts, agent.prompts()[before:]))
        agent.clock.advance(hours=5)
    return Conversation(agent, told, values(agent.graph, CONFIG))


def test_thread_is_the_same_as_without_memory(conversation: Conversation) -> None:
    def told(messages: list[AnyMessage]) -> list[dict[str, Any]]:
        # Usage is the size of the prompt, which memory is there to change.
        return [m.model_dump(exclude={"usage_metadata", "response_metadata"}) for m in messages]

    bare = bare_agent(InMemorySaver())
    for message in turns(60, lookups=LOOKUPS):
        bare.invoke({"messages": [message]}, CONFIG)
    assert told(conversation.state["messages"]) == told(values(bare, CONFIG)["messages"])


# --- A thread that was there before memory -------------------------------------------------------


def old_thread(*, dated: bool) -> list[AnyMessage]:
    """250 turns that went by without memory."""
    told: list[AnyMessage] = []
    for number in range(250):
        at = START - timedelta(days=300) + timedelta(days=number)
        extra = {"additional_kwargs": {"created_at": at.isoformat()}} if dated else {}
        asked = turn(number)
        told.append(HumanMessage(asked.text, id=f"old-h{number}", **extra))
        told.append(AIMessage(f"Noted, trip {number} it is.", id=f"old-a{number}", **extra))
    return told


# --- Off and on ----------------------------------------------------------------------------------


def off_by_setting(door: str, saver: InMemorySaver) -> tuple[Agent, RunnableConfig]:
    return make_agent(door, saver, enabled=False), CONFIG


def off_by_call(door: str, saver: InMemorySaver) -> tuple[Agent, RunnableConfig]:
    return make_agent(door, saver), on_thread(om_enabled=False)


@pytest.mark.parametrize("door", [*CHANNELS, "middleware"])
@pytest.mark.parametrize("off", [off_by_setting, off_by_call])
def test_switched_off_it_is_as_if_it_were_not_there(
    door: str, off: Callable[[str, InMemorySaver], tuple[Agent, RunnableConfig]]
) -> None:
    saver = InMemorySaver()
    first = make_agent(door, saver)
    talk(first.graph, CONFIG, turns(12))
    before = record_of(first.graph, CONFIG)
    without, config = off(door, saver)
    parts = talk(without.graph, config, turns(12, start=12, lookups=("1",)))
    assert parts == []
    assert without.asked("observer") == without.asked("reflector") == 0
    state = values(without.graph, CONFIG)
    assert state["om"] == before
    assert without.prompts()[-1] == [SystemMessage(SYSTEM), *state["messages"][:-1]]
    again = make_agent(door, saver, clock=first.clock)
    say(again.graph, CONFIG, turn(24))
    state = values(again.graph, CONFIG)
    assert uncovered(again.memory, state) == []
    assert len(again.prompts()[-1]) < 20
    assert state["om"]["cursor"] != before["cursor"]


@pytest.mark.parametrize("door", [*CHANNELS, "middleware"])
def test_run_begun_without_memory_can_be_resumed_with_it(
    door: str, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([OSError("the provider is down")])

    def failing_once(messages: list[BaseMessage]) -> AIMessage:
        for error in failures:
            raise error
        return actor(messages)

    agent = make_agent(door, InMemorySaver(), model=scripted(actor=failing_once))
    with pytest.raises(OSError, match="down"):
        say(agent.graph, on_thread(om_enabled=False), turn(0, "1"))
    with caplog.at_level("WARNING", "langgraph_om"):
        agent.graph.invoke(None, CONFIG)
        talk(agent.graph, CONFIG, turns(12, start=1))
    warned = [
        line.message.startswith("the node `om_status` did not run") for line in caplog.records
    ]
    # The middleware inspects within the node that calls the model.
    assert warned == (
        [True] if door in ("plain", "agent", "agent-plain", "middleware-node") else []
    )
    assert agent.prompts()[1][-1].text == turn(0, "1").text
    assert record_of(agent.graph, CONFIG)["log"]
    assert uncovered(agent.memory, values(agent.graph, CONFIG)) == []


# --- Edits by others -----------------------------------------------------------------------------


def talked(door: str, count: int = 12, **options: Any) -> Agent:
    agent = make_agent(door, InMemorySaver(), **options)
    talk(agent.graph, CONFIG, turns(count))
    return agent


@pytest.mark.parametrize("door", CHANNELS)
def test_copied_record_moves_to_its_new_thread(door: str) -> None:
    agent = talked(door)
    original = values(agent.graph, CONFIG)
    copy = on_thread("copy")
    agent.graph.update_state(
        copy, {"messages": original["messages"], "om": original["om"]}, as_node="agent"
    )
    parts = say(agent.graph, copy, turn(12))
    state = values(agent.graph, copy)
    assert state["om"]["thread_id"] == "copy"
    assert state["om"]["id"] != original["om"]["id"]
    assert state["om"]["log"][: len(original["om"]["log"])] == original["om"]["log"]
    assert {status["threadId"] for status in of_kind(parts, "status")} == {"copy"}
    assert uncovered(agent.memory, state) == []
    assert record_of(agent.graph, CONFIG) == original["om"]


@pytest.mark.parametrize("door", CHANNELS)
def test_a_whole_record_takes_the_place_of_what_is_there_and_keys_alone_are_refused(
    door: str,
) -> None:
    agent = talked(door, 13)
    before = record_of(agent.graph, CONFIG)
    with pytest.raises(ConfigurationError, match=r"only the keys 'current_task'; .*`memory\.of\("):
        agent.graph.update_state(CONFIG, {"om": {"current_task": "pack"}}, as_node="agent")
    changed = {**before, "current_task": "pack"}
    agent.graph.update_state(CONFIG, {"om": changed}, as_node="agent")
    assert record_of(agent.graph, CONFIG) == changed
    say(agent.graph, CONFIG, turn(13))
    assert "<current-task>\npack\n</current-task>" in agent.prompts()[-1][0].text


@pytest.mark.parametrize("door", CHANNELS)
@pytest.mark.parametrize(
    ("junk", "named"),
    [
        ("forget it", "'forget it'"),
        (7, "7"),
        ({"curent_task": "typo"}, "'curent_task'"),
        ([{"type": "invented"}], "'invented'"),
    ],
)
def test_edit_that_can_not_be_meant_is_refused(door: str, junk: Any, named: str) -> None:
    agent = talked(door, 2)
    before = record_of(agent.graph, CONFIG)
    with pytest.raises(ConfigurationError, match=named):
        agent.graph.update_state(CONFIG, {"om": junk}, as_node="agent")
    assert record_of(agent.graph, CONFIG) == before


@pytest.mark.parametrize("door", CHANNELS)
def test_thread_cleared_by_someone_else(door: str) -> None:
    agent = talked(door)
    log = record_of(agent.graph, CONFIG)["log"]
    cleared = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *turns(2, start=50)]
    agent.graph.update_state(CONFIG, {"messages": cleared}, as_node="agent")
    say(agent.graph, CONFIG, turn(60))
    state = values(agent.graph, CONFIG)
    assert [m.id for m in state["messages"]] == ["h50", "h51", "h60", "h60-answer"]
    assert state["om"]["log"] == log
    shown = [m.id for m in agent.prompts()[-1]]
    assert shown[1:] == [CONTINUATION_ID, "h50", "h51", "h60"]
    parts = talk(agent.graph, CONFIG, turns(8, start=61))
    assert len(of_kind(parts, "observation-end")) > 0
    assert len(agent.prompts()[-1]) < 10
    assert refusals(agent.prompts()) == []


@pytest.mark.parametrize("door", [*CHANNELS, "middleware"])
def test_removal_before_an_observation_is_told_once(
    door: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = talked(door, 3)
    node = "model" if door in MIDDLEWARE else "agent"

    def remove(which: slice) -> None:
        removals = [RemoveMessage(id=m.id) for m in values(agent.graph, CONFIG)["messages"][which]]
        agent.graph.update_state(CONFIG, {"messages": removals}, as_node=node)

    remove(slice(-1, None))  # as where an answer is asked for again
    talk(agent.graph, CONFIG, turns(1, start=3))
    assert caplog.records == []
    for number in range(4, 6):
        remove(slice(1, 3))
        talk(agent.graph, CONFIG, turns(1, start=number))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "2 message(s)" in caplog.text
    assert "before they were observed" in caplog.text


@pytest.mark.parametrize("door", CHANNELS)
@pytest.mark.parametrize("key", ["h0", "h4"])
def test_edited_observed_message_is_shown_and_observed_again(
    door: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    saver = InMemorySaver()
    talk(make_agent(door, saver, log=10_000).graph, CONFIG, turns(13))
    agent = make_agent(door, saver, log=10_000)
    edited = HumanMessage("I moved to Ghent, not to Lisbon.", id=key)
    agent.graph.update_state(CONFIG, {"messages": [edited]}, as_node="agent")
    say(agent.graph, CONFIG, HumanMessage("hi", id="h99"))
    assert edited.text in [m.text for m in agent.prompts()[-1]]
    talk(agent.graph, CONFIG, turns(9, start=20))
    (warning,) = [line for line in caplog.messages if "edited after they were observed" in line]
    assert repr(key) in warning
    asked = [call["messages"][-1].text for call in agent.model.calls if call["role"] == "observer"]
    assert sum(edited.text in text.split("<conversation>")[-1] for text in asked) == 1
    assert edited.text not in [m.text for m in agent.prompts()[-1]]
    log = "".join(group["text"] for group in record_of(agent.graph, CONFIG)["log"])
    assert log.index("moved to Ghent") > log.index(f"trip number {key[1:]}")


# --- Small recursion limits ----------------------------------------------------------------------


@pytest.mark.parametrize("door", CHANNELS)
@pytest.mark.parametrize("limit", [3, 4, 11])
def test_backlog_never_exhausts_a_small_limit(door: str, limit: int) -> None:
    agent = make_agent(door, InMemorySaver())
    config: RunnableConfig = {**CONFIG, "recursion_limit": limit}
    parts = say(agent.graph, config, *old_thread(dated=True)[:200], turn(1000))
    state = values(agent.graph, CONFIG)
    assert state["messages"][-1].id == "h1000-answer"
    assert len(of_kind(parts, "status")) == 1
    assert uncovered(agent.memory, state) == []
