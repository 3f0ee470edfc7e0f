"""Jobs as runs of a server, which a double stands for; the real one is in tests/examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    ConfigurationError,
    Executor,
    ObservationalMemory,
    ServerBuffering,
    worker_graph,
)
from langgraph_om.archive import SQLAlchemyArchive
from support.agents import (
    Agent,
    make_agent,
    of_kind,
    on_thread,
    record_of,
    remembering,
    say,
    scripted,
    turn,
    turns,
    uncovered,
    values,
)
from support.claims import end_claims
from support.clock import Clock
from support.executor_checks import executor_conformance
from support.server_double import RefusedError, ServerDouble, plain_worker

AHEAD = {"buffer_tokens": 80}
CHECKS = [name for name, _ in executor_conformance(lambda _run: ServerBuffering())]


@pytest.fixture
def archive(tmp_path: Path) -> SQLAlchemyArchive:
    return SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db")


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_it_is_an_executor(name: str, archive: SQLAlchemyArchive) -> None:
    def make(run_job: Callable[[Mapping[str, Any]], Any]) -> Executor:
        executor = ServerBuffering(client=ServerDouble(plain_worker(archive, run_job)))
        executor.share(archive)
        return executor

    dict(executor_conformance(make))[name]()


# --- Conversations -------------------------------------------------------------------------------


def worker(archive: Any, *, observation: Any = AHEAD, **options: Any) -> ObservationalMemory:
    """The memory of the worker."""
    return remembering(scripted(), Clock(), observation=observation, archive=archive, **options)


def agent_with(server: ServerDouble, archive: Any, *, observation: Any = AHEAD) -> Agent:
    buffering = ServerBuffering(client=server)
    return make_agent(
        "agent", InMemorySaver(), buffering=buffering, observation=observation, archive=archive
    )


@pytest.mark.slow
@pytest.mark.parametrize("asks", ["sync", "async"])
async def test_the_worker_does_the_jobs_of_a_conversation(asks: str, archive: Any) -> None:
    server = ServerDouble(worker_graph(worker(archive)))
    agent = agent_with(server, archive)
    for message in turns(9):
        if asks == "async":
            await agent.graph.ainvoke({"messages": [message]}, on_thread())
            assert await agent.memory.aflush(30)
        else:
            say(agent.graph, on_thread(), message)
            assert agent.memory.flush(30)
        assert uncovered(agent.memory, values(agent.graph, on_thread())) == []
    assert record_of(agent.graph, on_thread())["log"]
    assert agent.asked("observer") == 0
    given = [run["input"]["request"] for run in server.runs_given]
    assert len(given) > 3
    assert len({request["cycle_id"] for request in given}) == len(given)
    run = server.runs_given[0]
    assert (run["assistant_id"], run["thread_id"], run["on_completion"]) == (
        "om_worker",
        None,
        "delete",
    )
    assert run["metadata"] == {
        "om_cycle_id": given[0]["cycle_id"],
        "om_operation": "observation",
        "om_thread_id": "t",
        "om_resource_id": None,
        "om_thread:t": True,
    }


def test_a_run_that_comes_again_does_nothing(archive: Any) -> None:
    server = ServerDouble()
    agent = agent_with(server, archive)
    say(agent.graph, on_thread(), turn(1))
    say(agent.graph, on_thread(), turn(2))
    (run,) = server.runs_given
    graph = worker_graph(worker(archive))
    assert graph.invoke(run["input"])["outcome"] == "done"
    assert graph.invoke(run["input"]) == {
        "cycle_id": run["metadata"]["om_cycle_id"],
        "outcome": "withdrawn",
    }
    assert len(of_kind(say(agent.graph, on_thread(), turn(3)), "buffering-end")) == 1


def first_job(agent: Agent) -> str:
    """Talk until a job was sent, and return its id."""
    for number in range(1, 5):
        say(agent.graph, on_thread(), turn(number))
        pending = record_of(agent.graph, on_thread())["pending"]
        if pending:
            return str(pending["observation"]["cycle_id"])
    pytest.fail("no job was sent")


@pytest.mark.slow
def test_a_run_that_is_lost_is_missed_and_sent_again(archive: Any) -> None:
    server = ServerDouble(worker_graph(worker(archive)), forgets=True)
    agent = agent_with(server, archive)
    cycle_id = first_job(agent)
    assert len(server.runs_given) == 1
    end_claims(archive, cycle_id)
    server.forgets = False
    parts = say(agent.graph, on_thread(), turn(5))
    assert [own["reason"] for own in of_kind(parts, "buffering-failed")] == ["abandoned"]
    assert len(server.runs_given) == 2
    assert agent.memory.flush(30)
    assert of_kind(say(agent.graph, on_thread(), turn(6)), "buffering-end")
    assert uncovered(agent.memory, values(agent.graph, on_thread())) == []


@pytest.mark.slow
def test_a_turn_that_waits_takes_a_job_back_that_has_not_begun(
    archive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langgraph_om.runtime.jobs._PATIENCE", 0.05)
    server = ServerDouble()
    agent = agent_with(server, archive)
    cycle_id = first_job(agent)
    assert agent.memory.buffering.wait(cycle_id, 30) == "withdrawn"
    graph = worker_graph(worker(archive))
    assert graph.invoke(server.runs_given[0]["input"])["outcome"] == "withdrawn"
    assert archive.job(cycle_id).state == "expired"


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy_has_no_room(status: int, archive: Any) -> None:
    agent = agent_with(ServerDouble(refuses=status), archive)
    parts = [part for message in turns(4) for part in say(agent.graph, on_thread(), message)]
    failed = of_kind(parts, "buffering-failed")
    assert {own["reason"] for own in failed} == {"deferred"}
    assert record_of(agent.graph, on_thread())["pending"] == {}


def test_an_error_of_the_server_is_a_failure_of_the_job(archive: Any) -> None:
    server = ServerDouble(refuses=500)
    agent = agent_with(server, archive)
    parts = [part for message in turns(3) for part in say(agent.graph, on_thread(), message)]
    failed = of_kind(parts, "buffering-failed")
    assert {own["error"] for own in failed} == {"the server answered 500"}
    assert failed[0]["tokensAttempted"] > 0
    attempt = record_of(agent.graph, on_thread())["attempts"]["observation"]
    assert attempt["failures"] == len(failed)
    assert attempt["retry_at_tokens"] > attempt["at_tokens"]
    assert uncovered(agent.memory, values(agent.graph, on_thread())) == []


@pytest.mark.slow
def test_a_run_that_was_stopped_and_is_tried_again_goes_on(archive: Any) -> None:
    server = ServerDouble()
    agent = agent_with(server, archive)
    cycle_id = first_job(agent)
    given, config = server.runs_given[0]["input"], {"configurable": {"run_id": "r1"}}

    def stop(request: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plain_worker(archive, stop).invoke(given, config)
    assert archive.job(cycle_id).state == "running"
    graph = worker_graph(worker(archive))
    assert graph.invoke(given, {"configurable": {"run_id": "r2"}})["outcome"] == "withdrawn"
    assert graph.invoke(given, config)["outcome"] == "done"


# --- Deletion ------------------------------------------------------------------------------------


def waiting_for(server: ServerDouble) -> set[str]:
    """Whose runs wait."""
    return {run["metadata"]["om_thread_id"] for run in server.waiting.values()}


def send_for(agent: Agent, thread: str, **whose: Any) -> None:
    """Talk until a job of the thread was sent."""
    for number in range(1, 4):
        say(agent.graph, on_thread(thread, **whose), turn(number))


@pytest.mark.parametrize("asks", ["sync", "async"])
async def test_deleting_a_thread_deletes_its_runs_and_no_others(asks: str, archive: Any) -> None:
    server = ServerDouble()
    agent = agent_with(server, archive)
    for name in ("t", "t2", "u"):
        send_for(agent, name)
    assert waiting_for(server) == {"t", "t2", "u"}
    for name in ("t", "t2"):
        if asks == "async":
            await agent.memory.adelete_thread(name)
        else:
            agent.memory.delete_thread(name)
    assert waiting_for(server) == {"u"}


def test_deleting_a_resource_deletes_the_runs_of_threads_that_did_not_name_it(archive: Any) -> None:
    server = ServerDouble()
    agent = agent_with(server, archive)
    for thread, resource in (("a1", "ana"), ("b1", "ben")):
        send_for(agent, thread, resource_id=resource)
        executor: Any = agent.memory.buffering
        job = {**server.runs_given[0]["input"]["request"], "thread_id": f"{thread}|>helper"}
        job = {**job, "resource_id": None, "cycle_id": thread}
        assert executor.submit(
            thread, thread, list, thread_id=job["thread_id"], request=partial(dict, job)
        )
    agent.memory.delete_resource("ana")
    assert waiting_for(server) == {"b1", "b1|>helper"}


def test_a_run_that_a_deletion_did_not_reach_does_nothing(archive: Any) -> None:
    server = ServerDouble()
    agent = agent_with(server, archive)
    send_for(agent, "t")
    (run,) = server.runs_given
    server.refuses = 500
    with pytest.raises(RefusedError):
        agent.memory.delete_thread("t")
    assert archive.thread("t") is None
    assert worker_graph(worker(archive)).invoke(run["input"])["outcome"] == "withdrawn"
    assert archive.job(run["metadata"]["om_cycle_id"]) is None
    server.refuses = None
    agent.memory.delete_thread("t")
    assert server.waiting == {}


def test_what_is_deleted_where_no_server_is_known_is_said(
    archive: Any, caplog: pytest.LogCaptureFixture
) -> None:
    memory = worker(archive, buffering=ServerBuffering())
    memory.delete_thread("t")
    assert "may be on a server" in caplog.text


# --- What is refused -----------------------------------------------------------------------------


def test_what_cannot_be_meant_is_refused(archive: Any, caplog: pytest.LogCaptureFixture) -> None:
    model = scripted()
    with pytest.raises(ConfigurationError, match="ServerBuffering\\(\\) and there is no `archive`"):
        ObservationalMemory(model, buffering=ServerBuffering())
    with pytest.raises(ConfigurationError, match="`memory` has no `archive`"):
        worker_graph(ObservationalMemory(model))
    with pytest.raises(ConfigurationError, match="`url` and `client`"):
        ServerBuffering("http://localhost", client=ServerDouble())
    with pytest.raises(ConfigurationError, match="has no archive"):
        ServerBuffering().peek("a")
    agent = make_agent(
        "agent", InMemorySaver(), buffering=ServerBuffering(), observation=AHEAD, archive=archive
    )
    for message in turns(3):
        say(agent.graph, on_thread(), message)
    assert "pass the server's URL" in caplog.text
