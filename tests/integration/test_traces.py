"""The debug callback and tracers: what they are told, and that they change nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from langgraph_om.testing import ExtractiveObserver
from support.agents import (
    of_kind,
    on_thread,
    record_of,
    say,
    scripted,
    talk,
    turns,
)
from support.hooks import (
    CONFIG,
    EXECUTORS,
    agent_with,
    converse,
)

# --- Traces --------------------------------------------------------------------------------------


class Tracer(BaseCallbackHandler):
    """What a tracer sees: each run with its parent, and whether it ended."""

    def __init__(self) -> None:
        self.runs: dict[Any, dict[str, Any]] = {}
        self.ended: set[Any] = set()

    def on_chain_start(self, _serialized: Any, _inputs: Any, **about: Any) -> None:
        self.runs[about["run_id"]] = about

    def on_chat_model_start(self, _serialized: Any, messages: Any, **about: Any) -> None:
        self.runs[about["run_id"]] = {**about, "messages": messages}

    def on_chain_end(self, _outputs: Any, **about: Any) -> None:
        self.ended.add(about["run_id"])

    def on_llm_end(self, _response: Any, **about: Any) -> None:
        self.ended.add(about["run_id"])

    def on_llm_error(self, _error: Any, **about: Any) -> None:
        self.ended.add(about["run_id"])

    def named(self, name: str) -> list[dict[str, Any]]:
        return [run for run in self.runs.values() if run.get("name") == name]

    def roots(self, name: str) -> set[Any]:
        """The outermost runs of all runs of a name."""
        found = set()
        for run in self.named(name):
            at = run
            while at["parent_run_id"] is not None:
                at = self.runs[at["parent_run_id"]]
            found.add(at["run_id"])
        return found


def traced(tracer: Any, **configurable: Any) -> RunnableConfig:
    return {**on_thread("t", **configurable), "callbacks": [tracer], "run_name": "trip"}


def check_metadata(tracer: Tracer, trigger: str) -> None:
    """Each call says by tags and metadata what it was for."""
    observed = tracer.named("om_observer")
    assert {call["metadata"]["om_trigger"] for call in observed} == {trigger}
    for role, operation in (("observer", "observation"), ("reflector", "reflection")):
        calls = tracer.named(f"om_{role}")
        assert calls
        for call in calls:
            assert {"nostream", f"om_{role}"} <= set(call["tags"])
            metadata = call["metadata"]
            assert metadata["om_role"] == role
            assert metadata["om_operation"] == operation
            assert (metadata["om_thread_id"], metadata["om_resource_id"]) == ("t", "ann")
            assert metadata["om_cycle_id"]
            assert metadata["om_record_id"]
            assert metadata["ls_agent_type"] == "compaction"
            assert call["run_id"] in tracer.ended


def test_calls_are_children_of_the_graph_run() -> None:
    tracer, agent = Tracer(), agent_with({}, log=130)
    talk(agent.graph, traced(tracer, resource_id="ann"), turns(10))
    graph_runs = {run["run_id"] for run in tracer.named("trip")}
    assert len(graph_runs) == 10
    assert tracer.roots("om_observer") | tracer.roots("om_reflector") <= graph_runs
    nodes = {tracer.runs[run["parent_run_id"]]["name"] for run in tracer.named("om_observer")}
    assert nodes == {"om_observe"}
    assert len(tracer.named("om_observer")) == agent.asked("observer")
    check_metadata(tracer, "turn")


class Collector(BaseTracer):
    """A tracer on the base that LangSmith's has: it pairs a run with its parent by its own maps."""

    def __init__(self) -> None:
        super().__init__()
        self.trees: list[Run] = []
        self.started: dict[str, list[Run]] = {}

    def _persist_run(self, run: Run) -> None:
        self.trees.append(run)

    def _start_trace(self, run: Run) -> None:  # type: ignore[override]
        super()._start_trace(run)
        self.started.setdefault(run.name, []).append(run)


def test_job_that_outlives_its_run_is_recorded_in_the_same_trace(
    gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    def held(messages: list[BaseMessage]) -> str:
        gate.wait()
        return ExtractiveObserver().reply(messages)

    agent = agent_with({}, "background", model=scripted(observer=held))
    collector = Collector()
    with caplog.at_level(logging.WARNING):
        for message in turns(20):
            if of_kind(say(agent.graph, traced(collector), message), "buffering-start"):
                break
        runs_over = len(collector.trees)
        gate.set()
        agent.memory.flush(60)
    (call,) = collector.started["om_observer"]
    assert call.end_time is not None
    assert call.error is None
    assert len([tree for tree in collector.trees if tree.name == "trip"]) == runs_over
    assert call.parent_run_id is not None
    assert call.trace_id == collector.started["trip"][-1].id
    assert str(call.trace_id) in str(call.dotted_order)
    assert call.extra["metadata"]["om_trigger"] == "buffer"
    assert caplog.text == ""


def costly(name: str, reply: Callable[[list[BaseMessage]], Any]) -> Callable[..., AIMessage]:
    """A model that names itself and what an answer cost, as providers do."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        said = reply(messages)
        return AIMessage(
            getattr(said, "content", said),
            usage_metadata={"input_tokens": 30, "output_tokens": 4, "total_tokens": 34},
            response_metadata={"model_name": name},
        )

    return answer


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_usage_callback_sums_what_the_observer_spent(executor: str) -> None:
    observer = costly("small", ExtractiveObserver().reply)
    agent = agent_with({}, executor, model=scripted(observer=observer))
    with get_usage_metadata_callback() as usage:
        converse(agent, 6)
    record = record_of(agent.graph, CONFIG)
    noted, pending = record["usage"]["observation"], len(record["pending"])
    spent = usage.usage_metadata["small"]
    assert spent["input_tokens"] == 30 * agent.asked("observer") > 0
    assert spent["output_tokens"] == 4 * agent.asked("observer")
    assert noted["calls"] == agent.asked("observer") - pending
    assert noted["input_tokens"] == spent["input_tokens"] - 30 * pending
