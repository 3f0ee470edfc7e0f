"""At the end of a session everything is observed on request, however little it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import BackgroundBuffering, ConfigurationError, ObservationalMemory
from support.agents import (
    DOORS,
    Agent,
    make_agent,
    on_thread,
    remembering,
    say,
    scripted,
    talk,
    times_covered,
    turn,
    turns,
    uncovered,
    values,
)
from support.clock import Clock
from support.inside import runner_of


def status(agent: Agent) -> dict[str, Any]:
    return agent.memory.status(values(agent.graph, on_thread()))["windows"]["active"]["messages"]


@pytest.mark.parametrize("door", DOORS)
def test_everything_is_observed_and_the_thread_goes_on(door: str) -> None:
    agent = make_agent(door, InMemorySaver())
    talk(agent.graph, on_thread(), turns(3, lookups=("", "1")))
    before = values(agent.graph, on_thread())["messages"]
    assert agent.asked("observer") == 0
    report = agent.memory.of(agent.graph, on_thread()).observe()
    state = values(agent.graph, on_thread())
    assert (report.error, report.remaining_tokens) == (None, 0)
    assert status(agent)["tokens"] == 0
    assert state["messages"] == before
    assert times_covered(state["om"], [message.id for message in before]) == [1] * len(before)
    say(agent.graph, on_thread(), turn(9))
    assert uncovered(agent.memory, values(agent.graph, on_thread())) == []
    assert [message.id for message in agent.prompts()[-1]][-1] == "h9"


@pytest.mark.parametrize("door", DOORS)
def test_a_log_is_condensed_on_request_however_small(door: str) -> None:
    agent = make_agent(door, InMemorySaver(), reflection={"instruction": "Write tersely."})
    talk(agent.graph, on_thread(), turns(3, lookups=("", "1")))
    thread = agent.memory.of(agent.graph, on_thread())
    thread.observe()
    before = values(agent.graph, on_thread())
    report = thread.reflect("Keep every amount.")
    state = values(agent.graph, on_thread())
    assert report.error is None
    assert state["om"]["generation"] == before["om"]["generation"] + 1
    assert report.log_tokens < sum(group["tokens"] for group in before["om"]["log"])
    assert state["messages"] == before["messages"]
    (asked,) = [call["messages"] for call in agent.model.calls if call["role"] == "reflector"]
    system = asked[0].text
    assert system.index("Write tersely.") < system.index("Keep every amount.")
    say(agent.graph, on_thread(), turn(9))
    assert uncovered(agent.memory, values(agent.graph, on_thread())) == []


def test_what_was_made_ahead_is_put_into_the_log_and_not_asked_for_again() -> None:
    agent = make_agent(
        "agent", InMemorySaver(), buffering=BackgroundBuffering(), observation={"buffer_tokens": 80}
    )
    talk(agent.graph, on_thread(), turns(2))
    report = agent.memory.of(agent.graph, on_thread()).observe()
    state = values(agent.graph, on_thread())
    assert report.remaining_tokens == 0
    assert (state["om"]["chunks"], state["om"]["pending"]) == ([], {})
    ids = [message.id for message in state["messages"]]
    assert times_covered(state["om"], ids) == [1] * len(ids)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("work", ["observe", "reflect", "adopt"])
def test_a_session_ends_after_a_person_changed_the_log(door: str, work: str) -> None:
    agent = make_agent(door, InMemorySaver(), archive="sqlite:///:memory:")
    talk(agent.graph, on_thread(), turns(3, lookups=("", "1")))
    thread = agent.memory.of(agent.graph, on_thread())
    thread.remember("User is allergic to walnuts")
    report = getattr(thread, work)()
    assert report.error is None
    assert "walnuts" in str(thread.view())
    talk(agent.graph, on_thread(), [turn(9), turn(10)])
    archive: Any = agent.memory.archive
    archived = [each.key for each in archive.messages("t", limit=99)]
    assert archived.count("h1") == archived.count("h9") == 1


def test_a_thread_in_the_middle_of_a_run_is_refused() -> None:
    agent = make_agent("agent", InMemorySaver())
    say(agent.graph, on_thread(), turn(1))
    agent.graph.update_state(on_thread(), {"messages": [turn(2)]}, as_node="__start__")
    said = "the thread 't' is in the middle of a run, before 'om_status'.*`as_node`"
    with pytest.raises(ConfigurationError, match=said):
        agent.memory.of(agent.graph, on_thread()).observe()


# --- With a shared log ---------------------------------------------------------------------------


def test_other_threads_of_the_resource_know_it(tmp_path: Path) -> None:
    def sharing() -> ObservationalMemory:
        archive = f"sqlite:///{tmp_path}/memory.db"
        return remembering(scripted(), Clock(), scope="resource", archive=archive)

    with sharing() as one, sharing() as other:
        user = {"configurable": {"resource_id": "ada"}}
        said = [HumanMessage("My flight leaves on Friday.", id="h1"), AIMessage("Ok.", id="a1")]
        done = one.observe_messages(None, said, thread_id="flights", config=user)
        assert done.record["log"]
        hello = other.step(None, [turn(5)], thread_id="hotels", config=user)
        assert "flight leaves on Friday" in str(hello.messages[0].content)
        assert hello.record["others"]["recent"] == []
        assert runner_of(other).archive is not None
