"""One thread has thresholds of its own; others of the same memory do not."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ConfigurationError
from langgraph_om.testing import ScriptedChatModel
from support.agents import DOORS, Agent, make_agent, on_thread, record_of, turns


def talk(agent: Agent, key: str, config: Any, count: int) -> Any:
    for message in turns(count):
        agent.graph.invoke({key: [message]}, config)
    agent.memory.flush()
    return record_of(agent.graph, config)


@pytest.mark.parametrize("door", DOORS)
def test_a_thread_is_observed_at_a_threshold_of_its_own(door: str) -> None:
    agent = make_agent(door, InMemorySaver(), messages=10_000)
    key = "chat" if door == "other-key" else "messages"
    own, other = on_thread("own"), on_thread("other")
    agent.graph.invoke({key: [turns(1)[0]]}, own)
    act = agent.memory.of(agent.graph, own).set_limits(message_tokens=200)
    assert act.startswith("act-")
    assert talk(agent, key, own, 8)["log"]
    assert talk(agent, key, other, 8)["log"] == []
    status = agent.memory.status(agent.graph.get_state(own))
    assert status["windows"]["active"]["messages"]["threshold"] == 200
    agent.memory.of(agent.graph, own).set_limits()
    status = agent.memory.status(agent.graph.get_state(own))
    assert status["windows"]["active"]["messages"]["threshold"] == 10_000


def test_what_follows_from_a_threshold_follows_in_the_same_proportions() -> None:
    agent = make_agent("agent", InMemorySaver())
    limits = agent.memory.thresholds
    record: Any = {"limits": {"id": "a", "message_tokens": 2 * limits.message_tokens}}
    feature = agent.memory._runner.settings.features.find("limits")
    found = feature.limit(limits, record)
    assert found.block_after == 2 * limits.block_after
    assert found.keep_tokens == 2 * limits.keep_tokens
    assert found.observation_tokens == limits.observation_tokens
    assert feature.limit(limits, {}) is limits


async def test_an_update_does_the_same_and_what_cannot_be_meant_is_refused() -> None:
    agent = make_agent("agent", InMemorySaver(), messages=10_000)
    config = on_thread("t")
    await agent.graph.ainvoke({"messages": [turns(1)[0]]}, config)
    thread = agent.memory.of(agent.graph, config)
    await thread.aset_limits(observation_tokens=500)
    assert record_of(agent.graph, config)["limits"]["observation_tokens"] == 500
    update = agent.memory.updates.set_limits(message_tokens=300)
    agent.graph.update_state(config, {"om": update})
    assert "observation_tokens" not in record_of(agent.graph, config)["limits"]
    with pytest.raises(ConfigurationError, match="`message_tokens` is 0"):
        agent.memory.updates.set_limits(message_tokens=0)
    assert isinstance(agent.model, ScriptedChatModel)
