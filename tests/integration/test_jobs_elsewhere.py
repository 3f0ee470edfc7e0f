"""Jobs as plain JSON, carried out by another process, and executors that somebody else wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ConfigurationError, JobRequest, ObservationalMemory
from support.agents import (
    make_agent,
    of_kind,
    on_thread,
    record_of,
    remembering,
    say,
    scripted,
    talk,
    turns,
    uncovered,
    values,
)
from support.clock import Clock
from support.elsewhere import Elsewhere
from support.executor_checks import executor_conformance
from support.programs import run_program

AHEAD = {"buffer_tokens": 80}


CHECKS = [name for name, _ in executor_conformance(Elsewhere)]


@pytest.mark.parametrize("name", CHECKS)
def test_it_is_an_executor(name: str) -> None:
    dict(executor_conformance(Elsewhere))[name]()


def worker(**options: Any) -> ObservationalMemory:
    """The memory of another process."""
    return remembering(scripted(), Clock(), observation=AHEAD, **options)


@pytest.mark.parametrize(
    ("door", "keeps"), [("agent", "messages"), ("middleware", "messages"), ("agent", "message_ids")]
)
def test_another_memory_does_the_jobs_of_a_conversation(
    door: str, keeps: str, tmp_path: Path
) -> None:
    archived = keeps == "message_ids"
    options: dict[str, Any] = {"archive": f"sqlite:///{tmp_path}/m.db"} if archived else {}
    executor, other = Elsewhere(), worker(**options)
    agent = make_agent(door, InMemorySaver(), buffering=executor, observation=AHEAD, **options)
    parts = []
    for message in turns(12, lookups=("", "1")):
        parts += say(agent.graph, on_thread(), message)
        for cycle_id in executor.sent.keys() - executor.results.keys():
            executor.end(cycle_id, other.run_job)
        assert uncovered(agent.memory, values(agent.graph, on_thread())) == []
    assert len(of_kind(parts, "activation")) > 1
    assert of_kind(parts, "buffering-failed") == []
    assert agent.asked("observer") == 0
    sent = [json.loads(text) for text in executor.sent.values()]
    assert all(keeps in request for request in sent)


def request_of(**options: Any) -> JobRequest:
    executor = Elsewhere()
    agent = make_agent(
        "agent", InMemorySaver(), buffering=executor, observation={**AHEAD, **options}
    )
    talk(agent.graph, on_thread(), turns(2))
    request: JobRequest = json.loads(next(iter(executor.sent.values())))
    assert record_of(agent.graph, on_thread())["pending"]
    return request


def test_other_settings_are_refused_by_name() -> None:
    request = request_of(instruction="Note prices.")
    with pytest.raises(ConfigurationError, match=r"with a different `observation\.instruction`"):
        worker().run_job(request)
    with pytest.raises(ConfigurationError, match="`gap_markers`"):
        worker(gap_markers=True).run_job(request_of())
    with pytest.raises(ConfigurationError, match="version 7"):
        worker().run_job({**request, "version": 7})


PROGRAM = """
import json, sys
from support.agents import remembering, scripted
from support.clock import Clock
memory = remembering(scripted(), Clock(), observation={"buffer_tokens": 80})
print(json.dumps(memory.run_job(json.load(sys.stdin))))
"""


@pytest.mark.slow
def test_another_process_comes_to_the_same() -> None:
    request = request_of()
    done = run_program("-c", PROGRAM, input=json.dumps(request))
    found, expected = json.loads(done.stdout), worker().run_job(request)
    assert found["chunk"]["groups"][0]["text"] == expected["chunk"]["groups"][0]["text"]
    assert found["cycle_id"] == expected["cycle_id"] == request["cycle_id"]


class Broken(Elsewhere):
    """An executor whose broker cannot be reached."""

    def __init__(self, fails: Sequence[str]) -> None:
        super().__init__()
        self.fails = fails

    def submit(self, *args: Any, **options: Any) -> bool:
        self._call("submit")
        return super().submit(*args, **options)

    def peek(self, cycle_id: str) -> Any:
        self._call("peek")
        return super().peek(cycle_id)

    def wait(self, cycle_id: str, timeout: float) -> Any:
        self._call("wait")
        return super().peek(cycle_id)

    def _call(self, name: str) -> None:
        if name in self.fails:
            msg = "no broker"
            raise ConnectionError(msg)


@pytest.mark.parametrize("fails", [["submit"], ["peek", "wait"]])
async def test_an_executor_that_fails_costs_no_turn(
    fails: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    executor = Broken(fails)
    agent = make_agent("agent", InMemorySaver(), buffering=executor, observation=AHEAD)
    for message in turns(9):
        await agent.graph.ainvoke({"messages": [message]}, on_thread())
    state = values(agent.graph, on_thread())
    assert len(agent.prompts()) == 9
    assert state["om"]["log"]
    assert uncovered(agent.memory, state) == []
    assert f"the executor's `{fails[0]}` failed" in caplog.text


def test_a_title_is_asked_for_in_the_step_as_it_is_no_job_for_another_process() -> None:
    executor, model = Elsewhere(), scripted(title="<thread-title>Walks by the river</thread-title>")
    agent = make_agent("agent", InMemorySaver(), model=model, buffering=executor, thread_title=True)
    talk(agent.graph, on_thread(), turns(2), agent.clock)
    assert record_of(agent.graph, on_thread())["thread_title"] == "Walks by the river"
