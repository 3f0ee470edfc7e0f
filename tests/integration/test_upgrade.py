"""Threads that a former version of the package remembered go on with this one."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Overwrite

from langgraph_om import ConfigurationError, InlineBuffering, SQLAlchemyArchive
from support.agents import Agent, make_agent, on_thread, say, turn, uncovered, values
from support.clock import START, Clock
from support.former import Case, former, former_messages

LIMITS: dict[str, Any] = {
    "messages": 600,
    "log": 2000,
    "observation": {"buffer_tokens": 150, "buffer_activation": 0.5},
}


def resumed(case: Case, door: str, saver: Any, **options: Any) -> tuple[Agent, Any]:
    """An agent on a thread whose state is as version 1 left it."""
    clock = Clock(START.replace(day=9))
    agent = make_agent(door, saver, clock=clock, buffering=InlineBuffering(), **LIMITS, **options)
    record = former(case)
    config = on_thread(record["thread_id"], resource_id="ana")
    state = {"messages": former_messages(case), "om": Overwrite(record)}
    agent.graph.update_state(config, state, as_node="agent")
    assert values(agent.graph, config)["om"] == record
    return agent, config


@pytest.mark.parametrize("door", ["agent", "plain"])
@pytest.mark.parametrize("is_file", [False, True], ids=["memory", "sqlite"])
def test_a_checkpoint_of_version_1_goes_on(door: str, tmp_path: Any, *, is_file: bool) -> None:
    with SqliteSaver.from_conn_string(f"{tmp_path}/checkpoints.db") as sqlite:
        agent, config = resumed("thread", door, sqlite if is_file else InMemorySaver())
        old = former("thread")
        state = agent.graph.get_state(config)
        assert "2 chunks" in str(agent.memory.view(state))
        assert [each["log"] for each in agent.memory.history(state)] == [old["log"]]
        for number in range(20, 30):
            say(agent.graph, config, turn(number))
            assert uncovered(agent.memory, values(agent.graph, config)) == []
        record = values(agent.graph, config)["om"]
        assert record["version"] == 2
        texts = [group["text"] for group in record["log"]]
        written = [each["text"] for each in (*old["log"], *old["chunks"])]
        assert texts[: len(written)] == written, "what was ahead is activated, not asked for again"


def test_a_step_without_a_graph_goes_on_too() -> None:
    memory = make_agent("agent", buffering=InlineBuffering(), **LIMITS).memory
    record, messages = former("thread"), former_messages("thread")
    more: list[BaseMessage] = [*messages, turn(20)]
    result = memory.step(record, more, thread_id=record["thread_id"])
    assert result.record["version"] == 2
    assert [group["id"] for group in result.record["log"]][:2] == [
        group["id"] for group in record["log"]
    ]


def test_a_shared_log_of_version_1_goes_on(tmp_path: Any) -> None:
    with closing(SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db")) as archive:
        log = former("resource", "log")
        for revision in range(former("resource")["revision"]):
            archive.commit_record("ana", log, expected=revision, now=START)
        agent, config = resumed(
            "resource", "agent", InMemorySaver(), scope="resource", archive=archive
        )
        say(agent.graph, config, turn(20))
        assert archive.load_record("ana") == (log, 2), "reading alone changes nothing"
        for number in range(21, 30):
            say(agent.graph, config, turn(number))
        stored, _ = archive.load_record("ana")
        assert stored is not None
        assert stored["version"] == 2
        assert stored["log"][: len(log["log"])] == log["log"]
        assert len(stored["log"]) > len(log["log"])
        assert uncovered(agent.memory, values(agent.graph, config)) == []
        assert agent.memory.history("ana")[0]["version"] == 2


@pytest.mark.parametrize("door", ["agent", "plain"])
def test_a_checkpoint_of_a_later_version_is_refused_by_its_name(door: str) -> None:
    agent = make_agent(door, InMemorySaver())
    config = on_thread()
    later = Overwrite({**former("thread"), "version": 3})
    agent.graph.update_state(config, {"messages": [turn(0)], "om": later}, as_node="agent")
    with pytest.raises(ConfigurationError, match=r"`om\.version` is 3.*up to version 2"):
        say(agent.graph, config, turn(1))


def test_a_shared_log_of_a_later_version_is_refused_by_its_name(tmp_path: Any) -> None:
    with closing(SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db")) as archive:
        later = {**former("resource", "log"), "version": 3}
        archive.commit_record("ana", later, expected=0, now=START)
        agent, config = resumed(
            "resource", "agent", InMemorySaver(), scope="resource", archive=archive
        )
        with pytest.raises(ConfigurationError, match=r"shared log is 3.*up to version 2"):
            say(agent.graph, config, turn(20))
        with pytest.raises(ConfigurationError, match="shared log is 3"):
            agent.memory.history("ana")
