"""Earlier generations of a log, and the log as of a time, from a thread's own checkpoints."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite

from langgraph_om import ConfigurationError
from support.agents import make_agent, on_thread, record_of, talk, turns, uncovered, values
from support.clock import START
from support.inside import blank_record

CONFIG = on_thread()


@pytest.fixture(scope="module")
def agent() -> Any:
    made = make_agent("agent", InMemorySaver(), messages=300, log=150)
    talk(made.graph, CONFIG, turns(16), made.clock)
    return made


def test_generations_are_listed_newest_first(agent: Any) -> None:
    now = record_of(agent.graph, CONFIG)
    found = agent.memory.history(agent.graph.get_state_history(CONFIG))
    assert found[0] == now
    assert [record["generation"] for record in found] == list(range(now["generation"], -1, -1))
    assert now["generation"] > 2


def test_former_generation_can_be_put_in_force_again(agent: Any) -> None:
    former = agent.memory.history(agent.graph.get_state_history(CONFIG))[2]
    fork = next(iter(agent.graph.get_state_history(CONFIG))).config
    restored = agent.graph.update_state(fork, {"om": former})
    assert record_of(agent.graph, restored)["log"] == former["log"]
    talk(agent.graph, restored, turns(1, start=50))
    state = values(agent.graph, CONFIG)
    assert uncovered(agent.memory, state) == []


def test_log_as_of_a_time(agent: Any) -> None:
    states = list(agent.graph.get_state_history(CONFIG))
    record = states[0].values["om"]
    texts = [group["text"] for group in record["log"] if group["text"]]
    now = agent.memory.observations_as_of(states[0], START + timedelta(days=300))
    assert now == "\n\n".join(texts)
    assert agent.memory.observations_as_of(states[0], START - timedelta(days=1)) == ""
    first = record["log"][0]["observed_at"]
    assert agent.memory.observations_as_of(states[0], first).startswith(texts[0])


@pytest.mark.parametrize("door", ["agent", "plain"])
def test_a_checkpoint_of_a_later_version_is_refused_by_its_name(door: str) -> None:
    agent = make_agent(door, InMemorySaver())
    later = Overwrite({**blank_record(), "version": 2})
    agent.graph.update_state(CONFIG, {"messages": turns(1), "om": later}, as_node="agent")
    with pytest.raises(ConfigurationError, match=r"`om\.version` is 2.*upgrade langgraph-om"):
        talk(agent.graph, CONFIG, turns(1))
